//! The channel by which other threads ask the owner.

use std::rc::Rc;

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;

use crate::owner::Owner;
use crate::shell::Shell;

/// Questions that wait for the owner; who asks more waits to ask.
const WAITING: usize = 64;

type Question = Box<dyn FnOnce(&mut Owner) + Send>;

/// The master is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the master is stopping")]
pub(crate) struct Stopping;

/// Asks the owner.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    questions: mpsc::Sender<Question>,
}

/// What the owner is asked.
pub(crate) type Questions = mpsc::Receiver<Question>;

pub(crate) fn channel() -> (Asker, Questions) {
    let (questions, asked) = mpsc::channel(WAITING);
    (Asker { questions }, asked)
}

impl Asker {
    /// Runs `look` on the owner thread. It must be short: nothing else is served meanwhile.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Owner) -> T + Send + 'static,
    ) -> Result<T, Stopping> {
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |owner| {
            // An error means that nobody waits for the answer any more.
            let _ = answer.send(look(owner));
        });
        self.questions.send(question).await.map_err(|_| Stopping)?;
        answered.await.map_err(|_| Stopping)
    }
}

/// Answers on the owner thread, one question between two turns of everything else.
pub(crate) async fn answer(shell: Rc<Shell>, mut questions: Questions) {
    while let Some(question) = questions.recv().await {
        question(&mut shell.owner.borrow_mut());
        shell.rearm();
        yield_now().await;
    }
}
