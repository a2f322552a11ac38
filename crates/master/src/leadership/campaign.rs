//! Campaigns for the leadership and keeps it. It has its own thread, since the coordinator may be slow or
//! unreachable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mooncake_ha::{CampaignOutcome, Candidate, Coordinator, LeaderView, Leadership, Silence};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::overtake::{ClusterSecret, Overtaking};
use super::role_status::{Leader, Role, RoleStatus};
use super::term::Term;

/// Longest wait of one campaign, after which a stop is noticed.
const LOOK: Duration = Duration::from_millis(500);

/// The first pause after the coordinator failed; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The state of the election thread.
pub(super) struct Campaign {
    pub(super) coordinator: Coordinator,
    pub(super) candidate: Candidate,
    pub(super) password: ClusterSecret,
    pub(super) status: watch::Sender<RoleStatus>,
    pub(super) terms: mpsc::UnboundedSender<Term>,
    /// Orders of the owner, which unparks the thread after it has set one.
    pub(super) orders: Arc<Orders>,
}

/// See [`Campaign::orders`].
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The master stops.
    pub(super) stopping: AtomicBool,
    /// The owner has stopped serving.
    pub(super) is_over: AtomicBool,
}

impl Campaign {
    /// Campaigns, leads, and campaigns again, until the master stops.
    pub(super) fn run(self) {
        // The first campaign does not wait, so that it is soon known which master leads.
        let (mut pause, mut look) = (FIRST_PAUSE, Duration::ZERO);
        let (mut followed, mut silence) = (None, None);
        while !self.is_stopping() {
            let outcome = self.coordinator.campaign(&self.candidate, look);
            silence = match &outcome {
                Ok(_) => None,
                Err(error) => Some(silence.unwrap_or_else(|| Silence::begin(error))),
            };
            RoleStatus::publish_silence(&self.status, silence.clone());
            match outcome {
                Ok(CampaignOutcome::Leads(leadership)) => {
                    (pause, look) = (FIRST_PAUSE, Duration::ZERO);
                    self.tell_predecessor(followed.take(), &leadership);
                    self.lead(leadership);
                }
                Ok(CampaignOutcome::Follows(leader)) => {
                    (pause, look) = (FIRST_PAUSE, LOOK);
                    followed = leader.clone().or(followed);
                    self.follow(leader);
                }
                Err(error) => {
                    if pause == FIRST_PAUSE {
                        warn!(%error, "the coordinator cannot be asked; it is tried again");
                    }
                    RoleStatus::publish(&self.status, Role::Candidate, None);
                    thread::park_timeout(pause);
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.orders.stopping.load(Ordering::SeqCst)
    }

    fn follow(&self, leader: Option<LeaderView>) {
        let role = if leader.is_some() { Role::Standby } else { Role::Candidate };
        let leader = leader.map(|view| Leader { address: view.address, epoch: view.epoch });
        let known = self.status.borrow().leader.clone();
        if let Some(leader) = leader.as_ref().filter(|leader| Some(*leader) != known.as_ref()) {
            info!(leader = leader.address, epoch = %leader.epoch, "this master stands by");
        }
        RoleStatus::publish(&self.status, role, leader);
    }

    fn tell_predecessor(&self, predecessor: Option<LeaderView>, leadership: &Leadership) {
        let Some(predecessor) = predecessor else { return };
        if predecessor.address != self.candidate.address {
            Overtaking {
                predecessor: predecessor.address,
                password: self.password.clone(),
                epoch: leadership.epoch(),
                within: leadership.suspension(),
            }
            .begin();
        }
    }

    fn lead(&self, leadership: Leadership) {
        self.orders.is_over.store(false, Ordering::SeqCst);
        // The owner sets both flags when it stops, so at least one of them is seen.
        if self.is_stopping() {
            return self.resign(&leadership);
        }
        let (epoch, members) = (leadership.epoch(), leadership.record().members().len());
        info!(%epoch, members, "this master leads");
        let leader = Leader { address: self.candidate.address.clone(), epoch };
        RoleStatus::publish(&self.status, Role::Leader, Some(leader));
        let term = Term::new(leadership.clone());
        let held = term.clone();
        // An error means that the master is gone, and the term with it.
        if self.terms.send(term).is_ok() {
            let ended = leadership.keep(&self.orders.is_over);
            held.end();
            self.await_end();
            if !self.is_stopping() {
                warn!(%epoch, ?ended, "this master leads no more");
            }
        }
        RoleStatus::publish(&self.status, Role::Candidate, None);
        self.resign(&leadership);
    }

    /// If that fails, other masters take over when the leadership expires.
    fn resign(&self, leadership: &Leadership) {
        if let Err(error) = leadership.resign() {
            info!(%error, "the coordinator was not told that this master leads no more");
        }
    }

    /// Waits until the owner has stopped serving. Only then may another master lead.
    fn await_end(&self) {
        while !self.orders.is_over.load(Ordering::Acquire) {
            thread::park_timeout(LOOK);
        }
    }
}
