/// What the bytes of a segment lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Medium {
    /// The memory of a node.
    #[default]
    Memory = 0,
    /// A folder on a disk of a node. Nothing is put there: nodes offload to it.
    Disk = 1,
}
