//! Reads and writes over loopback, compared with a plain loop of `read` and `write` that moves the same bytes. `cargo
//! bench -p mooncake-transfer --bench loopback`. With `-- --halves`, it also moves one large object as two halves at
//! once, each on its own connection: the most that splitting objects could gain. With `-- --verified` it compares reads over
//! shared memory with and without a check of all bytes, and does nothing else.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, Region, SlotRow, SlotTable, digest};
use mooncake_transfer::{
    DataServer, Interrupt, Paths, ReadOp, ReadTicket, SegmentHost, ServerConfig, SharedSegment,
    TcpConfig, TcpTransport, Transport, Way, WriteOp, WriteTicket,
};
use mooncake_types::{
    Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite, Seal, SegmentId, Version,
};

const SEGMENT: SegmentId = SegmentId(1);
const SEGMENT_LEN: u64 = 128 << 20;
const EPOCH: Epoch = Epoch(1);
const CASES: [(usize, usize); 7] = [
    (1, 4 << 10),
    (1, 64 << 10),
    (1, 1 << 20),
    (1, 16 << 20),
    (64, 1 << 20),
    (128, 64 << 10),
    (1000, 64),
];

/// A host that keeps the last entry at each offset and checks nothing else, so that only the transport is measured.
struct FlatHost {
    region: Arc<Region>,
    entries: Mutex<HashMap<u64, Entry>>,
    /// By which others read its memory without a question; none if they ask.
    slots: Option<Arc<SlotTable>>,
}

impl FlatHost {
    fn new(slots: Option<Arc<SlotTable>>) -> Self {
        let region = Arc::new(Region::anonymous(SEGMENT_LEN).expect("memory"));
        Self { region, entries: Mutex::default(), slots }
    }
}

type Entry = (Version, Arc<[u32]>);

impl SegmentHost for FlatHost {
    fn owns(&self, _: SegmentId) -> bool {
        true
    }

    fn epoch(&self) -> Epoch {
        EPOCH
    }

    fn begin_write(
        &self,
        _: Epoch,
        range: &RangeWrite<'_>,
        _: Arc<dyn Interrupt>,
    ) -> Result<WriteTicket, ErrorCode> {
        let memory =
            self.region.hold(range.offset, range.len).map_err(|_| ErrorCode::InvalidParams)?;
        let entry = (range.version, Arc::default());
        self.entries.lock().expect("no panic").insert(range.offset, entry);
        Ok(WriteTicket { memory, id: range.offset, segment: range.segment })
    }

    fn complete_write(&self, ticket: WriteTicket, checksums: Vec<u32>) -> Result<(), ErrorCode> {
        let mut entries = self.entries.lock().expect("no panic");
        let entry = entries.get_mut(&ticket.id).ok_or(ErrorCode::InternalError)?;
        entry.1 = checksums.into();
        if let Some(slots) = &self.slots {
            let (offset, len, digest) = (ticket.id, ticket.memory.len() as u64, digest(&entry.1));
            let (version, object_offset, digest) = (entry.0, 0, Some(digest));
            slots.publish(&SlotRow { offset, len, version, object_offset, digest });
        }
        Ok(())
    }

    fn share(&self, _: SegmentId) -> Option<SharedSegment> {
        let slots = self.slots.clone()?;
        Some(SharedSegment { region: Arc::clone(&self.region), slots })
    }

    fn abandon_write(&self, _: WriteTicket) {}

    fn begin_read(&self, range: &RangeRead) -> Result<ReadTicket, ErrorCode> {
        let entries = self.entries.lock().expect("no panic");
        let (version, checksums) = entries.get(&range.offset).ok_or(ErrorCode::ObjectNotFound)?;
        let memory =
            self.region.hold(range.offset, range.len).map_err(|_| ErrorCode::InvalidParams)?;
        let checksums = Some(Arc::clone(checksums));
        let (segment, offset, version) = (range.segment, range.offset, *version);
        let (grant, from) = (version, range.from);
        Ok(ReadTicket { memory, checksums, segment, offset, from, version, grant })
    }

    fn drop_range(&self, _range: &RangeDrop) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn still_holds(&self, ticket: &ReadTicket) -> bool {
        let entries = self.entries.lock().expect("no panic");
        entries.get(&ticket.offset).is_some_and(|(version, _)| *version == ticket.version)
    }
}

/// The buffers and the operations of one case.
struct Load {
    objects: usize,
    len: usize,
    memory: Buffer,
    endpoint: Arc<str>,
    keys: Vec<String>,
}

