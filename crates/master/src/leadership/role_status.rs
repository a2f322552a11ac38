use mooncake_ha::Silence;
use mooncake_types::Epoch;
use tokio::sync::watch;

/// The role of this master at the moment, and the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoleStatus {
    pub(crate) role: Role,
    /// The leader, this master or another, as far as it is known.
    pub(crate) leader: Option<Leader>,
    /// How often the role has changed since the start.
    pub(crate) changes: u64,
    /// The silence of the coordinator, while this master does not lead.
    pub(crate) silence: Option<Silence>,
}

/// What a master does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Nothing yet.
    Starting,
    /// It waits until the leader fails.
    Standby,
    /// It knows of no leader, and tries to become the leader.
    Candidate,
    /// It leads.
    Leader,
}

/// How much of its service a leader provides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// It refuses changes until it knows what the nodes hold.
    Recovering,
    /// All of it.
    Serving,
    /// It refuses changes until the coordinator confirms that it still leads.
    Suspended,
}

/// The leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    /// Its address for clients, `host:port`.
    pub(crate) address: String,
    pub(crate) epoch: Epoch,
}

impl Default for RoleStatus {
    fn default() -> Self {
        Self { role: Role::Starting, leader: None, changes: 0, silence: None }
    }
}

impl RoleStatus {
    /// Publishes a role and a leader. Notifies readers if either has changed.
    pub(crate) fn publish(to: &watch::Sender<RoleStatus>, role: Role, leader: Option<Leader>) {
        to.send_if_modified(|status| {
            let news = status.role != role || status.leader != leader;
            status.changes += u64::from(status.role != role);
            (status.role, status.leader) = (role, leader);
            news
        });
    }

    /// Publishes whether the coordinator could be asked. Notifies nobody: the role tells the rest.
    pub(crate) fn publish_silence(to: &watch::Sender<RoleStatus>, silence: Option<Silence>) {
        to.send_if_modified(|status| {
            status.silence = silence;
            false
        });
    }

    /// The refusal for a client that takes this master for the leader.
    pub(crate) fn refusal(&self) -> String {
        match &self.leader {
            Some(leader) if self.role != Role::Leader => {
                format!("this master stands by; the leader is {}", leader.address)
            }
            _ => match &self.silence {
                Some(silence) => {
                    format!("this master stands by; no leader is known, and {silence}")
                }
                None => "this master stands by; no leader is known".to_owned(),
            },
        }
    }
}

impl Role {
    /// The word under `/role`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Role::Leader => "leader",
            Role::Starting | Role::Standby | Role::Candidate => "standby",
        }
    }

    /// The word under `/ha_status`. For a leader it depends on its service.
    pub(crate) const fn state(self, service: Service) -> &'static str {
        match self {
            Role::Starting => "starting",
            Role::Standby => "standby",
            Role::Candidate => "candidate",
            Role::Leader => match service {
                Service::Serving => "serving",
                Service::Recovering => "recovering",
                Service::Suspended => "suspended",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_role_counts_and_the_same_again_is_no_news() {
        let (to, seen) = watch::channel(RoleStatus::default());
        let leader = |epoch| Some(Leader { address: "a:1".to_owned(), epoch: Epoch(epoch) });
        for (role, leader, changes, is_news) in [
            (Role::Candidate, None, 1, true),
            (Role::Standby, leader(1), 2, true),
            (Role::Standby, leader(1), 2, false),
            (Role::Standby, leader(2), 2, true),
            (Role::Leader, leader(3), 3, true),
        ] {
            let mut seen = seen.clone();
            seen.mark_unchanged();
            RoleStatus::publish(&to, role, leader.clone());
            assert_eq!(seen.has_changed().expect("the sender lives"), is_news);
            assert_eq!(*seen.borrow(), RoleStatus { role, leader, changes, silence: None });
        }
    }

    #[test]
    fn a_refusal_names_the_leader_if_it_is_known() {
        let mut status = RoleStatus { role: Role::Standby, ..RoleStatus::default() };
        assert_eq!(status.refusal(), "this master stands by; no leader is known");
        let reason = "etcd at http://e1:2379 gave no useful answer".to_owned();
        status.silence = Some(Silence { since: mooncake_ha::boot_time::now(), reason });
        assert_eq!(
            status.refusal(),
            "this master stands by; no leader is known, and no coordinator since 0 s: etcd at http://e1:2379 gave no \
             useful answer"
        );
        status.leader = Some(Leader { address: "b:2".to_owned(), epoch: Epoch(4) });
        assert_eq!(status.refusal(), "this master stands by; the leader is b:2");
    }
}
