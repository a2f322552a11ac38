use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::Builder;

use mooncake_memory::spawn_unpinned;
use mooncake_types::RangeRead;

use super::{Hold, Pinned, View};
use crate::{Interrupt, Pin, SegmentHost};

/// Stack of the thread that releases ranges.
const STACK_BYTES: usize = 64 << 10;

/// Views of segments of this process. A thread releases recalled ranges. It starts with the first view, and ends once
/// this and all views are dropped.
#[derive(Default)]
pub(crate) struct OwnViews {
    wanted: OnceLock<Option<Sender<Arc<PinRecall>>>>,
}

/// The recall of one range.
struct PinRecall {
    /// Empty until the view is made.
    pinned: OnceLock<Weak<Pinned>>,
    is_wanted: AtomicBool,
    wanted: Sender<Arc<PinRecall>>,
}

impl PinRecall {
    fn answer(&self) {
        let pinned = self.pinned.get().and_then(Weak::upgrade);
        if pinned.is_some_and(|pinned| !pinned.let_go()) {
            // The next writer that needs the range recalls it again.
            self.is_wanted.store(false, Ordering::SeqCst);
        }
    }
}

/// Sends the recall to the thread.
struct RecallInterrupt(Arc<PinRecall>);

impl Interrupt for RecallInterrupt {
    fn interrupt(&self) {
        if !self.0.is_wanted.swap(true, Ordering::SeqCst) {
            // Fails only if the thread has panicked.
            let _ = self.0.wanted.send(Arc::clone(&self.0));
        }
    }
}

impl Hold for Pin {}

impl OwnViews {
    /// Shows a range of one of the host's segments; `None` if it cannot be pinned.
    pub(crate) fn show(&self, host: &dyn SegmentHost, range: &RangeRead) -> Option<View> {
        let wanted = self.wanted.get_or_init(start).clone()?;
        let recall = Arc::new(PinRecall {
            pinned: OnceLock::new(),
            is_wanted: AtomicBool::new(false),
            wanted,
        });
        let pin = host.pin(range, Arc::new(RecallInterrupt(Arc::clone(&recall)))).ok()?;
        let start = range.offset.checked_add(range.from)?;
        let view = mooncake_memory::View::of(&pin.region, start, range.len).ok()?;
        let pinned = Pinned::new(view, Box::new(pin));
        recall.pinned.get_or_init(|| Arc::downgrade(&pinned));
        // The recall may have come before `pinned` was set.
        if recall.is_wanted.load(Ordering::SeqCst) {
            recall.answer();
        }
        Some(View::new(pinned))
    }
}

fn start() -> Option<Sender<Arc<PinRecall>>> {
    let (sender, receiver) = channel();
    let thread = Builder::new().name("mooncake-views".to_owned()).stack_size(STACK_BYTES);
    let started = spawn_unpinned(thread, move || let_go(&receiver));
    started.inspect_err(|error| tracing::warn!(%error, "no thread for views")).ok()?;
    Some(sender)
}

fn let_go(wanted: &Receiver<Arc<PinRecall>>) {
    while let Ok(recall) = wanted.recv() {
        recall.answer();
    }
}
