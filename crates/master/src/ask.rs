//! The channel by which other threads ask the owner.

use mooncake_meta::SegmentReport;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use crate::metrics::Snapshot;
use crate::owner::Owner;

/// Most questions that wait for the owner. Further ones wait to be queued.
const WAITING: usize = 64;

type Question = Box<dyn FnOnce(&mut Owner) + Send>;

/// There is no owner: the master is a standby, or stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the master does not serve")]
pub(crate) struct NotServing;

/// Asks the owner of the current term.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    owner: watch::Receiver<Option<mpsc::Sender<Question>>>,
}

/// Holds the question queue of the current term's owner.
#[derive(Debug)]
pub(crate) struct OwnerSlot {
    owner: watch::Sender<Option<mpsc::Sender<Question>>>,
}

/// The questions that wait for the owner.
pub(crate) type Questions = mpsc::Receiver<Question>;

pub(crate) fn channel() -> (OwnerSlot, Asker) {
    let (owner, asked) = watch::channel(None);
    (OwnerSlot { owner }, Asker { owner: asked })
}

impl OwnerSlot {
    /// Directs questions to a new owner.
    pub(crate) fn take(&self) -> Questions {
        let (questions, asked) = mpsc::channel(WAITING);
        self.owner.send_replace(Some(questions));
        asked
    }

    /// From now on there is no owner to ask.
    pub(crate) fn leave(&self) {
        self.owner.send_replace(None);
    }
}

impl Asker {
    /// Runs `look` on the owner thread. It must be short: the thread serves nothing else meanwhile.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Owner) -> T + Send + 'static,
    ) -> Result<T, NotServing> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |owner| {
            // An error means that the caller has gone.
            let _ = answer.send(look(owner));
        });
        let questions = self.owner.borrow().clone().ok_or(NotServing)?;
        questions.send(question).await.map_err(|_| NotServing)?;
        answered.await.map_err(|_| NotServing)
    }

    /// All mounted segments, in the order of their names. The owner serves others between two pages of them.
    pub(crate) async fn segments(&self) -> Result<Vec<SegmentReport>, NotServing> {
        let (mut reports, mut next) = (Vec::new(), Some(0));
        while let Some(from) = next {
            let (page, following) = self.ask(move |owner| owner.meta.segments_from(from)).await?;
            reports.extend(page);
            next = following;
        }
        reports.sort_by(SegmentReport::by_name);
        Ok(reports)
    }

    /// All values of the metrics.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, NotServing> {
        let mut snapshot = self.ask(|owner| owner.snapshot()).await?;
        snapshot.add(&self.segments().await?);
        Ok(snapshot)
    }
}