impl Load {
    fn new(objects: usize, len: usize, endpoint: &Arc<str>) -> Load {
        let bytes = (0..objects * len).map(|i| (i * 31 + i / 251) as u8).collect();
        let keys = (0..objects).map(|i| format!("{i:0>120}")).collect();
        let memory = Buffer::from_vec(bytes);
        Load { objects, len, memory, endpoint: Arc::clone(endpoint), keys }
    }

    fn bytes(&self) -> usize {
        self.objects * self.len
    }

    fn reads(&self, version: Version) -> Vec<ReadOp<'_>> {
        let op = |i: usize| {
            let (offset, len) = ((i * self.len) as u64, self.len as u64);
            let range = RangeRead {
                segment: SEGMENT,
                offset,
                version,
                object_offset: 0,
                from: 0,
                len,
                seal: Seal::NONE,
            };
            let dst = self.memory.raw().sub(i * self.len, self.len).into();
            ReadOp { endpoint: Arc::clone(&self.endpoint), range, dst }
        };
        (0..self.objects).map(op).collect()
    }

    fn writes(&self, version: Version) -> Vec<WriteOp<'_>> {
        let op = |i: usize| {
            let (offset, len) = ((i * self.len) as u64, self.len as u64);
            let key = self.keys[i].as_str();
            let (object_len, object_offset) = (len, 0);
            let range = RangeWrite {
                segment: SEGMENT,
                offset,
                entry_len: len,
                from: 0,
                len,
                key,
                version,
                grant: version,
                object_len,
                object_offset,
                attributes: &[],
                seal: Seal::NONE,
            };
            let src = self.memory.raw().sub(i * self.len, self.len).into();
            WriteOp { endpoint: Arc::clone(&self.endpoint), range, src }
        };
        (0..self.objects).map(op).collect()
    }
}

/// The median time of `work`, which is repeated for at least 700 ms and 20 times.
fn median(mut work: impl FnMut()) -> Duration {
    let begin = Instant::now();
    let mut times = Vec::new();
    while begin.elapsed() < Duration::from_millis(700) || times.len() < 20 {
        let begin = Instant::now();
        work();
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

/// Answers a read request with `length` bytes, and a write request of `length` bytes with sixteen.
fn serve_raw(mut stream: TcpStream) -> std::io::Result<()> {
    let mut memory = vec![7_u8; 64 << 20];
    loop {
        let mut request = [0; 16];
        stream.read_exact(&mut request)?;
        let [kind, len] = *request.as_chunks::<8>().0 else { unreachable!("16 bytes are twice 8") };
        let len = u64::from_le_bytes(len) as usize;
        if u64::from_le_bytes(kind) == 0 {
            stream.write_all(&memory[..len])?;
        } else {
            stream.read_exact(&mut memory[..len])?;
            stream.write_all(&request)?;
        }
    }
}

fn raw_request(is_write: bool, len: usize) -> [u8; 16] {
    let mut request = [0; 16];
    request[0] = u8::from(is_write);
    request[8..].copy_from_slice(&(len as u64).to_le_bytes());
    request
}

fn raw(stream: &mut TcpStream, memory: &mut [u8], is_write: bool) {
    let request = raw_request(is_write, memory.len());
    stream.write_all(&request).expect("the raw server is there");
    if is_write {
        stream.write_all(memory).expect("the raw server is there");
        stream.read_exact(&mut [0; 16]).expect("the raw server is there");
    } else {
        stream.read_exact(memory).expect("the raw server is there");
    }
}

/// Runs `work` for both halves at once, on two threads. Returns the median time of both together.
fn median_of_halves(work: impl Fn(usize) + Sync) -> Duration {
    let (begin, end, stop) = (Barrier::new(2), Barrier::new(2), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                begin.wait();
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                work(1);
                end.wait();
            }
        });
        let median = median(|| {
            begin.wait();
            work(0);
            end.wait();
        });
        stop.store(true, Ordering::SeqCst);
        begin.wait();
        median
    })
}

