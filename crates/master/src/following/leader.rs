use std::rc::Rc;
use std::time::Duration;

use mooncake_types::{ListedSegment, Reply, Request, limits};
use mooncake_wire::{Kind, decode_reply, encode_request};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::pool::Pool;
use super::segment;
use crate::config::Config;
use crate::leadership::{Role, RoleStatus};
use crate::link::{Link, Lost};

/// How often the leader is asked which segments there are.
const EVERY: Duration = Duration::from_secs(1);

/// After a leader that refused to say it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Most segments that are followed: each takes a connection. Of others all is to be told.
const MOST: usize = 8192;

/// Asks the leader for its segments, whoever that is, and has them followed; for as long as it is not dropped.
pub(super) async fn run(
    config: Rc<Config>,
    pool: Rc<Pool>,
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
                    if matches!(error, Lost::Refused(_)) {
                        pause = PATIENCE;
                    }
                }
            }
        }
        while tasks.try_join_next().is_some() {}
        // Another leader is asked at once.
        match timeout(pause, status.changed()).await {
            // The thread that says who leads is gone, and the master soon is.
            Ok(Err(_)) => sleep(EVERY).await,
            Ok(Ok(())) => link = None,
            Err(_) => {}
        }
    }
}

/// Where the leader is that this master stands by for.
fn leader(status: &RoleStatus) -> Option<String> {
    let leader = status.leader.as_ref().filter(|_| status.role == Role::Standby)?;
    Some(leader.address.clone())
}

async fn list(
    config: &Config,
    link: &mut Option<Link>,
    address: &str,
) -> Result<Vec<ListedSegment>, Lost> {
    let link = match link {
        Some(link) => link,
        None => link.insert(Link::open(address, config).await?),
    };
    let (mut all, mut from) = (Vec::new(), 0);
    loop {
        let request = Request::ListSegments { from, limit: limits::MAX_LISTED_SEGMENTS };
        let frame = link.ask(Kind::Reply, |out, id| encode_request(out, id, &request)).await?;
        let page = match decode_reply(frame.body) {
            Ok(Reply::Segments(page)) => page,
            Ok(Reply::Refused(code)) => return Err(Lost::Refused(code.to_string())),
            Ok(_) => return Err(Lost::Senseless("it is no list of segments".to_owned())),
            Err(error) => return Err(Lost::Senseless(error.to_string())),
        };
        all.extend(page.segments);
        match page.next {
            None => return Ok(all),
            Some(next) if next > from && all.len() <= limits::MAX_SEGMENTS => from = next,
            Some(_) => return Err(Lost::Senseless("its list does not end".to_owned())),
        }
    }
}
