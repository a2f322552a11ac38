/// Where the bytes of a read came from, or those of a write went, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A segment of this process.
    Own,
    /// Another process of this host, without TCP.
    Host,
    /// A node, one-sided.
    Fabric,
    /// A node, by TCP.
    Tcp,
}

impl Source {
    /// All of them, the nearest first.
    pub const ALL: [Source; 4] = [Source::Own, Source::Host, Source::Fabric, Source::Tcp];

    /// Its name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Own => "own_process",
            Source::Host => "same_host",
            Source::Fabric => "fabric",
            Source::Tcp => "tcp",
        }
    }
}
