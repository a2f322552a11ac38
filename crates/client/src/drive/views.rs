use mooncake_ops::RangeToRead;
use mooncake_transfer::{Paths, View, ViewOp};

/// Objects shorter than this are copied: having the node pin one, and mapping it, takes as long.
const MIN_SEEN_BYTES: u64 = 256 << 10;

/// Views of the fetched objects, where possible and worth it, by the position of their fetches.
pub(super) fn show(paths: &Paths, fetches: &[RangeToRead]) -> Vec<Option<View>> {
    let is_wanted = |fetch: &RangeToRead| {
        let is_whole = fetch.at == 0 && fetch.range.len == fetch.object_len;
        is_whole && fetch.object_len >= MIN_SEEN_BYTES
    };
    let op = |fetch: &RangeToRead| ViewOp { endpoint: fetch.endpoint.clone(), range: fetch.range };
    let ops: Vec<ViewOp> = fetches.iter().filter(|it| is_wanted(it)).map(op).collect();
    if ops.is_empty() {
        return Vec::new();
    }
    let mut views = paths.show(&ops).into_iter();
    let view = |fetch: &RangeToRead| is_wanted(fetch).then(|| views.next()).flatten().flatten();
    fetches.iter().map(view).collect()
}
