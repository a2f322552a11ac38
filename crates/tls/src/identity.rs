//! Certificates and keys, read again when their files change.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tracing::{info, warn};

use crate::{TlsConfig, TlsError};

/// How often the files are looked at, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Longest file that is read, in bytes: a bundle of all public authorities has a quarter of a megabyte.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// See [`crate::Tls`].
pub(crate) struct Identity {
    config: TlsConfig,
    /// The name of all servers, if they have one.
    server_name: Option<ServerName<'static>>,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    configs: Configs,
    seen: Vec<Option<Seen>>,
    looked: Instant,
}

/// What rustls needs for the two sides of a connection.
#[derive(Clone)]
pub(crate) struct Configs {
    pub(crate) client: Arc<ClientConfig>,
    /// None if this process has no certificate.
    pub(crate) server: Option<Arc<ServerConfig>>,
}

/// What tells one state of a file from another.
type Seen = (SystemTime, u64);

impl Identity {
    pub(crate) fn open(config: TlsConfig) -> Result<Self, TlsError> {
        config.check()?;
        let server_name = config.server_name.clone().map(|name| {
            ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName { name })
        });
        let server_name = server_name.transpose()?;
        let loaded =
            Loaded { seen: seen(&config), configs: load(&config)?, looked: Instant::now() };
        Ok(Self { config, server_name, loaded: Mutex::new(loaded) })
    }

    pub(crate) fn config(&self) -> &TlsConfig {
        &self.config
    }

    /// The name that the certificate of a server must bear which was addressed as this host.
    pub(crate) fn name_of(&self, host: &str) -> Option<ServerName<'static>> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        self.server_name.clone().or_else(|| ServerName::try_from(host.to_owned()).ok())
    }

    /// What the files held when they were last looked at. Files that cannot be used change nothing.
    pub(crate) fn configs(&self) -> Configs {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked.elapsed() >= LOOK_EVERY {
            loaded.looked = Instant::now();
            let seen = seen(&self.config);
            if seen != loaded.seen {
                loaded.seen = seen;
                match load(&self.config) {
                    Ok(configs) => {
                        info!("the certificates were read again");
                        loaded.configs = configs;
                    }
                    Err(error) => {
                        warn!(%error, "new certificates cannot be used: the former ones stay");
                    }
                }
            }
        }
        loaded.configs.clone()
    }
}

fn seen(config: &TlsConfig) -> Vec<Option<Seen>> {
    let look = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    [&config.cert, &config.key, &config.ca].into_iter().flatten().map(look).collect()
}

fn load(config: &TlsConfig) -> Result<Configs, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(config.ca.as_deref().map_or_else(|| Ok(RootCertStore::empty()), roots)?);
    let own = match (&config.cert, &config.key) {
        (Some(cert), Some(key)) => Some((certificates("tls_cert", cert)?, private_key(key)?)),
        _ => None,
    };
    let client = client(&provider, &roots, own.as_ref(), config)?;
    let server = own.map(|own| server(&provider, &roots, own, config)).transpose()?;
    Ok(Configs { client: Arc::new(client), server: server.map(Arc::new) })
}

type Own = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn client(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    own: Option<&Own>,
    config: &TlsConfig,
) -> Result<ClientConfig, TlsError> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of both versions")
        .with_root_certificates(Arc::clone(roots));
    match own {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => builder
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(|error| unusable(config, &error)),
    }
}

fn server(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    (chain, key): Own,
    config: &TlsConfig,
) -> Result<ServerConfig, TlsError> {
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has the ciphers of both versions");
    let builder = if config.verify_clients {
        let (roots, provider) = (Arc::clone(roots), Arc::clone(provider));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
        let wrong = |error: rustls::server::VerifierBuilderError| {
            file("tls_ca", config.ca.as_deref().unwrap_or(Path::new("")), error.to_string())
        };
        builder.with_client_cert_verifier(verifier.map_err(wrong)?)
    } else {
        builder.with_no_client_auth()
    };
    builder.with_single_cert(chain, key).map_err(|error| unusable(config, &error))
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("tls_ca", path)? {
        roots.add(certificate).map_err(|error| file("tls_ca", path, error.to_string()))?;
    }
    Ok(roots)
}

fn certificates(
    option: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(option, path)?;
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if all.is_empty() => {
            Err(file(option, path, "it holds no certificate in PEM".into()))
        }
        Ok(all) => Ok(all),
        Err(error) => Err(file(option, path, error.to_string())),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read("tls_key", path)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| file("tls_key", path, "it holds no private key in PEM".into()))
}

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut text = Vec::new();
    let opened = File::open(path);
    let read = opened.and_then(|it| it.take(MAX_FILE_BYTES).read_to_end(&mut text));
    match read {
        Ok(_) => Ok(text),
        Err(error) => Err(file(option, path, format!("it cannot be read: {error}"))),
    }
}

fn unusable(config: &TlsConfig, error: &rustls::Error) -> TlsError {
    file("tls_cert", config.cert.as_deref().unwrap_or(Path::new("")), error.to_string())
}

fn file(option: &'static str, path: &Path, reason: String) -> TlsError {
    TlsError::File { option, path: path.to_owned(), reason }
}
