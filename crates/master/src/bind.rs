//! Binds the ports, before anything else happens.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use mooncake_connection::{LOCAL_MARK, listen_locally};
use mooncake_ha::{Coordinator, Options, Pod};
use mooncake_http::ListenError;
use mooncake_memory::PrivateWhile;
use mooncake_types::host_port::{is_unspecified, join};
use thiserror::Error;

use crate::config::{Config, KvEvents};
use crate::http2::Http2Door;
use crate::leadership::LeadershipConfig;

/// The ports of [`KvEvents`].
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) subscribers: TcpListener,
    pub(crate) replays: Option<TcpListener>,
}

/// Why a master cannot start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BindError {
    /// The rules of the pool contradict each other.
    #[error("{0}")]
    Pool(String),
    /// The coordinator is invalid.
    #[error("{0}")]
    Coordinator(String),
    /// The pod is invalid, or cannot be labelled.
    #[error("--pod_name, --pod_namespace: {0}")]
    Pod(String),
    /// The address cannot be told to clients once this master leads.
    #[error(
        "{address} is no address that clients can be sent to; with --enable_ha, give the one that they reach this \
         master by with --rpc_address, or --rpc_interface"
    )]
    Unspecified {
        /// The address to listen on.
        address: String,
    },
    /// The host name cannot be resolved.
    #[error("cannot resolve --{flag}={host}: {reason}")]
    Unresolved {
        /// The flag that gave the name.
        flag: &'static str,
        /// The name.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// Another process listens there.
    #[error("port {port} on {host} is taken by another process; choose another with --{flag}")]
    Taken {
        /// The flag that gave the port.
        flag: &'static str,
        /// The address.
        host: String,
        /// The port.
        port: u16,
    },
    /// The local socket cannot be bound.
    #[error("cannot listen on the local socket {name:?}: {reason}")]
    LocalSocket {
        /// Its name.
        name: String,
        /// What the system said.
        reason: String,
    },
    /// The port cannot be used for another reason.
    #[error("cannot listen on {host}, port {port} (--{flag}): {reason}")]
    Refused {
        /// The flag that gave the port.
        flag: &'static str,
        /// The address.
        host: String,
        /// The port.
        port: u16,
        /// What the system said.
        reason: String,
    },
}

/// The socket where clients and nodes are served.
#[derive(Debug)]
pub(crate) enum RpcSocket {
    Port(TcpListener),
    /// A local socket, with its name.
    Local {
        /// Dropped first. It keeps the name from child processes, which may outlive this one.
        private: PrivateWhile,
        listener: UnixListener,
        name: String,
    },
}

/// A master that holds its ports and does not serve yet.
#[derive(Debug)]
pub struct Master {
    pub(crate) config: Config,
    /// The coordinator that elects this master, if there are several.
    pub(crate) coordinator: Option<Coordinator>,
    /// The pod to label while this master leads.
    pub(crate) pod: Option<Pod>,
    pub(crate) rpc: RpcSocket,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) metadata: Option<TcpListener>,
    pub(crate) kv_events: Option<Ports>,
    pub(crate) http2: Option<Http2Door>,
}

impl Master {
    /// Checks the configuration and binds all ports. Clients that connect from then on are served once
    /// [`Master::serve`] runs.
    ///
    /// # Errors
    /// The configuration contradicts itself, or a port cannot be bound; the text names the flag to change.
    pub fn bind(config: Config) -> Result<Master, BindError> {
        config.pool.validate().map_err(BindError::Pool)?;
        if is_unspecified(&config.rpc_address) && is_elected(&config) {
            return Err(BindError::Unspecified { address: config.rpc_address });
        }
        let (coordinator, pod) = (coordinator(&config)?, pod(&config)?);
        let rpc = ListenAddress {
            host: &config.rpc_address,
            host_flag: "rpc_address",
            port: config.rpc_port,
            port_flag: "rpc_port",
        };
        let admin = ListenAddress {
            host: &config.metrics_host,
            host_flag: "metrics_host",
            port: config.metrics_port,
            port_flag: "metrics_port",
        };
        let metadata = config.metadata_server.as_ref().map(|server| ListenAddress {
            host: &server.host,
            host_flag: "http_metadata_server_host",
            port: server.port,
            port_flag: "http_metadata_server_port",
        });
        let (rpc, admin) = (RpcSocket::Port(rpc.listen()?), Some(admin.listen()?));
        let metadata = metadata.map(|place| place.listen()).transpose()?;
        let kv_events = config.kv_events.as_ref().map(kv_event_ports).transpose()?;
        Ok(Master { config, coordinator, pod, rpc, admin, metadata, kv_events, http2: None })
    }

