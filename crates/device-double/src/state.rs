use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::memory::Allocation;
use crate::stream::Stream;

pub(crate) type Status = c_int;
pub(crate) const SUCCESS: Status = 0;
pub(crate) const INVALID_VALUE: Status = 1;
pub(crate) const OUT_OF_MEMORY: Status = 2;
pub(crate) const NOT_INITIALIZED: Status = 3;
pub(crate) const INVALID_DEVICE: Status = 101;
pub(crate) const INVALID_CONTEXT: Status = 201;
pub(crate) const NOT_FOUND: Status = 500;
pub(crate) const ILLEGAL_ADDRESS: Status = 700;
pub(crate) const CONTEXT_IS_DESTROYED: Status = 709;
pub(crate) const ALREADY_REGISTERED: Status = 712;
pub(crate) const NOT_REGISTERED: Status = 713;
pub(crate) const NOT_PERMITTED: Status = 800;
pub(crate) const NOT_SUPPORTED: Status = 801;

/// The state of the driver.
pub(crate) struct DriverState {
    /// The process that initialised the driver. In its children the driver is not initialised.
    pub(crate) process: Option<u32>,
    pub(crate) devices: u32,
    /// How many contexts each device has lost, which is the number of the present one.
    pub(crate) generations: BTreeMap<u32, usize>,
    /// All allocations, by address.
    pub(crate) allocations: BTreeMap<u64, Allocation>,
    pub(crate) device_limit: usize,
    /// Locked host memory: first byte and length.
    pub(crate) locked: BTreeMap<usize, usize>,
    pub(crate) lock_limit: usize,
    pub(crate) delay: Duration,
    pub(crate) unlock_delay: Duration,
    pub(crate) has_batch: bool,
    /// The nearest NUMA node of all devices.
    pub(crate) numa_node: i32,
    pub(crate) has_wait: bool,
    /// Whether other drivers may get a dmabuf of memory.
    pub(crate) has_dmabuf: bool,
    /// What devices see of the writes of network cards by themselves: 0 nothing, 100 those to their own memory.
    pub(crate) writes_ordering: i32,
    /// Whether devices can be told to see these.
    pub(crate) has_flush: bool,
    /// The default streams of contexts, as handles.
    pub(crate) default_streams: BTreeMap<usize, usize>,
    pub(crate) has_one_queue: bool,
    /// The numbers of waits on streams that are not over. Waits are numbered in the order of their calls.
    pub(crate) waits: BTreeSet<u64>,
    /// How many waits were put on streams so far.
    pub(crate) waits_begun: u64,
    pub(crate) faults: Vec<Fault>,
    pub(crate) calls: BTreeMap<String, u64>,
}

/// A call that is to fail.
pub(crate) struct Fault {
    /// Name of the call; empty for any.
    pub(crate) call: String,
    /// How many such calls succeed before.
    pub(crate) before: u64,
    pub(crate) code: Status,
}

static STATE: Mutex<DriverState> = Mutex::new(DriverState::new());

pub(crate) fn state() -> MutexGuard<'static, DriverState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DriverState {
    const fn new() -> Self {
        Self {
            process: None,
            devices: 2,
            generations: BTreeMap::new(),
            allocations: BTreeMap::new(),
            device_limit: 8 << 30,
            locked: BTreeMap::new(),
            lock_limit: usize::MAX,
            delay: Duration::from_micros(200),
            unlock_delay: Duration::ZERO,
            has_batch: true,
            numa_node: -1,
            has_wait: true,
            has_dmabuf: true,
            writes_ordering: 100,
            has_flush: true,
            default_streams: BTreeMap::new(),
            has_one_queue: false,
            waits: BTreeSet::new(),
            waits_begun: 0,
            faults: Vec::new(),
            calls: BTreeMap::new(),
        }
    }

    /// Counts a call. Fails if a test wants the call to fail.
    pub(crate) fn enter(&mut self, call: &str) -> Result<(), Status> {
        if call != "cuInit" && self.process != Some(std::process::id()) {
            return Err(NOT_INITIALIZED);
        }
        if IS_IN_HOST_FUNCTION.get() {
            return Err(NOT_PERMITTED);
        }
        *self.calls.entry(call.to_owned()).or_default() += 1;
        let is_meant = |fault: &Fault| fault.call.is_empty() || fault.call == call;
        for at in 0..self.faults.len() {
            if !is_meant(&self.faults[at]) {
                continue;
            }
            if self.faults[at].before == 0 {
                return Err(self.faults.remove(at).code);
            }
            self.faults[at].before -= 1;
        }
        Ok(())
    }

    pub(crate) fn context_of(&self, device: u32) -> Context {
        Context { device, generation: self.generations.get(&device).copied().unwrap_or(0) }
    }

    pub(crate) fn is_alive(&self, context: Context) -> bool {
        self.context_of(context.device) == context
    }

    /// The stream of this handle, or the default stream of the current context for null.
    ///
    /// # Safety
    /// The handle must be null, or that of a stream that was not destroyed.
    pub(crate) unsafe fn stream_of(&mut self, handle: *mut c_void) -> Result<Arc<Stream>, Status> {
        let mut handle = handle;
        if handle.is_null() {
            let context = self.current()?;
            let create = || Stream::create(context).expose_provenance();
            let stream =
                *self.default_streams.entry(context.handle().addr()).or_insert_with(create);
            handle = std::ptr::with_exposed_provenance_mut(stream);
        }
        // SAFETY: the caller promises a live stream; default streams are never destroyed.
        unsafe { Stream::of(handle) }.ok_or(INVALID_VALUE)
    }

    /// The thread's current context, unless it has none or the context was lost.
    pub(crate) fn current(&self) -> Result<Context, Status> {
        let current = CURRENT.with_borrow(|contexts| contexts.last().copied());
        let context = current.ok_or(INVALID_CONTEXT)?;
        if self.is_alive(context) { Ok(context) } else { Err(CONTEXT_IS_DESTROYED) }
    }
}

/// A primary context of a device, identified by its generation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) device: u32,
    pub(crate) generation: usize,
}

impl Context {
    /// The context as a pointer of the driver, never null.
    pub(crate) fn handle(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.generation << 8 | (self.device as usize + 1))
    }

    pub(crate) fn of(handle: *mut c_void) -> Option<Self> {
        let number = handle.addr();
        let device = u32::try_from((number & 0xff).checked_sub(1)?).ok()?;
        Some(Self { device, generation: number >> 8 })
    }
}

thread_local! {
    /// Whether this thread runs a function of the host for a stream.
    pub(crate) static IS_IN_HOST_FUNCTION: Cell<bool> = const { Cell::new(false) };
    /// The contexts that this thread has pushed.
    pub(crate) static CURRENT: RefCell<Vec<Context>> = const { RefCell::new(Vec::new()) };
}
