use mooncake_memory::SliceList;
use mooncake_ops::RangeToRead;
use mooncake_transfer::View;

/// The memory that the bytes of a batch's items come from or go to.
pub(crate) trait Memory {
    /// `len` bytes of the memory of the item at `position`, from `at` on; `None` if there is no room. `at` counts
    /// within the object of `object_len` bytes or, if parts are moved, within these.
    fn part(&self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList<'_>>;

    /// Called before [`Memory::part`] is called for these fetches, and not for those that are shown in place.
    fn make_room(&mut self, fetches: &[RangeToRead]) {
        let _ = fetches;
    }

    /// Whether whole objects may be shown in place instead of copied.
    fn takes_views(&self) -> bool {
        false
    }

    /// Called when the write from this memory has ended, with or without success.
    fn on_written(&mut self) {}

    /// Takes the view of the object of the item at `position`. Called only if [`Memory::takes_views`].
    fn take_view(&mut self, position: usize, view: View) {
        let _ = (position, view);
    }
}
