use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use mooncake_meta::{Config, Effect, Member, Meta, RecordedMembers};
use mooncake_seals::Sealer;
use mooncake_testing::admit;
use mooncake_types::{ClientId, Epoch, Reply, Request, SegmentId, Tick, Version};
use mooncake_wire::{HEADER_LEN, Header, Welcome};

pub(crate) const CLUSTER: &str = "test cluster";
pub(crate) const TOKEN: &str = "test token";

/// A master on its own port, until it is stopped or dropped.
pub(crate) struct Master {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    meta: Mutex<Meta>,
    /// Seals what the replies allow, since the pool has a secret.
    sealer: Mutex<Sealer>,
    started: Instant,
    listener: TcpListener,
    connections: Mutex<Vec<TcpStream>>,
    stopping: AtomicBool,
    /// Whether the master reads requests and answers none.
    mute: AtomicBool,
    /// How many requests for routes have arrived and were answered.
    lookups: AtomicU64,
    /// The members, and whether each is stale.
    record: Mutex<BTreeMap<SegmentId, Option<Version>>>,
}

pub(crate) fn config() -> Config {
    Config { lease_ttl_ms: 200, ..Config::default() }
}

impl Master {
    pub(crate) fn start() -> Self {
        Self::start_at("127.0.0.1:0", Meta::new(config(), Epoch(7)))
    }

    pub(crate) fn start_at(address: &str, meta: Meta) -> Self {
        Self::start_with(address, (meta, Sealer::default()), BTreeMap::new())
    }

    fn start_with(
        address: &str,
        (meta, sealer): (Meta, Sealer),
        record: BTreeMap<SegmentId, Option<Version>>,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            meta: Mutex::new(meta),
            sealer: Mutex::new(sealer),
            started: Instant::now(),
            listener,
            connections: Mutex::default(),
            stopping: AtomicBool::new(false),
            mute: AtomicBool::new(false),
            lookups: AtomicU64::new(0),
            record: Mutex::new(record),
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || of_thread.accept());
        Self { shared, address, thread: Some(thread) }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Seals what a reply to this request would allow.
    #[allow(dead_code, reason = "another crate's tests have this file, too")]
    pub(crate) fn seal(&self, request: &Request<'_>, reply: &mut Reply) {
        let mut sealer = self.shared.sealer.lock().expect("no holder panicked");
        sealer.handle(request, reply, |_| true);
    }

    pub(crate) fn set_mute(&self, mute: bool) {
        self.shared.mute.store(mute, Ordering::SeqCst);
    }

    /// How many requests for routes the master has answered.
    #[allow(dead_code, reason = "the tests of dummies use it")]
    pub(crate) fn lookups(&self) -> u64 {
        self.shared.lookups.load(Ordering::SeqCst)
    }

    /// Runs `look` on the state machine, past the socket.
    pub(crate) fn with_meta<T>(&self, look: impl FnOnce(&mut Meta) -> T) -> T {
        look(&mut self.shared.meta.lock().expect("no holder panicked"))
    }

    /// Closes the port and every connection.
    pub(crate) fn stop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, and refuses new connections.
        let _ = socket2::SockRef::from(&self.shared.listener).shutdown(Shutdown::Both);
        for connection in self.shared.connections.lock().expect("no holder panicked").drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the accepting thread does not panic");
        }
    }

    /// Stops this master, and starts another on the same port. The new one knows only the membership record, after
    /// `change`.
    pub(crate) fn fail(
        mut self,
        change: impl FnOnce(&mut BTreeMap<SegmentId, Option<Version>>),
    ) -> Self {
        self.stop();
        let epoch = Epoch(self.with_meta(|meta| meta.epoch()).0 + 1);
        let mut members = self.shared.record.lock().expect("no holder panicked").clone();
        change(&mut members);
        let member = |(&segment, &behind): (&SegmentId, &Option<Version>)| Member {
            segment,
            behind,
            is_disk: false,
        };
        let of_record = members.iter().map(member);
        let record = RecordedMembers {
            fresh: false,
            members: of_record.collect(),
            ..RecordedMembers::default()
        };
        let address = self.address();
        drop(self);
        let meta = Meta::recover(config(), epoch, Tick::ZERO, &record);
        Self::start_with(&address, (meta, Sealer::default()), members)
    }

    /// A master with an empty membership record.
    pub(crate) fn start_recorded() -> Self {
        let record = RecordedMembers { fresh: true, ..RecordedMembers::default() };
        Self::start_at("127.0.0.1:0", Meta::recover(config(), Epoch(7), Tick::ZERO, &record))
    }

    /// Stops this master, and starts another on the same port with the state that `meta` returns, and the same keys of
    /// seals.
    pub(crate) fn restart(mut self, meta: impl FnOnce(&mut Meta) -> Meta) -> Self {
        self.stop();
        let meta = self.with_meta(meta);
        let sealer = std::mem::take(&mut *self.shared.sealer.lock().expect("no holder panicked"));
        let address = self.address();
        drop(self);
        Self::start_with(&address, (meta, sealer), BTreeMap::new())
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.stop();
        // Connection threads hold the listener until they end. The port must be free before the next master binds it.
        while Arc::strong_count(&self.shared) > 1 {
            std::thread::yield_now();
        }
    }
}

