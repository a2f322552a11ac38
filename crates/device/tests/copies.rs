//! Copies between device memory and host memory, with a test double of the driver.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use mooncake_device::testing::{end_refusals, use_driver};
use mooncake_device::{
    CopyError, DeviceWay, Direction, Job, STAGING_BYTES, Staging, copy_each, copy_from_caller,
    copy_to_caller, devices, locked_bytes, place_of, probe,
};
use mooncake_device_double::{control, symbol};
use mooncake_memory::{Buffer, MemoryLimit, Place, PlacedSlice, RawSlice, Region, SliceList};

const MIB: usize = 1 << 20;

/// All tests of a process share the driver. They run in turn, and each starts with the driver's initial state.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static DRIVER: Once = Once::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    DRIVER.call_once(|| use_driver(symbol));
    control::double_reset();
    // An earlier test may have lost a context with page-locked memory; the next lock releases it.
    let (memory, region) = (DeviceMemory::new(0, 1), Region::anonymous(1).expect("memory"));
    let list = memory.whole();
    let _ = copy_each(Direction::ToHost, &[job(&list, region.whole(), Some(&region))], &|_| true);
    drop(region);
    control::double_reset();
    turn
}

/// Memory of one device.
struct DeviceMemory {
    ordinal: u32,
    start: u64,
    len: usize,
}

impl DeviceMemory {
    fn new(ordinal: u32, len: usize) -> Self {
        Self::in_pieces(ordinal, len, 1)
    }

    fn in_pieces(ordinal: u32, len: usize, count: usize) -> Self {
        control::double_use_device(ordinal);
        let start = control::double_alloc_pieces(ordinal, len, count);
        assert_ne!(start, 0, "the double has memory");
        Self { ordinal, start, len: len * count }
    }

    fn slice(&self, from: usize, len: usize) -> PlacedSlice<'static> {
        assert!(from + len <= self.len);
        let address = self.start as usize + from;
        // SAFETY: memory of the double, which lives as long as the test.
        unsafe { PlacedSlice::of_device(self.ordinal, address, len) }
    }

    fn whole(&self) -> SliceList<'static> {
        self.slice(0, self.len).into()
    }

    fn fill(&self, seed: usize) -> Vec<u8> {
        let bytes = bytes(seed, self.len);
        copy_to_caller(Buffer::from_vec(bytes.clone()).raw(), &self.whole()).expect("no fault");
        bytes
    }

    fn read(&self) -> Vec<u8> {
        let buffer = Buffer::zeroed(self.len);
        copy_from_caller(&self.whole(), buffer.raw()).expect("no fault");
        buffer.into_vec()
    }
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed * 31) as u8).collect()
}

fn job<'a>(memory: &'a SliceList<'a>, host: RawSlice<'a>, region: Option<&'a Region>) -> Job<'a> {
    Job { memory, host, region }
}

#[test]
fn bytes_go_to_a_device_and_come_back() {
    let _turn = turn();
    for len in [1, 4095, MIB + 1, 13 * MIB + 5] {
        let memory = DeviceMemory::new(1, len);
        let expected = memory.fill(len);
        assert!(memory.read() == expected, "{len} bytes");
    }
}

#[test]
fn the_driver_says_where_memory_lies() {
    let _turn = turn();
    let memory = DeviceMemory::new(1, 10_000);
    let start = memory.start as usize;
    assert_eq!(place_of(start, 10_000).unwrap(), Place::Device(1));
    assert_eq!(place_of(start + 9_999, 1).unwrap(), Place::Device(1));
    let error = place_of(start, 10_001).unwrap_err().to_string();
    assert_eq!(error, "from byte 10000 on it is not allocated in device 1");
    let buffer = Buffer::zeroed(10);
    assert_eq!(place_of(buffer.raw().as_ptr().addr(), 10).unwrap(), Place::Host);
    let virtual_memory = DeviceMemory::in_pieces(0, 2 * MIB, 5);
    assert_eq!(place_of(virtual_memory.start as usize, 10 * MIB).unwrap(), Place::Device(0));
    let names = devices().unwrap().into_iter().map(|device| (device.ordinal, device.name));
    let names: Vec<_> = names.collect();
    assert_eq!(names, [(0, "Double 0".to_owned()), (1, "Double 1".to_owned())]);
}

