use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::current;
use crate::part::CallPart;
use crate::report::CallReport;
use crate::watch::Watch;

/// A call that is under way on this thread: see [`Watch::begin`].
#[derive(Debug)]
#[must_use = "the call lasts until it is dropped"]
pub struct Call<'w> {
    watch: &'w Watch,
    name: &'static str,
    /// Keys or ranges.
    items: usize,
    /// If the call has no clock of its own: see [`current::ran`].
    began: Option<Instant>,
    /// Whether it is a part of another call.
    is_inner: bool,
    /// It must end on the thread on which it began.
    _thread: PhantomData<*const ()>,
}

impl<'w> Call<'w> {
    pub(crate) fn begin(watch: &'w Watch, name: &'static str, items: usize) -> Self {
        let is_inner = !current::open();
        if !is_inner && watch.sink.is_some() {
            current::begin_trace(None);
        }
        Self { watch, name, items, began: None, is_inner, _thread: PhantomData }
    }

    pub(crate) fn serve(watch: &'w Watch, name: &'static str, part: CallPart) -> Self {
        let is_inner = !current::open_part(part.id());
        if !is_inner && watch.sink.is_some() && part.trace.is_some() {
            current::begin_trace(part.trace);
        }
        let began = watch.measures().then(Instant::now);
        Self { watch, name, items: 0, began, is_inner, _thread: PhantomData }
    }

    fn took(&self) -> Duration {
        self.began.map_or_else(current::time_run, |began| began.elapsed())
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.is_inner {
            return;
        }
        self.watch.add_stages();
        let (took, trace) = (self.took(), current::take_trace());
        if self.watch.is_slow(took) || trace.is_some() {
            let report = CallReport::of_thread((self.name, self.items), took);
            self.watch.report(&report, trace.as_ref());
        }
        current::close();
    }
}
