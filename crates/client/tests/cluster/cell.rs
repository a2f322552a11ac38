use mooncake_client::Version;
use mooncake_ops::Part;

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

/// The version that cells are all of, if they are these parts of one object of that key, or the first that is not; no
/// version if there is nothing to look at. A part that is not wanted has its place all the same.
pub(crate) fn one_version(
    key: usize,
    parts: &[(Part, Wanted)],
    cells: &[Cell],
) -> Result<Option<Version>, Option<Cell>> {
    let mut found = None;
    let mut place = 0;
    for (part, wanted) in parts {
        let here = place..place + part.len as usize;
        place = here.end;
        if !wanted.0 {
            continue;
        }
        for (index, at) in here.zip(part.from..) {
            let cell = *cells.get(index).ok_or(None)?;
            let version = *found.get_or_insert(cell.version);
            if cell != (Cell { key, version, at }) {
                return Err(Some(cell));
            }
        }
    }
    Ok(found)
}

/// Whether a part was to be read: the object has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted(pub(crate) bool);
