use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;

use mooncake_transfer::LocalListener;
use mooncake_types::host_port::{is_unspecified, join, split};
use socket2::{Domain, Socket, Type};

use crate::open_error::OpenError;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// What to listen on.
#[derive(Clone, Debug)]
pub(crate) struct ListenOptions<'a> {
    pub(crate) local_hostname: &'a str,
    pub(crate) bind_address: Option<&'a str>,
    pub(crate) ports: RangeInclusive<u16>,
    /// The port to try first, also outside of this range.
    pub(crate) preferred_port: Option<u16>,
    /// Where the search for a free port in the range begins, the same for a node that is started again.
    pub(crate) search_from: u64,
    /// The local address of the connection to the master.
    pub(crate) towards_master: IpAddr,
    /// `host` or `host:port` to tell others, instead of the local hostname and the port that was bound.
    pub(crate) advertise: Option<&'a str>,
    /// Whether a port in the local hostname may be only a part of the name: if it is taken, another port is bound.
    pub(crate) port_is_a_name: bool,
    /// Whether other processes connect. If not, the port is only held so that the hostname is unique.
    pub(crate) serves: bool,
}

/// A port or local socket of this process, held for as long as this lives.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) socket: HeldSocket,
    /// The name by which others know this process, `host:port`.
    pub(crate) hostname: String,
    /// Where others connect: `host:port`, or the endpoint of a local socket. Differs from `hostname` if the port
    /// there is only a name, or if the host there is `localhost` and the master is elsewhere.
    pub(crate) endpoint: String,
}

/// See [`Bound`].
#[derive(Debug)]
pub(crate) enum HeldSocket {
    /// It listens if other processes connect.
    Port(Socket),
    Local(LocalListener),
}

