use mooncake_client::Version;

/// A byte of the simulated memory that says what it is a byte of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The number of the object's key.
    pub(crate) key: usize,
    /// The version of the put that wrote it.
    pub(crate) version: Version,
    /// Its place in the object.
    pub(crate) at: u64,
}

/// The version that cells are all of, if they are one whole object of that key.
pub(crate) fn whole_object(key: usize, cells: &[Cell]) -> Option<Version> {
    let version = cells.first()?.version;
    let whole =
        cells.iter().enumerate().all(|(at, cell)| *cell == Cell { key, version, at: at as u64 });
    whole.then_some(version)
}
