use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use mooncake_types::{host_port, without_password};

use crate::AddressError;

/// Most endpoints of one etcd cluster.
const MAX_ENDPOINTS: usize = 64;

const ETCD_PORT: u16 = 2379;
const REDIS_PORT: u16 = 6379;

/// The address of a coordinator, as flags and configurations give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// `etcd://[user:password@]a:2379;b:2379`, members of one cluster. Commas work as well, and `http://` may precede
    /// each.
    Etcd(EtcdCluster),
    /// `redis://[[user]:password@]host[:port][/database]`.
    Redis(RedisServer),
    /// `k8s://namespace/lease-name`.
    Kubernetes { namespace: String, lease: String },
    /// `file:///folder`, an absolute path on this host.
    File { folder: PathBuf },
}

/// The members of an etcd cluster, and the login for them.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EtcdCluster {
    /// Each is `host:port`.
    pub(crate) endpoints: Vec<String>,
    /// User and password.
    pub(crate) login: Option<(String, String)>,
}

/// Leaves the password out, since addresses are logged.
impl fmt::Debug for EtcdCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}", self.endpoints.join(";"))
    }
}

/// A Redis server, and the login for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedisServer {
    /// `host:port`.
    pub(crate) endpoint: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
}

/// Leaves the password out, since addresses are logged.
impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "redis://{}/{}", self.endpoint, self.database)
    }
}

/// Whether the text is the address of a coordinator, and not `host:port` of a master.
#[must_use]
pub fn is_locator(text: &str) -> bool {
    ["etcd://", "redis://", "k8s://", "file://"].iter().any(|scheme| text.starts_with(scheme))
}

impl FromStr for Location {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let parsed = match text.split_once("://") {
            Some(("etcd", rest)) => parse_etcd(rest),
            Some(("redis", rest)) => parse_redis(rest),
            Some(("k8s", rest)) => parse_kubernetes(rest),
            Some(("file", rest)) => parse_file(rest),
            _ => Err("it must begin with etcd://, redis://, k8s:// or file://".to_owned()),
        };
        let address = without_password(text);
        parsed.map_err(|reason| AddressError::Address { address, reason })
    }
}

fn parse_endpoint(text: &str, port: u16) -> Result<String, String> {
    let (host, given) = host_port::split(text).map_err(str::to_owned)?;
    if host.is_empty() {
        return Err("a host is missing".to_owned());
    }
    Ok(host_port::join(host, given.unwrap_or(port)))
}

fn parse_etcd(text: &str) -> Result<Location, String> {
    let (login, text) = match text.rsplit_once('@') {
        Some((login, text)) => (Some(login), text),
        None => (None, text),
    };
    let login = match login.map(|login| login.trim_start_matches("http://").split_once(':')) {
        None => None,
        Some(Some((user, password))) if !user.is_empty() => {
            Some((user.to_owned(), password.to_owned()))
        }
        Some(_) => return Err("user:password must stand before the @".to_owned()),
    };
    let mut endpoints: Vec<String> = Vec::new();
    for part in text.split([';', ',']).map(str::trim).filter(|part| !part.is_empty()) {
        if part.starts_with("https://") {
            return Err("etcd is spoken to by plain HTTP only".to_owned());
        }
        // The members of a list may carry the address's own scheme again: "etcd://a;etcd://b".
        let plain = part.trim_start_matches("http://").trim_start_matches("etcd://");
        let endpoint = parse_endpoint(plain.trim_end_matches('/'), ETCD_PORT)?;
        if !endpoints.contains(&endpoint) {
            endpoints.push(endpoint);
        }
    }
    match endpoints.len() {
        0 => Err("it names no endpoint".to_owned()),
        1..=MAX_ENDPOINTS => Ok(Location::Etcd(EtcdCluster { endpoints, login })),
        count => Err(format!("it names {count} endpoints; {MAX_ENDPOINTS} go")),
    }
}

fn parse_redis(text: &str) -> Result<Location, String> {
    let (login, place) = match text.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, text),
    };
    let (endpoint, database) = place.split_once('/').unwrap_or((place, ""));
    let database = match database {
        "" => 0,
        number => number
            .parse()
            .map_err(|_| "the database must be a number after the slash".to_owned())?,
    };
    let (user, password) = match login.map(|login| login.split_once(':')) {
        None => (None, None),
        Some(Some((user, password))) => (Some(user), Some(password.to_owned())),
        Some(None) => return Err("a colon must stand before the password".to_owned()),
    };
    let user = user.filter(|user| !user.is_empty()).map(str::to_owned);
    let endpoint = parse_endpoint(endpoint, REDIS_PORT)?;
    Ok(Location::Redis(RedisServer { endpoint, user, password, database }))
}

