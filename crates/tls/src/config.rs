//! What a process is told about TLS.

use std::path::PathBuf;

use thiserror::Error;

/// Files with certificates, and rules for their use. Without a certificate of its own a process connects, and does not
/// serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// PEM file with the certificate of this process, and those that it was issued by, in this order.
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of that certificate.
    pub key: Option<PathBuf>,
    /// PEM file with the certificates of the authorities that peers' certificates must come from.
    pub ca: Option<PathBuf>,
    /// The name that the certificates of all servers bear. By default each bears the host by which it was addressed.
    pub server_name: Option<String>,
    /// Whether clients must show a certificate, too.
    pub verify_clients: bool,
}

/// Why TLS cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TlsError {
    /// Some of the options are given, and another that they need is not.
    #[error("{given} is given, and {wanted} is not: {why}")]
    Incomplete {
        /// The option that is given.
        given: &'static str,
        /// The one that it needs.
        wanted: &'static str,
        /// What for.
        why: &'static str,
    },
    /// A file cannot be used.
    #[error("{option}: {path}: {reason}", path = path.display())]
    File {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A name cannot stand in a certificate.
    #[error("tls_server_name={name:?} is neither a host name nor an address")]
    ServerName {
        /// The name.
        name: String,
    },
    /// An option that is a switch has another value.
    #[error("{name}={value:?}: 1 or 0 is wanted")]
    Switch {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
}

impl TlsConfig {
    /// Whether nothing of it is set, and connections are as they are without TLS.
    #[must_use]
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// The options in `MOONCAKE_TLS_CERT`, `MOONCAKE_TLS_KEY`, `MOONCAKE_TLS_CA`, `MOONCAKE_TLS_SERVER_NAME` and
    /// `MOONCAKE_TLS_VERIFY_CLIENTS`. `text` gives the value of a variable.
    ///
    /// # Errors
    /// The last one is no switch.
    pub fn from_variables(text: impl Fn(&'static str) -> Option<String>) -> Result<Self, TlsError> {
        let text = |name| text(name).filter(|value| !value.is_empty());
        let path = |name| text(name).map(PathBuf::from);
        let name = "MOONCAKE_TLS_VERIFY_CLIENTS";
        let verify_clients = match text(name).as_deref() {
            None | Some("0" | "false") => false,
            Some("1" | "true") => true,
            Some(value) => return Err(TlsError::Switch { name, value: value.to_owned() }),
        };
        Ok(Self {
            cert: path("MOONCAKE_TLS_CERT"),
            key: path("MOONCAKE_TLS_KEY"),
            ca: path("MOONCAKE_TLS_CA"),
            server_name: text("MOONCAKE_TLS_SERVER_NAME"),
            verify_clients,
        })
    }

    /// Checks that a process with this configuration can serve.
    pub(crate) fn check_serving(&self) -> Result<(), TlsError> {
        let (given, wanted) = ("tls_ca", "tls_cert");
        let why = "a process that serves others, or lends memory, shows a certificate";
        self.cert.as_ref().map(|_| ()).ok_or(TlsError::Incomplete { given, wanted, why })
    }

    /// Checks that nothing is missing.
    pub(crate) fn check(&self) -> Result<(), TlsError> {
        let incomplete = |given, wanted, why| Err(TlsError::Incomplete { given, wanted, why });
        match (&self.cert, &self.key, &self.ca) {
            (Some(_), None, _) => {
                incomplete("tls_cert", "tls_key", "a certificate is of use with its key only")
            }
            (None, Some(_), _) => {
                incomplete("tls_key", "tls_cert", "a key is of use with its certificate only")
            }
            (Some(_), Some(_), None) => {
                incomplete("tls_cert", "tls_ca", "members of a pool connect to each other, too")
            }
            (None, None, None) if self.server_name.is_some() => {
                incomplete("tls_server_name", "tls_ca", "TLS is off without it")
            }
            (None, None, _) if self.verify_clients => {
                incomplete("tls_verify_clients", "tls_cert", "who serves needs a certificate")
            }
            _ => Ok(()),
        }
    }
}
