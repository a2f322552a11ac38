use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;

/// What lies between the two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Loopback,
    /// A pair of virtual network cards between two network namespaces.
    Veth,
}

impl Link {
    /// Connections, each as `(client's end, server's end)`.
    pub(crate) fn connect(self, count: usize) -> io::Result<Vec<(TcpStream, TcpStream)>> {
        match self {
            Link::Loopback => pairs(&TcpListener::bind("127.0.0.1:0")?, count),
            Link::Veth => in_namespace(move || {
                // SAFETY: asks for a number.
                let thread = unsafe { libc::gettid() };
                let here = format!("/proc/{}/task/{thread}/ns/net", std::process::id());
                let listener = in_namespace(move || bind_behind_veth(&here))?;
                ip("addr add 10.77.0.1/24 dev near")?;
                ip("link set near up")?;
                pairs(&listener, count)
            }),
        }
    }
}

fn pairs(listener: &TcpListener, count: usize) -> io::Result<Vec<(TcpStream, TcpStream)>> {
    let address = listener.local_addr()?;
    let pair = |_| {
        let client = TcpStream::connect(address)?;
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        Ok((client, server))
    };
    (0..count).map(pair).collect()
}

/// Makes a pair of cards, gives one of them to the namespace `near`, and listens behind the other.
fn bind_behind_veth(near: &str) -> io::Result<TcpListener> {
    ip("link add far type veth peer name near")?;
    ip(&format!("link set near netns {near}"))?;
    ip("addr add 10.77.0.2/24 dev far")?;
    ip("link set far up")?;
    TcpListener::bind("10.77.0.2:0")
}

/// A socket whose datagrams of up to 60,000 bytes go to a card that throws them away: what sending costs where
/// a card fetches the bytes itself.
pub(crate) fn to_nowhere() -> io::Result<UdpSocket> {
    in_namespace(|| {
        ip("link add drain type ifb")?;
        ip("link set drain mtu 61000")?;
        ip("addr add 10.77.1.1/24 dev drain")?;
        ip("link set drain up")?;
        let socket = UdpSocket::bind("10.77.1.1:0")?;
        socket.connect("10.77.1.2:9")?;
        Ok(socket)
    })
}

/// Runs `work` on a thread in a network namespace of its own, which lives as long as its sockets.
fn in_namespace<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let enter = move || {
        // SAFETY: changes what this thread sees of the network; no memory is involved.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return Err(io::Error::last_os_error());
        }
        work()
    };
    thread::spawn(enter).join().expect("no panic")
}

fn ip(arguments: &str) -> io::Result<()> {
    let output = Command::new("ip").args(arguments.split(' ')).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr))))
}
