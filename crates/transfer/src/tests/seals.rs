//! A node that has a key gives and changes only what the master has sealed.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use mooncake_memory::{Buffer, SliceList, crc32c};
use mooncake_seals as seals;
use mooncake_types::{
    Epoch, ErrorCode, Follow, RangeDrop, RangeRead, RangeWrite, Seal, SealKey, SegmentId, Version,
};
use mooncake_wire::{
    Kind, decode_follow_reply, decode_results, encode_begin, encode_drop, encode_follow,
    encode_pin, encode_promise, encode_read, encode_write,
};

use super::raw_peer::{connect_and_greet, connect_nearby, read_frame};
use super::rig::{EPOCH, Node, Object, all_ok, by, server_config, tcp, version};
use crate::testing::first_mismatch;
use crate::{ReadOp, SealKeys, ServerConfig, TransferError, Transport, WriteOp};

const LEN: u64 = 100_000;
const SEGMENT_LEN: u64 = 1 << 20;
const DENIED: Result<(), ErrorCode> = Err(ErrorCode::PermissionDenied);

/// A node with a sealed object at offset 0.
struct SealedNode {
    node: Node,
    config: ServerConfig,
    keys: Arc<SealKeys>,
    key: SealKey,
    object: Object,
}

impl SealedNode {
    fn start() -> Self {
        let keys = Arc::<SealKeys>::default();
        let config = ServerConfig { seals: Some(Arc::clone(&keys)), ..server_config() };
        let node = Node::with_config(1, SEGMENT_LEN, config.clone());
        let key = keys.key_for(EPOCH).expect("the system has random numbers");
        let object = Object::at(&node, 0, LEN, 1);
        let sealed = Self { node, config, keys, key, object };
        assert_eq!(sealed.put(&tcp(), &sealed.object), all_ok(1));
        assert_eq!(sealed.get(), Ok(()));
        assert_eq!(sealed.config.served.unsealed(), 0);
        sealed
    }

    /// Writes as the master allows.
    fn put(&self, by: &dyn Transport, object: &Object) -> Vec<Result<(), TransferError>> {
        let source = Buffer::from_vec(object.bytes());
        let mut op: WriteOp<'_> = object.write_op(source.raw().into());
        op.range.seal = seals::on_write(&self.key, &op.range);
        by.write(EPOCH, &[op])
    }

    fn read_of(&self, key: &SealKey) -> RangeRead {
        let Object { segment, offset, version, .. } = self.object;
        let seal = seals::on_read_at(key, segment, offset, version);
        RangeRead { segment, offset, version, object_offset: 0, from: 0, len: LEN, seal }
    }

    /// Reads as the master allows, and compares the bytes.
    fn get(&self) -> Result<(), TransferError> {
        let target = Buffer::zeroed(LEN as usize);
        let (endpoint, range) = (Arc::clone(&self.node.endpoint), self.read_of(&self.key));
        let read = tcp().read(&[ReadOp { endpoint, range, dst: target.raw().into() }]).remove(0);
        if read.is_ok() {
            let Object { key, version, .. } = &self.object;
            assert_eq!(first_mismatch(target.as_slice(), key, *version, 0), None);
        }
        read
    }

    fn write_of<'a>(&self, object: &'a Object) -> RangeWrite<'a> {
        let range = object.write_op(SliceList::default()).range;
        RangeWrite { seal: seals::on_write(&self.key, &range), ..range }
    }

    fn drop_of(&self) -> RangeDrop {
        let Object { segment, offset, version, .. } = self.object;
        RangeDrop { segment, offset, version, grant: version }
    }

    /// Sends frames to the node, and checks that each is refused, and that nothing has changed.
    fn refuses(&self, mut stream: TcpStream, frames: &[Vec<u8>]) {
        let before = self.config.served.unsealed();
        for frame in frames {
            assert_eq!(ask(&mut stream, frame), [DENIED]);
        }
        assert_eq!(self.config.served.unsealed() - before, frames.len() as u64);
        assert_eq!(self.get(), Ok(()));
        assert_eq!(self.node.host.entries(self.node.segment), [(0, version(1))]);
    }
}

