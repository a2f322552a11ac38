use std::collections::HashMap;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mooncake_memory::{Buffer, HeldSlice, Mappings, Place, PlacedSlice, RawSlice, Region};
use mooncake_transfer::Interrupt;

use crate::hold::{Keeper, Released};
use crate::{RegisterError, UnregisterError};

/// Most ranges that one engine may have registered.
pub const MAX_REGISTRATIONS: usize = 1 << 20;

/// Most registered ranges that one piece of a transfer may span.
pub(crate) const MAX_SPANNED_RANGES: usize = 1 << 16;

/// How long an unregistration waits before it disconnects peers that write to the range.
const GRACE: Duration = Duration::from_secs(1);

/// Registered memory: ranges that do not overlap, and the peers that write to them.
#[derive(Default)]
pub(crate) struct Registry(Mutex<RegistryState>);

#[derive(Default)]
struct RegistryState {
    /// By the address of the first byte.
    ranges: BTreeMap<u64, Registered>,
    /// Ranges that were unregistered and may still be in use: first byte, and the byte past the end.
    retired_ranges: BTreeMap<u64, u64>,
    /// The first bytes of the ranges, by the order of their registration.
    order: BTreeMap<u64, u64>,
    next_number: u64,
    writers: HashMap<u64, Writer>,
    next_writer: u64,
}

/// Whether peers may use registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteAccess {
    /// Peers may read it, and write it if this process can.
    Allowed,
    /// Only transfers that this process asks for use it.
    Refused,
}

struct Registered {
    /// The range, if it is memory of a device.
    device: Option<PlacedSlice<'static>>,
    len: u64,
    /// The range, which this keeps in use. For memory of a device it is a stand-in of one byte.
    region: Arc<Region>,
    released: Arc<Released>,
    writable: bool,
    /// Whether the engine allocated the memory.
    managed: bool,
    remote: RemoteAccess,
    /// The range's key in `order`.
    number: u64,
}

/// A peer that writes to the bytes from `start` to `end`.
struct Writer {
    start: u64,
    end: u64,
    interrupt: Arc<dyn Interrupt>,
}

/// Bytes of a registered range, or of several that adjoin. As long as they exist, an unregistration of one of the
/// ranges waits.
#[derive(Clone, Debug)]
pub(crate) enum HeldBytes {
    Host(HeldSlice),
    /// Memory of a device, and the stand-ins of its ranges.
    Device {
        memory: PlacedSlice<'static>,
        ranges: Arc<[Arc<Region>]>,
    },
}

impl HeldBytes {
    pub(crate) fn placed(&self) -> PlacedSlice<'_> {
        match self {
            Self::Host(held) => held.raw().into(),
            Self::Device { memory, .. } => *memory,
        }
    }

    /// The bytes, if the processor can use them.
    pub(crate) fn host(&self) -> Option<RawSlice<'_>> {
        self.placed().host()
    }

    /// The `len` bytes that start `from` bytes in.
    pub(crate) fn sub(&self, from: usize, len: usize) -> HeldBytes {
        match self {
            Self::Host(held) => Self::Host(held.sub(from, len)),
            Self::Device { memory, ranges } => {
                Self::Device { memory: memory.sub(from, len), ranges: Arc::clone(ranges) }
            }
        }
    }
}

impl Registered {
    fn new(
        (region, len): (Region, u64),
        device: Option<PlacedSlice<'static>>,
        (released, managed): (Arc<Released>, bool),
        (writable, remote): (bool, RemoteAccess),
    ) -> Self {
        let region = Arc::new(region);
        Self { device, len, region, released, writable, managed, remote, number: 0 }
    }

    fn is_open(&self) -> bool {
        self.remote == RemoteAccess::Allowed
    }
}

impl RegistryState {
    fn overlaps(&self, start: u64, end: u64) -> bool {
        let before = self.ranges.range(..end).next_back();
        let registered = before.is_some_and(|(&at, range)| at + range.len > start);
        let retired_ranges = self.retired_ranges.range(..end).next_back();
        registered || retired_ranges.is_some_and(|(_, &past)| past > start)
    }
}

