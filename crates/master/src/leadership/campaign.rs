//! RoleStatus for the leadership and keeping it, on a thread of its own: the coordinator may be slow, or gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mooncake_ha::{Campaign as Outcome, Candidate, Coordinator, LeaderView, Leadership};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use super::overtake::{Overtaking, Password};
use super::role_status::{Leader, Role, RoleStatus};
use super::term::Term;

/// Longest wait of one campaign: a stop is noticed after it.
const LOOK: Duration = Duration::from_millis(500);

/// The first wait after a coordinator that failed; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What the thread works with.
pub(super) struct Campaign {
    pub(super) coordinator: Coordinator,
    pub(super) candidate: Candidate,
    pub(super) password: Password,
    pub(super) status: watch::Sender<RoleStatus>,
    pub(super) terms: mpsc::UnboundedSender<Term>,
    /// What the owner tells the thread, which it unparks then.
    pub(super) orders: Arc<Orders>,
}

/// See [`Campaign::orders`].
#[derive(Debug, Default)]
pub(super) struct Orders {
    /// The master stops.
    pub(super) stopping: AtomicBool,
    /// The owner serves nobody any more.
    pub(super) is_over: AtomicBool,
}

impl Campaign {
    /// Stands for election, leads, and stands again, until the master stops.
    pub(super) fn run(self) {
        // The first look does not wait, so that it is soon known who leads.
        let (mut pause, mut look) = (FIRST_PAUSE, Duration::ZERO);
        let mut followed = None;
        while !self.is_stopping() {
            match self.coordinator.campaign(&self.candidate, look) {
                Ok(Outcome::Leads(leadership)) => {
                    (pause, look) = (FIRST_PAUSE, Duration::ZERO);
                    self.tell_predecessor(followed.take(), &leadership);
                    self.lead(leadership);
                }
                Ok(Outcome::Follows(leader)) => {
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
        // The owner sets both when it stops: one of them is seen.
        if self.is_stopping() {
            return self.resign(&leadership);
        }
        let (epoch, members) = (leadership.epoch(), leadership.record().members().len());
        info!(%epoch, members, "this master leads");
        let leader = Leader { address: self.candidate.address.clone(), epoch };
        RoleStatus::publish(&self.status, Role::Leader, Some(leader));
        let term = Term::new(leadership.clone());
        let held = term.clone();
        // An error means that the master is gone, and with it the term.
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

    /// If that fails the others find out when the leadership runs out.
    fn resign(&self, leadership: &Leadership) {
        if let Err(error) = leadership.resign() {
            info!(%error, "the coordinator was not told that this master leads no more");
        }
    }

    /// Waits until the owner serves nobody any more: only then may another master lead.
    fn await_end(&self) {
        while !self.orders.is_over.load(Ordering::Acquire) {
            thread::park_timeout(LOOK);
        }
    }
}
