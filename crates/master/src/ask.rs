//! The channel by which other threads ask the owner.

use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};

use crate::owner::Owner;

/// Questions that wait for the owner; who asks more waits to ask.
const WAITING: usize = 64;

type Question = Box<dyn FnOnce(&mut Owner) + Send>;

/// There is no owner: the master stands by, or stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the master does not serve")]
pub(crate) struct NotServing;

/// Asks the owner of the term that goes on.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    owner: watch::Receiver<Option<mpsc::Sender<Question>>>,
}

/// Where the owner of each term takes its place.
#[derive(Debug)]
pub(crate) struct OwnerSlot {
    owner: watch::Sender<Option<mpsc::Sender<Question>>>,
}

/// What the owner is asked.
pub(crate) type Questions = mpsc::Receiver<Question>;

pub(crate) fn channel() -> (OwnerSlot, Asker) {
    let (owner, asked) = watch::channel(None);
    (OwnerSlot { owner }, Asker { owner: asked })
}

impl OwnerSlot {
    /// Lets a new owner be asked.
    pub(crate) fn take(&self) -> Questions {
        let (questions, asked) = mpsc::channel(WAITING);
        self.owner.send_replace(Some(questions));
        asked
    }

    /// Nobody can be asked from now on.
    pub(crate) fn leave(&self) {
        self.owner.send_replace(None);
    }
}

impl Asker {
    /// Runs `look` on the owner thread. It must be short: nothing else is served meanwhile.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Owner) -> T + Send + 'static,
    ) -> Result<T, NotServing> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |owner| {
            // An error means that nobody waits for the answer any more.
            let _ = answer.send(look(owner));
        });
        let questions = self.owner.borrow().clone().ok_or(NotServing)?;
        questions.send(question).await.map_err(|_| NotServing)?;
        answered.await.map_err(|_| NotServing)
    }
}
