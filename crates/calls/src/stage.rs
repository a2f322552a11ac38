/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The master's replies.
    Master,
    /// A connection to a node: another call has it, or it is being opened.
    Connection,
    /// Bytes between the caller's memory and segments of this process.
    Own,
    /// Bytes between processes of this host.
    Host,
    /// Bytes that move one-sided.
    Fabric,
    /// Bytes by TCP.
    Tcp,
    /// Nodes that drop older versions.
    Drop,
    /// Room in a full pool.
    Room,
    /// The pauses before something is tried again.
    Pause,
    /// A disk or an object store of the node.
    Disk,
    /// The membership record.
    Record,
}

impl Stage {
    /// All of them.
    pub const ALL: [Stage; 11] = [
        Stage::Master,
        Stage::Connection,
        Stage::Own,
        Stage::Host,
        Stage::Fabric,
        Stage::Tcp,
        Stage::Drop,
        Stage::Room,
        Stage::Pause,
        Stage::Disk,
        Stage::Record,
    ];

    pub(crate) const COUNT: usize = Self::ALL.len();

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Master => "master",
            Stage::Connection => "connection",
            Stage::Own => "own_process",
            Stage::Host => "same_host",
            Stage::Fabric => "fabric",
            Stage::Tcp => "tcp",
            Stage::Drop => "drop",
            Stage::Room => "room",
            Stage::Pause => "pause",
            Stage::Disk => "disk",
            Stage::Record => "record",
        }
    }
}
