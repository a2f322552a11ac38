use std::cell::RefCell;
use std::collections::BTreeSet;

/// A `'static` copy of these bytes. Equal bytes share one copy.
pub(crate) fn intern(bytes: &[u8]) -> &'static [u8] {
    thread_local! {
        static KNOWN: RefCell<BTreeSet<&'static [u8]>> = const { RefCell::new(BTreeSet::new()) };
    }
    KNOWN.with_borrow_mut(|known| {
        if let Some(found) = known.get(bytes) {
            return *found;
        }
        let kept: &'static [u8] = Box::leak(bytes.into());
        known.insert(kept);
        kept
    })
}
