use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{EngineConfig, OpenError, PeerError};

/// How long one request to the metadata server may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Most bytes that are read of an answer. Records of the C++ package list every registered buffer.
const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// The record that an engine publishes under its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    name: String,
    protocol: String,
    tcp_data_port: u16,
    /// The `host:port` at which peers reach the engine. Records of the C++ package lack it.
    #[serde(default)]
    endpoint: String,
}

/// A client of an HTTP metadata server, which keeps values under keys.
#[derive(Debug)]
pub(crate) struct MetadataServer {
    url: String,
    /// The prefix of all keys.
    prefix: String,
    /// The value of the header `Authorization`, if the server has a secret.
    authorization: Option<String>,
    agent: ureq::Agent,
}

impl fmt::Display for MetadataServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mooncake_types::without_password(&self.url))
    }
}

/// Why the server gave no useful answer.
type Failure = String;

impl MetadataServer {
    pub(crate) fn new(url: &str, config: &EngineConfig) -> Result<Self, OpenError> {
        let refuse = |reason: String| OpenError::Metadata {
            text: mooncake_types::without_password(url),
            reason,
        };
        let parsed: ureq::http::Uri = url.parse().map_err(|error| refuse(format!("{error}")))?;
        if parsed.host().is_none_or(str::is_empty) {
            return Err(refuse("it names no host".to_owned()));
        }
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        let prefix = match config.cluster_id.trim_end_matches('/') {
            "" => "mooncake/".to_owned(),
            cluster => format!("mooncake/{cluster}/"),
        };
        let token = &config.metadata_token;
        let authorization = (!token.is_empty()).then(|| format!("Bearer {token}"));
        Ok(Self { url: url.to_owned(), prefix, authorization, agent: agent.into() })
    }

    /// The address of the server, `host:port`.
    pub(crate) fn address(&self) -> Option<String> {
        let uri: ureq::http::Uri = self.url.parse().ok()?;
        Some(format!("{}:{}", uri.host()?, uri.port_u16().unwrap_or(80)))
    }

    fn key(&self, name: &str) -> String {
        match name.contains('/') {
            true => format!("{}{name}", self.prefix),
            false => format!("{}ram/{name}", self.prefix),
        }
    }

    /// Publishes where the engine of this name is reached. Replaces an older record.
    pub(crate) fn publish(&self, name: &str, endpoint: &str, port: u16) -> Result<(), Failure> {
        let record = Record {
            name: name.to_owned(),
            protocol: "tcp".to_owned(),
            tcp_data_port: port,
            endpoint: endpoint.to_owned(),
        };
        let body = serde_json::to_string(&record).map_err(|error| error.to_string())?;
        let request = self.about(name, self.agent.put(&self.url));
        let reply = request.content_type("application/json").send(body);
        let status = reply.map_err(|error| error.to_string())?.status();
        match status.as_u16() {
            401 => Err("it wants the token of MC_METADATA_HTTP_TOKEN".to_owned()),
            _ if status.is_success() => Ok(()),
            _ => Err(format!("it answered {status}")),
        }
    }

    /// Deletes the record of this name, unless it names another endpoint.
    pub(crate) fn withdraw(&self, name: &str, endpoint: &str) -> Result<(), Failure> {
        if !matches!(self.get(name), Ok(Some(record)) if record.endpoint == endpoint) {
            return Ok(());
        }
        let reply = self.about(name, self.agent.delete(&self.url)).call();
        reply.map(|_| ()).map_err(|error| error.to_string())
    }

    /// The endpoint that the record of this name gives.
    pub(crate) fn look_up(&self, name: &str) -> Result<String, PeerError> {
        let unknown = |reason: String| PeerError::Unknown { name: name.to_owned(), reason };
        match self.get(name).map_err(unknown)? {
            None => Err(unknown("it does not know the name".to_owned())),
            Some(record) if record.endpoint.is_empty() => Err(unknown(
                "the record is that of another program, without an endpoint".to_owned(),
            )),
            Some(record) => Ok(record.endpoint),
        }
    }

    /// A request about the record of this name.
    fn about<B>(&self, name: &str, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        let request = request.query("key", self.key(name));
        match &self.authorization {
            Some(authorization) => request.header("Authorization", authorization),
            None => request,
        }
    }

    fn get(&self, name: &str) -> Result<Option<Record>, Failure> {
        let request = self.about(name, self.agent.get(&self.url));
        let mut reply = request.call().map_err(|error| error.to_string())?;
        match reply.status().as_u16() {
            404 => return Ok(None),
            200 => {}
            401 => return Err("it wants the token of MC_METADATA_HTTP_TOKEN".to_owned()),
            status => return Err(format!("it answered {status}")),
        }
        let body = reply.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let body = body.map_err(|error| error.to_string())?;
        serde_json::from_slice(&body).map(Some).map_err(|error| format!("no record: {error}"))
    }
}
