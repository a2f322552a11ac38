//! Transfers in the order of streams, with a test double of the CUDA driver.

use std::sync::{Mutex, MutexGuard, Once, PoisonError, mpsc};

use mooncake_device::testing::{ApplicationStream, DeviceMemory, use_driver};
use mooncake_device::{StreamStep, put_on_stream};
use mooncake_device_double::{control, symbol};
use mooncake_engine::{Engine, MoveError, Opcode, Piece};
use mooncake_memory::PlacedSlice;

use crate::rig::{address, engine, fill, memory, pattern, piece, wait_until};

const MIB: usize = 1 << 20;

/// All tests of a process share the driver. They run in turn, and each starts with the driver's initial state.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static DRIVER: Once = Once::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    DRIVER.call_once(|| use_driver(symbol));
    control::double_reset();
    control::double_use_device(0);
    turn
}

/// Blocks a stream until the result is dropped.
fn blocked(stream: &ApplicationStream) -> mpsc::Sender<()> {
    let (go, wait) = mpsc::channel();
    // An error says that the sender is gone.
    let step = StreamStep::Run(Box::new(move || {
        let _ = wait.recv();
    }));
    put_on_stream(stream.handle(), vec![step]).expect("the stream takes it");
    go
}

/// Device memory that stays for good.
pub(crate) fn on_device(bytes: &[u8]) -> &'static DeviceMemory {
    Box::leak(Box::new(DeviceMemory::with(0, bytes)))
}