fn parse_kubernetes(text: &str) -> Result<Location, String> {
    match text.split_once('/') {
        Some((namespace, lease)) if [namespace, lease].into_iter().all(is_kubernetes_name) => {
            Ok(Location::Kubernetes { namespace: namespace.to_owned(), lease: lease.to_owned() })
        }
        _ => Err("it must be k8s://namespace/lease-name, in lower case".to_owned()),
    }
}

/// Whether this can be the name of an object or a namespace of Kubernetes.
pub(crate) fn is_kubernetes_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = name.as_bytes().first().zip(name.as_bytes().last());
    name.len() <= 253
        && ends.is_some_and(|(&first, &last)| plain(first) && plain(last))
        && name.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'.')
}

fn parse_file(text: &str) -> Result<Location, String> {
    match text.starts_with('/') && text.len() > 1 {
        true => Ok(Location::File { folder: PathBuf::from(text) }),
        false => Err("the path must be absolute: file:///folder".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(endpoint: &str, login: [Option<&str>; 2], database: u32) -> Location {
        let [user, password] = login.map(|text| text.map(str::to_owned));
        Location::Redis(RedisServer { endpoint: endpoint.to_owned(), user, password, database })
    }

    fn etcd(endpoints: &[&str], login: Option<(&str, &str)>) -> Location {
        let endpoints = endpoints.iter().map(|&text| text.to_owned()).collect();
        let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
        Location::Etcd(EtcdCluster { endpoints, login })
    }

    #[test]
    fn addresses_are_read() {
        let kubernetes = Location::Kubernetes {
            namespace: "kv".to_owned(),
            lease: "mooncake-master".to_owned(),
        };
        for (text, expected) in [
            ("etcd://a:2379;b:1;c", etcd(&["a:2379", "b:1", "c:2379"], None)),
            ("etcd://http://a:2379,etcd://[::1]:1/,a", etcd(&["a:2379", "[::1]:1"], None)),
            ("etcd://u:p@:q@a;b:1", etcd(&["a:2379", "b:1"], Some(("u", "p@:q")))),
            ("redis://h", redis("h:6379", [None, None], 0)),
            ("redis://h:1/3", redis("h:1", [None, None], 3)),
            ("redis://:p@s@h:1", redis("h:1", [None, Some("p@s")], 0)),
            ("redis://u:p:q@h:1/", redis("h:1", [Some("u"), Some("p:q")], 0)),
            ("k8s://kv/mooncake-master", kubernetes),
            ("file:///var/lib/m", Location::File { folder: "/var/lib/m".into() }),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert!(is_locator(text), "{text}");
        }
        assert!(!["h:1", "http://h:1", "h1:1;h2:1", ""].into_iter().any(is_locator));
    }

    #[test]
    fn a_bad_address_is_refused_with_the_reason() {
        let many = (0..65).map(|n| format!("h{n};")).collect::<String>();
        for (text, reason) in [
            ("h:1", "it must begin with"),
            ("zookeeper://h:1", "it must begin with"),
            ("etcd://", "it names no endpoint"),
            ("etcd://;;", "it names no endpoint"),
            ("etcd://https://a:1", "plain HTTP only"),
            ("etcd://secret@a:1", "user:password must stand"),
            ("etcd://:secret@a:1", "user:password must stand"),
            ("etcd://a:0", "the port must be a number"),
            ("etcd://:1", "a host is missing"),
            (&format!("etcd://{many}"), "it names 65 endpoints"),
            ("redis://", "a host is missing"),
            ("redis://h/x", "the database must be a number"),
            ("redis://secret@h", "a colon must stand before"),
            ("k8s://kv", "it must be k8s://namespace/lease-name"),
            ("k8s://kv/a/b", "it must be k8s://namespace/lease-name"),
            ("k8s://KV/a", "it must be k8s://namespace/lease-name"),
            ("k8s://kv/-a", "it must be k8s://namespace/lease-name"),
            ("file://relative", "the path must be absolute"),
            ("file:///", "the path must be absolute"),
        ] {
            let refused = text.parse::<Location>().expect_err(text).to_string();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }

    #[test]
    fn no_message_shows_a_password() {
        let refused = "redis://u:secret@h:x".parse::<Location>().expect_err("no port").to_string();
        for address in ["redis://u:secret@h", "etcd://u:secret@h"] {
            let shown = format!("{:?}", address.parse::<Location>().expect("an address"));
            assert!(!refused.contains("secret") && !shown.contains("secret"), "{refused} {shown}");
        }
    }
}
