//! Entries that are written in parts: the ledger of a host, through each transport.

use std::net::TcpListener;
use std::sync::Arc;

use mooncake_memory::Buffer;
use mooncake_node::Host;
use mooncake_transfer::{
    DataServer, LocalTransport, Paths, ReadOp, SegmentHost, ServerConfig, TcpConfig, TcpTransport,
    TransferError, Transport, Transports, Way, WriteOp,
};
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_types::{Epoch, ErrorCode, RangeRead, RangeWrite, Seal, SegmentId, Version};

use crate::shells::{Shell, for_all_shells};

for_all_shells! {
    parts_are_read_when_all_are_there,
    parts_that_do_not_fit_are_refused,
    a_grant_outranks_the_version_it_is_for,
    a_reader_notices_that_its_entry_was_written_anew,
    a_ticket_is_for_the_memory_of_its_part,
}

const SEGMENT: SegmentId = SegmentId(1);
const OFFSET: u64 = 8192;
const LEN: u64 = 3 * CHUNK_BYTES + 17;

struct Nobody;

impl mooncake_transfer::Interrupt for Nobody {
    fn interrupt(&self) {}
}

/// A host of one segment, with three transports to it.
struct Rig {
    host: Arc<Host>,
    endpoint: Arc<str>,
    _server: DataServer,
}

impl Rig {
    fn start(shell: Shell) -> Self {
        let host = Arc::new(shell.host(SEGMENT, 4 << 20));
        host.see_epoch(Epoch(1));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (cluster_id, auth_token) = ("cluster".to_owned(), String::new());
        let config = ServerConfig {
            cluster_id,
            auth_token: auth_token.into(),
            max_connections: 8,
            ..ServerConfig::default()
        };
        let server = DataServer::start(listener, Arc::clone(&host) as _, config);
        let server = server.expect("it listens");
        Self { endpoint: server.local_addr().to_string().into(), host, _server: server }
    }

    fn ways(&self) -> [Box<dyn Transport>; 3] {
        let config = TcpConfig { cluster_id: "cluster".to_owned(), ..TcpConfig::default() };
        let local = LocalTransport::new(Arc::clone(&self.host) as _);
        let near = Paths::new(None, config.clone(), Transports::from(Way::Shm));
        [Box::new(local), Box::new(TcpTransport::new(config)), Box::new(near)]
    }

    fn write(&self, way: &dyn Transport, range: RangeWrite<'_>) -> Result<(), TransferError> {
        let src = Buffer::from_vec(bytes(range.version, range.from, range.len));
        let op = WriteOp { endpoint: Arc::clone(&self.endpoint), range, src: src.raw().into() };
        way.write(Epoch(1), &[op]).remove(0)
    }

    fn read(&self, way: &dyn Transport, version: Version) -> Result<(), TransferError> {
        for (from, len) in [(0, LEN), (CHUNK_BYTES - 1, 2), (5, LEN - 5)] {
            let range = RangeRead {
                segment: SEGMENT,
                offset: OFFSET,
                version,
                object_offset: 0,
                from,
                len,
                seal: Seal::NONE,
            };
            let dst = Buffer::zeroed(len as usize);
            let op = ReadOp { endpoint: Arc::clone(&self.endpoint), range, dst: dst.raw().into() };
            way.read(&[op]).remove(0)?;
            assert!(dst.as_slice() == bytes(version, from, len), "{len} bytes from {from}");
        }
        Ok(())
    }
}

fn version(counter: u64) -> Version {
    Version { epoch: Epoch(1), counter }
}

/// Bytes generated from the version and the offset.
fn bytes(version: Version, from: u64, len: u64) -> Vec<u8> {
    let byte = |at: u64| (at / 251 + at * 7 + version.counter * 31) as u8;
    (from..from + len).map(byte).collect()
}

fn part(from: u64, len: u64, counter: u64) -> RangeWrite<'static> {
    RangeWrite {
        segment: SEGMENT,
        offset: OFFSET,
        entry_len: LEN,
        from,
        len,
        key: "key",
        version: version(counter),
        grant: version(counter),
        object_len: LEN,
        object_offset: 0,
        attributes: &[],
        seal: Seal::NONE,
    }
}