#[test]
fn a_segment_is_locked_once_and_unlocked_before_it_goes() {
    let _turn = turn();
    let memory = DeviceMemory::new(0, 3 * MIB);
    let expected = memory.fill(1);
    let before = (control::double_locked(), locked_bytes());
    let region = Region::anonymous(130 * MIB as u64).expect("memory");
    let list = memory.whole();
    for offset in [0, 63 * MIB, 127 * MIB] {
        let host = region.slice(offset as u64, 3 * MIB as u64).expect("inside");
        let results = copy_each(Direction::ToHost, &[job(&list, host, Some(&region))], &|_| true);
        assert!(results.iter().all(Result::is_ok), "{results:?}");
        assert!(host.to_vec() == expected);
    }
    let during = (control::double_locked(), locked_bytes());
    assert_eq!(during, (before.0 + 130 * MIB, before.1 + 130 * MIB as u64));
    drop(region);
    assert_eq!((control::double_locked(), locked_bytes()), before);
}

/// Copies every second block of 4 KiB, from the last to the first, from one device to the host and on to another one.
/// Each block starts `shift` bytes late.
fn copy_blocks(shift: usize) {
    let (memory, target) = (DeviceMemory::new(0, 4 * MIB), DeviceMemory::new(1, 4 * MIB));
    let expected = memory.fill(3);
    let region = Region::anonymous(8 * MIB as u64).expect("memory");
    let host = region.slice(0, 2 * MIB as u64).expect("inside");
    let blocks = |memory: &DeviceMemory| -> SliceList<'static> {
        (0..512).rev().map(|block| memory.slice(block * 8192 + shift, 4096)).collect()
    };
    let list = blocks(&memory);
    let result = copy_each(Direction::ToHost, &[job(&list, host, Some(&region))], &|_| true);
    assert!(result[0].is_ok(), "{result:?}");
    let parts = expected.chunks(8192).rev().map(|block| &block[shift..shift + 4096]);
    assert!(host.to_vec() == parts.collect::<Vec<_>>().concat());
    let list = blocks(&target);
    let result = copy_each(Direction::ToDevice, &[job(&list, host, Some(&region))], &|_| true);
    assert!(result[0].is_ok(), "{result:?}");
    let read = target.read();
    let part = |block: &[u8]| block[shift..shift + 4096].to_vec();
    assert!(read.chunks(8192).map(part).eq(expected.chunks(8192).map(part)));
}

/// How many copies went each way: kernels, batches, single copies to the host.
fn ways() -> [u64; 3] {
    ["cuLaunchKernel", "cuMemcpyBatchAsync", "cuMemcpyDtoHAsync"].map(control::calls)
}

#[test]
fn many_pieces_are_one_kernel_or_one_call() {
    let _turn = turn();
    copy_blocks(0);
    // The first copies make both devices try their kernels; `read` copies a single piece.
    let [kernels, ..] = ways();
    copy_blocks(0);
    assert_eq!(ways(), [kernels + 2, 0, 2], "a kernel each way");
    copy_blocks(8);
    assert_eq!(ways(), [kernels + 2, 2, 3], "a kernel moves 16 bytes at a time");
    control::double_batch(false);
    copy_blocks(8);
    assert_eq!(ways(), [kernels + 2, 4, 3 + 512 + 1]);
}

#[test]
fn pieces_of_all_lengths_and_more_than_a_list_holds() {
    let _turn = turn();
    let lens = [16, 4096, 4096 + 16, 2048 - 16, 100_000, 16_384, 65_536, 300_000, 32];
    let count = 12_000 * 16 + lens.iter().sum::<usize>();
    let (memory, target) = (DeviceMemory::new(0, count), DeviceMemory::new(0, count));
    let expected = memory.fill(4);
    let region = Region::anonymous(count as u64).expect("memory");
    let (job_list, target_list) = {
        let lens = lens.iter().copied().chain(std::iter::repeat_n(16, 12_000));
        let mut at = 0;
        let places: Vec<(usize, usize)> = lens
            .map(|len| {
                at += len;
                (at - len, len)
            })
            .collect();
        let list = |memory: &DeviceMemory| -> SliceList<'static> {
            // Adjacent pieces are not adjacent in the list, so they are not merged.
            let (even, odd): (Vec<_>, Vec<_>) =
                places.iter().enumerate().partition(|(i, _)| i % 2 == 0);
            even.into_iter().chain(odd).map(|(_, &(at, len))| memory.slice(at, len)).collect()
        };
        (list(&memory), list(&target))
    };
    for (direction, list) in [(Direction::ToHost, &job_list), (Direction::ToDevice, &target_list)] {
        let result = copy_each(direction, &[job(list, region.whole(), Some(&region))], &|_| true);
        assert!(result[0].is_ok(), "{result:?}");
    }
    assert!(target.read() == expected);
}

