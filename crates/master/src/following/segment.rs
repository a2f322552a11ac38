use std::rc::Rc;
use std::time::Duration;

use mooncake_connection::Fault;
use mooncake_types::{ErrorCode, SegmentId};
use mooncake_wire::{DecodeError, Kind, Refusal, decode_follow_reply, encode_follow};
use tokio::time::sleep;
use tracing::{debug, info};

use super::pool::FollowedPool;
use crate::config::Config;
use crate::link::Link;

/// Time between two questions to a node about changes.
const EVERY: Duration = Duration::from_millis(100);

/// Pause after a lost connection; shorter in tests.
const RETRY: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1_000 });

/// Pause after a node refused the question: most likely it does not know it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why a segment is not followed at the moment.
enum Stop {
    /// Its node does not have it.
    Gone,
    /// Its shadow is useless, for this reason.
    Anew(&'static str),
    Lost(Fault),
}

impl From<Fault> for Stop {
    fn from(lost: Fault) -> Self {
        match lost {
            Fault::Protocol(_) => Stop::Anew("its node makes no sense"),
            lost => Stop::Lost(lost),
        }
    }
}

/// Follows a segment of the pool. Ends if its node does not have it, or if its node does not answer and the leader
/// does not list it.
pub(super) async fn follow(config: Rc<Config>, pool: Rc<FollowedPool>, id: SegmentId) {
    while let Some(endpoint) = pool.endpoint(id) {
        let Err(stop) = follow_at(&config, &pool, id, &endpoint).await;
        let mut pause = RETRY;
        match stop {
            Stop::Gone => break,
            Stop::Anew(reason) => {
                info!(segment = %id, endpoint = &*endpoint, reason, "this standby begins anew with a segment");
                pool.begin_anew(id);
            }
            Stop::Lost(error) => {
                debug!(%error, segment = %id, endpoint = &*endpoint, "a segment is not followed");
                pool.note(id, false);
                if !pool.is_listed(id) {
                    break;
                }
                if matches!(error, Fault::Refused(_)) {
                    pause = PATIENCE;
                }
            }
        }
        sleep(pause).await;
    }
    pool.forget(id);
}

/// Follows a segment over one connection.
async fn follow_at(
    config: &Config,
    pool: &FollowedPool,
    id: SegmentId,
    endpoint: &str,
) -> Result<std::convert::Infallible, Stop> {
    let mut link = Link::open(endpoint, config).await?;
    loop {
        let ask = pool.ask(id).ok_or(Stop::Gone)?;
        let encode = |out: &mut Vec<u8>, request_id| encode_follow(out, request_id, &ask);
        let body = link.ask(Kind::FollowReply, encode).await?;
        let message = decode_follow_reply(body).map_err(senseless)?;
        let page = match message.page().map_err(senseless)? {
            Ok((segment, page)) if segment == id => page,
            Ok(_) => return Err(Stop::Anew("its node told of another")),
            Err(ErrorCode::SegmentNotFound) => return Err(Stop::Gone),
            Err(ErrorCode::InvalidVersion) => return Err(Stop::Anew("too much has changed")),
            Err(code) => return Err(Stop::Lost(Fault::Refused(Refusal::new(code, code)))),
        };
        let taken = pool.with(id, |shadow| shadow.take(&page)).ok_or(Stop::Gone)?;
        let has_more = taken.map_err(|_| Stop::Anew("its node makes no sense"))?;
        pool.note(id, !has_more);
        if !has_more {
            sleep(EVERY).await;
        }
    }
}

fn senseless(error: DecodeError) -> Stop {
    Stop::from(Fault::from(error))
}
