//! Batches: checks some items here, sends the rest to the store, and turns results into numbers.

use mooncake_client::ErrorCode;

/// Runs `operation` on the items that are `Ok`. Returns one result per item, in order.
///
/// # Panics
/// If `operation` does not return one result per item.
pub fn run<T, R>(
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

/// The number for the caller: 0 or a negative code. A key that exists already counts as stored.
pub fn stored(result: Result<(), ErrorCode>) -> i32 {
    match result {
        Ok(()) | Err(ErrorCode::ObjectAlreadyExists) => 0,
        Err(code) => code.number(),
    }
}

/// The number for the caller: 0 or a negative code.
pub fn done(result: Result<(), ErrorCode>) -> i32 {
    result.map_or_else(ErrorCode::number, |()| 0)
}

/// The number for the caller: a count or a negative code.
pub fn counted(result: Result<u64, ErrorCode>) -> i64 {
    match result {
        Ok(count) => i64::try_from(count).unwrap_or(i64::MAX),
        Err(code) => i64::from(code.number()),
    }
}

/// The number for the caller: 1, 0 or a negative code.
pub fn found(result: Result<bool, ErrorCode>) -> i32 {
    result.map_or_else(ErrorCode::number, i32::from)
}
