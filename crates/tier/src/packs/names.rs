//! The names of the objects below a prefix.

pub(super) const JOURNAL: &str = "journal";
pub(super) const CHECKPOINTS: &str = "checkpoints";
pub(super) const PACKS: &str = "packs";

pub(super) fn name_of(folder: &str, number: u64) -> String {
    format!("{folder}/{number:016x}")
}

/// The number in an object's name, or `None` if the name has none.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let (_, digits) = name.rsplit_once('/')?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}
