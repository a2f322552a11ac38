use std::ops::RangeInclusive;
use std::time::Duration;

use mooncake_ha::ValuesLogin;
use mooncake_tls::TlsConfig;
use mooncake_transfer::{
    DeviceWish, EnvError, Transports, Variables, is_served_by_tcp, tls_of_variables,
    token_of_variables,
};
use mooncake_types::{BusyWait, Secret, without_password};

use crate::OpenError;
use crate::network_cards::NetworkCards;

/// How engines find their peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metadata {
    /// A peer's name is its address, `host:port`.
    Handshake,
    /// A peer's name is a key of an HTTP metadata server.
    Http {
        /// The server's URL, like `http://host:port/metadata`, or with `https`.
        url: String,
    },
    /// A peer's name is a key of an etcd cluster or a Redis server.
    Values {
        /// `etcd://[user:password@]host[:port];...` or `redis://[[user]:password@]host[:port][/database]`.
        address: String,
    },
}

/// The name of [`Metadata::Handshake`] in the C++ package.
const HANDSHAKE: &str = "P2PHANDSHAKE";

impl Metadata {
    /// Parses what callers of the C++ package pass: `P2PHANDSHAKE`, or a server's address with or without a scheme:
    /// `http`, `etcd` or `redis`. `kind` is the scheme if the address has none.
    ///
    /// # Errors
    /// [`OpenError::Metadata`] for a server that this build cannot talk to.
    pub fn parse(text: &str, kind: &str) -> Result<Metadata, OpenError> {
        if text == HANDSHAKE {
            return Ok(Metadata::Handshake);
        }
        let refuse = |reason: String| OpenError::Metadata { text: without_password(text), reason };
        let (scheme, rest) = text.split_once("://").unwrap_or((kind, text));
        match scheme {
            "http" | "https" if !rest.is_empty() => {
                Ok(Metadata::Http { url: format!("{scheme}://{rest}") })
            }
            "http" | "https" => Err(refuse("it names no host".to_owned())),
            "etcd" | "redis" if !rest.is_empty() => {
                Ok(Metadata::Values { address: format!("{scheme}://{rest}") })
            }
            "etcd" | "redis" => Err(refuse("it names no host".to_owned())),
            other => Err(refuse(format!(
                "{other:?} servers are not in this build; use \"http://host:port/metadata\", \"etcd://host:port\", \
                 \"redis://host:port\" or {HANDSHAKE:?}"
            ))),
        }
    }
}

/// The settings of an [`crate::Engine`]. [`crate::Engine::open`] takes them, and nothing below reads the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// The hostname of this process, as `host` or `host:port`, with IPv6 literals in brackets. With [`Metadata::Http`]
    /// the whole text is the engine's name. Otherwise only the host is used.
    pub local_hostname: String,
    /// How peers are found.
    pub metadata: Metadata,
    /// The secret of the metadata server; empty if it has none.
    pub metadata_token: Secret,
    /// Separates the names of clusters that share a metadata server. Empty if only one uses it.
    pub cluster_id: String,
    /// Password and database of Redis, where the address leaves them out.
    pub redis: ValuesLogin,
    /// The secret of the cluster; empty if it has none.
    pub auth_token: Secret,
    /// The certificates for connections between hosts, if these are encrypted.
    pub tls: TlsConfig,
    /// The address to listen on. By default the engine listens on that of `local_hostname`.
    pub bind_address: Option<String>,
    /// The engine listens on a free port of these.
    pub ports: RangeInclusive<u16>,
    /// How long one transfer may take. One second is added for each 16 MiB that it moves.
    pub transfer_timeout: Duration,
    /// Most connections to one peer.
    pub lanes_per_peer: usize,
    /// Whether the engine uses TCP whatever protocol the caller asks for.
    pub force_tcp: bool,
    /// The network cards that a protocol of theirs may use.
    pub cards: NetworkCards,
    /// The device by which peers are reached one-sided, and the ways to them by preference. `None`: by TCP alone.
    pub fabric: Option<(Transports, DeviceWish)>,
    /// How long a thread polls for a small message before it blocks. With zero it blocks at once.
    pub busy_poll: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            local_hostname: "localhost".to_owned(),
            metadata: Metadata::Handshake,
            metadata_token: Secret::default(),
            cluster_id: String::new(),
            redis: ValuesLogin::default(),
            auth_token: Secret::default(),
            tls: TlsConfig::default(),
            bind_address: None,
            ports: 15_000..=17_000,
            transfer_timeout: Duration::from_secs(30),
            lanes_per_peer: 4,
            force_tcp: false,
            cards: NetworkCards::default(),
            fabric: None,
            busy_poll: BusyWait::DEFAULT_LIMIT,
        }
    }
}

