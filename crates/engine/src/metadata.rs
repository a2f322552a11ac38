use std::fmt;
use std::time::Duration;

use mooncake_ha::Values;
use mooncake_types::without_password;
use serde::{Deserialize, Serialize};

use crate::http_server::HttpServer;
use crate::{EngineConfig, OpenError, PeerError};

/// How long one request to the metadata server may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

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

/// A client of a metadata server, which keeps records under keys.
#[derive(Debug)]
pub(crate) struct MetadataServer {
    /// The server's address, without a password.
    shown: String,
    /// The prefix of all keys.
    prefix: String,
    kind: ServerKind,
}

#[derive(Debug)]
enum ServerKind {
    Http(HttpServer),
    Values(Values),
}

impl fmt::Display for MetadataServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Why the server gave no useful answer.
pub(crate) type Failure = String;

impl MetadataServer {
    pub(crate) fn over_http(url: &str, config: &EngineConfig) -> Result<Self, OpenError> {
        Self::new(url, config, HttpServer::new(url, config).map(ServerKind::Http))
    }

    /// The server that keeps values at this address of etcd or Redis.
    pub(crate) fn of_values(address: &str, config: &EngineConfig) -> Result<Self, OpenError> {
        let values = Values::connect(address, &config.redis, TIMEOUT);
        Self::new(address, config, values.map(ServerKind::Values).map_err(|e| e.to_string()))
    }

    fn new(
        address: &str,
        config: &EngineConfig,
        kind: Result<ServerKind, Failure>,
    ) -> Result<Self, OpenError> {
        let shown = without_password(address);
        let kind = kind.map_err(|reason| OpenError::Metadata { text: shown.clone(), reason })?;
        let prefix = match config.cluster_id.trim_end_matches('/') {
            "" => "mooncake/".to_owned(),
            cluster => format!("mooncake/{cluster}/"),
        };
        Ok(Self { shown, prefix, kind })
    }

    /// The address of the server, `host:port`.
    pub(crate) fn address(&self) -> Option<String> {
        match &self.kind {
            ServerKind::Http(server) => server.address(),
            ServerKind::Values(values) => Some(values.endpoint().to_owned()),
        }
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
        let text = serde_json::to_string(&record).map_err(|error| error.to_string())?;
        match &self.kind {
            ServerKind::Http(server) => server.put(&self.key(name), text),
            ServerKind::Values(values) => {
                values.put(&self.key(name), &text).map_err(|error| error.to_string())
            }
        }
    }

    /// Deletes the record of this name, unless it names another endpoint.
    pub(crate) fn withdraw(&self, name: &str, endpoint: &str) -> Result<(), Failure> {
        if !matches!(self.get(name), Ok(Some(record)) if record.endpoint == endpoint) {
            return Ok(());
        }
        match &self.kind {
            ServerKind::Http(server) => server.remove(&self.key(name)),
            ServerKind::Values(values) => {
                values.remove(&self.key(name)).map_err(|error| error.to_string())
            }
        }
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

    fn get(&self, name: &str) -> Result<Option<Record>, Failure> {
        let found = match &self.kind {
            ServerKind::Http(server) => server.get(&self.key(name))?,
            ServerKind::Values(values) => {
                values.get(&self.key(name)).map_err(|error| error.to_string())?
            }
        };
        let parse = |text: Vec<u8>| serde_json::from_slice(&text);
        found.map(parse).transpose().map_err(|error| format!("no record: {error}"))
    }
}