#[test]
fn pieces_of_the_host_and_of_two_devices_are_one_object() {
    let _turn = turn();
    let (one, two) = (DeviceMemory::new(0, 5000), DeviceMemory::new(1, 7000));
    let (first, second) = (one.fill(1), two.fill(2));
    let header = Buffer::from_vec(bytes(3, 24));
    let list: SliceList =
        [PlacedSlice::from(header.raw()), two.slice(0, 7000), one.slice(1000, 4000)]
            .into_iter()
            .collect();
    let all = Buffer::zeroed(24 + 7000 + 4000);
    copy_from_caller(&list, all.raw()).expect("no fault");
    let expected = [&header.as_slice().to_vec()[..], &second, &first[1000..]].concat();
    assert!(all.as_slice() == expected);
    let other = Buffer::from_vec(bytes(9, all.len()));
    copy_to_caller(other.raw(), &list).expect("no fault");
    let read = [header.as_slice().to_vec(), two.read(), one.read()[1000..].to_vec()].concat();
    assert!(read == other.as_slice());
}

#[test]
fn pages_that_cannot_be_locked_are_passed_by() {
    let _turn = turn();
    let memory = DeviceMemory::new(0, 9 * MIB);
    let expected = memory.fill(5);
    control::double_limit_locks(0);
    let region = Region::anonymous(10 * MIB as u64).expect("memory");
    let (list, host) = (memory.whole(), region.slice(7, 9 * MIB as u64).expect("inside"));
    let result = copy_each(Direction::ToHost, &[job(&list, host, Some(&region))], &|_| true);
    assert!(result[0].is_ok() && host.to_vec() == expected);
    host.write_from(&bytes(6, 9 * MIB));
    let result = copy_each(Direction::ToDevice, &[job(&list, host, Some(&region))], &|_| true);
    assert!(result[0].is_ok() && memory.read() == bytes(6, 9 * MIB));
    assert_eq!(
        control::calls("cuMemcpyBatchAsync"),
        0,
        "the double refuses it pages that are not locked"
    );
}

#[test]
fn one_range_that_was_freed_does_not_spoil_the_others() {
    let _turn = turn();
    let memories: Vec<_> = (0..3).map(|_| DeviceMemory::new(0, 10_000)).collect();
    let expected: Vec<_> = memories.iter().enumerate().map(|(i, memory)| memory.fill(i)).collect();
    control::free(memories[1].start);
    let region = Region::anonymous(MIB as u64).expect("memory");
    let lists: Vec<SliceList> = memories.iter().map(DeviceMemory::whole).collect();
    let hosts: Vec<RawSlice> =
        (0..3).map(|i| region.slice(i * 10_000, 10_000).expect("inside")).collect();
    let jobs: Vec<_> =
        lists.iter().zip(&hosts).map(|(list, &host)| job(list, host, Some(&region))).collect();
    let results = copy_each(Direction::ToHost, &jobs, &|_| true);
    assert!(matches!(results[..], [Ok(()), Err(CopyError::Driver(_)), Ok(())]), "{results:?}");
    assert!(hosts[0].to_vec() == expected[0] && hosts[2].to_vec() == expected[2]);
}

#[test]
fn a_job_that_is_to_stop_stops_alone() {
    let _turn = turn();
    let (one, two) = (DeviceMemory::new(0, 100), DeviceMemory::new(0, 100));
    let (first, _) = (one.fill(1), two.fill(2));
    let region = Region::anonymous(MIB as u64).expect("memory");
    let lists = [one.whole(), two.whole()];
    let host = |at| region.slice(at, 100).expect("inside");
    let jobs = [job(&lists[0], host(0), Some(&region)), job(&lists[1], host(100), Some(&region))];
    let results = copy_each(Direction::ToHost, &jobs, &|job| job == 0);
    assert!(matches!(results[..], [Ok(()), Err(CopyError::Stopped)]), "{results:?}");
    assert!(host(0).to_vec() == first && host(100).to_vec() == [0; 100]);
}

