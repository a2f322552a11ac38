//! The task that calls the state machine when work is due.

use std::rc::Rc;
use std::time::Duration;

use mooncake_ha::boot_time;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::leadership::Authority;
use crate::shell::Shell;

/// Time between two checks whether a suspended leader may go on.
const LOOK: Duration = Duration::from_millis(20);

/// Runs until it is dropped.
pub(crate) async fn run(shell: Rc<Shell>) {
    let clock = shell.owner.borrow().clock();
    loop {
        let due = shell.owner.borrow().due();
        shell.armed.set(due);
        match due {
            None => shell.earlier.notified().await,
            Some(tick) if clock.tick(boot_time::now()) >= tick => {
                let authority = shell.owner.borrow().authority();
                match authority {
                    Authority::Leads => {}
                    // Due work waits until it is known which master leads.
                    Authority::Suspended => {
                        sleep(LOOK).await;
                        continue;
                    }
                    Authority::Over => return,
                }
                shell.owner.borrow_mut().handle_timeout();
                shell.pass_on_effects();
                // The rest may be due again at once; other tasks run in between.
                yield_now().await;
            }
            Some(tick) => tokio::select! {
                () = sleep(clock.instant(tick).saturating_duration_since(boot_time::now())) => {}
                () = shell.earlier.notified() => {}
            },
        }
    }
}
