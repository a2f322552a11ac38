use std::time::{Duration, Instant};

use mooncake_engine::{Engine, EngineConfig, MoveError, Opcode, Piece};
use mooncake_memory::Buffer;

/// A configuration for tests: loopback, and a transfer timeout of 20 s.
pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        local_hostname: "127.0.0.1".to_owned(),
        transfer_timeout: Duration::from_secs(20),
        ..EngineConfig::default()
    }
}

pub(crate) fn engine() -> Engine {
    Engine::open(config()).expect("a port is free")
}

/// Memory for an engine to register, which is there for good.
pub(crate) fn memory(len: usize) -> &'static Buffer {
    Box::leak(Box::new(Buffer::zeroed(len)))
}

pub(crate) fn address(buffer: &Buffer) -> u64 {
    buffer.raw().as_ptr().addr() as u64
}

pub(crate) fn piece(local: u64, remote: u64, len: u64) -> Piece {
    Piece { local, remote, len }
}

/// Bytes generated from the seed and the offset.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let byte = |at: usize| (seed.wrapping_mul(31) as usize + at * 7 + at / 251) as u8;
    (0..len).map(byte).collect()
}

pub(crate) fn fill(buffer: &Buffer, bytes: &[u8]) {
    buffer.raw().write_from(bytes);
}

pub(crate) fn move_one(
    engine: &Engine,
    peer: &str,
    opcode: Opcode,
    piece: Piece,
) -> Result<(), MoveError> {
    engine.transfer(peer, opcode, &[piece], None)
}

/// Polls until the condition holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
