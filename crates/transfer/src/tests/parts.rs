//! Entries that are written in parts, over every transport.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use mooncake_memory::{Buffer, SliceList, crc32c};
use mooncake_types::ErrorCode;
use mooncake_types::limits::CHUNK_BYTES;
use mooncake_wire::encode_write;

use super::contract::on_every_transport;
use super::raw_peer::connect_and_greet;
use super::rig::{EPOCH, Node, Object, all_ok, read_all, scatter, tcp, version, wait_until};
use crate::{TransferError, Transport, WriteOp};

const MIB: u64 = 1 << 20;

type Span = (u64, u64);

fn refused(code: ErrorCode) -> Result<(), TransferError> {
    Err(TransferError::Refused(code))
}

/// Writes parts of an object, each `(from, len)`, by one call. Bytes past the object's end are zeros.
fn write_parts(
    transport: &dyn Transport,
    object: &Object,
    parts: &[Span],
    change: impl Fn(&mut WriteOp<'_>),
) -> Vec<Result<(), TransferError>> {
    let mut bytes = object.bytes();
    let most = parts.iter().map(|(from, len)| from + len).max().unwrap_or(0);
    bytes.resize(bytes.len().max(most as usize), 0);
    let sources = parts.iter().map(|&(from, len)| &bytes[from as usize..(from + len) as usize]);
    let sources: Vec<Buffer> = sources.map(|part| Buffer::from_vec(part.to_vec())).collect();
    let ops = parts.iter().zip(&sources).map(|(&(from, _), source)| {
        let mut op = object.part_op(from, scatter(source, &[70_001, 3, 0, 500_000]));
        change(&mut op);
        op
    });
    transport.write(EPOCH, &ops.collect::<Vec<WriteOp<'_>>>())
}

fn write_part(transport: &dyn Transport, object: &Object, part: Span) -> Result<(), TransferError> {
    write_parts(transport, object, &[part], |_| ()).remove(0)
}

fn read(transport: &dyn Transport, object: &Object) -> Result<(), TransferError> {
    read_all(transport, std::slice::from_ref(object)).remove(0)
}

#[test]
fn three_parts_in_any_order_are_read_when_all_are_there() {
    on_every_transport(|transport, node| {
        let mut counter = 0;
        // Small parts, parts that end within a chunk, parts of many chunks.
        for (len, cuts) in
            [(10_000, [1, 9000]), (MIB, [5, CHUNK_BYTES + 5]), (3 * MIB, [7, 2 * MIB + 1])]
        {
            let parts = [(0, cuts[0]), (cuts[0], cuts[1] - cuts[0]), (cuts[1], len - cuts[1])];
            for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                counter += 1;
                let object = Object::at(node, 4096, len, counter);
                for index in order {
                    assert_eq!(read(transport, &object), Err(TransferError::Stale), "{order:?}");
                    assert_eq!(write_part(transport, &object, parts[index]), Ok(()), "{order:?}");
                }
                assert_eq!(read(transport, &object), Ok(()), "{len} bytes, {order:?}");
            }
        }
    });
}

#[test]
fn parts_may_go_in_one_call_with_each_other_and_with_wholes() {
    on_every_transport(|transport, node| {
        let (cut, whole) = (Object::at(node, 0, 5000, 1), Object::at(node, 5000, 77, 2));
        let bytes = [cut.bytes(), whole.bytes()].map(Buffer::from_vec);
        let part =
            |from: u64, len| cut.part_op(from, bytes[0].raw().sub(from as usize, len).into());
        let ops =
            [part(4999, 1), whole.write_op(bytes[1].raw().into()), part(0, 2500), part(2500, 2499)];
        assert_eq!(transport.write(EPOCH, &ops), all_ok(4));
        assert_eq!(read_all(transport, &[cut, whole]), all_ok(2));
    });
}

/// The ledger has no checksums of such an entry, so the node computes them from the bytes that it sends.
#[test]
fn any_bytes_of_an_entry_written_in_parts_can_be_read() {
    on_every_transport(|transport, node| {
        let object = Object::at(node, 0, MIB + 100, 1);
        let parts = [(300_000, MIB - 299_900), (0, 300_000)];
        assert_eq!(write_parts(transport, &object, &parts, |_| ()), all_ok(2));
        for (from, len) in [(0, 1), (299_999, 2), (1, MIB), (CHUNK_BYTES, CHUNK_BYTES), (0, 60_000)]
        {
            let target = Buffer::zeroed(len as usize);
            assert_eq!(transport.read(&[object.read_op(from, target.raw().into())]), all_ok(1));
            let end = (from + len) as usize;
            assert!(target.as_slice() == &object.bytes()[from as usize..end], "{len} from {from}");
        }
    });
}

#[test]
fn a_part_that_is_not_one_of_its_entry_is_refused() {
    on_every_transport(|transport, node| {
        for len in [100, 300_000] {
            let object = Object::at(node, 0, len, len + 2);
            let half = len / 2;
            assert_eq!(write_part(transport, &object, (0, half)), Ok(()));
            let beyond = [(half + 1, half), (len, 1), (len + 1, half)];
            for part in beyond {
                let result = write_part(transport, &object, part);
                assert_eq!(result, refused(ErrorCode::InvalidWrite), "{part:?}");
            }
            let changed: [fn(&mut WriteOp<'_>); 3] = [
                |op| op.range.entry_len += 1,
                |op| op.range.entry_len -= 1,
                |op| op.range.grant.counter -= 1,
            ];
            for change in changed {
                let part = [(half - 10, 20)];
                let results = write_parts(transport, &object, &part, |op| {
                    op.range.version.counter -= 1;
                    change(op);
                });
                assert_eq!(results, [refused(ErrorCode::InvalidVersion)]);
            }
            assert_eq!(write_part(transport, &object, (half, half)), Ok(()));
            assert_eq!(read(transport, &object), Ok(()));
            let again = write_part(transport, &object, (half, half));
            assert_eq!(again, refused(ErrorCode::InvalidWrite));
            assert_eq!(read(transport, &object), Ok(()));
        }
    });
}

#[test]
fn a_newer_grant_begins_from_nothing() {
    on_every_transport(|transport, node| {
        for len in [100, 300_000] {
            let half = len / 2;
            let object = Object::at(node, 0, len, len);
            assert_eq!(write_part(transport, &object, (0, half)), Ok(()));
            // The same version under a newer grant, as for an added replica.
            let newer = |op: &mut WriteOp<'_>| op.range.grant = version(len + 1);
            let copy = |part| write_parts(transport, &object, &[part], newer).remove(0);
            assert_eq!(copy((half, half)), Ok(()));
            assert_eq!(read(transport, &object), Err(TransferError::Stale));
            let late = write_part(transport, &object, (half, half));
            assert_eq!(late, refused(ErrorCode::InvalidVersion));
            assert_eq!(copy((0, half)), Ok(()));
            assert_eq!(read(transport, &object), Ok(()));
        }
    });
}

/// A frame that writes one part, with its payload and its checksums.
fn frame(object: &Object, (from, len): Span) -> Vec<u8> {
    let op = object.part_op(from, SliceList::default());
    let mut frame = Vec::new();
    encode_write(&mut frame, 1, EPOCH, &[mooncake_types::RangeWrite { len, ..op.range }]);
    let payload = &object.bytes()[from as usize..(from + len) as usize];
    frame.extend_from_slice(payload);
    for chunk in payload.chunks(CHUNK_BYTES as usize) {
        frame.extend_from_slice(&crc32c(chunk).to_le_bytes());
    }
    frame
}

#[test]
fn a_part_whose_connection_broke_is_sent_again() {
    on_every_transport(|transport, node| {
        let object = Object::at(node, 0, 2 * MIB, 1);
        let bytes = frame(&object, (0, MIB));
        let mut peer = connect_and_greet(&node.endpoint);
        peer.write_all(&bytes[..300_000]).unwrap();
        wait_until("the writer has begun", || node.host.writers() == 1);
        // Its part is busy for as long as it may still write there; the other part is free.
        let busy = refused(ErrorCode::ObjectReplicaBusy);
        assert_eq!(write_part(transport, &object, (0, MIB)), busy);
        assert_eq!(write_part(transport, &object, (MIB, MIB)), Ok(()));
        drop(peer);
        wait_until("the writer has gone", || node.host.writers() == 0);
        assert_eq!(read(transport, &object), Err(TransferError::Stale));
        assert_eq!(write_part(transport, &object, (0, MIB)), Ok(()));
        assert_eq!(read(transport, &object), Ok(()));
    });
}

#[test]
fn a_part_with_a_wrong_checksum_is_not_in_place() {
    for part in [(0, 1000), (0, MIB)] {
        let node = Node::start(1, 4 * MIB);
        let object = Object::at(&node, 0, 2 * MIB, 1);
        let rest = (part.1, 2 * MIB - part.1);
        assert_eq!(write_part(&tcp(), &object, rest), Ok(()));
        let mut bytes = frame(&object, part);
        *bytes.last_mut().unwrap() ^= 1;
        let mut peer = connect_and_greet(&node.endpoint);
        peer.write_all(&bytes).unwrap();
        let (_, body) = super::raw_peer::read_frame(&mut peer).unwrap();
        let results = mooncake_wire::decode_results(&body).unwrap();
        assert_eq!(results, [Err(ErrorCode::ChecksumMismatch)]);
        assert_eq!(node.host.writers(), 0);
        assert_eq!(read(&tcp(), &object), Err(TransferError::Stale));
        assert_eq!(write_part(&tcp(), &object, part), Ok(()));
        assert_eq!(read(&tcp(), &object), Ok(()));
    }
}

#[test]
fn a_newer_writer_interrupts_the_writers_of_all_parts() {
    on_every_transport(|transport, node| {
        let old = Object::at(node, 0, 3 * MIB, 1);
        let mut peers = [0, 2].map(|at| {
            let mut peer = connect_and_greet(&node.endpoint);
            peer.write_all(&frame(&old, (at * MIB, MIB))[..300_000]).unwrap();
            peer
        });
        wait_until("both have begun", || node.host.writers() == 2);
        let new = Object::at(node, MIB, MIB, 2);
        assert_eq!(write_part(transport, &new, (0, MIB - 1)), Ok(()));
        wait_until("both have gone", || node.host.writers() == 0);
        assert_eq!(write_part(transport, &new, (MIB - 1, 1)), Ok(()));
        for peer in &mut peers {
            let _ = peer.write_all(&old.bytes());
        }
        assert_eq!(read(transport, &old), Err(TransferError::Stale));
        assert_eq!(read(transport, &new), Ok(()));
    });
}

#[test]
fn readers_see_nothing_until_the_last_part_is_there() {
    on_every_transport(|transport, node| {
        for round in 1..=5 {
            let object = Object::at(node, 0, 4 * MIB, round);
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    while !done.load(Ordering::SeqCst) {
                        assert_eq!(read(transport, &object), Err(TransferError::Stale));
                    }
                });
                let writer = |at: u64| {
                    let object = &object;
                    move || write_part(transport, object, (at * MIB, MIB))
                };
                let writers = [0, 1, 3].map(|at| scope.spawn(writer(at)));
                for writer in writers {
                    assert_eq!(writer.join().unwrap(), Ok(()));
                }
                done.store(true, Ordering::SeqCst);
                reader.join().unwrap();
            });
            assert_eq!(write_part(transport, &object, (2 * MIB, MIB)), Ok(()));
            assert_eq!(read(transport, &object), Ok(()));
        }
    });
}
