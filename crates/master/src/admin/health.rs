//! Tells which master leads, and whether this one does. A standby answers this too.

use axum::Json;
use axum::extract::State as Extract;
use mooncake_types::Epoch;
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};
use serde::Serialize;

use super::state::AdminState;
use crate::ask::NotServing;
use crate::following::Followed;
use crate::leadership::{Leader, Role, RoleStatus, Service};
use crate::owner::Owner;
use crate::problems::Problem;
use crate::{obstacle, problems};

#[derive(Serialize)]
pub(super) struct Health {
    status: &'static str,
    version: &'static str,
    protocol_version: u32,
    role: &'static str,
    ha_state: &'static str,
    service_ready: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
    /// Why this master does not serve, where there is more to say than its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What an operator should look at in the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    problems: Option<Vec<String>>,
    /// What to do about each of the problems.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedies: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    following: Option<StandbyKnowledge>,
}

/// How much a standby knows of the nodes' ledgers.
#[derive(Serialize)]
pub(super) struct StandbyKnowledge {
    is_warm: bool,
    segments: usize,
    known_segments: usize,
    entries: usize,
}

impl StandbyKnowledge {
    /// What this master knows, if it stands by.
    pub(super) fn of(state: &AdminState, status: &RoleStatus) -> Option<Self> {
        let Followed { segments, known, entries, is_warm } = *state.following.borrow();
        let following = Self { is_warm, segments, known_segments: known, entries };
        (status.role == Role::Standby).then_some(following)
    }
}

#[derive(Serialize)]
pub(super) struct View {
    present: bool,
    leader_address: Option<String>,
    view_version: Option<u64>,
}

/// The state of this master, as its owner tells it if there is one.
struct Now {
    status: RoleStatus,
    /// What it serves if it leads.
    service: Service,
    /// Why it does not serve all of it, and what is wrong with the pool, if it leads.
    reason: Option<String>,
    problems: Option<Vec<Problem>>,
}

impl Now {
    /// Asks the owner if this master leads, so that an owner that does not answer shows.
    async fn of(state: &AdminState) -> Now {
        let status = state.status.borrow().clone();
        let service = Service::Recovering;
        if status.role != Role::Leader {
            let reason = status.silence.as_ref().map(ToString::to_string);
            return Now { status, service, reason, problems: None };
        }
        let look = |owner: &mut Owner| {
            let (epoch, service) = (owner.meta.epoch(), owner.service());
            (epoch, service, obstacle::to_changes(owner), problems::of(owner))
        };
        match state.asker.ask(look).await {
            Ok((epoch, service, reason, problems)) => {
                Now { status: status.under(epoch), service, reason, problems: Some(problems) }
            }
            // The term has not begun, or has just ended.
            Err(NotServing) => Now { status, service, reason: None, problems: None },
        }
    }
}

impl RoleStatus {
    /// The same status, with the current epoch of the leader.
    pub(super) fn under(mut self, epoch: Epoch) -> RoleStatus {
        if let Some(leader) = &mut self.leader {
            leader.epoch = leader.epoch.max(epoch);
        }
        self
    }
}

fn view(leader: Option<Leader>) -> (Option<String>, Option<u64>) {
    leader.map(|leader| (leader.address, leader.epoch.0)).unzip()
}

/// `GET /health`: what this master does, who leads, and what the leader finds wrong with the pool. 200 while it works.
pub(super) async fn health(Extract(state): Extract<AdminState>) -> Json<Health> {
    let Now { status, service, reason, problems } = Now::of(&state).await;
    let following = StandbyKnowledge::of(&state, &status);
    let (leader_address, view_version) = view(status.leader);
    let told = |it: Problem| (it.text, it.remedy);
    let (problems, remedies) = problems.map(|all| all.into_iter().map(told).unzip()).unzip();
    Json(Health {
        status: "ok",
        version: SOFTWARE_VERSION,
        protocol_version: PROTOCOL_VERSION,
        role: status.role.word(),
        ha_state: status.role.state(service),
        service_ready: service == Service::Serving,
        leader_address,
        view_version,
        reason,
        problems,
        remedies,
        following,
    })
}

/// `GET /leader`: the address of the leader, and the epoch under which it leads.
pub(super) async fn leader(Extract(state): Extract<AdminState>) -> Json<View> {
    let (leader_address, view_version) = view(state.status.borrow().leader.clone());
    Json(View { present: leader_address.is_some(), leader_address, view_version })
}

/// `GET /role`: leader or standby.
pub(super) async fn role(Extract(state): Extract<AdminState>) -> &'static str {
    state.status.borrow().role.word()
}

/// `GET /ha_status`: whether this master stands by, recovers, serves, or is suspended.
pub(super) async fn ha_status(Extract(state): Extract<AdminState>) -> &'static str {
    let Now { status, service, .. } = Now::of(&state).await;
    status.role.state(service)
}
