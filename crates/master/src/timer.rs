//! The task that calls the state machine when something is due.

use std::rc::Rc;
use std::time::Instant;

use tokio::task::yield_now;
use tokio::time::sleep_until;

use crate::shell::Shell;

/// Runs until it is dropped.
pub(crate) async fn run(shell: Rc<Shell>) {
    let clock = shell.owner.borrow().clock();
    loop {
        let due = shell.owner.borrow().due();
        shell.armed.set(due);
        match due {
            None => shell.earlier.notified().await,
            Some(tick) if clock.tick(Instant::now()) >= tick => {
                if !shell.owner.borrow().leads() {
                    return;
                }
                shell.owner.borrow_mut().handle_timeout();
                shell.note_changes();
                shell.log_notices();
                // What is left to do may be due again at once; others come in between.
                yield_now().await;
            }
            Some(tick) => tokio::select! {
                () = sleep_until(clock.instant(tick).into()) => {}
                () = shell.earlier.notified() => {}
            },
        }
    }
}