#[cfg(test)]
impl HeldSocket {
    fn local_addr(&self) -> io::Result<socket2::SockAddr> {
        match self {
            Self::Port(socket) => socket.local_addr(),
            Self::Local(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }
}

/// Listens on a local socket only. A hostname without a port gets a number that no other process has, in its place.
pub(crate) fn bind_locally(local_hostname: &str) -> Result<Bound, OpenError> {
    let socket = LocalListener::open();
    let socket = socket.map_err(|error| OpenError::LocalSocket { reason: error.to_string() })?;
    let hostname = match split(local_hostname) {
        Ok((host, None)) => {
            let host = if host.is_empty() { "localhost" } else { host };
            let brackets = if host.contains(':') { ["[", "]"] } else { ["", ""] };
            format!("{}{host}{}:{}", brackets[0], brackets[1], socket.instance() as u32)
        }
        _ => local_hostname.to_owned(),
    };
    let endpoint = socket.endpoint();
    Ok(Bound { socket: HeldSocket::Local(socket), hostname, endpoint })
}

/// Binds the port that the hostname names. If it names none, binds the first free one of the range, from the
/// start that the options name.
pub(crate) fn bind(options: &ListenOptions<'_>) -> Result<Bound, OpenError> {
    let (host, port) = split(options.local_hostname).map_err(|reason| OpenError::Address {
        what: "the local hostname",
        text: options.local_hostname.to_owned(),
        reason,
    })?;
    let addresses = addresses_of(options, host)?;
    let ((name, reached_at), told) = match options.advertise {
        Some(text) => {
            let (host, port) = split_advertised(text)?;
            if options.serves
                && let Err(error) = resolve(&host)
            {
                tracing::warn!(%error, "others are told an address that this machine does not know");
            }
            ((host.clone(), host), port)
        }
        None => (name_and_reach(host, options, &addresses), None),
    };
    let is_moved = is_this_machine_only(host) && !addresses.iter().all(is_loopback);
    let bound = |(socket, listening): (Socket, u16)| {
        let endpoint = join(&reached_at, told.unwrap_or(listening));
        let hostname = join(&name, told.or(port).unwrap_or(listening));
        if is_moved && options.serves {
            tracing::warn!(
                host,
                endpoint,
                name = hostname,
                "the host is known to this machine only and the master is elsewhere: others reach this node at the endpoint"
            );
        }
        Bound { socket: HeldSocket::Port(socket), hostname, endpoint }
    };
    let Some(port) = port else { return bind_any(&addresses, options).map(bound) };
    match bind_port(&addresses, port, options) {
        Err(OpenError::PortTaken { .. }) if options.port_is_a_name => {
            bind_any(&addresses, options).map(bound)
        }
        listening => listening.map(|socket| bound((socket, port))),
    }
}

fn bind_any(addresses: &[IpAddr], options: &ListenOptions<'_>) -> Result<(Socket, u16), OpenError> {
    if let Some(port) = options.preferred_port {
        match bind_port(addresses, port, options) {
            Err(OpenError::PortTaken { .. }) => {
                tracing::warn!(port, "this port is taken: the process listens on another");
            }
            bound => return bound.map(|socket| (socket, port)),
        }
    }
    let (first, last) = (*options.ports.start(), *options.ports.end());
    let count = u64::from(last - first) + 1;
    let start = options.search_from % count;
    for step in 0..count {
        let port = first + ((start + step) % count) as u16;
        match bind_port(addresses, port, options) {
            Ok(socket) => return Ok((socket, port)),
            Err(OpenError::PortTaken { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(OpenError::AllPortsTaken { first, last })
}

/// Splits an advertised address into the host and, if there is one, the port.
pub(crate) fn split_advertised(text: &str) -> Result<(String, Option<u16>), OpenError> {
    let error = |reason| OpenError::Address {
        what: "the advertised address",
        text: text.to_owned(),
        reason,
    };
    match split(text).map_err(error)? {
        (host, _) if is_unspecified(host) => Err(error("it names no host that others can reach")),
        (host, port) => Ok((host.to_owned(), port)),
    }
}

/// The addresses to try to listen on, best first.
fn addresses_of(options: &ListenOptions<'_>, host: &str) -> Result<Vec<IpAddr>, OpenError> {
    if let Some(address) = options.bind_address {
        let reached_at = host;
        let (host, _) = split(address).map_err(|reason| OpenError::Address {
            what: "the address to listen on",
            text: address.to_owned(),
            reason,
        })?;
        check_reached_at(options, reached_at)?;
        return resolve(host);
    }
    if is_unspecified(host) {
        return Ok(vec![any_like(options.towards_master)]);
    }
    match resolve(host) {
        Ok(addresses) => Ok(known_to_others(host, addresses, options.towards_master)),
        // No process connects to one that lends nothing, so its name need not resolve.
        Err(_) if !options.serves => Ok(vec![any_like(options.towards_master)]),
        Err(error) => Err(error),
    }
}

/// Checks that the local hostname resolves, if others connect to it.
fn check_reached_at(options: &ListenOptions<'_>, host: &str) -> Result<(), OpenError> {
    let connect = options.serves && options.advertise.is_none() && !is_unspecified(host);
    if connect { resolve(host).map(|_| ()) } else { Ok(()) }
}

/// The host in the name of this process, and the host that others connect to. They differ if the process calls itself
/// `localhost` while its master is elsewhere. It keeps the name, which programs rely on; others connect to the
/// address that it listens on. A process that was told to listen on loopback is reached there, from this machine
/// only.
fn name_and_reach(
    host: &str,
    options: &ListenOptions<'_>,
    addresses: &[IpAddr],
) -> (String, String) {
    let towards_master = options.towards_master.to_string();
    if is_unspecified(host) {
        return (towards_master.clone(), towards_master);
    }
    let reached_at = match addresses[0] {
        _ if is_loopback(&options.towards_master) || !is_this_machine_only(host) => host.to_owned(),
        listens if listens.is_unspecified() => towards_master,
        listens if is_loopback(&listens) => host.to_owned(),
        listens => listens.to_string(),
    };
    (host.to_owned(), reached_at)
}

/// The addresses that others may mean by the host. If the master is elsewhere, others are too, and cannot reach a
/// loopback address here:
///
/// - a host that is loopback on every machine is replaced by the address towards the master;
/// - of a name that only its own machine maps to loopback, as Debian does with 127.0.1.1, loopback addresses are
///   ignored. If it has no others, all addresses of this machine count.
fn known_to_others(host: &str, resolved: Vec<IpAddr>, towards_master: IpAddr) -> Vec<IpAddr> {
    if is_loopback(&towards_master) {
        return resolved;
    }
    if is_this_machine_only(host) {
        return vec![towards_master];
    }
    if host.parse::<IpAddr>().is_ok() {
        return resolved;
    }
    let outward: Vec<IpAddr> = resolved.iter().copied().filter(|ip| !is_loopback(ip)).collect();
    if outward.is_empty() { vec![any_like(resolved[0])] } else { outward }
}

/// Whether the host is this machine on every machine: a literal loopback address, or `localhost`.
fn is_this_machine_only(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => is_loopback(&address),
        Err(_) => {
            host.split('.').next().is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
        }
    }
}

fn is_loopback(address: &IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn any_like(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// IPv4 addresses come first: others expect a name with both to be served there.
fn resolve(host: &str) -> Result<Vec<IpAddr>, OpenError> {
    let unknown = |reason| OpenError::HostUnknown { host: host.to_owned(), reason };
    let resolved = (host, 0).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let mut addresses: Vec<IpAddr> = resolved.map(|address| address.ip()).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.dedup();
    if addresses.is_empty() {
        return Err(unknown("it has no address".to_owned()));
    }
    Ok(addresses)
}

/// Binds a port at the first address that belongs to this machine. If none does, the name may be that of a proxy in
/// front of it, and the port is bound at all addresses. This is not done if the configuration names an address to
/// listen on.
fn bind_port(
    addresses: &[IpAddr],
    port: u16,
    options: &ListenOptions<'_>,
) -> Result<Socket, OpenError> {
    let fallback = any_like(addresses[0]);
    let fallbacks = options.bind_address.is_none().then_some(fallback);
    for ip in addresses.iter().copied().chain(fallbacks) {
        let address = SocketAddr::new(ip, port);
        let error = match open_socket(address, options.serves) {
            Ok(socket) => return Ok(socket),
            Err(error) => error,
        };
        match error.kind() {
            io::ErrorKind::AddrNotAvailable => {}
            io::ErrorKind::AddrInUse => return Err(OpenError::PortTaken { port, address }),
            _ => return Err(OpenError::Bind { address, reason: error.to_string() }),
        }
    }
    let address = SocketAddr::new(*addresses.last().expect("there is one"), port);
    Err(OpenError::Bind { address, reason: "no address of this machine can be bound".to_owned() })
}

fn open_socket(address: SocketAddr, serves: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if serves {
        // Lingering connections of an earlier process must not keep its port taken.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    if serves {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn options(local_hostname: &str) -> ListenOptions<'_> {
        ListenOptions {
            local_hostname,
            bind_address: None,
            ports: 12_300..=14_300,
            preferred_port: None,
            search_from: u64::from(std::process::id()) * 37,
            towards_master: LOOPBACK,
            advertise: None,
            port_is_a_name: false,
            serves: true,
        }
    }

    fn port_of(hostname: &str) -> u16 {
        hostname.rsplit_once(':').expect("it has a port").1.parse().expect("a number")
    }

    #[test]
    fn a_name_without_a_port_gets_a_free_one_of_the_range() {
        let one = bind(&options("localhost")).expect("a port is free");
        let port = port_of(&one.hostname);
        assert_eq!(one.hostname, format!("localhost:{port}"));
        assert!((12_300..=14_300).contains(&port));

        let narrow = ListenOptions { ports: port..=port, ..options("localhost") };
        let taken = bind(&narrow).expect_err("the only port is taken");
        assert_eq!(taken, OpenError::AllPortsTaken { first: port, last: port });
        let named = format!("localhost:{port}");
        let taken = bind(&options(&named)).expect_err("the port is taken");
        let address = SocketAddr::new(LOOPBACK, port);
        assert_eq!(taken, OpenError::PortTaken { port, address });
        assert_eq!(taken.to_string(), format!("port {port} is taken: {address} cannot be bound"));
    }

    #[test]
    fn a_preferred_port_comes_first_and_the_range_where_it_is_taken() {
        let other = bind(&options("localhost")).expect("a port is free");
        let port = port_of(&other.hostname);
        drop(other);
        let preferred = || ListenOptions {
            preferred_port: Some(port),
            ports: 14_301..=14_400,
            ..options("localhost")
        };
        let first = bind(&preferred()).expect("it is free");
        assert_eq!(port_of(&first.hostname), port);
        let second = bind(&preferred()).expect("others are free");
        assert!((14_301..=14_400).contains(&port_of(&second.hostname)), "{}", second.hostname);
    }

    #[test]
    fn a_node_that_is_started_again_has_its_name_again_if_its_port_is_free() {
        let first = bind(&options("localhost")).expect("a port is free");
        let name = first.hostname.clone();
        let beside = bind(&options("localhost")).expect("another port is free");
        assert_ne!(beside.hostname, name, "its port is taken");
        drop(first);
        assert_eq!(bind(&options("localhost")).expect("its port is free").hostname, name);
    }

    #[test]
    fn a_port_that_is_only_a_name_need_not_be_free() {
        let one = bind(&options("localhost")).expect("a port is free");
        assert_eq!(one.hostname, one.endpoint);
        let same = ListenOptions { port_is_a_name: true, ..options(&one.hostname) };
        let other = bind(&same).expect("another port is free");
        assert_eq!(other.hostname, one.hostname);
        assert_ne!(port_of(&other.endpoint), port_of(&one.endpoint));
    }

    #[test]
    fn a_port_that_only_is_held_belongs_to_one_process_too() {
        let held = bind(&ListenOptions { serves: false, ..options("localhost") }).expect("free");
        let narrow = port_of(&held.hostname)..=port_of(&held.hostname);
        for serves in [false, true] {
            let again = ListenOptions { serves, ports: narrow.clone(), ..options("localhost") };
            assert!(bind(&again).is_err(), "serves: {serves}");
        }
    }

    #[test]
    fn an_unspecified_host_is_known_by_the_address_towards_the_master() {
        for host in ["", "0.0.0.0", "[::]"] {
            let bound = bind(&options(host)).expect("a port is free");
            assert_eq!(bound.hostname, format!("127.0.0.1:{}", port_of(&bound.hostname)));
        }
    }

    #[test]
    fn a_name_that_is_loopback_only_here_is_listened_for_on_all_addresses() {
        const AWAY: &str = "10.0.0.5";
        for (host, resolved, towards_master, expected) in [
            ("node", &["127.0.1.1"][..], AWAY, &["0.0.0.0"][..]),
            ("node", &["127.0.1.1", "::1"], AWAY, &["0.0.0.0"]),
            ("node", &["::1"], "2001:db8::5", &["::"]),
            ("node", &["127.0.1.1"], "127.0.0.1", &["127.0.1.1"]),
            ("node", &["127.0.1.1"], "::1", &["127.0.1.1"]),
            ("node", &["127.0.1.1"], "::ffff:127.0.0.1", &["127.0.1.1"]),
            ("node", &["10.0.0.5"], AWAY, &["10.0.0.5"]),
            ("node", &["127.0.1.1", "10.0.0.5"], AWAY, &["10.0.0.5"]),
            ("localhost", &["127.0.0.1", "::1"], AWAY, &[AWAY]),
            ("LocalHost", &["127.0.0.1"], AWAY, &[AWAY]),
            ("localhost.localdomain", &["127.0.0.1"], "2001:db8::5", &["2001:db8::5"]),
            ("127.0.0.1", &["127.0.0.1"], AWAY, &[AWAY]),
            ("::1", &["::1"], AWAY, &[AWAY]),
            ("localhost", &["127.0.0.1", "::1"], "127.0.0.1", &["127.0.0.1", "::1"]),
            ("127.0.0.2", &["127.0.0.2"], "::1", &["127.0.0.2"]),
            ("10.0.0.6", &["10.0.0.6"], AWAY, &["10.0.0.6"]),
        ] {
            let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
            let all = |texts: &[&str]| texts.iter().map(|text| ip(text)).collect::<Vec<_>>();
            let known = known_to_others(host, all(resolved), ip(towards_master));
            assert_eq!(known, all(expected), "{host} as {resolved:?}, master by {towards_master}");
        }
    }

    /// The name and the endpoint's host of a process that calls itself `host`, given the address to listen on. The
    /// master is elsewhere.
    fn away(host: &str, bind_address: Option<&str>) -> (String, String) {
        // Any address that is not this machine's would do, were it not listened on.
        const AWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 5));
        let options = ListenOptions { towards_master: AWAY, bind_address, ..options(host) };
        let addresses = addresses_of(&options, host).expect("a literal address, or localhost");
        name_and_reach(host, &options, &addresses)
    }

    #[test]
    fn a_localhost_whose_master_is_elsewhere_keeps_its_name_and_is_reached_where_it_listens() {
        for (host, bind_address, reached_at) in [
            ("localhost", None, "10.0.0.5"),
            ("127.0.0.1", None, "10.0.0.5"),
            ("::1", None, "10.0.0.5"),
            ("localhost", Some("0.0.0.0"), "10.0.0.5"),
            ("localhost", Some("10.0.0.6"), "10.0.0.6"),
            ("localhost", Some("127.0.0.1"), "localhost"),
            ("10.0.0.7", None, "10.0.0.7"),
            ("10.0.0.7", Some("10.0.0.6"), "10.0.0.7"),
        ] {
            let expected = (host.to_owned(), reached_at.to_owned());
            assert_eq!(away(host, bind_address), expected, "{host}, {bind_address:?}");
        }
        assert_eq!(away("0.0.0.0", None), ("10.0.0.5".to_owned(), "10.0.0.5".to_owned()));
    }

    #[test]
    fn localhost_stays_on_loopback_while_its_master_is_there() {
        for host in ["localhost", "127.0.0.1"] {
            let bound = bind(&options(host)).expect("a port is free");
            let local =
                bound.socket.local_addr().expect("bound").as_socket().expect("an IP address");
            assert!(local.ip().is_loopback(), "{host}: {local}");
            assert_eq!(bound.endpoint, bound.hostname);
        }
    }

    #[test]
    fn a_host_elsewhere_is_listened_for_on_all_addresses() {
        let bound = bind(&options("192.0.2.1")).expect("a port is free");
        let local = bound.socket.local_addr().expect("bound").as_socket().expect("an IP address");
        assert!(local.ip().is_unspecified(), "{local}");
        assert!(bound.hostname.starts_with("192.0.2.1:"), "{}", bound.hostname);
    }

    #[test]
    fn others_are_told_what_was_asked_for() {
        for (advertise, expected) in [
            ("outside.example", "outside.example:{port}"),
            ("outside.example:7", "outside.example:7"),
            ("192.0.2.7", "192.0.2.7:{port}"),
            ("[2001:db8::7]:9", "[2001:db8::7]:9"),
            ("2001:db8::7", "[2001:db8::7]:{port}"),
        ] {
            let told = ListenOptions { advertise: Some(advertise), ..options("localhost") };
            let bound = bind(&told).expect("a port is free");
            let local = bound.socket.local_addr().expect("bound").as_socket().expect("an address");
            assert!(local.ip().is_loopback(), "{local}");
            assert_eq!(bound.hostname, expected.replace("{port}", &local.port().to_string()));
        }
        for (advertise, reason) in [
            ("", "it names no host that others can reach"),
            ("0.0.0.0", "it names no host that others can reach"),
            ("[::]:5", "it names no host that others can reach"),
            (":5", "it names no host that others can reach"),
            ("a:b", "the port must be a number from 1 to 65535"),
        ] {
            let told = ListenOptions { advertise: Some(advertise), ..options("localhost") };
            let error = bind(&told).expect_err("nobody can reach that");
            let text = advertise.to_owned();
            let what = "the advertised address";
            assert_eq!(error, OpenError::Address { what, text, reason });
        }
    }

    #[test]
    fn a_name_that_no_machine_knows_is_not_told_to_others() {
        let unknown = options("no-such-host.invalid");
        let listens = ListenOptions { bind_address: Some("127.0.0.1"), ..unknown.clone() };
        let by_port =
            ListenOptions { local_hostname: "no-such-host.invalid:12345", ..listens.clone() };
        for told in [&unknown, &listens, &by_port] {
            let error = bind(told).expect_err("it does not resolve");
            let OpenError::HostUnknown { host, .. } = error else { panic!("{error}") };
            assert_eq!(host, "no-such-host.invalid");
        }
        for told in [
            ListenOptions { serves: false, ..listens.clone() },
            ListenOptions { advertise: Some("outside.example"), ..listens },
        ] {
            bind(&told).expect("nobody connects to the name");
        }
    }

    #[test]
    fn nothing_else_is_listened_on_than_the_address_that_was_told() {
        let told = ListenOptions { bind_address: Some("192.0.2.1"), ..options("localhost") };
        let error = bind(&told).expect_err("it is no address of this machine");
        let OpenError::Bind { address, reason } = error else { panic!("{error}") };
        assert_eq!(address.ip().to_string(), "192.0.2.1");
        assert_eq!(reason, "no address of this machine can be bound");
    }

    #[test]
    fn the_address_to_listen_on_can_be_told() {
        let told = ListenOptions { bind_address: Some("127.0.0.2"), ..options("localhost") };
        let bound = bind(&told).expect("a port is free");
        let local = bound.socket.local_addr().expect("bound").as_socket().expect("an IP address");
        assert_eq!(local.ip().to_string(), "127.0.0.2");
        assert!(bound.hostname.starts_with("localhost:"), "{}", bound.hostname);
    }
}
