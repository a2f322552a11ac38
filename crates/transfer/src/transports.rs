use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A way to the memory of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// On the same host: the memory is mapped here, and copied by this process.
    Shm,
    /// On the same host: the kernel copies out of the other process's memory.
    ProcessVm,
    /// On another host: this process reads and writes the memory one-sided, over libibverbs or libfabric.
    Fabric,
    /// Over the network.
    Tcp,
}

impl Way {
    /// All ways, the fastest first.
    pub const ALL: [Way; 4] = [Way::Shm, Way::ProcessVm, Way::Fabric, Way::Tcp];

    /// Whether it leads only to processes of the same host.
    pub(crate) const fn is_near(self) -> bool {
        matches!(self, Way::Shm | Way::ProcessVm)
    }

    /// Its name in `MOONCAKE_TRANSPORTS`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Way::Shm => "shm",
            Way::ProcessVm => "process_vm",
            Way::Fabric => "fabric",
            Way::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The allowed ways to other processes, by preference. The first that reaches a peer is used. Memory of this process
/// is always reached by a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transports {
    ways: Vec<Way>,
    near: Vec<Way>,
}

/// A list of ways that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TransportsError {
    /// There is no way of that name.
    #[error("there is no transport {name:?}; known are shm, process_vm, fabric and tcp")]
    Unknown {
        /// What was named.
        name: String,
    },
    /// One is named more than once.
    #[error("the transport {way} is named twice")]
    Twice {
        /// Which.
        way: Way,
    },
    /// None is named.
    #[error("no transport is named; known are shm, process_vm, fabric and tcp")]
    Empty,
}

impl Default for Transports {
    fn default() -> Self {
        Self::of(vec![Way::Shm, Way::ProcessVm, Way::Tcp])
    }
}

impl From<Way> for Transports {
    fn from(only: Way) -> Self {
        Self::of(vec![only])
    }
}

impl FromStr for Transports {
    type Err = TransportsError;

    /// Names with commas between them, the preferred first.
    fn from_str(text: &str) -> Result<Self, TransportsError> {
        let mut ways = Vec::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            let way = Way::ALL.into_iter().find(|way| way.name().eq_ignore_ascii_case(name));
            let unknown = || TransportsError::Unknown { name: name.to_owned() };
            let way = way.ok_or_else(unknown)?;
            if ways.contains(&way) {
                return Err(TransportsError::Twice { way });
            }
            ways.push(way);
        }
        if ways.is_empty() { Err(TransportsError::Empty) } else { Ok(Self::of(ways)) }
    }
}

impl Transports {
    fn of(ways: Vec<Way>) -> Self {
        let before_tcp = ways.iter().take_while(|&&way| way != Way::Tcp);
        let near = before_tcp.filter(|way| way.is_near()).copied().collect();
        Self { ways, near }
    }

    /// Whether a way may be used at all.
    #[must_use]
    pub fn allows(&self, way: Way) -> bool {
        self.ways.contains(&way)
    }

    /// Whether a way may be used, and comes before TCP, which leads to every node.
    #[must_use]
    pub fn prefers(&self, way: Way) -> bool {
        self.ways.iter().take_while(|&&way| way != Way::Tcp).any(|&other| other == way)
    }

    /// The ways between processes of one host that come before TCP, in order.
    #[must_use]
    pub fn near(&self) -> &[Way] {
        &self.near
    }

    /// The same, with one-sided transfers between hosts before TCP, if they are not in it.
    #[must_use]
    pub fn with_fabric(self) -> Self {
        let mut ways = self.ways;
        if !ways.contains(&Way::Fabric) {
            let at = ways.iter().position(|&way| way == Way::Tcp).unwrap_or(ways.len());
            ways.insert(at, Way::Fabric);
        }
        Self::of(ways)
    }

    /// All ways, the preferred first.
    pub(crate) fn in_order(&self) -> &[Way] {
        &self.ways
    }
}

impl fmt::Display for Transports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.ways.iter().map(|way| way.name()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_in_order() {
        let read = |text: &str| text.parse::<Transports>().map(|ways| ways.to_string());
        for (text, expected) in [
            ("tcp", "tcp"),
            ("shm,tcp", "shm,tcp"),
            (" TCP , process_vm,", "tcp,process_vm"),
            ("shm,process_vm,tcp", "shm,process_vm,tcp"),
            ("shm,Fabric,tcp", "shm,fabric,tcp"),
        ] {
            assert_eq!(read(text), Ok(expected.to_owned()), "{text}");
        }
        assert_eq!(read(&Transports::default().to_string()), read("shm,process_vm,tcp"));
        let unknown = |name: &str| Err(TransportsError::Unknown { name: name.to_owned() });
        assert_eq!(read("shm,rdma"), unknown("rdma"));
        assert_eq!(read("shm;tcp"), unknown("shm;tcp"));
        assert_eq!(read("tcp,shm,TCP"), Err(TransportsError::Twice { way: Way::Tcp }));
        assert_eq!(
            [read(""), read(" , ")],
            [Err(TransportsError::Empty), Err(TransportsError::Empty)]
        );
    }

    #[test]
    fn what_comes_after_tcp_is_never_reached() {
        let near = |text: &str| text.parse::<Transports>().unwrap().near().to_vec();
        assert_eq!(near("shm,process_vm,tcp"), [Way::Shm, Way::ProcessVm]);
        assert_eq!(near("process_vm,tcp,shm"), [Way::ProcessVm]);
        assert_eq!(near("tcp,shm"), []);
        assert_eq!(near("shm"), [Way::Shm]);
        assert_eq!(near("shm,fabric,process_vm"), [Way::Shm, Way::ProcessVm]);
        let with = |text: &str| text.parse::<Transports>().unwrap().with_fabric().to_string();
        assert_eq!(with("shm,tcp"), "shm,fabric,tcp");
        assert_eq!([with("tcp,fabric"), with("shm")], ["tcp,fabric", "shm,fabric"]);
        let prefers = |text: &str| text.parse::<Transports>().unwrap().prefers(Way::Fabric);
        assert_eq!(
            ["fabric", "fabric,tcp", "tcp,fabric", "tcp"].map(prefers),
            [true, true, false, false]
        );
    }
}
