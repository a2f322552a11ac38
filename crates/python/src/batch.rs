//! Batches: checks some items here, sends the rest to the store, and turns results into numbers.

use mooncake_client::ErrorCode;

use crate::codes::Codes;
use crate::log;

/// Runs `operation` on the items that are `Ok`. Returns one result per item, in order.
pub(crate) fn run<T, R>(
    items: impl Iterator<Item = Result<T, ErrorCode>>,
    operation: impl FnOnce(&[T]) -> Vec<Result<R, ErrorCode>>,
) -> Vec<Result<R, ErrorCode>> {
    let mut fit = Vec::with_capacity(items.size_hint().0);
    let mut refused = Vec::new();
    for (position, item) in items.enumerate() {
        match item {
            Ok(item) => fit.push(item),
            Err(code) => refused.push((position, code)),
        }
    }
    let results = if fit.is_empty() { Vec::new() } else { operation(&fit) };
    assert_eq!(results.len(), fit.len(), "the store answers every item of a batch");
    if refused.is_empty() {
        return results;
    }
    let count = fit.len() + refused.len();
    let (mut results, mut refused) = (results.into_iter(), refused.into_iter().peekable());
    let next = |position| match refused.next_if(|&(refused, _)| refused == position) {
        Some((_, code)) => Err(code),
        None => results.next().expect("there is one result per fit item"),
    };
    (0..count).map(next).collect()
}

/// The number for Python: 0 or a negative code. A key that exists already counts as stored.
pub(crate) fn stored(result: Result<(), ErrorCode>) -> i32 {
    match result {
        Ok(()) | Err(ErrorCode::ObjectAlreadyExists) => 0,
        Err(code) => code.number(),
    }
}

/// The number for Python: 0 or a negative code.
pub(crate) fn done(result: Result<(), ErrorCode>) -> i32 {
    result.map_or_else(ErrorCode::number, |()| 0)
}

/// The number for Python: a count or a negative code.
pub(crate) fn counted(result: Result<u64, ErrorCode>) -> i64 {
    match result {
        Ok(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Err(code) => i64::from(code.number()),
    }
}

/// The number for Python: 1, 0 or a negative code.
pub(crate) fn found(result: Result<bool, ErrorCode>) -> i32 {
    result.map_or_else(ErrorCode::number, i32::from)
}

/// If the lists differ in length: `InvalidParams` for every key, and a warning in the log.
pub(crate) fn lengths_differ<T: From<i32> + Clone>(
    operation: &str,
    keys: usize,
    addresses: usize,
    sizes: usize,
) -> Option<Codes<T>> {
    if keys == addresses && keys == sizes {
        return None;
    }
    let text = format_args!("{keys} keys, but {addresses} addresses and {sizes} sizes");
    log::warn(operation, "lengths", text);
    Some(Codes::same(ErrorCode::InvalidParams.number().into(), keys))
}