fn parts_are_read_when_all_are_there(shell: Shell) {
    let rig = Rig::start(shell);
    let cuts = [(0, 10), (10, 2 * CHUNK_BYTES), (2 * CHUNK_BYTES + 10, LEN - 2 * CHUNK_BYTES - 10)];
    let mut counter = 0;
    for way in rig.ways() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            counter += 1;
            for (from, len) in order.map(|index| cuts[index]) {
                assert_eq!(rig.read(&*way, version(counter)), Err(TransferError::Stale));
                assert_eq!(rig.write(&*way, part(from, len, counter)), Ok(()));
            }
            assert_eq!(rig.read(&*way, version(counter)), Ok(()));
        }
    }
}

fn parts_that_do_not_fit_are_refused(shell: Shell) {
    let rig = Rig::start(shell);
    for (way, counter) in rig.ways().iter().zip([10, 20]) {
        let half = LEN / 2;
        let refused = |code| Err(TransferError::Refused(code));
        assert_eq!(rig.write(&**way, part(0, half, counter)), Ok(()));
        let good = part(half, LEN - half, counter);
        for (range, code) in [
            (RangeWrite { len: good.len + 1, ..good }, ErrorCode::InvalidWrite),
            (RangeWrite { entry_len: LEN - 1, len: 1, ..good }, ErrorCode::InvalidVersion),
            (RangeWrite { key: "other", ..good }, ErrorCode::InvalidVersion),
            (part(half, 1, counter - 1), ErrorCode::InvalidVersion),
            (RangeWrite { grant: version(counter + 1), ..part(0, 0, 1) }, ErrorCode::InvalidWrite),
            (RangeWrite { grant: version(counter - 1), ..good }, ErrorCode::InvalidVersion),
        ] {
            assert_eq!(rig.write(&**way, range), refused(code), "{range:?}");
        }
        assert_eq!(rig.write(&**way, good), Ok(()));
        assert_eq!(rig.write(&**way, good), refused(ErrorCode::InvalidWrite));
        assert_eq!(rig.read(&**way, version(counter)), Ok(()));
    }
}

/// A replica of an older version replaces the entry of a newer one, because its grant is newer.
fn a_grant_outranks_the_version_it_is_for(shell: Shell) {
    let rig = Rig::start(shell);
    for (way, counter) in rig.ways().iter().zip([10, 20]) {
        assert_eq!(rig.write(&**way, part(0, LEN, counter)), Ok(()));
        let (from, rest) = (CHUNK_BYTES + 1, LEN - CHUNK_BYTES - 1);
        let copy = |from, len| RangeWrite { grant: version(counter + 1), ..part(from, len, 5) };
        assert_eq!(rig.write(&**way, copy(0, from)), Ok(()));
        assert_eq!(rig.write(&**way, copy(from, rest)), Ok(()));
        assert_eq!(rig.read(&**way, version(counter)), Err(TransferError::Stale));
        assert_eq!(rig.read(&**way, version(5)), Ok(()));
    }
    // The grant of a leader that this node does not know yet.
    let early = Version { epoch: Epoch(2), counter: 1 };
    let way = &rig.ways()[0];
    let range = RangeWrite { grant: early, ..part(0, LEN, 30) };
    let refused = Err(TransferError::Refused(ErrorCode::InvalidVersion));
    assert_eq!(rig.write(&**way, range), refused);
}

/// A copy of the same version in the same range may hold another part of the object. A reader that began before the
/// copy must not use its bytes.
fn a_reader_notices_that_its_entry_was_written_anew(shell: Shell) {
    let rig = Rig::start(shell);
    let way = &rig.ways()[0];
    assert_eq!(rig.write(&**way, part(0, LEN, 1)), Ok(()));
    let range = RangeRead {
        segment: SEGMENT,
        offset: OFFSET,
        version: version(1),
        object_offset: 0,
        from: 0,
        len: LEN,
        seal: Seal::NONE,
    };
    let ticket = rig.host.begin_read(&range).expect("it is there");
    assert!(rig.host.still_holds(&ticket));
    let anew = RangeWrite { grant: version(2), ..part(0, LEN, 1) };
    assert_eq!(rig.write(&**way, anew), Ok(()));
    assert!(rig.host.begin_read(&range).is_ok());
    assert!(!rig.host.still_holds(&ticket));
}

