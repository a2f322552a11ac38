//! Checks whether nodes can be connected to at the endpoints that they tell others. An endpoint is tried when its
//! segment is mounted, before anything is put there. It is tried again once a second while it cannot be reached, and
//! when a client could not reach it.
//!
//! A try is a handshake and a question about the segment, since another node may serve at that address. A master that
//! has reached no node yet may be on another network than nodes and clients. Then its failures mean nothing.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use mooncake_connection::Fault;
use mooncake_seals::on_follow;
use mooncake_types::{ErrorCode, Follow, MountSegment, Seal, SegmentId};
use mooncake_wire::{Kind, decode_follow_reply, encode_follow};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::config::Config;
use crate::link::Link;
use crate::shell::Shell;

/// How long a mount waits for its address to answer. The node pings over the same connection, and counts as paused
/// after half a second without a ping.
const MOUNT_PATIENCE: Duration = Duration::from_millis(250);

/// Time between two tries of an address.
const RETRY: Duration = Duration::from_secs(1);

/// Most addresses that are tried at the same time.
const MOST_AT_A_TIME: usize = 64;

/// The endpoints of one term that may be unreachable.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    known: RefCell<ReachState>,
    /// Wakes the task that tries again.
    waits: Notify,
}

#[derive(Debug, Default)]
struct ReachState {
    /// At least one node was reached.
    has_reached: bool,
    /// Segments whose addresses have to be tried. The state machine knew all of them.
    waiting: BTreeMap<SegmentId, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    endpoint: String,
    /// Why the last try failed; `None` if a client reported the address and the master has not tried it.
    failure: Option<String>,
}

/// Tries the address of a segment that is about to be mounted.
pub(crate) async fn before_mount(config: &Config, mount: &MountSegment<'_>) -> Result<(), Fault> {
    let MountSegment { id, endpoint, ref seal_key, .. } = *mount;
    let seal = seal_key.as_ref().map_or(Seal::NONE, |key| on_follow(key, id));
    let tried = timeout(MOUNT_PATIENCE, attempt(config, (id, seal), endpoint)).await;
    tried.unwrap_or(Err(Fault::TimedOut))
}

async fn attempt(
    config: &Config,
    (segment, seal): (SegmentId, Seal),
    endpoint: &str,
) -> Result<(), Fault> {
    let mut link = Link::open(endpoint, config).await?;
    // No change has this number, so the answer is short.
    let question = Follow { segment, since: Some(u64::MAX), from: None, seal };
    let encode = |out: &mut Vec<u8>, request_id| encode_follow(out, request_id, &question);
    let answer = match link.ask(Kind::FollowReply, encode).await {
        // The node does not know the question, but it answers.
        Err(Fault::Refused(_)) => return Ok(()),
        answer => decode_follow_reply(answer?)?,
    };
    match answer.page()? {
        Err(ErrorCode::SegmentNotFound) => {
            Err(Fault::Protocol("another node serves there".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Notes the result of a try.
pub(crate) fn note(shell: &Shell, segment: SegmentId, endpoint: &str, tried: Result<(), Fault>) {
    let mut known = shell.reach.known.borrow_mut();
    let Err(error) = tried else {
        known.waiting.remove(&segment);
        if tell(shell, segment, true) {
            info!(%segment, endpoint, "a node can be reached now: objects are put there");
        }
        if !std::mem::replace(&mut known.has_reached, true) {
            for (&segment, waiting) in &known.waiting {
                let Some(failure) = &waiting.failure else { continue };
                exclude(shell, segment, &waiting.endpoint, failure);
            }
        }
        return;
    };
    let failure = error.to_string();
    if known.has_reached {
        exclude(shell, segment, endpoint, &failure);
    } else {
        warn!(
            %segment, endpoint, error = failure,
            "a node cannot be reached at the address that it tells others. This master has reached none yet and may be on \
             another network, so objects are put there all the same"
        );
    }
    let waiting = Waiting { endpoint: endpoint.to_owned(), failure: Some(failure) };
    known.waiting.insert(segment, waiting);
    shell.reach.waits.notify_one();
}

fn exclude(shell: &Shell, segment: SegmentId, endpoint: &str, error: &str) {
    if tell(shell, segment, false) {
        warn!(
            %segment, endpoint, error,
            "a node cannot be reached at the address that it tells others: nothing is put there until it can"
        );
    }
}

/// Tells the owner. True if that is news.
fn tell(shell: &Shell, segment: SegmentId, is_reached: bool) -> bool {
    shell.owner.borrow_mut().handle_reach(segment, is_reached)
}

/// Has the nodes of these segments tried, which a client could not reach.
pub(crate) fn doubt(shell: &Shell, segments: &[SegmentId]) {
    for &segment in segments {
        let Some((endpoint, _)) = shell.owner.borrow().meta.endpoint(segment) else { continue };
        let waiting = Waiting { endpoint: endpoint.to_string(), failure: None };
        shell.reach.known.borrow_mut().waiting.entry(segment).or_insert(waiting);
        shell.reach.waits.notify_one();
    }
}

/// Tries addresses again, until it is dropped.
pub(crate) async fn run(shell: Rc<Shell>) {
    loop {
        shell.reach.waits.notified().await;
        while !shell.reach.known.borrow().waiting.is_empty() {
            sleep(RETRY).await;
            let due = due(&shell);
            for some in due.chunks(MOST_AT_A_TIME) {
                try_all(&shell, some).await;
            }
        }
    }
}

/// The addresses to try now. Leaves out nodes that are out of sight, since dead ones cannot be reached either.
fn due(shell: &Shell) -> Vec<(SegmentId, String)> {
    let owner = shell.owner.borrow();
    let (waiting, mut due) = (&mut shell.reach.known.borrow_mut().waiting, Vec::new());
    waiting.retain(|&segment, it| match owner.meta.endpoint(segment) {
        Some((endpoint, in_sight)) if *endpoint == *it.endpoint => {
            if in_sight {
                due.push((segment, it.endpoint.clone()));
            }
            true
        }
        _ => false,
    });
    due
}

async fn try_all(shell: &Rc<Shell>, due: &[(SegmentId, String)]) {
    let mut tries = JoinSet::new();
    for (segment, endpoint) in due.iter().cloned() {
        let shell = Rc::clone(shell);
        tries.spawn_local(async move {
            let seal = shell.owner.borrow().follow_seal(segment);
            let tried = attempt(&shell.config, (segment, seal), &endpoint).await;
            (segment, endpoint, tried)
        });
    }
    while let Some(ended) = tries.join_next().await {
        let Ok((segment, endpoint, tried)) = ended else { continue };
        let now = shell.owner.borrow().meta.endpoint(segment);
        let is_current =
            now.is_some_and(|(now, in_sight)| *now == *endpoint && (in_sight || tried.is_ok()));
        if is_current && shell.reach.known.borrow().waiting.contains_key(&segment) {
            note(shell, segment, &endpoint, tried);
        }
    }
}