#[test]
fn each_call_of_the_driver_may_fail() {
    let _turn = turn();
    let memory = DeviceMemory::new(0, 20_000);
    let expected = memory.fill(8);
    for nth in 0..40 {
        let region = Region::anonymous(MIB as u64).expect("memory");
        let list: SliceList = (0..10).map(|i| memory.slice(i * 2000, 1000)).collect();
        let host = region.slice(0, 10_000).expect("inside");
        control::fail("", nth, 999);
        let result = copy_each(Direction::ToHost, &[job(&list, host, Some(&region))], &|_| true);
        if result[0].is_ok() {
            let pieces = expected.chunks(1000).step_by(2).collect::<Vec<_>>().concat();
            assert!(host.to_vec() == pieces, "call {nth}");
        }
        drop(region);
        control::double_reset();
    }
    assert!(memory.read() == expected, "all is well again");
}

/// After an error, the copy must not touch memory that its owner uses again.
#[test]
fn nothing_is_under_way_after_a_wait_that_failed() {
    let _turn = turn();
    let device = DeviceMemory::new(0, MIB);
    let list = device.whole();
    let host = Buffer::from_vec(bytes(1, MIB));
    // The `before` calls that succeed first locate the memory and begin the copy.
    for call in ["cuCtxPushCurrent", "cuStreamSynchronize"] {
        for before in 0..4 {
            device.fill(7);
            control::double_delay_us(20_000);
            control::fail(call, before, 999);
            let result = copy_to_caller(host.raw(), &list);
            host.raw().write_from(&bytes(2, MIB));
            std::thread::sleep(std::time::Duration::from_millis(40));
            control::double_reset();
            let found = device.read();
            assert!(found != bytes(2, MIB), "{call} {before}: {result:?}");
            assert!(result.is_err() || found == bytes(1, MIB), "{call} {before}");
            host.raw().write_from(&bytes(1, MIB));
        }
    }
}

#[test]
fn a_lost_context_is_an_error_and_the_next_one_is_found() {
    let _turn = turn();
    let memory = DeviceMemory::new(1, 10_000);
    memory.fill(1);
    control::double_lose_context(1);
    let buffer = Buffer::zeroed(10_000);
    let lost = copy_from_caller(&memory.whole(), buffer.raw());
    assert!(matches!(lost, Err(CopyError::Driver(_))), "{lost:?}");
    let next = DeviceMemory::new(1, 10_000);
    assert!(next.fill(4) == next.read());
}

#[test]
fn a_copy_waits_for_no_staging_memory_that_its_caller_may_have() {
    let _turn = turn();
    let memory = DeviceMemory::new(0, MIB);
    // The most staging memory that a process may have at a time.
    let all: Vec<Staging> =
        (0..8).map(|_| Staging::of_device(0).expect("there is memory")).collect();
    let filled = memory.fill(3);
    assert!(memory.read() == filled);
    drop(all);
}

#[test]
fn many_threads_copy_at_once() {
    let _turn = turn();
    let memories: Vec<_> = (0..24).map(|i| DeviceMemory::new(i % 2, 100_000)).collect();
    std::thread::scope(|scope| {
        for (seed, memory) in memories.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..5 {
                    assert!(memory.fill(seed * 10 + round) == memory.read());
                }
            });
        }
    });
}

#[test]
fn a_probe_says_the_way_and_the_reason() {
    let _turn = turn();
    let before = (control::double_locked(), locked_bytes());
    let found = probe(0).expect("the double has a device");
    assert_eq!(found.way, DeviceWay::OneCopy);
    let speed = found.speed.expect("it is measured");
    assert!(speed.to_host > 0.0 && speed.to_device > 0.0, "{speed:?}");
    assert_eq!((control::double_locked(), locked_bytes()), before, "nothing stays locked");
    control::double_limit_locks(MIB);
    let reason =
        "cuMemHostRegister of the CUDA driver failed: CUDA_ERROR_OUT_OF_MEMORY (2)".to_owned();
    let found = probe(0).expect("the double has a device");
    assert_eq!(found.way, DeviceWay::Staged { reason });
    assert!(found.speed.is_ok());
    control::double_reset();
    control::double_limit_device(MIB);
    let found = probe(0).expect("the double has a device");
    assert_eq!(found.way, DeviceWay::OneCopy);
    assert!(matches!(found.speed, Err(CopyError::Driver(_))), "{:?}", found.speed);
    assert!(matches!(probe(7), Err(CopyError::Driver(_))), "there is no such device");
}

