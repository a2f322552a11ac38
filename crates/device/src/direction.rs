/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From memory of callers to memory of the host.
    ToHost,
    /// From memory of the host to memory of callers.
    ToDevice,
}
