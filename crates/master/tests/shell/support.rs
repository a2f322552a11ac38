//! A master in this process, and minimal clients for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_connection::{Answered, Fault, on_answer};
use mooncake_master::{Config, Master};
use mooncake_types::{
    ClientId, Epoch, ErrorCode, MountOutcome, MountSegment, PutEnd, PutItem, PutStart,
    ReplicateConfig, Reply, Request, SegmentId,
};
use mooncake_wire::{HEADER_LEN, Header, Hello, Kind, PROTOCOL_VERSION, Role};
use tokio::sync::oneshot;

pub(crate) const CLUSTER: &str = "test_cluster";
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A master on its own thread, until this is dropped.
pub(crate) struct Running {
    pub(crate) rpc: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The metadata server, if there is one.
    pub(crate) metadata: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn config() -> Config {
    Config {
        rpc_address: "127.0.0.1".to_owned(),
        rpc_port: 0,
        metrics_host: "127.0.0.1".to_owned(),
        metrics_port: 0,
        cluster_id: CLUSTER.to_owned(),
        report_metrics: false,
        ..Config::default()
    }
}

pub(crate) fn start() -> Running {
    start_with(config())
}

pub(crate) fn start_with(config: Config) -> Running {
    let master = Master::bind(config).expect("free ports");
    let (rpc, admin) = (
        master.rpc_addr().expect("bound").expect("a port"),
        master.admin_addr().expect("bound").expect("a port"),
    );
    let metadata = master.metadata_addr().expect("bound");
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let shutdown = async {
            let _ = stopped.await;
        };
        master.serve(shutdown).expect("the master serves");
    });
    Running { rpc, admin, metadata, stop: Some(stop), thread: Some(thread) }
}

impl Running {
    /// Stops the master and joins its thread.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the master does not panic");
        }
    }

    pub(crate) fn connect(&self, client: u128) -> Rpc {
        Rpc::connect(self.rpc, &hello(client)).expect("the master welcomes")
    }

    /// Asserts that the master serves other clients.
    pub(crate) fn assert_serves(&self) {
        let reply = self.connect(99).ask(&Request::Ping {
            segments: vec![],
            unreachable: vec![],
            reads: None,
        });
        assert!(matches!(reply, Reply::Pong(_)), "{reply:?}");
        assert_eq!(get(self.admin, "/health").status, 200);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the master panicked, the test has failed while it waited for the master.
            let _ = thread.join();
        }
    }
}

pub(crate) fn hello(client: u128) -> Hello {
    Hello { cluster_id: CLUSTER.to_owned(), ..Hello::new(Role::Client, ClientId(client)) }
}

pub(crate) fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the port is open");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
    stream
}

/// A connection after the handshake.
pub(crate) struct Rpc {
    pub(crate) stream: TcpStream,
    pub(crate) epoch: Epoch,
    next: u64,
}

impl Rpc {
    /// Connects and shakes hands. A refusal is an error.
    pub(crate) fn connect(address: SocketAddr, hello: &Hello) -> Result<Rpc, (ErrorCode, String)> {
        let mut stream = dial(address);
        let mut out = Vec::new();
        mooncake_wire::encode_hello(&mut out, 7, hello);
        stream.write_all(&out).expect("the master reads");
        let (mut header, mut body) = read_frame(&mut stream).expect("the master answers a HELLO");
        if header.kind == Kind::Challenge {
            assert_eq!(header.request_id, 7);
            let answer = on_answer(hello, (header.kind, body));
            let asked = match answer {
                Ok(Answered::Asked(asked)) => asked,
                Err(Fault::Refused(refusal)) => return Err((refusal.code, refusal.message)),
                other => panic!("{other:?}"),
            };
            out.clear();
            mooncake_wire::encode_proof(&mut out, 8, &asked.proof);
            stream.write_all(&out).expect("the master reads");
            (header, body) = read_frame(&mut stream).expect("the master answers a PROOF");
        }
        match header.kind {
            Kind::Welcome => {
                let welcome = mooncake_wire::decode_welcome(&body).expect("a welcome");
                assert_eq!(welcome.protocol_version, PROTOCOL_VERSION);
                Ok(Rpc { stream, epoch: welcome.epoch, next: 1 })
            }
            Kind::Refusal => Err(refusal(&body)),
            kind => panic!("a HELLO was answered by a {kind:?}"),
        }
    }

