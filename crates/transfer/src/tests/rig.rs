use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, SliceList};
use mooncake_types::{Epoch, RangeRead, RangeWrite, Seal, SegmentId, Version};

use crate::testing::{MemoryHost, first_mismatch, pattern};
use crate::{
    DataServer, Paths, ReadOp, SegmentHost, ServerConfig, TcpConfig, TcpTransport, TransferError,
    Transport, WriteOp,
};

pub(super) const CLUSTER: &str = "test-cluster";
pub(super) const TOKEN: &str = "a secret";

/// Nodes of one segment each: segment `i + 1` at node `i`.
pub(crate) struct Node {
    pub(super) segment: SegmentId,
    pub(super) host: Arc<MemoryHost>,
    pub(super) server: DataServer,
    pub(crate) endpoint: Arc<str>,
}

impl Node {
    pub(crate) fn start(segment: u128, len: u64) -> Node {
        Self::with_config(segment, len, server_config())
    }

    pub(super) fn with_config(segment: u128, len: u64, config: ServerConfig) -> Node {
        let segment = SegmentId(segment);
        let host = MemoryHost::with_segment(segment, len);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server =
            DataServer::start(listener, Arc::clone(&host) as Arc<dyn SegmentHost>, config).unwrap();
        let endpoint = server.local_addr().to_string().into();
        Node { segment, host, server, endpoint }
    }
}

pub(super) fn server_config() -> ServerConfig {
    ServerConfig {
        cluster_id: CLUSTER.into(),
        auth_token: TOKEN.into(),
        max_connections: 64,
        ..ServerConfig::default()
    }
}

pub(crate) fn tcp_config() -> TcpConfig {
    TcpConfig {
        cluster_id: CLUSTER.into(),
        auth_token: TOKEN.into(),
        transfer_timeout: Duration::from_secs(10),
        ..TcpConfig::default()
    }
}

pub(super) fn tcp() -> TcpTransport {
    TcpTransport::new(tcp_config())
}

/// Paths that use only the ways of these names.
pub(super) fn by(ways: &str) -> Paths {
    Paths::new(None, tcp_config(), ways.parse().unwrap())
}

pub(super) fn version(counter: u64) -> Version {
    Version { epoch: EPOCH, counter }
}

pub(super) const EPOCH: Epoch = Epoch(7);

/// One object in one range.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(crate) endpoint: Arc<str>,
    pub(super) segment: SegmentId,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) key: String,
    pub(super) version: Version,
}

impl Object {
    pub(super) fn at(node: &Node, offset: u64, len: u64, counter: u64) -> Object {
        Object {
            endpoint: Arc::clone(&node.endpoint),
            segment: node.segment,
            offset,
            len,
            key: format!("key/{}/{offset}", node.segment),
            version: version(counter),
        }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        pattern(&self.key, self.version, 0, self.len as usize)
    }

    pub(super) fn write_op<'a>(&'a self, src: SliceList<'a>) -> WriteOp<'a> {
        let range = RangeWrite {
            segment: self.segment,
            offset: self.offset,
            entry_len: self.len,
            from: 0,
            len: self.len,
            key: &self.key,
            version: self.version,
            grant: self.version,
            object_len: self.len,
            object_offset: 0,
            attributes: &[],
            seal: Seal::NONE,
        };
        WriteOp { endpoint: Arc::clone(&self.endpoint), range, src }
    }

    /// A write of a part; `src` is all of it.
    pub(super) fn part_op<'a>(&'a self, from: u64, src: SliceList<'a>) -> WriteOp<'a> {
        let mut op = self.write_op(src);
        (op.range.from, op.range.len) = (from, op.src.total_len());
        op
    }

    pub(super) fn read_op<'m>(&self, from: u64, dst: SliceList<'m>) -> ReadOp<'m> {
        let (segment, offset, version) = (self.segment, self.offset, self.version);
        let range = RangeRead {
            segment,
            offset,
            version,
            object_offset: 0,
            from,
            len: dst.total_len(),
            seal: Seal::NONE,
        };
        ReadOp { endpoint: Arc::clone(&self.endpoint), range, dst }
    }
}

/// Cuts a buffer into slices of these lengths over and over, until it is used up.
pub(super) fn scatter<'m>(buffer: &'m Buffer, lens: &[usize]) -> SliceList<'m> {
    let mut from = 0;
    let mut slices = Vec::new();
    for &len in lens.iter().cycle() {
        if from == buffer.len() {
            break;
        }
        let len = len.min(buffer.len() - from);
        slices.push(buffer.raw().sub(from, len));
        from += len;
    }
    slices.into()
}

pub(super) fn write_all(
    transport: &dyn Transport,
    objects: &[Object],
) -> Vec<Result<(), TransferError>> {
    let sources: Vec<Buffer> = objects.iter().map(|o| Buffer::from_vec(o.bytes())).collect();
    let ops: Vec<WriteOp<'_>> =
        objects.iter().zip(&sources).map(|(o, src)| o.write_op(src.raw().into())).collect();
    transport.write(EPOCH, &ops)
}

/// Reads each object as a whole, and compares the bytes of every `Ok`.
pub(super) fn read_all(
    transport: &dyn Transport,
    objects: &[Object],
) -> Vec<Result<(), TransferError>> {
    let targets: Vec<Buffer> = objects.iter().map(|o| Buffer::zeroed(o.len as usize)).collect();
    let ops: Vec<ReadOp> =
        objects.iter().zip(&targets).map(|(o, dst)| o.read_op(0, dst.raw().into())).collect();
    let results = transport.read(&ops);
    for ((object, target), result) in objects.iter().zip(&targets).zip(&results) {
        if result.is_ok() {
            let wrong = first_mismatch(target.as_slice(), &object.key, object.version, 0);
            assert_eq!(wrong, None, "wrong byte in {object:?}");
        }
    }
    results
}

/// Polls until `done`, and fails the test if that takes too long.
pub(super) fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::yield_now();
    }
}

pub(super) fn all_ok(count: usize) -> Vec<Result<(), TransferError>> {
    vec![Ok(()); count]
}
