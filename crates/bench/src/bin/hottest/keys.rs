//! Keys of 120 bytes, in the format of engines.

/// How many keys one request names.
pub(crate) const BATCH: usize = 1000;

/// The key with this number.
pub(crate) fn key(number: usize) -> String {
    format!("Qwen/Qwen3-32B@pcp0@dcp0@head_or_tp_rank:0@pp_rank:0@{number:0>67x}")
}

/// `batches` batches of keys with consecutive numbers, from `first` on.
pub(crate) fn batches(first: usize, batches: usize) -> Vec<Vec<String>> {
    let batch = |at: usize| (0..BATCH).map(|i| key(first + at * BATCH + i)).collect();
    (0..batches).map(batch).collect()
}

/// The keys of a batch as requests borrow them.
pub(crate) fn borrowed(batch: &[String]) -> Vec<&str> {
    batch.iter().map(String::as_str).collect()
}