    pub(crate) fn send(&mut self, request: &Request<'_>) -> u64 {
        let id = self.next;
        self.next += 1;
        let mut out = Vec::new();
        mooncake_wire::encode_request(&mut out, id, request);
        self.stream.write_all(&out).expect("the master reads");
        id
    }

    pub(crate) fn receive(&mut self) -> (u64, Reply) {
        let (header, body) = read_frame(&mut self.stream).expect("the master answers");
        assert_eq!(header.kind, Kind::Reply, "{:?}", refusal(&body));
        (header.request_id, mooncake_wire::decode_reply(body).expect("a reply"))
    }

    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Reply {
        let id = self.send(request);
        let (answered, reply) = self.receive();
        assert_eq!(answered, id);
        reply
    }

    pub(crate) fn mount(&mut self, segment: u128, name: &str, len: u64) {
        let mount = MountSegment {
            id: SegmentId(segment),
            name,
            endpoint: "127.0.0.1:1",
            len,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium: mooncake_types::Medium::Memory,
            domains: &[],
            seal_key: None,
        };
        let ready = Reply::Mounted(MountOutcome::Ready);
        assert_eq!(self.ask(&Request::MountSegment(mount)), ready);
    }

    /// Puts objects of `len` bytes at the master only: no bytes are written.
    pub(crate) fn put(&mut self, keys: &[&str], len: u64) {
        let puts = keys.iter().map(|key| PutItem::new(key, len)).collect();
        let config = ReplicateConfig::default();
        let reply = self.ask(&Request::PutStart(PutStart {
            puts,
            config,
            mode: mooncake_types::PutMode::Insert,
        }));
        let Reply::Granted { results, .. } = reply else { panic!("not granted: {reply:?}") };
        let grants = results.into_iter().map(|result| result.expect("there is room"));
        let puts = keys
            .iter()
            .zip(grants)
            .map(|(key, grant)| PutEnd {
                key,
                version: grant.version,
                failed_replicas: 0,
                held_replicas: 0,
            })
            .collect();
        let reply = self.ask(&Request::PutEnd { puts });
        assert_eq!(reply, Reply::Statuses(vec![Ok(()); keys.len()]));
    }
}

/// Reads one frame, or returns `None` if the connection has ended.
pub(crate) fn read_frame(stream: &mut TcpStream) -> Option<(Header, Bytes)> {
    let mut head = [0; HEADER_LEN];
    stream.read_exact(&mut head).ok()?;
    let header = Header::decode(&head).expect("the master sends frames");
    let mut body = vec![0; header.body_len as usize];
    stream.read_exact(&mut body).ok()?;
    Some((header, body.into()))
}

pub(crate) fn refusal(body: &[u8]) -> (ErrorCode, String) {
    match mooncake_wire::decode_refusal(body) {
        Ok(refusal) => (refusal.code, refusal.message),
        Err(error) => (ErrorCode::Ok, format!("not a refusal: {error}")),
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    http(address, "GET", path)
}

pub(crate) fn http(address: SocketAddr, method: &str, path: &str) -> Answer {
    http_with(address, method, path, b"")
}

pub(crate) fn http_with(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Answer {
    http_with_header(address, method, path, "", body)
}

/// `header` ends in a line end, or is empty.
pub(crate) fn http_with_header(
    address: SocketAddr,
    method: &str,
    path: &str,
    header: &str,
    body: &[u8],
) -> Answer {
    let mut stream = dial(address);
    let len = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len}\r\n{header}\r\n"
    );
    stream.write_all(head.as_bytes()).expect("the server reads");
    // The server may refuse a body that it has not read.
    let _ = stream.write_all(body);
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the server answers and closes");
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body) } else { body.to_owned() };
    Answer { status, head: head.to_ascii_lowercase(), body }
}

fn unchunk(mut rest: &str) -> String {
    let mut out = String::new();
    loop {
        let (len, after) = rest.split_once("\r\n").expect("the length of a chunk");
        let len = usize::from_str_radix(len, 16).expect("a length in hex");
        if len == 0 {
            return out;
        }
        out.push_str(&after[..len]);
        rest = &after[len + 2..];
    }
}

/// Polls until `done` holds.
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what} did not happen within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A random number generator. It prints its seed, which `MOONCAKE_TEST_RANDOM` sets.
pub(crate) fn random() -> impl FnMut() -> u64 {
    let seed: u64 = match std::env::var("MOONCAKE_TEST_RANDOM") {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => 0x9e37_79b9_7f4a_7c15,
    };
    println!("MOONCAKE_TEST_RANDOM={seed}");
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
