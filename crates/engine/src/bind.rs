use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};

use mooncake_types::host_port::{is_unspecified, join, split};
use socket2::{Domain, Socket, Type};

use crate::{EngineConfig, OpenError};

/// Most connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The port that an engine listens on.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: TcpListener,
    /// The `host:port` at which peers reach it.
    pub(crate) endpoint: String,
}

/// Listens on a free port. `directory` is the address of the metadata server, if there is one. With a metadata server,
/// the engine publishes `bind_address` if it is set, and its hostname need not resolve.
pub(crate) fn bind(config: &EngineConfig, directory: Option<&str>) -> Result<Bound, OpenError> {
    let named = host_of(&config.local_hostname)?;
    let told = config.bind_address.as_deref().map(host_of).transpose()?;
    let resolved = match is_unspecified(named) {
        true => None,
        false => match resolve(named) {
            Err(_) if directory.is_some() || told.is_some() => None,
            resolved => Some(reachable(named, resolved?)),
        },
    };
    let host = match told.filter(|told| directory.is_some() && !is_unspecified(told)) {
        Some(told) => told.to_owned(),
        None if resolved.is_some() || (told.is_some() && directory.is_none()) => named.to_owned(),
        None => own_address(directory).to_string(),
    };
    let addresses = match told {
        Some(told) => resolve(told)?,
        None => resolved.unwrap_or_else(|| vec![any_like(named)]),
    };
    let listener = bind_any(config, &addresses)?;
    let port = listener.local_addr().map_err(|error| system(&error))?.port();
    Ok(Bound { listener, endpoint: join(&host, port) })
}

fn system(error: &io::Error) -> OpenError {
    OpenError::System { reason: error.to_string() }
}

