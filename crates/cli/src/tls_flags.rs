//! The flags for TLS of the programs that serve.

use std::path::PathBuf;

use clap::Args;
use mooncake_tls::{Tls, TlsConfig};

use crate::command_line::Variable;
use crate::quantity::Switch;

/// Certificates for the connections between hosts. Without any of these flags the connections are not encrypted.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TLS", rename_all = "snake_case")]
pub struct TlsFlags {
    /// PEM file with the certificate of this process, and those that it was issued by. It is read again when it
    /// changes. Also read from MOONCAKE_TLS_CERT.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub tls_cert: String,
    /// PEM file with the private key of that certificate. Also read from MOONCAKE_TLS_KEY.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub tls_key: String,
    /// PEM file with the authorities that the certificates of all members must come from. Also read from
    /// MOONCAKE_TLS_CA.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "FILE")]
    pub tls_ca: String,
    /// Name that the certificates of all members bear; empty: each bears the host by which others reach it. Also read
    /// from MOONCAKE_TLS_SERVER_NAME.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub tls_server_name: String,
    /// Refuse clients that show no certificate of these authorities. Also read from MOONCAKE_TLS_VERIFY_CLIENTS.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub tls_verify_clients: Switch,
}

impl TlsFlags {
    /// The environment variables of these flags.
    pub(crate) fn variables() -> [Variable; 5] {
        let variable = |flag, name| Variable { flag, value: std::env::var(name).ok() };
        [
            variable("tls_cert", "MOONCAKE_TLS_CERT"),
            variable("tls_key", "MOONCAKE_TLS_KEY"),
            variable("tls_ca", "MOONCAKE_TLS_CA"),
            variable("tls_server_name", "MOONCAKE_TLS_SERVER_NAME"),
            variable("tls_verify_clients", "MOONCAKE_TLS_VERIFY_CLIENTS"),
        ]
    }

    /// The configuration that these flags give.
    #[must_use]
    pub fn config(&self) -> TlsConfig {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let path = |text: &str| given(text).map(PathBuf::from);
        TlsConfig {
            cert: path(&self.tls_cert),
            key: path(&self.tls_key),
            ca: path(&self.tls_ca),
            server_name: given(&self.tls_server_name),
            verify_clients: self.tls_verify_clients.0,
        }
    }

    /// The certificates for a program that serves, if there are any.
    ///
    /// # Errors
    /// They cannot be used, or there is none for this process.
    pub(crate) fn serving(&self) -> Result<Option<Tls>, String> {
        let said = |error: mooncake_tls::TlsError| format!("--{error}");
        let tls = Tls::of(&self.config()).map_err(said)?;
        tls.as_ref().map_or(Ok(()), Tls::check_serving).map_err(said)?;
        Ok(tls)
    }
}
