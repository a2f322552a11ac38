//! Batches of ranges in memory and on a disk, through each transport.

use std::net::TcpListener;
use std::sync::Arc;

use mooncake_memory::{Buffer, Region};
use mooncake_node::{Host, Segment};
use mooncake_tier::testing::DiskDouble;
use mooncake_transfer::{
    DataServer, LocalTransport, Paths, ReadOp, SegmentHost, ServerConfig, TcpConfig, TcpTransport,
    Transport, Transports,
};
use mooncake_types::SegmentId;

use super::{Piece, host, put, version};

const DISK: SegmentId = SegmentId(1);
const MEMORY: SegmentId = SegmentId(2);

/// Every third piece lies in memory, the others on the disk.
fn segment_of(piece: &Piece) -> SegmentId {
    if piece.version.counter.is_multiple_of(3) { MEMORY } else { DISK }
}

fn piece(number: u64) -> Piece {
    Piece::whole(number * 12_288, version(number), 1 + number * 379)
}

fn with_memory(double: &DiskDouble) -> Arc<Host> {
    let host = host(double, DISK);
    host.lend(Segment::new(MEMORY, Region::anonymous(1 << 20).expect("a little memory")));
    Arc::new(host)
}

#[test]
fn a_batch_from_disk_and_memory_comes_back_in_its_order() {
    let host = with_memory(&DiskDouble::new(1));
    let pieces: Vec<Piece> = (1..30).map(piece).collect();
    pieces.iter().for_each(|it| put(&host, segment_of(it), it).expect("it is free"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let config = ServerConfig { cluster_id: "cluster".to_owned(), ..ServerConfig::default() };
    let server = DataServer::start(listener, Arc::clone(&host) as _, config);
    let server = server.expect("it listens");
    let endpoint: Arc<str> = server.local_addr().to_string().into();
    let config = || TcpConfig { cluster_id: "cluster".to_owned(), ..TcpConfig::default() };
    let local = || LocalTransport::new(Arc::clone(&host) as _);
    let ways: [Box<dyn Transport>; 3] = [
        Box::new(local()),
        Box::new(TcpTransport::new(config())),
        Box::new(Paths::new(Some(local()), config(), Transports::default())),
    ];
    for way in ways {
        let buffers: Vec<Buffer> =
            pieces.iter().map(|it| Buffer::zeroed(it.len as usize)).collect();
        let ops = pieces.iter().zip(&buffers).map(|(piece, buffer)| ReadOp {
            endpoint: Arc::clone(&endpoint),
            range: piece.read(segment_of(piece), 0, piece.len),
            dst: buffer.raw().into(),
        });
        let ops: Vec<ReadOp<'_>> = ops.collect();
        assert!(way.read(&ops).into_iter().all(|result| result == Ok(())));
        for (piece, buffer) in pieces.iter().zip(&buffers) {
            assert!(buffer.as_slice() == piece.bytes(0, piece.len), "{piece:?}");
        }
    }
}

#[test]
fn drops_of_one_call_share_their_writes() {
    let double = DiskDouble::new(1);
    let host = with_memory(&double);
    let pieces: Vec<Piece> = (1..30).map(piece).collect();
    pieces.iter().for_each(|it| put(&host, segment_of(it), it).expect("it is free"));
    let drop = |it: &Piece| it.drop_by(segment_of(it), version(99));
    let mut drops: Vec<_> = pieces.iter().map(drop).collect();
    drops.push(Piece::whole(0, version(1), 1).drop_by(SegmentId(9), version(99)));
    let (before, files) = (double.writes(), double.numbers().len() as u64);
    let dropped = host.drop_ranges(&drops);
    assert!(double.writes() - before <= 2 * files, "a write and a sync for each file");
    let (unknown, known) = dropped.split_last().expect("there are some");
    assert!(unknown.is_err() && known.iter().all(Result::is_ok));
    assert!(host.is_empty(DISK) && host.is_empty(MEMORY));
    assert_eq!(host.disks()[0].usage().records, 0);
}
