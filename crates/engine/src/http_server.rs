use std::path::Path;

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::EngineConfig;
use crate::metadata::{Failure, TIMEOUT};

/// Most bytes that are read of an answer. Records of the C++ package list every registered buffer.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// A client of an HTTP metadata server, which keeps values under keys.
#[derive(Debug)]
pub(crate) struct HttpServer {
    url: String,
    /// The value of the header `Authorization`, if the server has a secret.
    authorization: Option<String>,
    agent: ureq::Agent,
}

const WANTS_TOKEN: &str = "it wants the token of MC_METADATA_HTTP_TOKEN";

impl HttpServer {
    pub(crate) fn new(url: &str, config: &EngineConfig) -> Result<Self, Failure> {
        let parsed: ureq::http::Uri = url.parse().map_err(|error| format!("{error}"))?;
        if parsed.host().is_none_or(str::is_empty) {
            return Err("it names no host".to_owned());
        }
        let tls = match (parsed.scheme_str(), &config.tls.ca) {
            (Some("https"), Some(ca)) => trusting(ca, &config.tls)?,
            (Some("https"), None) => return Err("MOONCAKE_TLS_CA is not set".to_owned()),
            _ => TlsConfig::default(),
        };
        let token = config.metadata_token.as_str();
        let agent = ureq::Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        let authorization = (!token.is_empty()).then(|| format!("Bearer {token}"));
        Ok(Self { url: url.to_owned(), authorization, agent: agent.into() })
    }

    /// A request about a key.
    fn about<B>(&self, key: &str, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        let request = request.query("key", key);
        match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        }
    }

    /// The address of the server, `host:port`.
    pub(crate) fn address(&self) -> Option<String> {
        let uri: ureq::http::Uri = self.url.parse().ok()?;
        let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
        Some(format!("{}:{}", uri.host()?, uri.port_u16().unwrap_or(usual)))
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        let request = self.about(key, self.agent.get(&self.url));
        let mut reply = request.call().map_err(|error| error.to_string())?;
        match reply.status().as_u16() {
            404 => return Ok(None),
            200 => {}
            401 => return Err(WANTS_TOKEN.to_owned()),
            status => return Err(format!("it answered {status}")),
        }
        let body = reply.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        body.map(Some).map_err(|error| error.to_string())
    }

    pub(crate) fn put(&self, key: &str, value: String) -> Result<(), Failure> {
        let request = self.about(key, self.agent.put(&self.url));
        let reply = request.content_type("application/json").send(value);
        let status = reply.map_err(|error| error.to_string())?.status();
        match status.as_u16() {
            401 => Err(WANTS_TOKEN.to_owned()),
            _ if status.is_success() => Ok(()),
            _ => Err(format!("it answered {status}")),
        }
    }

    pub(crate) fn remove(&self, key: &str) -> Result<(), Failure> {
        let reply = self.about(key, self.agent.delete(&self.url)).call();
        reply.map(|_| ()).map_err(|error| error.to_string())
    }
}

/// Trusts the servers whose certificates come from the authorities in this file, and no others.
fn trusting(ca: &Path, tls: &mooncake_tls::TlsConfig) -> Result<TlsConfig, Failure> {
    let pem = std::fs::read(ca).map_err(|error| format!("{}: {error}", ca.display()))?;
    let certificates: Result<Vec<Certificate<'static>>, _> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
            Ok(_) => None,
            Err(error) => Some(Err(format!("{}: {error}", ca.display()))),
        })
        .collect();
    let roots = RootCerts::new_with_certs(&certificates?);
    Ok(TlsConfig::builder().root_certs(roots).client_cert(own_certificate(tls)?).build())
}

/// What this process shows to servers that ask for a certificate.
fn own_certificate(tls: &mooncake_tls::TlsConfig) -> Result<Option<ClientCert>, Failure> {
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else { return Ok(None) };
    let read =
        |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let chain: Vec<Certificate<'static>> = parse_pem(&read(cert)?)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    let key = PrivateKey::from_pem(&read(key)?).map_err(|error| error.to_string())?;
    Ok(Some(ClientCert::new_with_certs(&chain, key)))
}
