//! Requests with JSON bodies and bounded answers.

use std::time::Duration;

use serde_json::Value;
use ureq::http::Request;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Longest answer that is read, in bytes: a record in base64, and the JSON around it.
const MAX_ANSWER_BYTES: u64 = 4 << 20;

/// Most bytes of an answer that messages quote.
const QUOTED_BYTES: usize = 200;

/// One request.
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: String,
    pub(crate) body: Option<&'a Value>,
    /// How long it may take, from the look-up of the name to the last byte of the answer.
    pub(crate) within: Duration,
}

/// The answer of a server.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl HttpReply {
    /// The first words of the body.
    pub(crate) fn start(&self) -> String {
        let start = &self.body[..self.body.len().min(QUOTED_BYTES)];
        String::from_utf8_lossy(start).trim().to_owned()
    }
}

/// An HTTP client, which keeps connections for further requests.
#[derive(Debug)]
pub(crate) struct HttpAgent {
    agent: ureq::Agent,
}

impl HttpAgent {
    pub(crate) fn plain() -> Self {
        Self::with_tls(TlsConfig::default())
    }

    /// An agent that trusts the servers whose certificates were issued under these, in PEM.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn trusting(pem: &[u8]) -> Result<Self, String> {
        let mut certificates: Vec<Certificate<'static>> = Vec::new();
        for item in parse_pem(pem) {
            match item {
                Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        if certificates.is_empty() {
            return Err("it holds no certificate".to_owned());
        }
        let roots = RootCerts::new_with_certs(&certificates);
        Ok(Self::with_tls(TlsConfig::builder().root_certs(roots).build()))
    }

    fn with_tls(tls: TlsConfig) -> Self {
        let agent = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        Self { agent: agent.into() }
    }

    /// The answer, whatever its status. `authorization` is the value of that header.
    ///
    /// # Errors
    /// No answer came in time, or it is too long.
    pub(crate) fn send(
        &self,
        ask: &Ask<'_>,
        authorization: Option<&str>,
    ) -> Result<HttpReply, String> {
        let mut request = Request::builder().method(ask.method).uri(&ask.url);
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let body = match ask.body {
            Some(body) => serde_json::to_vec(body).map_err(|error| error.to_string())?,
            None => Vec::new(),
        };
        // The API server of Kubernetes tells kinds of patches by their types.
        let content = match ask.method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = request.header("content-type", content).body(body);
        let request = request.map_err(|error| error.to_string())?;
        let request = self.agent.configure_request(request);
        let request = request.timeout_global(Some(ask.within)).build();
        let mut reply = self.agent.run(request).map_err(|error| words(&error))?;
        let status = reply.status().as_u16();
        let body = reply.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        Ok(HttpReply { status, body: body.map_err(|error| words(&error))? })
    }
}

/// What went wrong, for people: the library names the part of a request whose time was over.
fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "it did not answer in time".to_owned(),
        error => error.to_string(),
    }
}
