use std::fmt;
use std::sync::Arc;

use crate::{Request, Rights, Tenant, split_tenant};

/// What the holder of a token may do, and whose keys it may name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    rights: Rights,
    /// The tenants whose keys it may name; absent: all.
    tenants: Option<Arc<[Tenant]>>,
}

/// A token that is bound to tenants has a right that is about the whole pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnboundRight;

impl Access {
    /// Everything, as for members that share the one secret of a pool.
    pub const ALL: Self = Self::of(Rights::ALL);

    /// These rights, for the keys of all tenants.
    #[must_use]
    pub const fn of(rights: Rights) -> Self {
        Self { rights, tenants: None }
    }

    /// These rights, for the keys of these tenants.
    ///
    /// # Errors
    /// One of the rights is about the whole pool: any but to read and to write.
    pub fn within(rights: Rights, tenants: Vec<Tenant>) -> Result<Self, UnboundRight> {
        match (Rights::READ | Rights::WRITE).include(rights) {
            true => Ok(Self { rights, tenants: Some(tenants.into()) }),
            false => Err(UnboundRight),
        }
    }

    /// What the holder may do.
    #[must_use]
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// Whether the holder may name keys of the tenant of this name.
    #[must_use]
    pub fn includes(&self, tenant: &str) -> bool {
        let named = |tenants: &Arc<[Tenant]>| tenants.iter().any(|it| it.name() == tenant);
        self.tenants.as_ref().is_none_or(named)
    }

    /// Whether the holder may name the keys of all tenants.
    #[must_use]
    pub const fn is_for_all_tenants(&self) -> bool {
        self.tenants.is_none()
    }

    /// Whether a request names only keys that the holder may name.
    #[must_use]
    pub fn covers(&self, request: &Request<'_>) -> bool {
        self.tenants.is_none() || request.is_within(|tenant| self.includes(tenant))
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rights)?;
        for (at, tenant) in self.tenants.iter().flat_map(|tenants| tenants.iter()).enumerate() {
            write!(f, "{}{tenant}", if at == 0 { " for tenants " } else { "," })?;
        }
        Ok(())
    }
}

impl Request<'_> {
    /// Whether the tenants of all keys that the request names are among these. Requests of nodes name none.
    fn is_within(&self, is_among: impl Fn(&str) -> bool) -> bool {
        let is_own = |key: &str| is_among(split_tenant(key).0);
        match self {
            Request::GetReplicaList { keys }
            | Request::RenewRoutes { keys, .. }
            | Request::ExistKey { keys, .. }
            | Request::PrefixLen { keys, .. }
            | Request::Prefetch { keys }
            | Request::Remove { keys, .. }
            | Request::Retract { keys, .. }
            | Request::ReportLosses { keys, .. }
            | Request::ClearReplicas { keys, .. } => keys.iter().all(|key| is_own(key)),
            Request::PutStart(start) => start.puts.iter().all(|put| is_own(put.key)),
            Request::PutEnd { puts } => puts.iter().all(|put| is_own(put.key)),
            Request::PutRevoke { puts } => puts.iter().all(|put| is_own(put.key)),
            Request::CreateTask(task) => is_own(task.key),
            Request::Scan(scan) => scan.tenant.is_some_and(is_among),
            Request::Ping { .. }
            | Request::Leave { .. }
            | Request::Dropped { .. }
            | Request::QueryTask { .. }
            | Request::MountSegment(_)
            | Request::ReportInventory(_)
            | Request::ReportChanges(_)
            | Request::FetchDrops { .. }
            | Request::UnmountSegment { .. }
            | Request::FetchTasks { .. }
            | Request::EndTask { .. }
            | Request::DrainSegments { .. }
            | Request::ListSegments { .. } => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        CreateTask, PutEnd, PutItem, PutRevoke, PutStart, Scan, ScanAction, TaskKind, Version,
    };

    fn tenant(name: &str) -> Tenant {
        Tenant::named(name).expect("a name")
    }

    fn within(names: &[&str]) -> Access {
        let tenants = names.iter().map(|name| tenant(name)).collect();
        Access::within(Rights::READ | Rights::WRITE, tenants).expect("rights that have tenants")
    }

    fn requests<'a>(key: &'a str, name: &'a str) -> Vec<Request<'a>> {
        let version = Version::default();
        let action = ScanAction::Remove { force: true };
        let targets = Vec::new();
        vec![
            Request::GetReplicaList { keys: vec![key] },
            Request::RenewRoutes { keys: vec![key], uses: vec![1] },
            Request::exist(vec![key]),
            Request::prefix_len(vec![key]),
            Request::Prefetch { keys: vec![key] },
            Request::Remove { keys: vec![key], force: false },
            Request::Retract { keys: vec![key], ranges: vec![] },
            Request::ReportLosses { keys: vec![key], ranges: vec![] },
            Request::ClearReplicas { keys: vec![key], segment: "" },
            Request::PutStart(PutStart { puts: vec![PutItem::new(key, 1)], ..Default::default() }),
            Request::PutEnd {
                puts: vec![PutEnd { key, version, failed_replicas: 0, held_replicas: 0 }],
            },
            Request::PutRevoke { puts: vec![PutRevoke::new(key, version)] },
            Request::CreateTask(CreateTask { key, kind: TaskKind::Copy, source: "", targets }),
            Request::Scan(Scan { tenant: Some(name), pattern: None, action, cursor: 0, limit: 1 }),
        ]
    }

    #[test]
    fn a_token_for_tenants_names_keys_of_no_other() {
        for (names, name, is_covered) in [
            (&["blue"][..], "blue", true),
            (&["blue"], "red", false),
            (&["blue"], "default", false),
            (&["blue", "default"], "default", true),
            (&["blue", "red"], "red", true),
        ] {
            let stored = tenant(name).key("k").into_owned();
            for request in requests(&stored, name) {
                assert_eq!(within(names).covers(&request), is_covered, "{names:?}: {request:?}");
                assert!(Access::ALL.covers(&request));
            }
        }
    }

    #[test]
    fn one_foreign_key_of_a_batch_is_enough() {
        let (own, foreign) = (tenant("blue").key("k"), tenant("red").key("k"));
        let keys = vec![&*own, &*foreign];
        assert!(!within(&["blue"]).covers(&Request::Remove { keys, force: false }));
    }

    #[test]
    fn a_walk_over_all_tenants_needs_a_token_for_all() {
        let action = ScanAction::List;
        let all = Request::Scan(Scan { tenant: None, pattern: None, action, cursor: 0, limit: 1 });
        assert!(!within(&["blue", "default"]).covers(&all));
        assert!(Access::of(Rights::READ).covers(&all));
    }

    #[test]
    fn rights_over_the_whole_pool_are_not_bound_to_tenants() {
        for rights in [Rights::ADMIN, Rights::METRICS, Rights::LEND, Rights::ALL] {
            assert_eq!(Access::within(rights, vec![tenant("blue")]), Err(UnboundRight));
        }
    }

    #[test]
    fn it_is_shown_with_its_tenants() {
        assert_eq!(Access::of(Rights::READ).to_string(), "read");
        assert_eq!(within(&["blue", "red"]).to_string(), "read,write for tenants blue,red");
    }
}
