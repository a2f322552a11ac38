//! Ranges that a node keeps unchanged for views of this process.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread::Builder;
use std::time::Instant;

use mooncake_connection::{Connection, Fault};
use mooncake_memory::{Private, Wait, await_hang_up, send_bytes, spawn_unpinned};
use mooncake_types::limits::MAX_FRAME_RANGES;
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{Kind, decode_results, encode_pin, encode_unpin};

use super::failed_questions::FailedQuestions;
use super::segment::NearSegment;
use crate::view::{Hold, Pinned, View};

/// Stack of the thread that waits for a node to recall its ranges.
const STACK_BYTES: usize = 64 << 10;

/// The connection that pins ranges of one node.
#[derive(Default)]
pub(super) struct Pinning(Mutex<PinningState>);

#[derive(Default)]
struct PinningState {
    pins: Option<Arc<PinConnection>>,
    doubts: FailedQuestions,
}

impl Pinning {
    fn lock(&self) -> MutexGuard<'_, PinningState> {
        lock(&self.0)
    }

    /// The connection; a new one if there is none.
    pub(super) fn pins(
        &self,
        open: impl FnOnce() -> Result<Connection, Fault>,
    ) -> Option<Arc<PinConnection>> {
        let mut state = self.lock();
        if state.doubts.cover_node(Instant::now()) {
            return None;
        }
        if state.pins.is_none() {
            match open().and_then(|connection| Ok(PinConnection::start(connection)?)) {
                Ok(pins) => state.pins = Some(pins),
                Err(fault) => state.doubt(&fault),
            }
        }
        state.pins.clone()
    }

    /// Forgets a connection that cannot be used again. After a fault, no other is opened for a while.
    pub(super) fn forget(&self, pins: &Arc<PinConnection>, fault: Option<&Fault>) {
        let mut state = self.lock();
        let forgotten = state.pins.take_if(|current| Arc::ptr_eq(current, pins));
        if let Some(fault) = fault {
            state.doubt(fault);
        }
        drop(state);
        drop(forgotten);
    }
}

impl PinningState {
    fn doubt(&mut self, fault: &Fault) {
        tracing::debug!(?fault, "a node of this host pins nothing");
        self.doubts.doubt_node(Instant::now());
    }
}

/// A connection that pins ranges for as long as it lasts. When the node closes its side, it recalls all of them. This
/// side then detaches all views, and only after that closes too.
pub(super) struct PinConnection {
    /// Held during a question, and until its results are in `views`.
    asker: Mutex<Asker>,
    /// Numbers of ranges to give back.
    returned: Mutex<Vec<u64>>,
    /// Pinned ranges by number; `None` once the node has recalled them.
    views: Mutex<Option<BTreeMap<u64, Weak<Pinned>>>>,
    socket: Arc<Private<TcpStream>>,
}

struct Asker {
    connection: Connection,
    /// The number of the next range that is asked for.
    next: u64,
    /// The connection takes no more questions. Ranges stay pinned.
    is_broken: bool,
}

/// A range to view, and its segment.
pub(super) type Wanted<'a> = (&'a RangeRead, &'a NearSegment);

/// Why nothing was pinned.
pub(super) enum PinError {
    /// This connection cannot be used; another may work.
    Closed,
    /// The node cannot be asked.
    Fault(Fault),
}

impl PinError {
    fn of(fault: Fault) -> Self {
        match fault {
            // The node recalls everything, or is gone, which the next connection will tell.
            Fault::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => PinError::Closed,
            fault => PinError::Fault(fault),
        }
    }
}

/// Keeps a range of a node unchanged until it is dropped.
struct PinHold {
    pins: Arc<PinConnection>,
    number: u64,
}

impl Hold for PinHold {}

impl Drop for PinHold {
    fn drop(&mut self) {
        self.pins.give_back(self.number);
    }
}

impl PinConnection {
    /// A connection for pins, and a thread that waits for its end.
    pub(super) fn start(connection: Connection) -> io::Result<Arc<PinConnection>> {
        let socket = Arc::clone(connection.stream());
        let watched = Arc::clone(&socket);
        let asker = Asker { connection, next: 0, is_broken: false };
        let pins = Arc::new(PinConnection {
            asker: Mutex::new(asker),
            returned: Mutex::default(),
            views: Mutex::new(Some(BTreeMap::new())),
            socket,
        });
        let of_thread = Arc::downgrade(&pins);
        let watch = move || {
            // An error ends the wait as well.
            let _ = await_hang_up(watched.as_fd());
            if let Some(pins) = of_thread.upgrade() {
                pins.recall();
            }
        };
        let thread = Builder::new().name("mooncake-pins".to_owned()).stack_size(STACK_BYTES);
        spawn_unpinned(thread, watch)?;
        Ok(pins)
    }

