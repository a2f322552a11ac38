use std::marker::PhantomData;
use std::time::{Duration, Instant};

use mooncake_types::CallId;

use crate::current;
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
        Self { watch, name, items, began: None, is_inner, _thread: PhantomData }
    }

    pub(crate) fn serve(watch: &'w Watch, name: &'static str, id: Option<CallId>) -> Self {
        let is_inner = !current::open_part(id);
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
        let took = self.took();
        if self.watch.is_slow(took) {
            self.watch.report(&CallReport::of_thread((self.name, self.items), took));
        }
        current::close();
    }
}
