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
    /// Nothing but to be a member.
    pub const NONE: Self = Self(0);
    /// To look for objects and to read them.
    pub const READ: Self = Self(1);
    /// To put objects and to remove them.
    pub const WRITE: Self = Self(2);
    /// To lend memory and disks.
    pub const LEND: Self = Self(4);
    /// To change the pool by its admin server.
    pub const ADMIN: Self = Self(8);
    /// To see metrics, and which nodes there are.
    pub const METRICS: Self = Self(16);
    /// Everything, as for members that share the one secret of a pool.
    pub const ALL: Self = Self(31);

    const NAMES: [(&str, Self); 6] = [
        ("read", Self::READ),
        ("write", Self::WRITE),
        ("lend", Self::LEND),
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
        f.write_str(if names.is_empty() { "nothing" } else { "" })?;
        f.write_str(&names.join(","))
    }
}

impl fmt::Display for NotARight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of read, write, lend, admin, metrics and all", self.0)
    }
}

impl std::error::Error for NotARight {}

impl Request<'_> {
    /// What a client needs to have this request answered.
    #[must_use]
    pub fn needs(&self) -> Rights {
        match self {
            Request::Ping { .. }
            | Request::Leave { .. }
            | Request::Dropped { .. }
            | Request::QueryTask { .. } => Rights::NONE,
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
            ("lend,metrics", Rights::LEND | Rights::METRICS),
            ("all", Rights::ALL),
        ] {
            assert_eq!(text.parse(), Ok(rights));
            assert_eq!(rights.to_string(), text);
        }
        assert_eq!(Rights::NONE.to_string(), "nothing");
        for text in ["", "Read", "read,", "read write"] {
            assert!(text.parse::<Rights>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn who_may_only_read_changes_nothing() {
        let may = |rights: Rights, request: &Request<'_>| rights.include(request.needs());
        let get = Request::GetReplicaList { keys: vec!["k"] };
        let remove = Request::Remove { keys: vec!["k"], force: true };
        assert!(may(Rights::READ, &get) && !may(Rights::READ, &remove));
        assert!(may(Rights::WRITE, &remove) && !may(Rights::WRITE, &get));
        assert!(may(Rights::ALL, &get) && may(Rights::ALL, &remove));
        assert!(!may(Rights::METRICS | Rights::ADMIN, &get));
    }
}