/// Moves the same bytes in one piece, and as two halves on their own connections.
fn halves(transport: &TcpTransport, endpoint: &Arc<str>, len: usize, whole: [Duration; 2]) {
    let load = Load::new(2, len / 2, endpoint);
    let version = Version { epoch: EPOCH, counter: 1 };
    let (writes, reads) = (load.writes(version), load.reads(version));
    let write = median_of_halves(|half| {
        let results = transport.write(EPOCH, &writes[half..=half]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    });
    let read = median_of_halves(|half| {
        let results = transport.read(&reads[half..=half]);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    });
    for (what, halves, whole) in [("write", write, whole[0]), ("read", read, whole[1])] {
        let (halves, whole) = (halves.as_secs_f64() * 1e6, whole.as_secs_f64() * 1e6);
        println!("{what:5} 2 halves  : {halves:9.1} us   in one piece {whole:9.1} us");
    }
}

fn report(what: &str, load: &Load, ours: Duration, raw: Duration) {
    let rate = |time: Duration| load.bytes() as f64 / time.as_secs_f64() / 1e9;
    println!(
        "{what:5} {:4} x {:8}: {:9.1} us {:6.2} GB/s   raw {:9.1} us {:6.2} GB/s   ratio {:.2}",
        load.objects,
        load.len,
        ours.as_secs_f64() * 1e6,
        rate(ours),
        raw.as_secs_f64() * 1e6,
        rate(raw),
        ours.as_secs_f64() / raw.as_secs_f64(),
    );
}

/// Reads over shared memory as they come, and with a check of all bytes. Then what a node with a segment file checks
/// when it starts again: the checksums of its memory.
fn verified() {
    let slots = SlotTable::new(SEGMENT_LEN).expect("memory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = Arc::new(FlatHost::new(Some(Arc::new(slots))));
    let server = DataServer::start(listener, host.clone(), ServerConfig::default()).expect("start");
    let endpoint: Arc<str> = server.local_addr().to_string().into();
    let writer = TcpTransport::new(TcpConfig::default());
    let by = |verify_reads| {
        let config = TcpConfig { verify_reads, ..TcpConfig::default() };
        Paths::new(None, config, Way::Shm.into())
    };
    let (plain, checking) = (by(false), by(true));
    for (counter, (objects, len)) in (1..).zip(CASES) {
        let load = Load::new(objects, len, &endpoint);
        let version = Version { epoch: EPOCH, counter };
        let results = writer.write(EPOCH, &load.writes(version));
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        let reads = load.reads(version);
        let [plain, checked] = [&plain, &checking].map(|paths| {
            median(|| {
                let results = paths.read(&reads);
                assert!(results.iter().all(Result::is_ok), "{results:?}");
            })
        });
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        println!(
            "read {objects:4} x {len:8}: {:9.1} us   verified {:9.1} us   ratio {:.2}",
            us(plain),
            us(checked),
            us(checked) / us(plain),
        );
    }
    let memory = host.region.slice(0, SEGMENT_LEN).expect("all of it");
    let took = median(|| drop(std::hint::black_box(memory.chunk_crcs())));
    let rate = SEGMENT_LEN as f64 / took.as_secs_f64() / 1e9;
    println!(
        "checksums of {} MiB: {:.1} ms {rate:.2} GB/s",
        SEGMENT_LEN >> 20,
        took.as_secs_f64() * 1e3
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "--verified") {
        return verified();
    }
    let host = FlatHost::new(None);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server =
        DataServer::start(listener, Arc::new(host), ServerConfig::default()).expect("start");
    let endpoint: Arc<str> = server.local_addr().to_string().into();
    let transport = TcpTransport::new(TcpConfig::default());

    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
    stream.set_nodelay(true).expect("an option");
    let (peer, _) = listener.accept().expect("accept");
    peer.set_nodelay(true).expect("an option");
    std::thread::spawn(move || serve_raw(peer));

    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let splits = std::env::args().any(|argument| argument == "--halves");
    let mut counter = 0;
    for (objects, len) in CASES {
        if only.as_ref().is_some_and(|only| *only != format!("{objects}x{len}")) {
            continue;
        }
        let load = Load::new(objects, len, &endpoint);
        let mut memory = vec![1; load.bytes()];
        let write = || {
            counter += 1;
            let results = transport.write(EPOCH, &load.writes(Version { epoch: EPOCH, counter }));
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        };
        let writing = median(write);
        report("write", &load, writing, median(|| raw(&mut stream, &mut memory, true)));
        let reads = load.reads(Version { epoch: EPOCH, counter });
        let ours = median(|| {
            let results = transport.read(&reads);
            assert!(results.iter().all(Result::is_ok), "{results:?}");
        });
        report("read", &load, ours, median(|| raw(&mut stream, &mut memory, false)));
        if splits && objects == 1 && len >= 1 << 20 {
            halves(&transport, &endpoint, len, [writing, ours]);
        }
    }
}
