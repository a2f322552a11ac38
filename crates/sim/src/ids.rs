//! Names of the parts of a simulated cluster: sites, processes, connections.

use std::fmt;

/// A place where one process runs at a time. Other processes know it by its address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Site {
    Master(usize),
    Member(usize),
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Master(number) => write!(f, "M{number}"),
            Self::Member(number) => write!(f, "C{number}"),
        }
    }
}

/// One process of a site. A later one has a higher incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) site: Site,
    pub(crate) incarnation: u64,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}#{}", self.site, self.incarnation)
    }
}

/// A thread of a process: the heartbeat, or one that runs operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// The thread of the heartbeat.
    Beat,
    /// A thread that runs operations.
    Fiber(usize),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnId(pub(crate) u64);

impl ConnId {
    /// The id of no connection.
    pub(crate) const NONE: ConnId = ConnId(0);
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~{}", self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}
