//! Stub servers with prescribed answers, and proxies that lose answers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Time between two bytes of a server that drips.
const DRIP: Duration = Duration::from_millis(20);

/// A request to a stub.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The `Authorization` header; empty if there is none.
    pub authorization: String,
    /// The `Content-Type` header; empty if there is none.
    pub content_type: String,
    /// The body, as long as the `Content-Length` header says.
    pub body: Vec<u8>,
}

/// An answer: its status and its body.
pub type HttpAnswer = (u16, Vec<u8>);

/// Listens on a free port of loopback, and returns the port. Calls `act` with each connection, on a thread of its own.
///
/// # Panics
/// If no port is free.
pub fn listen(act: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    let act = Arc::new(act);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let act = Arc::clone(&act);
            thread::spawn(move || act(stream));
        }
    });
    port
}

/// Answers requests until the client disconnects.
///
/// # Errors
/// The connection always ends with an error, at the latest when the client disconnects.
pub fn serve_http(
    stream: impl Read + Write,
    answer: impl Fn(&HttpRequest) -> HttpAnswer,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let request = read_request(&mut stream)?;
        let (status, body) = answer(&request);
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
        let whole = [head.as_bytes(), &body].concat();
        stream.get_mut().write_all(&whole)?;
        stream.get_mut().flush()?;
    }
}

fn read_request(stream: &mut impl BufRead) -> io::Result<HttpRequest> {
    let mut request = HttpRequest::default();
    let mut first = String::new();
    if stream.read_line(&mut first)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut words = first.split(' ').map(str::to_owned);
    request.method = words.next().unwrap_or_default();
    request.path = words.next().unwrap_or_default();
    let mut len = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        match line.trim().split_once(": ") {
            None => break,
            Some((name, value)) => match name.to_ascii_lowercase().as_str() {
                "content-length" => len = value.parse().unwrap_or(0),
                "authorization" => value.clone_into(&mut request.authorization),
                "content-type" => value.clone_into(&mut request.content_type),
                _ => {}
            },
        }
    }
    request.body = vec![0; len];
    stream.read_exact(&mut request.body)?;
    Ok(request)
}

/// A server that answers each request with these bytes. Returns its port.
#[must_use]
pub fn says(bytes: &[u8]) -> u16 {
    let bytes = bytes.to_vec();
    listen(move |mut stream| {
        let mut asked = [0; 4096];
        while stream.read(&mut asked).is_ok_and(|len| len > 0) {
            let _ = stream.write_all(&bytes);
        }
    })
}

/// A server that sends these bytes slowly, one by one, and then repeats the last one endlessly. Returns its port.
#[must_use]
pub fn drips(bytes: &[u8]) -> u16 {
    let bytes = bytes.to_vec();
    listen(move |mut stream| {
        let mut asked = [0; 4096];
        let _ = stream.read(&mut asked);
        let last = bytes.last().copied().unwrap_or(b'x');
        for byte in bytes.iter().copied().chain(std::iter::repeat(last)) {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            thread::sleep(DRIP);
        }
    })
}

/// A server that sends these bytes, and then endless others as fast as the client reads. Returns its port.
#[must_use]
pub fn floods(start: &[u8]) -> u16 {
    let start = start.to_vec();
    listen(move |mut stream| {
        let mut asked = [0; 4096];
        let _ = stream.read(&mut asked);
        let _ = stream.write_all(&start);
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
    })
}

/// A proxy to a server that can lose an answer: the request reaches the server, but the connection breaks before the
/// answer. It records what clients sent.
#[derive(Debug)]
pub struct LossyWay {
    /// The port of the proxy.
    pub port: u16,
    server_port: u16,
    sent: Arc<Mutex<Vec<u8>>>,
    /// How many answers pass before one is lost. Each read from the server counts as one answer.
    lose_in: Arc<AtomicUsize>,
    has_lost: Arc<AtomicBool>,
}

/// The value of `lose_in` with which no answer is lost.
const NEVER: usize = usize::MAX;

impl LossyWay {
    /// A proxy to the server on this port of loopback.
    #[must_use]
    pub fn to(server_port: u16) -> Self {
        let lose_in = Arc::new(AtomicUsize::new(NEVER));
        let has_lost = Arc::new(AtomicBool::new(false));
        let sent = Arc::<Mutex<Vec<u8>>>::default();
        let watch = (Arc::clone(&lose_in), Arc::clone(&has_lost), Arc::clone(&sent));
        let port = listen(move |client| {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)) else { return };
            pass(&client, &server, &watch.0, &watch.1, &watch.2);
        });
        Self { port, server_port, sent, lose_in, has_lost }
    }

    /// Forgets what clients have sent so far.
    ///
    /// # Panics
    /// If a thread panicked while it held the record.
    pub fn forget(&self) {
        self.sent.lock().expect("no panic").clear();
    }

    /// What clients have sent since [`LossyWay::forget`]. A test can send it again later, as a slow network would.
    ///
    /// # Panics
    /// If a thread panicked while it held the record.
    #[must_use]
    pub fn sent(&self) -> Vec<u8> {
        self.sent.lock().expect("no panic").clone()
    }

    /// Sends bytes to the server, and returns the start of its answer.
    ///
    /// # Panics
    /// If the server does not answer.
    #[must_use]
    pub fn send_late(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.server_port)).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a limit");
        stream.write_all(bytes).expect("it reads");
        let mut answer = vec![0; 65_536];
        let len = stream.read(&mut answer).expect("it answers");
        String::from_utf8_lossy(&answer[..len]).into_owned()
    }

    /// Loses one answer, after `answers` others.
    pub fn lose_after(&self, answers: usize) {
        self.has_lost.store(false, Ordering::SeqCst);
        self.lose_in.store(answers, Ordering::SeqCst);
    }

    /// Whether the answer was lost.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::SeqCst)
    }
}

fn pass(
    client: &TcpStream,
    server: &TcpStream,
    lose_in: &AtomicUsize,
    has_lost: &AtomicBool,
    sent: &Mutex<Vec<u8>>,
) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (client, server);
            let mut buffer = vec![0; 65_536];
            while let Ok(len) = from.read(&mut buffer)
                && len > 0
            {
                sent.lock().expect("no panic").extend(&buffer[..len]);
                if to.write_all(&buffer[..len]).is_err() {
                    break;
                }
            }
            let _ = server.shutdown(Shutdown::Both);
        });
        let mut buffer = vec![0; 1 << 20];
        let mut from = server;
        while let Ok(len) = from.read(&mut buffer) {
            let count = |left: usize| match left {
                NEVER => None,
                0 => Some(NEVER),
                more => Some(more - 1),
            };
            let was = lose_in.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count);
            if was == Ok(0) {
                has_lost.store(true, Ordering::SeqCst);
                break;
            }
            let mut to = client;
            if len == 0 || to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    });
}
