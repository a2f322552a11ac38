use std::collections::HashMap;

use mooncake_types::{ErrorCode, PutItem, ReplicateConfig, limits};

use crate::batches::{check_key, checked};

/// Most segment names that a put may prefer. Even the longest names then fit into a frame.
const MAX_PREFERRED_SEGMENTS: usize = 4096;

/// Returns the positions of the items that pass the checks, and initial results.
pub(super) fn check<T>(
    items: &[PutItem<'_>],
    config: &ReplicateConfig<'_>,
) -> (Vec<usize>, Vec<Result<T, ErrorCode>>) {
    let config = check_config(config);
    checked(items, |item| config.and_then(|()| check_item(item)))
}

fn check_item(item: &PutItem<'_>) -> Result<(), ErrorCode> {
    check_key(item.key)?;
    let len_fits = (1..=limits::MAX_OBJECT_BYTES).contains(&item.len);
    let longest = item.group.len().max(item.session.len());
    if !len_fits || longest > limits::MAX_GROUP_BYTES {
        return Err(ErrorCode::InvalidParams);
    }
    Ok(())
}

/// Whether a configuration makes sense and fits into a request.
fn check_config(config: &ReplicateConfig<'_>) -> Result<(), ErrorCode> {
    let names = &config.preferred_segments;
    let valid = (1..=limits::MAX_REPLICAS).contains(&config.replica_num)
        && names.len() <= MAX_PREFERRED_SEGMENTS
        && names.iter().all(|name| name.len() <= limits::MAX_NAME_BYTES)
        && config.excluded_segments.len() <= limits::MAX_SEGMENTS;
    if valid { Ok(()) } else { Err(ErrorCode::InvalidParams) }
}

/// Removes all but the last item of each key from `order`. Returns, by position, which item replaces a removed one.
pub(super) fn keep_last(items: &[PutItem<'_>], order: &mut Vec<usize>) -> Vec<Option<usize>> {
    let mut overwritten_by = vec![None; items.len()];
    let mut last = HashMap::with_capacity(order.len());
    for &position in order.iter().rev() {
        overwritten_by[position] = last.get(items[position].key).copied();
        last.entry(items[position].key).or_insert(position);
    }
    order.retain(|&position| overwritten_by[position].is_none());
    overwritten_by
}
