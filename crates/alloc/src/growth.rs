/// Appends an element. A full table grows by an eighth, not to twice its size. These tables are most of the memory
/// that an allocator needs per live range, and reserved capacity counts as much as used capacity.
pub(crate) fn push<T>(table: &mut Vec<T>, value: T) {
    if table.len() == table.capacity() {
        table.reserve_exact(table.len() / 8 + 8);
    }
    table.push(value);
}
