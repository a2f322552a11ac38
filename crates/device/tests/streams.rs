//! Streams that wait for a counter, with a test double of the driver.

use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use mooncake_device::testing::{DeviceMemory, use_driver};
use mooncake_device::{StreamCounter, copy_from_caller};
use mooncake_device_double::{control, symbol};
use mooncake_memory::Buffer;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

/// All tests of a process share the driver. They run in turn, and each starts with the driver's initial state.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    static DRIVER: Once = Once::new();
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    DRIVER.call_once(|| use_driver(symbol));
    control::double_reset();
    turn
}

/// A stream that the application made, not the store.
struct Stream(*mut c_void);

fn function(name: &CStr) -> *mut c_void {
    let function = symbol(name);
    assert!(!function.is_null(), "the double has {name:?}");
    function
}

impl Stream {
    fn new() -> Stream {
        control::double_use_device(0);
        // SAFETY: the driver's function of this name.
        let create: unsafe extern "C" fn(*mut *mut c_void, u32) -> c_int =
            unsafe { std::mem::transmute(function(c"cuStreamCreate")) };
        let mut stream = std::ptr::null_mut();
        // SAFETY: writes one pointer.
        assert_eq!(unsafe { create(&raw mut stream, 1) }, 0);
        Stream(stream)
    }

    fn handle(&self) -> usize {
        self.0.expose_provenance()
    }

    /// Makes the stream copy device memory to the host, as attention would read it.
    fn read(&self, memory: &DeviceMemory, into: &Buffer) {
        // SAFETY: the driver's function of this name.
        let copy: unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> c_int =
            unsafe { std::mem::transmute(function(c"cuMemcpyDtoHAsync_v2")) };
        control::double_use_device(0);
        let to = into.raw();
        // SAFETY: the buffer stays until the stream is done.
        let code = unsafe { copy(to.as_ptr().cast(), memory.address(), to.len(), self.0) };
        assert_eq!(code, 0);
    }

    fn finish(&self) {
        // SAFETY: the driver's function of this name.
        let synchronize: unsafe extern "C" fn(*mut c_void) -> c_int =
            unsafe { std::mem::transmute(function(c"cuStreamSynchronize")) };
        control::double_use_device(0);
        // SAFETY: made by the driver.
        assert_eq!(unsafe { synchronize(self.0) }, 0);
    }
}

fn bytes(seed: u8) -> Vec<u8> {
    (0..5000_usize).map(|i| (i % 251) as u8 ^ seed).collect()
}

#[test]
fn what_a_stream_does_after_a_wait_comes_after_the_count() {
    let _turn = turn();
    let (counter, stream) = (StreamCounter::new(0, LONG).expect("it can wait"), Stream::new());
    let memory = DeviceMemory::with(0, &bytes(1));
    let (first, second) = (Buffer::zeroed(5000), Buffer::zeroed(5000));
    assert!(counter.wait(stream.handle(), 1));
    stream.read(&memory, &first);
    assert!(counter.wait(stream.handle(), 2));
    stream.read(&memory, &second);
    // Without the wait, the stream would be done by now.
    std::thread::sleep(Duration::from_millis(20));
    assert!(first.as_slice().iter().all(|&byte| byte == 0), "the stream did not wait");
    mooncake_device::copy_to_caller(Buffer::from_vec(bytes(2)).raw(), &memory.list())
        .expect("copied");
    assert!(counter.advance(1));
    let deadline = Instant::now() + LONG;
    while first.as_slice() != bytes(2) {
        assert!(Instant::now() < deadline, "the stream does not go on");
        std::thread::yield_now();
    }
    assert!(second.as_slice().iter().all(|&byte| byte == 0), "it waits for the second");
    assert!(counter.advance(2));
    stream.finish();
    assert_eq!(second.as_slice(), bytes(2));
    let calls = control::calls("cuStreamWaitValue32");
    assert!(counter.wait(stream.handle(), 2), "what is there needs no wait");
    assert_eq!(control::calls("cuStreamWaitValue32"), calls);
}

#[test]
fn a_stream_that_waits_too_long_goes_on_and_the_count_is_too_late() {
    let _turn = turn();
    let (counter, stream) = (StreamCounter::new(0, SHORT).expect("it can wait"), Stream::new());
    assert!(counter.wait(stream.handle(), 3));
    assert!(counter.wait(stream.handle(), 4));
    stream.finish();
    let late = [1, 3, 4, 5].map(|count| counter.advance(count));
    assert_eq!(late, [false, false, false, true]);
    assert!(!counter.wait(stream.handle(), 6), "the processor waits from then on");
    assert!(counter.wait(stream.handle(), 5), "it is there");
    assert!(!counter.wait(stream.handle(), 4), "it was too late");
}

#[test]
fn each_step_of_the_count_gives_a_stream_more_time() {
    let _turn = turn();
    let limit = Duration::from_secs(2);
    let (counter, stream) = (StreamCounter::new(0, limit).expect("it can wait"), Stream::new());
    assert!(counter.wait(stream.handle(), 8));
    for count in 1..=8 {
        std::thread::sleep(limit / 7);
        assert!(counter.advance(count), "{count}");
    }
    stream.finish();
}

#[test]
fn a_device_of_one_queue_does_not_hang() {
    let _turn = turn();
    control::double_one_queue(true);
    let (counter, stream) = (StreamCounter::new(0, SHORT).expect("it can wait"), Stream::new());
    let memory = DeviceMemory::with(0, &bytes(7));
    assert!(counter.wait(stream.handle(), 1));
    // With a single queue, the load stands behind the stream that waits for it.
    let buffer = Buffer::zeroed(5000);
    copy_from_caller(&memory.list(), buffer.raw()).expect("copied");
    assert_eq!(buffer.as_slice(), bytes(7));
    assert!(!counter.advance(1), "the stream went on without it");
    stream.finish();
}

#[test]
fn a_count_that_is_given_up_lets_streams_go_on() {
    let _turn = turn();
    let (counter, stream) = (StreamCounter::new(0, LONG).expect("it can wait"), Stream::new());
    assert!(counter.wait(stream.handle(), 1 << 40), "only the lower half is compared");
    drop(counter);
    stream.finish();
}

#[test]
fn a_driver_that_cannot_wait_leaves_it_to_the_processor() {
    let _turn = turn();
    let limit = Duration::from_secs(1);
    let (counter, stream) = (StreamCounter::new(0, limit).expect("it can wait"), Stream::new());
    assert!(counter.wait(stream.handle(), 1));
    control::double_wait_value(false);
    assert!(!counter.wait(stream.handle(), 2));
    control::double_reset();
    assert!(!counter.wait(stream.handle(), 2), "it is asked once");
    assert!(counter.advance(1), "the first wait still counts");
    stream.finish();
    std::thread::sleep(2 * limit);
    assert!(counter.advance(2), "no stream waits for the second");
    for call in ["cuMemHostRegister", "cuMemHostGetDevicePointer"] {
        control::fail(call, 0, 999);
        assert!(StreamCounter::new(0, SHORT).is_err(), "{call}");
    }
}