#[test]
fn a_refusal_to_lock_pages_that_passes_is_forgotten_after_a_while() {
    let _turn = turn();
    let memory = DeviceMemory::new(0, MIB);
    let (expected, list) = (memory.fill(1), memory.whole());
    let region = Region::anonymous(2 * MIB as u64).expect("memory");
    let copy = || {
        let host = region.slice(0, MIB as u64).expect("inside");
        let result = copy_each(Direction::ToHost, &[job(&list, host, Some(&region))], &|_| true);
        assert!(result[0].is_ok() && host.to_vec() == expected, "{result:?}");
        control::calls("cuMemHostRegister")
    };
    control::fail("cuMemHostRegister", 0, 2);
    let asked = copy();
    // Its detour is locked by now.
    let detour = locked_bytes();
    assert_eq!((copy(), locked_bytes()), (asked, detour), "the driver is not asked again at once");
    end_refusals();
    let all = detour + 2 * MIB as u64;
    assert_eq!((copy(), locked_bytes()), (asked + 1, all), "the refusal has passed");
    assert_eq!((copy(), locked_bytes()), (asked + 1, all), "it stays locked");
}

#[test]
fn copies_do_not_wait_while_a_large_segment_is_unlocked() {
    let _turn = turn();
    let memory = DeviceMemory::new(0, MIB);
    let expected = memory.fill(1);
    let list = memory.whole();
    let copied = |region: &Region, at: u64| {
        let host = region.slice(at, MIB as u64).expect("inside");
        let result = copy_each(Direction::ToHost, &[job(&list, host, Some(region))], &|_| true);
        assert!(result[0].is_ok() && host.to_vec() == expected, "{result:?}");
    };
    let large = Region::anonymous(256 * MIB as u64).expect("memory");
    (0..4).for_each(|piece| copied(&large, piece * 64 * MIB as u64));
    let small = Region::anonymous(2 * MIB as u64).expect("memory");
    copied(&small, 0);
    control::double_unlock_delay_us(300_000);
    let unlocked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(large);
            unlocked.store(true, Ordering::SeqCst);
        });
        while control::calls("cuMemHostUnregister") == 0 {
            std::thread::yield_now();
        }
        // One copy uses pages that are locked already, the other locks new ones.
        copied(&small, MIB as u64);
        let fresh = Region::anonymous(2 * MIB as u64).expect("memory");
        copied(&fresh, 0);
        assert!(!unlocked.load(Ordering::SeqCst), "the copies waited");
    });
}

#[test]
fn what_was_not_used_for_the_longest_time_is_unlocked_for_others() {
    let _turn = turn();
    const PIECE: u64 = 64 * MIB as u64;
    let bound = MemoryLimit::look().expect("the system says").bytes / 4;
    let pieces = bound / PIECE + 3;
    let memory = DeviceMemory::new(0, 4096);
    let (expected, list) = (memory.fill(1), memory.whole());
    // The copies touch only a few pages of this region.
    let region = Region::anonymous(pieces * PIECE).expect("memory");
    let copy = |piece: u64| {
        let host = region.slice(piece * PIECE + 100, 4096).expect("inside");
        let result = copy_each(Direction::ToHost, &[job(&list, host, Some(&region))], &|_| true);
        assert!(result[0].is_ok() && host.to_vec() == expected, "piece {piece}: {result:?}");
        assert!(locked_bytes() <= bound, "piece {piece}");
    };
    control::double_delay_us(0);
    (0..pieces).for_each(copy);
    let unlocked = || control::calls("cuMemHostUnregister");
    let before = unlocked();
    assert!(before >= 3, "{before} were unlocked");
    copy(pieces - 1);
    assert_eq!(unlocked(), before, "it is locked yet");
    copy(0);
    assert!(unlocked() > before, "the first was unlocked for the last");
    // Each thread wants pieces that the others unlock, while unlocking takes time.
    control::double_unlock_delay_us(300);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let copy = &copy;
            scope.spawn(move || (0..200).for_each(|i| copy((i * 7 + thread * 5) % pieces)));
        }
    });
    drop(region);
    // The store keeps two pairs of staging buffers.
    assert!(locked_bytes() <= 4 * STAGING_BYTES as u64, "{}", locked_bytes());
    assert!(control::double_locked() < PIECE as usize, "{}", control::double_locked());
}
