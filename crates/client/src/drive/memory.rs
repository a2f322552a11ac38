use mooncake_memory::SliceList;
use mooncake_ops::Fetch;
use mooncake_transfer::View;

/// Where the bytes of the items of a batch come from or go to.
pub(crate) trait Memory {
    /// `len` bytes of the memory of the item at `position`, from place `at` on; absent if there is no room. The place is
    /// one in the object of `object_len` bytes, or, if parts are moved, among those.
    fn part(&mut self, position: usize, at: u64, len: u64, object_len: u64) -> Option<SliceList>;

    /// The memory of what is fetched here is about to be asked for.
    fn make_room(&mut self, fetches: &[Fetch]) {
        let _ = fetches;
    }

    /// Whether whole objects may be seen where they lie.
    fn takes_views(&self) -> bool {
        false
    }

    /// What was to be written from here was written, or was not.
    fn on_written(&mut self) {}

    /// Takes the object of the item at `position`. Asked only if views are taken.
    fn take_view(&mut self, position: usize, view: View) {
        let _ = (position, view);
    }
}