    /// Views of these ranges; `None` for those that the node does not pin.
    pub(super) fn show(
        self: &Arc<Self>,
        wanted: &[Wanted<'_>],
    ) -> Result<Vec<Option<View>>, PinError> {
        let shown = {
            let mut asker = lock(&self.asker);
            if asker.is_broken || lock(&self.views).is_none() {
                return Err(PinError::Closed);
            }
            self.send_returned(&mut asker);
            let ranges: Vec<RangeRead> = wanted.iter().map(|(range, _)| **range).collect();
            match asker.pin(&ranges) {
                Ok((first, results)) => {
                    let rows = wanted.iter().zip(first..).zip(results);
                    rows.map(|((wanted, number), pinned)| self.view(wanted, number, pinned))
                        .collect()
                }
                Err(fault) => {
                    asker.is_broken = true;
                    return Err(PinError::of(fault));
                }
            }
        };
        self.flush();
        Ok(shown)
    }

    /// The view of a range, if the node has pinned it. The caller holds the asker.
    fn view(
        self: &Arc<Self>,
        (range, segment): &Wanted<'_>,
        number: u64,
        pinned: Result<(), ErrorCode>,
    ) -> Option<View> {
        pinned.ok()?;
        let hold = PinHold { pins: Arc::clone(self), number };
        let start = range.offset.checked_add(range.from)?;
        let view = mooncake_memory::View::of(segment.region()?, start, range.len).ok()?;
        let pinned = Pinned::new(view, Box::new(hold));
        let is_listed = match &mut *lock(&self.views) {
            Some(views) => {
                views.insert(number, Arc::downgrade(&pinned));
                true
            }
            None => false,
        };
        // The connection, and so the pin, lasts until the caller releases the asker.
        (is_listed || pinned.let_go()).then(|| View::new(pinned))
    }

    /// The node recalls everything, or is gone: detaches all views, then ends the connection.
    fn recall(&self) {
        let views = lock(&self.views).take().unwrap_or_default();
        let mut is_done = true;
        for pinned in views.into_values().filter_map(|view| view.upgrade()) {
            is_done &= pinned.let_go();
        }
        // With this lock, questions under way have ended and detached their own views, and no new ones are asked.
        let _asker = lock(&self.asker);
        if is_done {
            // If not all are detached, the last view closes it. This fails only if the connection has ended.
            let _ = self.socket.shutdown(Shutdown::Both);
        }
    }

    /// Gives a range back, which may then change. Never waits for the node.
    fn give_back(&self, number: u64) {
        if let Some(views) = &mut *lock(&self.views) {
            views.remove(&number);
        }
        lock(&self.returned).push(number);
        self.flush();
    }

    /// Tells the node which ranges were given back. If another thread is asking, that thread does so at the end.
    fn flush(&self) {
        while !lock(&self.returned).is_empty() {
            let mut asker = match self.asker.try_lock() {
                Ok(asker) => asker,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            if !self.send_returned(&mut asker) {
                return;
            }
        }
    }

    /// False if the node takes nothing now. It is told with the next question.
    fn send_returned(&self, asker: &mut Asker) -> bool {
        let mut returned = lock(&self.returned);
        let count = returned.len().min(MAX_FRAME_RANGES);
        if count == 0 {
            return true;
        }
        let is_sent = asker.unpin(&returned[..count]);
        if is_sent {
            returned.drain(..count);
        }
        is_sent
    }
}

impl Drop for PinConnection {
    fn drop(&mut self) {
        // Ends the thread that waits.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

impl Asker {
    /// Asks the node to pin ranges. Returns the number of the first, and a result for each.
    fn pin(&mut self, ranges: &[RangeRead]) -> Result<(u64, Vec<Result<(), ErrorCode>>), Fault> {
        let encode = |out: &mut Vec<u8>, id| encode_pin(out, id, ranges);
        let results = decode_results(&self.connection.call(encode, Kind::PinReply)?)?;
        if results.len() != ranges.len() {
            let message = format!("{} results came for {} pins", results.len(), ranges.len());
            return Err(Fault::Protocol(message));
        }
        let first = self.next;
        self.next += ranges.len() as u64;
        Ok((first, results))
    }

    /// Tells the node that ranges were given back, if it takes the frame now; false if not.
    fn unpin(&mut self, numbers: &[u64]) -> bool {
        if self.is_broken {
            return false;
        }
        let mut frame = Vec::new();
        encode_unpin(&mut frame, 0, numbers);
        match send_bytes(self.connection.stream().as_fd(), &frame, Wait::Now) {
            Ok(sent) if sent == frame.len() => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            // The frame was cut short, or the node is gone: the end of the connection gives all pins back.
            _ => {
                self.is_broken = true;
                false
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