/// Binds the first address that belongs to this machine, on a free port of the range, starting at a random one. If no
/// address does, the hostname may be that of a proxy, so the engine listens on all addresses. It never does so if
/// `bind_address` is set.
fn bind_any(config: &EngineConfig, addresses: &[IpAddr]) -> Result<TcpListener, OpenError> {
    let (first, count) = (*config.ports.start(), config.ports.len() as u32);
    let random =
        getrandom::u32().map_err(|error| OpenError::System { reason: error.to_string() })?;
    let fallback = match addresses[0] {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let fallbacks = config.bind_address.is_none().then_some(fallback);
    let mut refused = OpenError::System { reason: "there is no port to try".to_owned() };
    for ip in addresses.iter().copied().chain(fallbacks) {
        for step in 0..count {
            let port = first + (random.wrapping_add(step) % count) as u16;
            let address = SocketAddr::new(ip, port);
            let error = match listen(address) {
                Ok(listener) => return Ok(listener),
                Err(error) => error,
            };
            refused = OpenError::Bind { address, reason: error.to_string() };
            match error.kind() {
                io::ErrorKind::AddrInUse if step + 1 < count => {}
                io::ErrorKind::AddrNotAvailable => break,
                _ => return Err(refused),
            }
        }
    }
    Err(refused)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // Lingering connections of an earlier process must not block its port.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn any_like(host: &str) -> IpAddr {
    match host.parse() {
        Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        _ => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Debian maps a machine's own name to a loopback address, 127.0.1.1, where other hosts reach nothing. For such a name
/// the engine listens on all addresses. `localhost` and literal addresses are taken as they are.
fn reachable(host: &str, resolved: Vec<IpAddr>) -> Vec<IpAddr> {
    let is_literal = host.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost");
    if is_literal || !resolved.iter().all(|address| address.to_canonical().is_loopback()) {
        return resolved;
    }
    vec![any_like(&resolved[0].to_string())]
}

/// The addresses of a host. IPv4 comes first, since peers expect a name with both to be served there.
fn resolve(host: &str) -> Result<Vec<IpAddr>, OpenError> {
    let unknown = |reason: String| OpenError::Address { text: host.to_owned(), reason };
    let resolved = (host, 0).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let mut addresses: Vec<IpAddr> = resolved.map(|address| address.ip()).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.dedup();
    match addresses.is_empty() {
        true => Err(unknown("it has no address".to_owned())),
        false => Ok(addresses),
    }
}

/// This machine's address on the route to the metadata server, or loopback. Nothing is sent.
fn own_address(directory: Option<&str>) -> IpAddr {
    let ask = || {
        let peer = directory?.to_socket_addrs().ok()?.next()?;
        let local: SocketAddr = match peer {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(local).ok()?;
        socket.connect(peer).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    ask().unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The host in a `local_hostname`.
fn host_of(text: &str) -> Result<&str, OpenError> {
    let (host, _) = split(text).map_err(|reason| OpenError::Address {
        text: text.to_owned(),
        reason: reason.to_owned(),
    })?;
    Ok(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(local_hostname: &str) -> EngineConfig {
        EngineConfig { local_hostname: local_hostname.to_owned(), ..EngineConfig::default() }
    }

    fn bound(config: &EngineConfig, directory: Option<&str>) -> (String, IpAddr) {
        let bound = bind(config, directory).expect("a port is free");
        let address = bound.listener.local_addr().expect("bound");
        assert!(config.ports.contains(&address.port()));
        let (host, port) = bound.endpoint.rsplit_once(':').expect("host:port");
        assert_eq!(port, address.port().to_string());
        (host.to_owned(), address.ip())
    }

    #[test]
    fn an_engine_listens_where_its_hostname_says() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        for (name, directory, host, listens) in [
            ("127.0.0.1", None, "127.0.0.1", "127.0.0.1"),
            ("127.0.0.1:5", None, "127.0.0.1", "127.0.0.1"),
            ("localhost:5", None, "localhost", "127.0.0.1"),
            ("0.0.0.0", Some("127.0.0.1:9"), "127.0.0.1", "0.0.0.0"),
            ("", None, "127.0.0.1", "0.0.0.0"),
            ("192.0.2.1", None, "192.0.2.1", "0.0.0.0"),
            ("nowhere.invalid", Some("127.0.0.1:9"), "127.0.0.1", "0.0.0.0"),
        ] {
            let found = bound(&config(name), directory);
            assert_eq!(found, (host.to_owned(), ip(listens)), "{name}");
        }
    }

    #[test]
    fn the_address_to_listen_on_can_be_told() {
        let told =
            EngineConfig { bind_address: Some("127.0.0.2".to_owned()), ..config("127.0.0.1") };
        let ip: IpAddr = "127.0.0.2".parse().expect("an address");
        assert_eq!(bound(&told, None), ("127.0.0.1".to_owned(), ip));
        assert_eq!(bound(&told, Some("127.0.0.1:9")), ("127.0.0.2".to_owned(), ip));
    }

    #[test]
    fn nothing_else_is_listened_on_than_the_address_that_was_told() {
        let told =
            EngineConfig { bind_address: Some("192.0.2.1".to_owned()), ..config("127.0.0.1") };
        let error = bind(&told, None).expect_err("it is no address of this machine");
        let OpenError::Bind { address, .. } = &error else { panic!("{error}") };
        assert_eq!(address.ip().to_string(), "192.0.2.1");
    }

    #[test]
    fn a_range_without_a_free_port_is_an_error() {
        let taken = bind(&config("127.0.0.1"), None).expect("a port is free");
        let port = taken.listener.local_addr().expect("bound").port();
        let narrow = EngineConfig { ports: port..=port, ..config("127.0.0.1") };
        let error = bind(&narrow, None).expect_err("the only port is taken");
        assert!(matches!(error, OpenError::Bind { .. }), "{error}");
        for name in ["no such host", "a:b", "nowhere.invalid"] {
            let error = bind(&config(name), None).expect_err("no host");
            assert!(matches!(error, OpenError::Address { .. }), "{error}");
        }
    }
}
