//! Which master leads, and what a leader must remember.
//!
//! A single master leads from its start to its end, and keeps the membership record in a file (`alone`). With a
//! coordinator it stands for election (`campaign`), leads for a [`Term`] at a time, and is a standby in between. A
//! [`Term`] says until when it may act; the [`Recorder`] writes the record; [`RoleStatus`] is what operators and
//! clients see. `mooncake-meta` decides which segments are members.

pub(crate) mod alone;
mod campaign;
mod change;
mod config;
mod lateness;
mod overtake;
mod pod_label;
mod recorder;
mod role_status;
mod term;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use mooncake_ha::{Candidate, Coordinator};
use tokio::sync::{mpsc, watch};

pub(crate) use change::{change, drain_mark, drained, effect, record};
pub use config::{LeadershipConfig, PodConfig, StateDir};
pub(crate) use lateness::Lateness;
pub(crate) use overtake::ClusterSecret;
pub(crate) use pod_label::PodLabel;
pub use recorder::Unwritten;
pub(crate) use recorder::{NotRecorded, Recorder};
pub(crate) use role_status::{Leader, Role, RoleStatus, Service};
pub(crate) use term::{Authority, Term};

use campaign::{Campaign, Orders};

/// Where the terms of this master come from.
#[derive(Debug)]
pub(crate) struct Election {
    terms: mpsc::UnboundedReceiver<Term>,
    status: watch::Receiver<RoleStatus>,
    /// The thread that stands for election, if there is an election.
    campaign: Option<(Arc<Orders>, JoinHandle<()>)>,
}

impl Election {
    /// The election of a single master, which leads once, from now on.
    pub(crate) fn alone(term: Term, address: String) -> Election {
        let leader = Leader { address, epoch: term.leadership.epoch() };
        let (publish, status) = watch::channel(RoleStatus::default());
        RoleStatus::publish(&publish, Role::Leader, Some(leader));
        let (send, terms) = mpsc::unbounded_channel();
        // The receiver is in the next line.
        let _ = send.send(term);
        Election { terms, status, campaign: None }
    }

    /// The election of a master that competes with others.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn elected(
        coordinator: Coordinator,
        address: String,
        password: ClusterSecret,
    ) -> io::Result<Election> {
        let (publish, status) = watch::channel(RoleStatus::default());
        let (send, terms) = mpsc::unbounded_channel();
        let orders = Arc::new(Orders::default());
        let campaign = Campaign {
            coordinator,
            candidate: Candidate { address },
            password,
            status: publish,
            terms: send,
            orders: Arc::clone(&orders),
        };
        let thread = thread::Builder::new().name("campaign".to_owned());
        let thread = thread.spawn(move || campaign.run())?;
        Ok(Election { terms, status, campaign: Some((orders, thread)) })
    }

    /// Waits for the next term. A single master has one term, and then this never completes.
    pub(crate) async fn term(&mut self) -> Term {
        match self.terms.recv().await {
            Some(term) => term,
            None => std::future::pending().await,
        }
    }

    /// Whether there may be other masters.
    pub(crate) fn is_contested(&self) -> bool {
        self.campaign.is_some()
    }

    /// The role and the leader, as they change.
    pub(crate) fn status(&self) -> watch::Receiver<RoleStatus> {
        self.status.clone()
    }

    /// Notes that the owner has stopped serving under this term, so that another master may lead.
    pub(crate) fn leave(&self, term: &Term) {
        term.end();
        if let Some((orders, thread)) = &self.campaign {
            orders.is_over.store(true, Ordering::Release);
            thread.thread().unpark();
        }
    }

    /// Stops competing once its term is over.
    pub(crate) fn withdraw(&self) {
        if let Some((orders, _)) = &self.campaign {
            orders.stopping.store(true, Ordering::SeqCst);
        }
    }

    /// Like [`Election::withdraw`]. Also waits until the coordinator was told, for at most as long as it may take to
    /// answer.
    pub(crate) fn close(mut self) {
        let Some((orders, thread)) = self.campaign.take() else { return };
        orders.stopping.store(true, Ordering::SeqCst);
        orders.is_over.store(true, Ordering::SeqCst);
        thread.thread().unpark();
        if thread.join().is_err() {
            tracing::error!("the thread that stands for election panicked");
        }
    }
}

/// A master that ended by an error or a panic stops leading, though its process may live on.
impl Drop for Election {
    fn drop(&mut self) {
        let Some((orders, thread)) = &self.campaign else { return };
        orders.stopping.store(true, Ordering::SeqCst);
        orders.is_over.store(true, Ordering::SeqCst);
        thread.thread().unpark();
    }
}
