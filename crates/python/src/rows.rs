//! Lists of lists of numbers.

/// Rows of numbers, in one allocation. Rows may differ in length.
#[derive(Default)]
pub(crate) struct Rows {
    numbers: Vec<u64>,
    /// The end of each row in `numbers`.
    ends: Vec<usize>,
}

impl Rows {
    /// No rows, and room for `rows` of them.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { numbers: Vec::with_capacity(rows), ends: Vec::with_capacity(rows) }
    }

    /// Adds a row: the numbers that `append` pushes.
    pub(crate) fn push_with<E>(
        &mut self,
        append: impl FnOnce(&mut Vec<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        append(&mut self.numbers)?;
        self.ends.push(self.numbers.len());
        Ok(())
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The row at this position, which must be less than [`Rows::len`].
    pub(crate) fn row(&self, position: usize) -> &[u64] {
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        &self.numbers[start..self.ends[position]]
    }

    /// The rows, in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u64]> {
        (0..self.len()).map(|position| self.row(position))
    }
}