/// Sends a frame about one range, and returns the results.
fn ask(stream: &mut TcpStream, frame: &[u8]) -> Vec<Result<(), ErrorCode>> {
    stream.write_all(frame).expect("it is open");
    let (header, body) = read_frame(stream).expect("an answer");
    match header.kind {
        Kind::FollowReply => {
            let message = decode_follow_reply(body.into()).expect("a page");
            vec![message.page().expect("a page").map(|_| ())]
        }
        _ => decode_results(&body).expect("results"),
    }
}

/// A frame that writes zeros.
fn write_frame(epoch: Epoch, range: &RangeWrite<'_>) -> Vec<u8> {
    let (mut frame, payload) = (Vec::new(), vec![0; range.len as usize]);
    encode_write(&mut frame, 3, epoch, std::slice::from_ref(range));
    frame.extend(&payload);
    let sums = payload.chunks(256 << 10).flat_map(|chunk| crc32c(chunk).to_le_bytes());
    frame.extend(sums);
    frame
}

fn frame_of(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = Vec::new();
    encode(&mut frame);
    frame
}

/// The attacks of whoever knows the epoch of the greeting: the highest counter replaces an entry, and one frame with a
/// grant of all ones takes a whole segment. Then those of a writer that was given another range.
#[test]
fn a_write_that_the_master_has_not_given_changes_nothing() {
    let sealed = SealedNode::start();
    let elsewhere = Object { offset: 200_000, version: version(2), ..sealed.object.clone() };
    let given = sealed.write_of(&elsewhere);
    let highest = Version { epoch: EPOCH, counter: u64::MAX };
    let over = RangeWrite { offset: 0, version: highest, grant: highest, ..given };
    let all = Version { epoch: Epoch(u64::MAX), counter: u64::MAX };
    let whole = RangeWrite { len: SEGMENT_LEN, entry_len: SEGMENT_LEN, ..over };
    let whole = RangeWrite { object_len: SEGMENT_LEN, ..whole };
    let forged = [
        (EPOCH, over),
        (EPOCH, RangeWrite { seal: Seal::NONE, ..over }),
        (EPOCH, whole),
        (all.epoch, RangeWrite { version: all, grant: all, ..whole }),
        (EPOCH, RangeWrite { offset: 0, ..given }),
        (EPOCH, RangeWrite { grant: highest, ..given }),
        (EPOCH, RangeWrite { key: "another", ..given }),
        (EPOCH, RangeWrite { attributes: b"pinned", ..given }),
        (EPOCH, RangeWrite { seal: sealed.read_of(&sealed.key).seal, ..given }),
        // The seal covers the epoch of the grant, so that no frame says that it is of a later one.
        (Epoch(EPOCH.0 + 1), given),
    ];
    let frames: Vec<_> = forged.iter().map(|(epoch, range)| write_frame(*epoch, range)).collect();
    sealed.refuses(connect_and_greet(&sealed.node.endpoint), &frames);
    let begin = |(epoch, range): &(Epoch, RangeWrite<'_>)| {
        frame_of(|out| encode_begin(out, 3, *epoch, std::slice::from_ref(range)))
    };
    for forged in &forged {
        sealed.refuses(connect_nearby(&sealed.node.endpoint), &[begin(forged)]);
    }
    assert_eq!(sealed.put(&tcp(), &elsewhere), all_ok(1), "the writer that was given the range");
}

#[test]
fn a_writer_of_this_host_is_given_what_the_master_has_sealed() {
    let sealed = SealedNode::start();
    let nearby = Object { offset: 300_000, version: version(3), ..sealed.object.clone() };
    assert_eq!(sealed.put(&by("shm"), &nearby), all_ok(1));
    assert_eq!(sealed.config.served.unsealed(), 0);
}

