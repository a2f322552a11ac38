//! TLS for the connections between hosts.
//!
//! A [`Tls`] holds the certificates of a process. [`Tls::connect`] and [`Tls::accept`] take a connected socket and
//! return another, on which the caller's bytes are in the clear. Behind it threads of this crate encrypt and decrypt
//! (`relay.rs`). So the code that reads and writes sockets, with vectored calls straight on memory, with polling and
//! with deadlines, is the same with and without TLS, and no owner thread of a state machine computes ciphers.
//!
//! Certificates that are renewed on disk are used from then on, for new connections (`identity.rs`).
//!
//! Sockets between processes of one host and user need none of this: the kernel names the user at the other end.

#![forbid(unsafe_code)]

mod config;
mod handshake;
mod identity;
mod private_stream;
mod relay;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

pub use config::{TlsConfig, TlsError};
pub use handshake::Protocol;
use identity::Identity;
pub use private_stream::PrivateStream;

/// The certificates of this process, and those that it trusts.
#[derive(Clone)]
pub struct Tls(Arc<Identity>);

impl Tls {
    /// Reads the certificates and the key.
    ///
    /// # Errors
    /// A file is missing, cannot be read, or does not hold what it is named for.
    pub fn open(config: TlsConfig) -> Result<Tls, TlsError> {
        Ok(Tls(Arc::new(Identity::open(config)?)))
    }

    /// Reads the certificates and the key, if the configuration names any.
    ///
    /// # Errors
    /// Those of [`Tls::open`].
    pub fn of(config: &TlsConfig) -> Result<Option<Tls>, TlsError> {
        (!config.is_off()).then(|| Self::open(config.clone())).transpose()
    }

    /// Checks that this process can serve: that it has a certificate.
    ///
    /// # Errors
    /// It has none.
    pub fn check_serving(&self) -> Result<(), TlsError> {
        self.config().check_serving()
    }

    /// What it was opened with.
    #[must_use]
    pub fn config(&self) -> &TlsConfig {
        self.0.config()
    }
}

/// Two are equal if they were opened with the same files and rules.
impl PartialEq for Tls {
    fn eq(&self, other: &Tls) -> bool {
        self.config() == other.config()
    }
}

impl Eq for Tls {}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config().fmt(f)
    }
}