/// The greatest number of a database of Redis, and what is said about others.
const MAX_DATABASE: u32 = 255;
const DATABASE: &str = "a number from 0 to 255";

/// The shortest transfer timeout that the environment can set, in seconds.
const MIN_TIMEOUT_SECONDS: u32 = 5;

impl EngineConfig {
    /// The defaults, overridden by these variables of the environment:
    ///
    /// - `MC_TRANSFER_TIMEOUT`, in seconds; a value below 5 counts as 5;
    /// - `MC_TCP_LANES_PER_PEER`, `MC_TCP_BIND_ADDRESS`, `MC_METADATA_CLUSTER_ID`, `MC_METADATA_HTTP_TOKEN`,
    ///   `MC_FORCE_TCP`;
    /// - `MC_REDIS_PASSWORD` and `MC_REDIS_DB_INDEX`, for a metadata server `redis://`;
    /// - `MOONCAKE_AUTH_TOKEN` or `MOONCAKE_AUTH_TOKEN_FILE`;
    /// - `MC_MIN_PRC_PORT` and `MC_MAX_PRC_PORT`, spelled as in the C++ package;
    /// - `MOONCAKE_BUSY_POLL_US`, in microseconds;
    /// - those about [`NetworkCards`], which have an effect once a protocol of network cards is asked for
    ///   ([`EngineConfig::with_protocol`]).
    ///
    /// # Errors
    /// The first variable with an invalid value.
    pub fn from_env() -> Result<Self, EnvError> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// As [`EngineConfig::from_env`], with the environment given as a function from name to value.
    ///
    /// # Errors
    /// As there.
    pub fn from_variables(look_up: impl Fn(&str) -> Option<String>) -> Result<Self, EnvError> {
        let mut config = Self::default();
        let variables = Variables::new(look_up);
        if let Some(seconds) = variables.number("MC_TRANSFER_TIMEOUT")? {
            let seconds = seconds.max(MIN_TIMEOUT_SECONDS);
            config.transfer_timeout = Duration::from_secs(seconds.into());
        }
        if let Some(lanes) = variables.number("MC_TCP_LANES_PER_PEER")? {
            config.lanes_per_peer = lanes as usize;
        }
        let busy_poll =
            variables.parse("MOONCAKE_BUSY_POLL_US", BusyWait::WANTED, BusyWait::parse_limit)?;
        config.busy_poll = busy_poll.unwrap_or(config.busy_poll);
        let first = variables.port("MC_MIN_PRC_PORT")?.unwrap_or(*config.ports.start());
        let last = variables.port("MC_MAX_PRC_PORT")?.unwrap_or(*config.ports.end());
        if first > last {
            let value = format!("{first} and MC_MAX_PRC_PORT is {last}");
            return Err(EnvError {
                name: "MC_MIN_PRC_PORT",
                value,
                wanted: "the lower of the two",
            });
        }
        config.ports = first..=last;
        config.bind_address = variables.text("MC_TCP_BIND_ADDRESS");
        config.cluster_id = variables.text("MC_METADATA_CLUSTER_ID").unwrap_or_default();
        config.metadata_token = variables.text("MC_METADATA_HTTP_TOKEN").unwrap_or_default().into();
        config.redis.password = variables.text("MC_REDIS_PASSWORD");
        config.redis.database = variables.parse("MC_REDIS_DB_INDEX", DATABASE, |text| {
            text.parse().ok().filter(|&database| database <= MAX_DATABASE)
        })?;
        config.auth_token = token_of_variables(|name| variables.text(name))?.into();
        config.tls = tls_of_variables(|name| variables.text(name))?;
        config.force_tcp = variables.text("MC_FORCE_TCP").is_some();
        config.cards = NetworkCards::from_variables(&variables)?;
        Ok(config)
    }