impl Shared {
    fn accept(self: Arc<Self>) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            let handle = stream.try_clone().expect("a socket can be cloned");
            self.connections.lock().expect("no holder panicked").push(handle);
            let shared = Arc::clone(&self);
            std::thread::spawn(move || shared.serve(stream));
        }
    }

    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).expect("a socket has this option");
        // An error of any kind ends the connection.
        let _ = self.converse(&mut stream);
        let _ = stream.shutdown(Shutdown::Both);
    }

    fn converse(&self, stream: &mut TcpStream) -> io::Result<()> {
        let (epoch, shared_directory) = {
            let meta = self.meta.lock().expect("no holder panicked");
            (meta.epoch(), meta.shared_directory().cloned())
        };
        let software_version = "test".to_owned();
        let welcome = Welcome { software_version, shared_directory, ..Welcome::new(epoch) };
        let hello = admit(stream, (CLUSTER, TOKEN), &welcome)?;
        let mut out = Vec::new();
        loop {
            let (header, body) = read_frame(stream)?;
            if self.mute.load(Ordering::SeqCst) {
                continue;
            }
            out.clear();
            self.answer(hello.client, header.request_id, body, &mut out);
            stream.write_all(&out)?;
        }
    }

    fn answer(&self, from: ClientId, request_id: u64, body: Vec<u8>, out: &mut Vec<u8>) {
        let message =
            mooncake_wire::decode_request(body.into()).expect("a client's request decodes");
        let request = message.request().expect("a client's keys decode");
        if matches!(request, Request::GetReplicaList { .. }) {
            self.lookups.fetch_add(1, Ordering::SeqCst);
        }
        let mut meta = self.meta.lock().expect("no holder panicked");
        let now = Tick(self.started.elapsed().as_millis() as u64);
        while meta.poll_timeout().is_some_and(|due| due <= now) {
            meta.handle_timeout(now);
        }
        if let Request::MountSegment(mount) = &request {
            for effect in meta.effects_before(mount) {
                self.write(&mut meta, now, effect);
            }
        }
        let mut reply = meta.handle(now, from, &request);
        let is_mounted = |id| meta.endpoint(id).is_some();
        let mut sealer = self.sealer.lock().expect("no holder panicked");
        sealer.handle(&request, &mut reply, is_mounted);
        for effect in meta.take_effects() {
            self.write(&mut meta, now, effect);
        }
        mooncake_wire::encode_reply(out, request_id, &reply);
    }

    /// Writes a change of membership to the record, and confirms it to the state machine.
    fn write(&self, meta: &mut Meta, now: Tick, effect: Effect) {
        let mut record = self.record.lock().expect("no holder panicked");
        match effect {
            Effect::Join(segment) | Effect::JoinDisk(segment) | Effect::CaughtUp(segment) => {
                record.insert(segment, None);
            }
            Effect::MarkBehind(segment, since) => _ = record.insert(segment, Some(since)),
            Effect::Strike(segment) => _ = record.remove(&segment),
            // No test with this record has a leader that succeeds while keys are overruled.
            Effect::Overrule(..) => {}
        };
        meta.handle_recorded(now, effect);
    }
}

/// Reads the next frame from a connection.
pub(crate) fn read_frame(stream: &mut TcpStream) -> io::Result<(Header, Vec<u8>)> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header)?;
    let header = Header::decode(&header).expect("a client's header decodes");
    let mut body = vec![0; header.body_len as usize];
    stream.read_exact(&mut body)?;
    Ok((header, body))
}
