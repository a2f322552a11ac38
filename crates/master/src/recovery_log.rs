//! Logs what a new leader waits for before it takes puts and removals.

use std::rc::Rc;
use std::time::{Duration, Instant};

use mooncake_meta::Awaited;
use mooncake_types::SegmentId;
use tokio::time::sleep;
use tracing::info;

use crate::shell::Shell;

/// Time between two checks of the progress.
const LOOK: Duration = Duration::from_millis(100);

/// Time between two lines about progress.
const PAUSE: Duration = Duration::from_secs(1);

/// Most segments that a line names.
const NAMED: usize = 4;

/// Runs until this leader serves, and all nodes have told their ledgers. Ends at once for the first leader of a pool.
pub(crate) async fn run(shell: Rc<Shell>) {
    let begun = Instant::now();
    let look = || shell.owner.borrow().meta.awaited(NAMED);
    let Some(mut said) = look() else { return };
    log_beginning(&said);
    let mut said_at = begun;
    loop {
        sleep(LOOK).await;
        let Some(awaited) = look() else { break };
        if said_at.elapsed() >= PAUSE && progress(&awaited) != progress(&said) {
            log_progress(&awaited, begun);
            (said, said_at) = (awaited, Instant::now());
        }
    }
    let known = || {
        let meta = &shell.owner.borrow().meta;
        (meta.counts().keys, meta.reporting())
    };
    let (objects, telling) = known();
    if telling > 0 {
        info!(
            telling,
            objects,
            took_ms = millis(begun),
            "puts and removals are taken; some segments are still telling what they hold"
        );
        while known().1 > 0 {
            sleep(LOOK).await;
        }
    }
    let objects = known().0;
    info!(objects, took_ms = millis(begun), "recovery is over: puts and removals are taken");
}

/// The numbers whose change is worth a line.
fn progress(awaited: &Awaited) -> (usize, usize, usize) {
    (awaited.missing, awaited.telling, awaited.objects)
}

fn log_beginning(awaited: &Awaited) {
    let Awaited { missing, first_missing, at_most_ms, .. } = awaited;
    info!(
        missing,
        segments = names(first_missing),
        at_most_ms,
        "recovery begins: puts and removals are refused until the recorded segments have told what they hold"
    );
}

fn log_progress(awaited: &Awaited, begun: Instant) {
    let Awaited { missing, first_missing, telling, objects, at_most_ms } = awaited;
    info!(
        missing,
        segments = names(first_missing),
        telling,
        objects,
        at_most_ms,
        took_ms = millis(begun),
        "recovery goes on: puts and removals are refused"
    );
}

fn names(segments: &[SegmentId]) -> String {
    segments.iter().map(SegmentId::to_string).collect::<Vec<_>>().join(", ")
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