    /// The configuration for this protocol. With `rdma` peers are reached over NICs of libibverbs if there are some, and
    /// with `rdma` and `efa` over libfabric, where the environment names it. Otherwise TCP serves both, as it does if it
    /// is forced. `devices` names devices or interfaces; empty for any.
    ///
    /// # Errors
    /// [`OpenError::Protocol`] if nothing serves it; [`OpenError::Environment`] if a variable about its devices is wrong.
    pub fn with_protocol(self, name: &str, devices: &str) -> Result<Self, OpenError> {
        if self.force_tcp {
            return Ok(self);
        }
        if !is_served_by_tcp(name) {
            return Err(OpenError::Protocol { name: name.to_owned() });
        }
        Ok(Self { fabric: self.cards.of_protocol(name, devices)?, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<EngineConfig, EnvError> {
        EngineConfig::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn every_variable_is_taken() {
        assert_eq!(with(&[]), Ok(EngineConfig::default()));
        let config = with(&[
            ("MC_TRANSFER_TIMEOUT", "70"),
            ("MC_TCP_LANES_PER_PEER", "2"),
            ("MC_TCP_BIND_ADDRESS", "10.0.0.5"),
            ("MC_METADATA_CLUSTER_ID", "blue"),
            ("MC_METADATA_HTTP_TOKEN", "meta"),
            ("MOONCAKE_AUTH_TOKEN", "secret"),
            ("MC_FORCE_TCP", "true"),
            ("MC_MIN_PRC_PORT", "20000"),
            ("MC_MAX_PRC_PORT", "20010"),
            ("MOONCAKE_BUSY_POLL_US", "50"),
            ("MC_REDIS_PASSWORD", "word"),
            ("MC_REDIS_DB_INDEX", "3"),
        ]);
        let expected = EngineConfig {
            transfer_timeout: Duration::from_secs(70),
            lanes_per_peer: 2,
            bind_address: Some("10.0.0.5".to_owned()),
            cluster_id: "blue".to_owned(),
            metadata_token: "meta".into(),
            redis: ValuesLogin { password: Some("word".to_owned()), database: Some(3) },
            auth_token: "secret".into(),
            force_tcp: true,
            ports: 20_000..=20_010,
            busy_poll: Duration::from_micros(50),
            ..EngineConfig::default()
        };
        assert_eq!(config, Ok(expected));
        let short = with(&[("MC_TRANSFER_TIMEOUT", "1")]).map(|config| config.transfer_timeout);
        assert_eq!(short, Ok(Duration::from_secs(5)));
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        for (name, value) in [
            ("MC_TRANSFER_TIMEOUT", "soon"),
            ("MC_TRANSFER_TIMEOUT", "0"),
            ("MC_TCP_LANES_PER_PEER", "-1"),
            ("MC_MIN_PRC_PORT", "70000"),
            ("MC_MIN_PRC_PORT", "17001"),
            ("MOONCAKE_BUSY_POLL_US", "1001"),
            ("MC_REDIS_DB_INDEX", "first"),
            ("MC_REDIS_DB_INDEX", "256"),
        ] {
            assert_eq!(with(&[(name, value)]).map_err(|error| error.name), Err(name), "{value}");
        }
    }

    #[test]
    fn metadata_servers_are_told_apart() {
        let http = |url: &str| Some(Metadata::Http { url: url.to_owned() });
        let values = |address: &str| Some(Metadata::Values { address: address.to_owned() });
        for (text, kind, expected) in [
            ("P2PHANDSHAKE", "etcd", Some(Metadata::Handshake)),
            ("http://a:1/metadata", "etcd", http("http://a:1/metadata")),
            ("a:1/metadata", "http", http("http://a:1/metadata")),
            ("127.0.0.1:2379", "etcd", values("etcd://127.0.0.1:2379")),
            ("etcd://u:p@a:1;b", "http", values("etcd://u:p@a:1;b")),
            ("redis://:p@a:1/3", "", values("redis://:p@a:1/3")),
            ("etcd://", "", None),
            ("", "redis", None),
            ("https://a:1", "", http("https://a:1")),
            ("ftp://a:1", "", None),
            ("http://", "", None),
            ("https://", "", None),
            ("", "", None),
        ] {
            assert_eq!(Metadata::parse(text, kind).ok(), expected, "{text} {kind}");
        }
    }

    #[test]
    fn other_protocols_are_refused_unless_tcp_is_forced() {
        let forced = EngineConfig { force_tcp: true, ..EngineConfig::default() };
        for (name, plain) in [("tcp", true), ("rdma", true), ("", false), ("cxl", false)] {
            let served = EngineConfig::default().with_protocol(name, "");
            assert_eq!(served.is_ok(), plain, "{name}");
            assert!(forced.clone().with_protocol(name, "").is_ok());
        }
    }
}