fn whole(memory: &'static DeviceMemory, len: usize) -> PlacedSlice<'static> {
    memory.slice(0, len)
}

#[test]
fn a_write_sends_what_the_stream_has_made_before_it() {
    let _turn = turn();
    const LEN: usize = 21 * MIB;
    let (there, far) = (engine(), memory(LEN));
    there.register(far.raw()).expect("free");
    let (here, near) = (engine(), on_device(&pattern(1, LEN)));
    here.register(whole(near, LEN)).expect("free");
    let stream = ApplicationStream::new(0);
    let block = blocked(&stream);
    let piece = piece(near.address(), address(far), LEN as u64);
    assert_eq!(
        here.transfer_on_stream(there.name(), Opcode::Write, &[piece], stream.handle()),
        Ok(())
    );
    // What an earlier kernel of the stream would still write.
    let last = memory(LEN);
    fill(last, &pattern(2, LEN));
    mooncake_device::copy_to_caller(last.raw(), &near.list()).expect("copied");
    assert!(far.raw().to_vec().iter().all(|&byte| byte == 0), "the stream is not there yet");
    drop(block);
    stream.finish();
    assert!(far.raw().to_vec() == pattern(2, LEN));
}

#[test]
fn what_a_stream_does_after_a_read_finds_the_bytes() {
    let _turn = turn();
    const LEN: usize = 21 * MIB;
    let (there, far) = (engine(), memory(LEN));
    there.register(far.raw()).expect("free");
    let (here, near, host) = (engine(), on_device(&vec![0; LEN]), memory(3 * MIB));
    here.register(whole(near, LEN)).expect("free");
    here.register(host.raw()).expect("free");
    // Pieces of the device and of the host, in one batch, from both streams.
    for (seed, stream) in
        [ApplicationStream::new(0), ApplicationStream::default_of(0)].iter().enumerate()
    {
        let sent = pattern(5 + seed as u64, LEN);
        fill(far, &sent);
        let (near_at, far_at) = (near.address(), address(far));
        let pieces: Vec<Piece> = (0..21)
            .map(|n| n * MIB as u64)
            .map(|at| match at < 18 * MIB as u64 {
                true => piece(near_at + at, far_at + at, MIB as u64),
                false => piece(address(host) + at - 18 * MIB as u64, far_at + at, MIB as u64),
            })
            .collect();
        assert_eq!(
            here.transfer_on_stream(there.name(), Opcode::Read, &pieces, stream.handle()),
            Ok(())
        );
        stream.finish();
        assert!(near.to_vec()[..18 * MIB] == sent[..18 * MIB]);
        assert!(host.raw().to_vec() == sent[18 * MIB..]);
    }
}

#[test]
fn transfers_between_memory_of_one_process_and_of_two_devices() {
    let _turn = turn();
    let near = on_device(&pattern(3, MIB));
    let far: &'static DeviceMemory = Box::leak(Box::new(DeviceMemory::with(1, &vec![0; MIB])));
    let here = engine();
    here.register(whole(near, MIB)).expect("free");
    here.register(whole(far, MIB)).expect("free");
    let stream = ApplicationStream::new(0);
    let piece = piece(near.address(), far.address(), MIB as u64);
    for _ in 0..10 {
        let put = here.transfer_on_stream(here.name(), Opcode::Write, &[piece], stream.handle());
        assert_eq!(put, Ok(()));
    }
    stream.finish();
    assert!(far.to_vec() == pattern(3, MIB));
}

/// Copies of the transfer itself must not queue behind the stream that waits for it.
#[test]
fn streams_that_share_a_queue_do_not_block_each_other() {
    let _turn = turn();
    control::double_one_queue(true);
    let (there, far) = (engine(), memory(MIB));
    there.register(far.raw()).expect("free");
    let (here, near) = (engine(), on_device(&pattern(6, MIB)));
    here.register(whole(near, MIB)).expect("free");
    let streams: Vec<ApplicationStream> = (0..4).map(|_| ApplicationStream::new(0)).collect();
    let piece = piece(near.address(), address(far), MIB as u64);
    for stream in streams.iter().cycle().take(40) {
        let put = here.transfer_on_stream(there.name(), Opcode::Write, &[piece], stream.handle());
        assert_eq!(put, Ok(()));
    }
    streams.iter().for_each(ApplicationStream::finish);
    assert!(far.raw().to_vec() == pattern(6, MIB));
}

#[test]
fn what_cannot_go_on_a_stream_is_refused_at_once() {
    let _turn = turn();
    let (there, here, near) = (engine(), engine(), on_device(&[1; 100]));
    here.register(whole(near, 100)).expect("free");
    let stream = ApplicationStream::new(0);
    let put = |engine: &Engine, peer: &str, piece| {
        engine.transfer_on_stream(peer, Opcode::Write, &[piece], stream.handle())
    };
    let unregistered = put(&here, there.name(), piece(8, 8, 8));
    assert_eq!(unregistered, Err(MoveError::NotRegistered { start: 8, len: 8, written: false }));
    let nobody = put(&here, "127.0.0.1:9", piece(near.address(), 8, 8));
    assert!(matches!(nobody, Err(MoveError::Peer(_))), "{nobody:?}");
    for call in ["cuStreamGetCtx", "cuMemcpyDtoHAsync", "cuLaunchHostFunc"] {
        control::fail(call, 0, 1);
        let refused = put(&here, there.name(), piece(near.address(), 8, 8));
        let Err(MoveError::Stream { reason }) = refused else { panic!("{call}: {refused:?}") };
        assert!(reason.contains(call), "{reason}");
    }
    assert_eq!(here.transfer_on_stream(there.name(), Opcode::Read, &[], stream.handle()), Ok(()));
    // A thread without a current device has no default stream.
    let (here, there) = (&here, &there);
    let null = std::thread::scope(|scope| {
        let put = move || {
            let piece = piece(near.address(), 8, 8);
            here.transfer_on_stream(there.name(), Opcode::Write, &[piece], 0)
        };
        scope.spawn(put).join().expect("no panic")
    });
    assert!(matches!(null, Err(MoveError::Stream { .. })), "{null:?}");
}

#[test]
fn only_so_many_transfers_wait_for_streams() {
    let _turn = turn();
    let (there, here) = (engine(), engine());
    let (near, far) = (memory(100), memory(100));
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    let stream = ApplicationStream::new(0);
    let block = blocked(&stream);
    let piece = piece(address(near), address(far), 100);
    let put = || here.transfer_on_stream(there.name(), Opcode::Write, &[piece], stream.handle());
    for _ in 0..256 {
        assert_eq!(put(), Ok(()));
    }
    assert_eq!(put(), Err(MoveError::TooMany { limit: 256 }));
    let unregister = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| here.unregister(address(near)));
        drop(block);
        waiting.join().expect("no panic")
    });
    assert_eq!(unregister, Ok(()), "it waited for the stream");
    stream.finish();
    wait_until("there is room again", || {
        here.transfer_on_stream(there.name(), Opcode::Write, &[], stream.handle()) == Ok(())
    });
}

#[test]
fn an_engine_that_is_dropped_waits_for_streams() {
    let _turn = turn();
    let there = engine();
    let far = memory(MIB);
    there.register(far.raw()).expect("free");
    let (here, near) = (engine(), on_device(&pattern(8, MIB)));
    here.register(whole(near, MIB)).expect("free");
    let stream = ApplicationStream::new(0);
    let block = blocked(&stream);
    let piece = piece(near.address(), address(far), MIB as u64);
    assert_eq!(
        here.transfer_on_stream(there.name(), Opcode::Write, &[piece], stream.handle()),
        Ok(())
    );
    std::thread::scope(|scope| {
        scope.spawn(move || drop(here));
        drop(block);
    });
    stream.finish();
    assert!(far.raw().to_vec() == pattern(8, MIB));
}