fn a_ticket_is_for_the_memory_of_its_part(shell: Shell) {
    let rig = Rig::start(shell);
    let begin = |range: &RangeWrite<'_>| {
        rig.host.begin_write(Epoch(1), range, Arc::new(Nobody)).expect("it is free")
    };
    let (first, second) = (begin(&part(0, 10, 1)), begin(&part(10, LEN - 10, 1)));
    assert_eq!((first.memory.len() as u64, second.memory.len() as u64), (10, LEN - 10));
    second.memory.raw().write_from(&bytes(version(1), 10, LEN - 10));
    first.memory.raw().write_from(&bytes(version(1), 0, 10));
    assert_eq!(rig.host.complete_write(second, vec![1, 2, 3, 4]), Ok(()));
    assert_eq!(rig.host.complete_write(first, vec![5]), Ok(()));
    for way in rig.ways() {
        assert_eq!(rig.read(&*way, version(1)), Ok(()));
    }
}

/// The checksums that the node has for these bytes.
fn found_checksums(rig: &Rig, counter: u64, from: u64, len: u64) -> Option<Arc<[u32]>> {
    let (segment, offset, version) = (SEGMENT, OFFSET, version(counter));
    let range =
        RangeRead { segment, offset, version, object_offset: 0, from, len, seal: Seal::NONE };
    rig.host.begin_read(&range).expect("it is there").checksums
}

/// A writer computes no checksums, whether it writes the entry whole or in parts.
#[test]
fn checksums_are_computed_by_the_first_reader_over_a_socket_and_kept() {
    let rig = Rig::start(Shell::Memory);
    let [local, tcp, near] = rig.ways();
    let cut = [(0, 10), (10, LEN - 10)];
    for (counter, way, cuts) in
        [(1, &local, &[(0, LEN)][..]), (2, &near, &[(0, LEN)]), (3, &tcp, &cut)]
    {
        for &(from, len) in cuts {
            assert_eq!(rig.write(&**way, part(from, len, counter)), Ok(()));
        }
        assert_eq!(found_checksums(&rig, counter, 0, LEN), None);
        let bytes = bytes(version(counter), 0, LEN);
        let expected: Vec<u32> =
            bytes.chunks(CHUNK_BYTES as usize).map(mooncake_memory::crc32c).collect();
        // Reads some of the bytes, so the checksums of the other chunks stay unknown.
        let read = |from, len| {
            let range = RangeRead {
                segment: SEGMENT,
                offset: OFFSET,
                version: version(counter),
                object_offset: 0,
                from,
                len,
                seal: Seal::NONE,
            };
            let dst = Buffer::zeroed(len as usize);
            let op = ReadOp { endpoint: Arc::clone(&rig.endpoint), range, dst: dst.raw().into() };
            assert_eq!(tcp.read(&[op]), [Ok(())]);
        };
        read(5, CHUNK_BYTES);
        assert_eq!(found_checksums(&rig, counter, 0, CHUNK_BYTES), None, "no whole chunk was read");
        read(CHUNK_BYTES, CHUNK_BYTES);
        let second = found_checksums(&rig, counter, CHUNK_BYTES, CHUNK_BYTES);
        assert_eq!(second.as_deref(), Some(&expected[1..2]));
        assert_eq!(found_checksums(&rig, counter, 0, LEN), None, "most are unknown");
        assert_eq!(rig.read(&*tcp, version(counter)), Ok(()));
        assert_eq!(found_checksums(&rig, counter, 0, LEN).as_deref(), Some(&expected[..]));
        assert_eq!(rig.read(&*tcp, version(counter)), Ok(()));
    }
}
