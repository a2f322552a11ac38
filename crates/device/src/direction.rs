/// Direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From callers' memory to host memory.
    ToHost,
    /// From host memory to callers' memory.
    ToDevice,
}
