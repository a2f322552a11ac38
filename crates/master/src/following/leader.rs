use std::rc::Rc;
use std::time::Duration;

use mooncake_connection::Fault;
use mooncake_types::{ListedSegment, Reply, Request, limits};
use mooncake_wire::{Kind, Refusal, decode_reply, encode_request};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::pool::FollowedPool;
use super::segment;
use crate::config::Config;
use crate::leadership::{Role, RoleStatus};
use crate::link::Link;

/// Time between two questions to the leader about its segments.
const EVERY: Duration = Duration::from_secs(1);

/// Pause after the leader refused to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most segments that are followed, since each takes a connection. The nodes tell the others after a takeover.
const MOST: usize = 8192;

/// Asks the current leader for its segments and follows them, until it is dropped.
pub(super) async fn run(
    config: Rc<Config>,
    pool: Rc<FollowedPool>,
    mut status: watch::Receiver<RoleStatus>,
) {
    let mut tasks = JoinSet::new();
    let mut link = None;
    loop {
        let address = leader(&status.borrow_and_update());
        let mut pause = EVERY;
        if let Some(address) = address {
            match list(&config, &mut link, &address).await {
                Ok(listed) => {
                    for id in pool.list(&listed, MOST) {
                        tasks.spawn_local(segment::follow(
                            Rc::clone(&config),
                            Rc::clone(&pool),
                            id,
                        ));
                    }
                }
                Err(error) => {
                    debug!(%error, leader = address, "the leader does not say which segments there are");
                    link = None;
                    if matches!(error, Fault::Refused(_)) {
                        pause = PATIENCE;
                    }
                }
            }
        }
        while tasks.try_join_next().is_some() {}
        // A new leader is asked at once.
        match timeout(pause, status.changed()).await {
            // The election thread is gone, and this master soon will be.
            Ok(Err(_)) => sleep(EVERY).await,
            Ok(Ok(())) => link = None,
            Err(_) => {}
        }
    }
}

/// The address of the leader, if this master is its standby.
fn leader(status: &RoleStatus) -> Option<String> {
    let leader = status.leader.as_ref().filter(|_| status.role == Role::Standby)?;
    Some(leader.address.clone())
}

async fn list(
    config: &Config,
    link: &mut Option<Link>,
    address: &str,
) -> Result<Vec<ListedSegment>, Fault> {
    let link = match link {
        Some(link) => link,
        None => link.insert(Link::open(address, config).await?),
    };
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let request = Request::ListSegments { from, limit: limits::MAX_LISTED_SEGMENTS };
        let body = link.ask(Kind::Reply, |out, id| encode_request(out, id, &request)).await?;
        let page = match decode_reply(body)? {
            Reply::Segments(page) => page,
            Reply::Refused(code) => return Err(Fault::Refused(Refusal::new(code, code))),
            _ => return Err(Fault::Protocol("it is no list of segments".to_owned())),
        };
        all.extend(page.segments);
        match page.next {
            None => return Ok(all),
            Some(next) if next > from && all.len() <= limits::MAX_SEGMENTS => from = next,
            Some(_) => return Err(Fault::Protocol("its list does not end".to_owned())),
        }
    }
}