impl Registry {
    fn lock(&self) -> MutexGuard<'_, RegistryState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers memory of the caller, all ranges or none. It must stay mapped until it is unregistered.
    pub(crate) fn register(
        &self,
        memory: &[PlacedSlice<'static>],
        remote: RemoteAccess,
    ) -> Result<(), RegisterError> {
        let mappings = Mappings::read();
        for (done, &range) in memory.iter().enumerate() {
            if let Err(error) = self.register_one(range, remote, &mappings) {
                for range in &memory[..done] {
                    // The caller has published nothing. But a peer may have guessed the address, and use the range for
                    // a moment.
                    let _ = self.unregister(range.addr() as u64, GRACE);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn register_one(
        &self,
        memory: PlacedSlice<'static>,
        remote: RemoteAccess,
        mappings: &Mappings,
    ) -> Result<(), RegisterError> {
        let (start, len) = (memory.addr() as u64, memory.len() as u64);
        let empty = RegisterError::Empty { start, len };
        let end = start.checked_add(len).filter(|_| start > 0 && len > 0).ok_or(empty)?;
        if memory.place() != Place::Host {
            return self.insert(memory, (true, remote));
        }
        let access = mappings.access(start, end);
        if !access.read {
            return Err(RegisterError::NotMapped { start, len });
        }
        self.insert(memory, (access.write, remote))
    }

    /// Allocates and registers memory of the engine's own. Returns its address.
    pub(crate) fn allocate(&self, len: u64) -> Result<u64, RegisterError> {
        let no_memory = RegisterError::NoMemory { len };
        let size = usize::try_from(len).map_err(|_| no_memory.clone())?;
        let buffer = Buffer::try_zeroed(size).ok_or(no_memory)?;
        let start = buffer.raw().as_ptr().addr() as u64;
        let released = Arc::new(Released::default());
        let region = kept(buffer, &released).ok_or(RegisterError::Empty { start, len })?;
        self.add(
            start,
            Registered::new((region, len), None, (released, true), (true, RemoteAccess::Allowed)),
        )?;
        Ok(start)
    }

    fn insert(
        &self,
        memory: PlacedSlice<'static>,
        access: (bool, RemoteAccess),
    ) -> Result<(), RegisterError> {
        let (start, len) = (memory.addr() as u64, memory.len() as u64);
        let released = Arc::new(Released::default());
        let region = match memory.host() {
            Some(bytes) => Region::lent(bytes, Keeper::new(&released)).ok(),
            // A stand-in represents the range of a device, since the CPU must not touch device memory.
            None => kept(Buffer::zeroed(1), &released),
        };
        let region = region.ok_or(RegisterError::Empty { start, len })?;
        let device = memory.host().is_none().then_some(memory);
        self.add(start, Registered::new((region, len), device, (released, false), access))
    }

    fn add(&self, start: u64, mut range: Registered) -> Result<(), RegisterError> {
        let len = range.len;
        let mut state = self.lock();
        if state.ranges.len() >= MAX_REGISTRATIONS {
            return Err(RegisterError::TooMany { limit: MAX_REGISTRATIONS });
        }
        if state.overlaps(start, start + len) {
            return Err(RegisterError::Overlaps { start, len });
        }
        let number = state.next_number;
        state.next_number += 1;
        state.order.insert(number, start);
        range.number = number;
        state.ranges.insert(start, range);
        Ok(())
    }

    /// Unregisters the caller's range that starts there, and waits until no transfer uses it.
    pub(crate) fn unregister(&self, start: u64, limit: Duration) -> Result<(), UnregisterError> {
        self.remove(start, limit, |range| !range.managed)
    }

    /// Frees `len` bytes from [`Registry::allocate`].
    pub(crate) fn free(
        &self,
        start: u64,
        len: u64,
        limit: Duration,
    ) -> Result<(), UnregisterError> {
        self.remove(start, limit, |range| range.managed && range.len == len)
    }

    fn remove(
        &self,
        start: u64,
        limit: Duration,
        is_meant: impl FnOnce(&Registered) -> bool,
    ) -> Result<(), UnregisterError> {
        let deadline = Instant::now() + limit;
        let range = {
            let mut state = self.lock();
            let range = match state.ranges.entry(start) {
                Entry::Occupied(range) if is_meant(range.get()) => range.remove(),
                _ => return Err(UnregisterError::Unknown { start }),
            };
            state.order.remove(&range.number);
            state.retired_ranges.insert(start, start + range.len);
            range
        };
        let end = start + range.len;
        let Registered { device, len, region, released, writable, managed, remote, number } = range;
        let again = Arc::downgrade(&region);
        drop(region);
        if released.wait(deadline.min(Instant::now() + GRACE)) {
            self.lock().retired_ranges.remove(&start);
            return Ok(());
        }
        self.interrupt_writers(start, end);
        let is_released = released.wait(deadline);
        let mut state = self.lock();
        state.retired_ranges.remove(&start);
        // If a transfer still uses the range, it is registered again.
        match Weak::upgrade(&again).filter(|_| !is_released) {
            None => Ok(()),
            Some(region) => {
                state.order.insert(number, start);
                let range =
                    Registered { device, len, region, released, writable, managed, remote, number };
                state.ranges.insert(start, range);
                Err(UnregisterError::Busy { start })
            }
        }
    }

    /// Disconnects the peers that write to the range.
    fn interrupt_writers(&self, start: u64, end: u64) {
        let state = self.lock();
        let is_in_range = |writer: &&Writer| writer.start < end && start < writer.end;
        for writer in state.writers.values().filter(is_in_range) {
            writer.interrupt.interrupt();
        }
    }

    /// Holds `len` bytes at `start`. `None` if some of them are not registered, lie in another place than the others,
    /// or cannot be written and `to_write` is set.
    pub(crate) fn hold(&self, start: u64, len: u64, to_write: bool) -> Option<HeldBytes> {
        hold(&self.lock(), start, len, |range| range.writable || !to_write)
    }

    /// As [`Registry::hold`], for a read of a peer. Also `None` if peers may not use all of it.
    pub(crate) fn hold_for_peer(&self, start: u64, len: u64) -> Option<HeldBytes> {
        hold(&self.lock(), start, len, Registered::is_open)
    }

    /// As [`Registry::hold_for_peer`], for a write of a peer. Also returns a number for [`Registry::end_write`].
    pub(crate) fn begin_write(
        &self,
        start: u64,
        len: u64,
        interrupt: Arc<dyn Interrupt>,
    ) -> Option<(u64, HeldBytes)> {
        let mut state = self.lock();
        let held = hold(&state, start, len, |range| range.writable && range.is_open())?;
        let number = state.next_writer;
        state.next_writer += 1;
        state.writers.insert(number, Writer { start, end: start + len, interrupt });
        Some((number, held))
    }

    /// The range that begins here, if it is memory of the host that this process can read and write.
    pub(crate) fn region(&self, start: u64) -> Option<Arc<Region>> {
        let state = self.lock();
        let range = state.ranges.get(&start)?;
        (range.writable && range.device.is_none()).then(|| Arc::clone(&range.region))
    }

    /// Ends a peer's write.
    pub(crate) fn end_write(&self, number: u64) {
        self.lock().writers.remove(&number);
    }

    /// Address and length of the oldest registered range that peers may use.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        let state = self.lock();
        let mut ranges = state.order.values().filter_map(|start| {
            let range = state.ranges.get(start)?;
            range.is_open().then_some((*start, range.len))
        });
        ranges.next()
    }
}

fn hold(
    state: &RegistryState,
    start: u64,
    len: u64,
    may_be_used: impl Fn(&Registered) -> bool,
) -> Option<HeldBytes> {
    let (&first, range) = state.ranges.range(..=start).next_back()?;
    let (from, len) = (usize::try_from(start - first).ok()?, usize::try_from(len).ok()?);
    let end = from.checked_add(len)?;
    if let (true, None) = (end as u64 <= range.len, range.device) {
        let held = range.region.hold(from as u64, len as u64).ok();
        return held.filter(|_| may_be_used(range)).map(HeldBytes::Host);
    }
    let mut ranges = vec![range];
    let mut reached = range.len;
    let mut behind = state.ranges.range(first..).skip(1).take(MAX_SPANNED_RANGES - 1);
    while reached < end as u64 {
        let (_, next) = behind.next()?;
        reached = reached.checked_add(next.len)?;
        ranges.push(next);
    }
    if !ranges.iter().all(|range| may_be_used(range)) {
        return None;
    }
    let held = match range.device {
        None => HeldBytes::Host(held_together(&ranges)?),
        Some(memory) => {
            let mut devices = ranges[1..].iter().map(|range| range.device);
            let memory = devices.try_fold(memory, |all, next| all.joined(next?))?;
            let ranges = ranges.iter().map(|range| Arc::clone(&range.region)).collect();
            HeldBytes::Device { memory, ranges }
        }
    };
    Some(held.sub(from, len))
}

/// The bytes of ranges of the host that adjoin.
fn held_together(ranges: &[&Registered]) -> Option<HeldSlice> {
    let of_host = ranges.iter().map(|range| match range.device {
        None => Some(HeldSlice::whole(Arc::clone(&range.region))),
        Some(_) => None,
    });
    HeldSlice::joined(of_host.collect::<Option<_>>()?)
}

/// A buffer as a region that tells when its last holder is gone.
fn kept(buffer: Buffer, released: &Arc<Released>) -> Option<Region> {
    let held = HeldSlice::whole(Arc::new(Region::of_buffer(buffer).ok()?));
    Region::lent_part(held, Keeper::new(released)).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    const SOON: Duration = Duration::from_millis(20);

    struct Flag(AtomicBool);

    impl Interrupt for Flag {
        fn interrupt(&self) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// Callers' memory is theirs for as long as the engine knows it.
    fn for_good(len: usize) -> &'static Buffer {
        Box::leak(Box::new(Buffer::zeroed(len)))
    }

    fn address(buffer: &Buffer) -> u64 {
        buffer.raw().as_ptr().addr() as u64
    }

    #[test]
    fn ranges_may_touch_and_not_overlap() {
        let (registry, buffer) = (Registry::default(), for_good(300));
        let start = address(buffer);
        assert_eq!(
            registry.register(&[buffer.raw().sub(100, 100).into()], RemoteAccess::Allowed),
            Ok(())
        );
        for (from, len) in [(100, 100), (50, 51), (199, 2), (0, 300), (120, 5)] {
            let overlaps = RegisterError::Overlaps { start: start + from, len };
            let result = registry.register(
                &[buffer.raw().sub(from as usize, len as usize).into()],
                RemoteAccess::Allowed,
            );
            assert_eq!(result, Err(overlaps), "{len} from {from}");
        }
        assert_eq!(
            registry.register(&[buffer.raw().sub(200, 100).into()], RemoteAccess::Allowed),
            Ok(())
        );
        assert_eq!(
            registry.register(&[buffer.raw().sub(0, 100).into()], RemoteAccess::Allowed),
            Ok(())
        );
        assert_eq!(registry.first(), Some((start + 100, 100)));
        assert_eq!(registry.unregister(start + 100, SOON), Ok(()));
        assert_eq!(registry.first(), Some((start + 200, 100)));
    }

    #[test]
    fn peers_get_no_range_that_is_closed_to_them() {
        let (registry, buffer) = (Registry::default(), for_good(300));
        let start = address(buffer);
        let part = |from| PlacedSlice::from(buffer.raw().sub(from, 100));
        registry.register(&[part(0)], RemoteAccess::Refused).expect("free");
        registry.register(&[part(100)], RemoteAccess::Allowed).expect("free");
        let flag = || Arc::new(Flag(AtomicBool::new(false)));
        for (from, len, is_open) in [(0, 100, false), (50, 100, false), (100, 100, true)] {
            let at = start + from;
            assert_eq!(registry.hold_for_peer(at, len).is_some(), is_open, "{len} from {from}");
            assert_eq!(registry.begin_write(at, len, flag()).is_some(), is_open);
            assert!(registry.hold(at, len, true).is_some(), "the process itself may");
        }
        assert_eq!(registry.first(), Some((start + 100, 100)));
    }

    #[test]
    fn all_of_several_ranges_are_registered_or_none() {
        let (registry, buffer) = (Registry::default(), for_good(300));
        let part = |from| PlacedSlice::from(buffer.raw().sub(from, 100));
        let twice = registry.register(&[part(0), part(100), part(0)], RemoteAccess::Allowed);
        let overlaps = RegisterError::Overlaps { start: address(buffer), len: 100 };
        assert_eq!((twice, registry.first()), (Err(overlaps), None));
        assert_eq!(registry.register(&[part(100), part(0)], RemoteAccess::Allowed), Ok(()));
        assert_eq!(registry.first(), Some((address(buffer) + 100, 100)));
        assert!(registry.register(&[part(200), part(100)], RemoteAccess::Allowed).is_err());
        assert!(registry.hold(address(buffer) + 200, 1, false).is_none());
        assert!(registry.hold(address(buffer) + 100, 1, false).is_some(), "it was there before");
    }

    #[test]
    fn memory_that_is_not_there_is_not_registered() {
        let registry = Registry::default();
        let unmapped = registry
            .register(&[mooncake_memory::RawSlice::unmapped(100).into()], RemoteAccess::Allowed);
        assert_eq!(unmapped, Err(RegisterError::NotMapped { start: 16, len: 100 }));
        let nothing =
            registry.register(&[for_good(8).raw().sub(0, 0).into()], RemoteAccess::Allowed);
        assert!(matches!(nothing, Err(RegisterError::Empty { len: 0, .. })), "{nothing:?}");
        let no_memory = registry.allocate(1 << 62);
        assert_eq!(no_memory, Err(RegisterError::NoMemory { len: 1 << 62 }));
        assert!(matches!(registry.allocate(0), Err(RegisterError::Empty { len: 0, .. })));
        assert_eq!(registry.first(), None);
    }

    #[test]
    fn what_lies_in_ranges_that_adjoin_is_held() {
        let (registry, buffer) = (Registry::default(), for_good(400));
        let start = address(buffer);
        for (from, len) in [(0, 100), (100, 100), (201, 100)] {
            registry
                .register(&[buffer.raw().sub(from, len).into()], RemoteAccess::Allowed)
                .expect("free");
        }
        registry
            .insert(buffer.raw().sub(301, 50).into(), (false, RemoteAccess::Allowed))
            .expect("free");
        for (from, len, held) in [
            (start, 100, true),
            (start + 50, 50, true),
            (start + 199, 1, true),
            (start + 50, 51, true),
            (start, 200, true),
            (start + 200, 0, true),
            (start, 201, false),
            (start - 1, 2, false),
            (start + 200, 1, false),
            (start + 201, 100, true),
            (start + 201, 101, false),
            (start, u64::MAX, false),
            (u64::MAX, 1, false),
            (0, 1, false),
        ] {
            assert_eq!(registry.hold(from, len, true).is_some(), held, "{len} from {from:#x}");
        }
        assert!(registry.hold(start + 201, 101, false).is_some(), "all of it can be read");
    }

    #[test]
    fn each_of_the_ranges_that_a_piece_spans_stays_registered() {
        let (registry, buffer) = (Registry::default(), for_good(200));
        let start = address(buffer);
        for from in [0, 100] {
            registry
                .register(&[buffer.raw().sub(from, 100).into()], RemoteAccess::Allowed)
                .expect("free");
        }
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let (number, held) =
            registry.begin_write(start + 50, 100, flag.clone()).expect("registered");
        held.host().expect("the host's").write_from(&[9; 100]);
        for start in [start, start + 100] {
            assert_eq!(registry.unregister(start, SOON), Err(UnregisterError::Busy { start }));
            assert!(flag.0.swap(false, Ordering::AcqRel), "the writer was interrupted");
        }
        registry.end_write(number);
        drop(held);
        for start in [start, start + 100] {
            assert_eq!(registry.unregister(start, SOON), Ok(()));
        }
        assert_eq!(buffer.as_slice()[49..51], [0, 9]);
    }

    #[test]
    fn memory_that_cannot_be_written_is_only_read() {
        let (registry, buffer) = (Registry::default(), for_good(100));
        registry.insert(buffer.raw().into(), (false, RemoteAccess::Allowed)).expect("free");
        let start = address(buffer);
        let interrupt = Arc::new(Flag(AtomicBool::new(false)));
        assert!(registry.hold(start, 100, false).is_some());
        assert!(registry.hold(start, 100, true).is_none());
        assert!(registry.begin_write(start, 100, interrupt).is_none());
    }

    #[test]
    fn a_range_that_is_held_stays_registered() {
        let registry = Registry::default();
        let start = registry.allocate(100).expect("memory");
        let held = registry.hold(start + 10, 20, true).expect("registered");
        assert_eq!(registry.free(start, 100, SOON), Err(UnregisterError::Busy { start }));
        held.host().expect("the host's").write_from(&[1; 20]);
        assert_eq!(registry.first(), Some((start, 100)));
        drop(held);
        assert_eq!(registry.free(start, 100, SOON), Ok(()));
        assert_eq!(registry.free(start, 100, SOON), Err(UnregisterError::Unknown { start }));
    }

    #[test]
    fn unregistering_waits_for_the_last_holder() {
        let registry = Registry::default();
        let start = registry.allocate(100).expect("memory");
        let held = registry.hold(start, 100, true).expect("registered");
        std::thread::scope(|scope| {
            let freed = scope.spawn(|| registry.free(start, 100, Duration::from_secs(30)));
            while registry.first().is_some() {
                std::thread::yield_now();
            }
            assert!(registry.hold(start, 1, false).is_none(), "nobody new gets it");
            held.host().expect("the host's").write_from(&[9; 100]);
            assert!(!freed.is_finished());
            drop(held);
            assert_eq!(freed.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn a_writer_that_stays_too_long_is_interrupted() {
        let registry = Registry::default();
        let start = registry.allocate(100).expect("memory");
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let (number, held) = registry.begin_write(start, 50, flag.clone()).expect("registered");
        std::thread::scope(|scope| {
            let freed = scope.spawn(|| registry.free(start, 100, Duration::from_secs(30)));
            while !flag.0.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            registry.end_write(number);
            drop(held);
            assert_eq!(freed.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn each_kind_of_memory_is_taken_back_in_its_own_way() {
        let (registry, buffer) = (Registry::default(), for_good(100));
        let own = registry.allocate(64).expect("memory");
        let callers = address(buffer);
        registry.register(&[buffer.raw().into()], RemoteAccess::Allowed).expect("free");
        for (result, start) in [
            (registry.unregister(own, SOON), own),
            (registry.free(own, 63, SOON), own),
            (registry.free(callers, 100, SOON), callers),
            (registry.unregister(callers + 1, SOON), callers + 1),
        ] {
            assert_eq!(result, Err(UnregisterError::Unknown { start }));
        }
        assert_eq!(
            (registry.free(own, 64, SOON), registry.unregister(callers, SOON)),
            (Ok(()), Ok(()))
        );
    }
}
