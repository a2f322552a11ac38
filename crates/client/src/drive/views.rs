use mooncake_ops::Fetch;
use mooncake_transfer::{Paths, View, ViewOp};

/// Objects shorter than this are copied: asking the node to keep one as it is, and mapping it, takes as long.
const MIN_SEEN_BYTES: u64 = 256 << 10;

/// Shows objects where they lie, as far as that is possible and worth it, by the position of their fetches.
pub(super) fn show(paths: &Paths, fetches: &[Fetch]) -> Vec<Option<View>> {
    let is_wanted = |fetch: &Fetch| {
        let is_whole = fetch.at == 0 && fetch.range.len == fetch.object_len;
        is_whole && fetch.object_len >= MIN_SEEN_BYTES
    };
    let op = |fetch: &Fetch| ViewOp { endpoint: fetch.endpoint.clone(), range: fetch.range };
    let ops: Vec<ViewOp> = fetches.iter().filter(|it| is_wanted(it)).map(op).collect();
    if ops.is_empty() {
        return Vec::new();
    }
    let mut views = paths.show(&ops).into_iter();
    let view = |fetch: &Fetch| is_wanted(fetch).then(|| views.next()).flatten().flatten();
    fetches.iter().map(view).collect()
}