#[test]
fn an_entry_is_read_dropped_and_followed_only_by_peers_that_were_let() {
    let sealed = SealedNode::start();
    let good = sealed.read_of(&sealed.key);
    let drop = sealed.drop_of();
    let drop_seal = seals::on_drop(&sealed.key, &drop);
    let forged = [
        RangeRead { seal: Seal::NONE, ..good },
        RangeRead { seal: Seal(good.seal.0 ^ 1), ..good },
        RangeRead { seal: drop_seal, ..good },
        RangeRead { offset: 4096, ..good },
        RangeRead { version: version(2), ..good },
        RangeRead { segment: SegmentId(2), ..good },
    ];
    let reads = forged.iter().flat_map(|range| {
        let range = std::slice::from_ref(range);
        [frame_of(|out| encode_read(out, 3, range)), frame_of(|out| encode_promise(out, 3, range))]
    });
    let peer = || connect_and_greet(&sealed.node.endpoint);
    sealed.refuses(peer(), &reads.collect::<Vec<_>>());
    let pins = forged.map(|range| frame_of(|out| encode_pin(out, 3, &[range])));
    sealed.refuses(connect_nearby(&sealed.node.endpoint), &pins);
    let other = RangeDrop { grant: version(2), ..drop };
    let drops = [(drop, Seal::NONE), (drop, good.seal), (other, drop_seal)];
    sealed.refuses(peer(), &drops.map(|drop| frame_of(|out| encode_drop(out, 3, &[drop]))));
    let follow = |seal| {
        let follow = Follow { segment: sealed.node.segment, since: None, from: None, seal };
        frame_of(|out| encode_follow(out, 3, &follow))
    };
    sealed.refuses(peer(), &[follow(Seal::NONE), follow(good.seal)]);
    // What the master has let a peer do.
    let right = seals::on_follow(&sealed.key, sealed.node.segment);
    assert_eq!(ask(&mut peer(), &follow(right)), [Err(ErrorCode::UnavailableInCurrentMode)]);
    let dropped = frame_of(|out| encode_drop(out, 3, &[(drop, drop_seal)]));
    assert_eq!(ask(&mut peer(), &dropped), [Ok(())]);
    assert_eq!(sealed.node.host.entries(sealed.node.segment), []);
}

#[test]
fn one_range_of_a_frame_that_was_not_given_leaves_the_others_alone() {
    let sealed = SealedNode::start();
    let one = Object { offset: 200_000, version: version(2), ..sealed.object.clone() };
    let other = Object { offset: 400_000, version: version(3), ..sealed.object.clone() };
    let sources = [&one, &other].map(|object| Buffer::from_vec(object.bytes()));
    let mut ops = [one.write_op(sources[0].raw().into()), other.write_op(sources[1].raw().into())];
    ops[1].range.seal = seals::on_write(&sealed.key, &ops[1].range);
    let denied = TransferError::Refused(ErrorCode::PermissionDenied);
    assert_eq!(tcp().write(EPOCH, &ops), [Err(denied), Ok(())]);
    let entries = sealed.node.host.entries(sealed.node.segment);
    assert_eq!(entries, [(0, version(1)), (400_000, version(3))]);
}

/// Routes of the leader before stay good until clients have learned of the next one. A leader later they are not.
#[test]
fn the_seals_of_a_leader_outlast_one_successor() {
    let sealed = SealedNode::start();
    let next = |epoch| sealed.keys.key_for(Epoch(epoch)).expect("the system has random numbers");
    let second = next(EPOCH.0 + 1);
    assert_eq!(sealed.get(), Ok(()), "by a cached route");
    let by = |key: &SealKey| {
        let range = sealed.read_of(key);
        let frame = frame_of(|out| encode_read(out, 3, &[range]));
        let mut stream = connect_and_greet(&sealed.node.endpoint);
        ask(&mut stream, &frame)
    };
    assert_eq!(by(&second), [Ok(())]);
    let third = next(EPOCH.0 + 2);
    let denied = TransferError::Refused(ErrorCode::PermissionDenied);
    assert_eq!(sealed.get(), Err(denied));
    assert_eq!((by(&second), by(&third)), (vec![Ok(())], vec![Ok(())]));
}
