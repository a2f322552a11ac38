use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

use crate::{Request, ScanAction};

/// What a member of the pool may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rights(u8);

/// A word that names no right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotARight(pub String);

impl Rights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// To be a client of the pool, as all are who may read, write or lend.
    pub const MEMBER: Self = Self(0b00_0001);
    /// To look for objects and to read them.
    pub const READ: Self = Self(0b00_0011);
    /// To put objects and to remove them.
    pub const WRITE: Self = Self(0b00_0101);
    /// To lend memory and disks. No token has it alone: masters and other members send their own token to whoever lends.
    pub const LEND: Self = Self(0b00_1001);
    /// To change the pool by its admin server.
    pub const ADMIN: Self = Self(0b01_0000);
    /// To see metrics, and which nodes there are.
    pub const METRICS: Self = Self(0b10_0000);
    /// Everything, as for members that share the one secret of a pool.
    pub const ALL: Self = Self(0b11_1111);

    const NAMES: [(&str, Self); 5] = [
        ("read", Self::READ),
        ("write", Self::WRITE),
        ("admin", Self::ADMIN),
        ("metrics", Self::METRICS),
        ("all", Self::ALL),
    ];

    /// Whether it has all of these.
    #[must_use]
    pub const fn include(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Reads names with commas between them: `read,write`.
impl FromStr for Rights {
    type Err = NotARight;

    fn from_str(text: &str) -> Result<Self, NotARight> {
        text.split(',').try_fold(Self::NONE, |rights, word| {
            let known = Self::NAMES.iter().find(|(name, _)| *name == word);
            known.map(|(_, right)| rights | *right).ok_or_else(|| NotARight(word.to_owned()))
        })
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let names = Self::NAMES.iter().filter(|(_, right)| self.include(*right));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        f.write_str(match *self {
            Self::MEMBER => "membership",
            Self::LEND => "lending",
            _ if names.is_empty() => "nothing",
            _ => "",
        })?;
        f.write_str(&names.join(","))
    }
}

impl fmt::Display for NotARight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of read, write, admin, metrics and all", self.0)
    }
}

impl std::error::Error for NotARight {}

impl Request<'_> {
    /// What a client needs to have this request answered.
    #[must_use]
    pub fn needs(&self) -> Rights {
        match self {
            Request::Ping { .. } | Request::Leave { .. } | Request::QueryTask { .. } => {
                Rights::MEMBER
            }
            Request::GetReplicaList { .. }
            | Request::RenewRoutes { .. }
            | Request::ExistKey { .. }
            | Request::PrefixLen { .. }
            | Request::Prefetch { .. } => Rights::READ,
            Request::Scan(scan) => match scan.action {
                ScanAction::List => Rights::READ,
                ScanAction::Remove { .. } => Rights::WRITE,
            },
            Request::PutStart(_)
            | Request::PutEnd { .. }
            | Request::PutRevoke { .. }
            | Request::Remove { .. }
            | Request::Dropped { .. }
            | Request::Retract { .. }
            | Request::ClearReplicas { .. }
            | Request::CreateTask(_) => Rights::WRITE,
            Request::MountSegment(_)
            | Request::ReportInventory(_)
            | Request::ReportChanges(_)
            | Request::ReportLosses { .. }
            | Request::FetchDrops { .. }
            | Request::UnmountSegment { .. }
            | Request::FetchTasks { .. }
            | Request::EndTask { .. }
            | Request::DrainSegments { .. }
            | Request::ListSegments { .. } => Rights::LEND,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_and_shown_by_their_names() {
        for (text, rights) in [
            ("read", Rights::READ),
            ("read,write", Rights::READ | Rights::WRITE),
            ("admin,metrics", Rights::ADMIN | Rights::METRICS),
            ("all", Rights::ALL),
        ] {
            assert_eq!(text.parse(), Ok(rights));
            assert_eq!(rights.to_string(), text);
        }
        assert_eq!(Rights::NONE.to_string(), "nothing");
        for text in ["", "Read", "read,", "read write", "lend"] {
            assert!(text.parse::<Rights>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn who_may_only_read_changes_nothing() {
        let reads = [
            Request::GetReplicaList { keys: vec!["k"] },
            Request::exist(vec!["k"]),
            Request::prefix_len(vec!["k"]),
            Request::RenewRoutes { keys: vec![], uses: vec![] },
            Request::Prefetch { keys: vec![] },
        ];
        let changes = [
            Request::PutEnd { puts: vec![] },
            Request::PutRevoke { puts: vec![] },
            Request::Remove { keys: vec!["k"], force: true },
            Request::Dropped { dropped: vec![] },
            Request::Retract { keys: vec![], ranges: vec![] },
            Request::ClearReplicas { keys: vec![], segment: "" },
        ];
        let of_nodes = [
            Request::FetchDrops { dropped: vec![], limit: 1 },
            Request::FetchTasks { limit: 1, wait_ms: 0 },
            Request::ReportLosses { keys: vec![], ranges: vec![] },
            Request::DrainSegments { segments: vec![] },
            Request::ListSegments { from: 0, limit: 1 },
        ];
        let ping = Request::Ping { segments: vec![], unreachable: vec![], reads: None };
        let watches = Rights::METRICS | Rights::ADMIN;
        for (requests, needed, others) in [
            (&reads[..], Rights::READ, [Rights::WRITE, watches]),
            (&changes[..], Rights::WRITE, [Rights::READ, watches]),
            (&of_nodes[..], Rights::LEND, [Rights::READ | Rights::WRITE, watches]),
        ] {
            for request in requests {
                assert_eq!(request.needs(), needed, "{request:?}");
                assert!(Rights::ALL.include(needed) && needed.include(ping.needs()));
                assert!(others.iter().all(|other| !other.include(needed)), "{request:?}");
            }
        }
        assert!(!watches.include(ping.needs()));
    }
}
