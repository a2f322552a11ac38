/// Makes room for one more element. A full table grows by an eighth, not by half: these tables are most of what
/// an allocator costs per live range, and space that is only reserved counts as much as space in use.
pub(crate) fn push<T>(table: &mut Vec<T>, value: T) {
    if table.len() == table.capacity() {
        table.reserve_exact(table.len() / 8 + 8);
    }
    table.push(value);
}