    /// Like [`Master::bind`], on the local socket of this name, for processes of this host and user. Binds no port:
    /// there is no admin server, no metadata server and no stream of events. Ignores the addresses of the
    /// configuration.
    ///
    /// # Errors
    /// The configuration contradicts itself, or the name is taken.
    pub fn bind_locally(config: Config, name: &str) -> Result<Master, BindError> {
        config.pool.validate().map_err(BindError::Pool)?;
        let coordinator = coordinator(&config)?;
        let socket = PrivateWhile::make(|| listen_locally(name));
        let (private, listener) = socket.map_err(|error| BindError::LocalSocket {
            name: name.to_owned(),
            reason: error.to_string(),
        })?;
        let rpc = RpcSocket::Local { private, listener, name: name.to_owned() };
        let (pod, admin, metadata, kv_events, http2) = (None, None, None, None, None);
        Ok(Master { config, coordinator, pod, rpc, admin, metadata, kv_events, http2 })
    }

    /// Hands connections to the RPC port that speak HTTP/2 to another part of the process.
    pub fn pass_http2(&mut self, door: Http2Door) {
        self.http2 = Some(door);
    }

    /// Where clients and nodes are served: `host:port` as it is told to others, or the endpoint of a local socket.
    ///
    /// # Errors
    /// The system cannot tell.
    pub(crate) fn address(&self) -> io::Result<String> {
        match &self.rpc {
            RpcSocket::Port(port) => Ok(join(&self.config.rpc_address, port.local_addr()?.port())),
            RpcSocket::Local { name, .. } => Ok(format!("{LOCAL_MARK}{name}")),
        }
    }

    /// The port where clients and nodes are served, if there is one.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn rpc_addr(&self) -> io::Result<Option<SocketAddr>> {
        match &self.rpc {
            RpcSocket::Port(port) => port.local_addr().map(Some),
            RpcSocket::Local { .. } => Ok(None),
        }
    }

    /// The address of the admin HTTP server, if there is one.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn admin_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.admin.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// The addresses where KV events are published and asked for, if they are.
    pub fn kv_event_addrs(&self) -> impl Iterator<Item = io::Result<SocketAddr>> {
        let ports = self.kv_events.iter();
        let all = ports.flat_map(|ports| std::iter::once(&ports.subscribers).chain(&ports.replays));
        all.map(TcpListener::local_addr)
    }

    /// The address of the metadata server, if there is one.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn metadata_addr(&self) -> io::Result<Option<SocketAddr>> {
        self.metadata.as_ref().map(TcpListener::local_addr).transpose()
    }
}

fn is_elected(config: &Config) -> bool {
    matches!(config.leadership, LeadershipConfig::Elected { .. })
}

fn coordinator(config: &Config) -> Result<Option<Coordinator>, BindError> {
    let LeadershipConfig::Elected { coordinator, ttl, kubernetes } = &config.leadership else {
        return Ok(None);
    };
    let kubernetes = kubernetes.clone();
    let options = Options { ttl: *ttl, kubernetes, ..Options::new(&config.cluster_id) };
    mooncake_ha::connect(coordinator, &options)
        .map(Some)
        .map_err(|error| BindError::Coordinator(error.to_string()))
}

fn pod(config: &Config) -> Result<Option<Pod>, BindError> {
    let pod = config.pod.as_ref();
    let pod = pod.map(|pod| Pod::new(&pod.access, &pod.namespace, &pod.name)).transpose();
    pod.map_err(|error| BindError::Pod(error.to_string()))
}

fn kv_event_ports(config: &KvEvents) -> Result<Ports, BindError> {
    let listen = |flag, (host, port): &(String, u16)| {
        ListenAddress { host, host_flag: flag, port: *port, port_flag: flag }.listen()
    };
    let replays = config.replays.as_ref();
    Ok(Ports {
        subscribers: listen("kv_events_bind_endpoint", &config.subscribers)?,
        replays: replays.map(|at| listen("kv_events_replay_endpoint", at)).transpose()?,
    })
}

/// An address to listen on, and the flags that gave it.
struct ListenAddress<'a> {
    host: &'a str,
    host_flag: &'static str,
    port: u16,
    port_flag: &'static str,
}

impl ListenAddress<'_> {
    fn listen(&self) -> Result<TcpListener, BindError> {
        mooncake_http::listen(self.host, self.port).map_err(|error| match error {
            ListenError::Unresolved { host, reason } => {
                BindError::Unresolved { flag: self.host_flag, host, reason }
            }
            ListenError::Taken { host, port } => {
                BindError::Taken { flag: self.port_flag, host, port }
            }
            ListenError::Refused { host, port, reason } => {
                BindError::Refused { flag: self.port_flag, host, port, reason }
            }
        })
    }
}
