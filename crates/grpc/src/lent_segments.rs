//! The segments that a gRPC connection has mounted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use mooncake_connection::Fault;
use mooncake_types::{
    Epoch, ErrorCode, Medium, MountOutcome, MountSegment, Reply, Request, SegmentId,
};
use tokio::task::spawn_local;
use tokio::time::sleep;
use tracing::debug;

use crate::link::{Link, random};

/// Time between two pings. A client is dead after ten times as long, by default.
const PING: Duration = Duration::from_secs(1);

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most segments of one connection.
const MAX_SEGMENTS: usize = 1024;

/// The segments that a connection has mounted, by name.
#[derive(Debug, Default)]
pub(crate) struct LentSegments(Mutex<BTreeMap<String, LentSegment>>);

#[derive(Clone, Copy, Debug)]
struct LentSegment {
    id: SegmentId,
    len: u64,
}

impl LentSegments {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, LentSegment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The heartbeat of the client.
    pub(crate) fn ping(&self) -> Request<'static> {
        let segments = self.lock().values().map(|segment| segment.id).collect();
        Request::Ping { segments, unreachable: Vec::new(), reads: None }
    }
}

/// Mounts a segment under the address of its node. From then on the client pings.
///
/// # Errors
/// The code for the caller.
pub(crate) async fn mount(link: &Arc<Link>, name: &str, len: u64) -> Result<(), ErrorCode> {
    let id = SegmentId(random().map_err(|_| ErrorCode::InternalError)?);
    {
        let mut segments = link.segments.lock();
        if segments.contains_key(name) {
            return Err(ErrorCode::SegmentAlreadyExists);
        }
        if segments.len() >= MAX_SEGMENTS {
            return Err(ErrorCode::NoAvailableHandle);
        }
        // Reserved before the question, since another call may mount the same name meanwhile.
        segments.insert(name.to_owned(), LentSegment { id, len });
    }
    let mounted = ask_to_mount(link, name, LentSegment { id, len }).await;
    if mounted.is_err() {
        link.segments.lock().remove(name);
    } else if link.segments.lock().len() == 1 {
        spawn_local(ping(Arc::downgrade(link)));
    }
    mounted
}

async fn ask_to_mount(link: &Link, name: &str, segment: LentSegment) -> Result<(), ErrorCode> {
    let seen_epoch = link.epoch().await.unwrap_or(Epoch(0));
    let request = Request::MountSegment(MountSegment {
        id: segment.id,
        name,
        endpoint: name,
        len: segment.len,
        seen_epoch,
        is_empty: true,
        run: 0,
        medium: Medium::Memory,
        domains: &[],
        seal_key: None,
    });
    match link.ask(&request, PATIENCE).await {
        Ok(Reply::Mounted(MountOutcome::Ready)) => Ok(()),
        Ok(Reply::Mounted(_)) => Err(ErrorCode::UnavailableInCurrentStatus),
        Ok(Reply::Done(Err(code)) | Reply::Refused(code)) => Err(code),
        Ok(_) => Err(ErrorCode::InternalError),
        Err(fault) => Err(code(&fault)),
    }
}

/// Takes a segment of this connection out of the pool.
///
/// # Errors
/// [`ErrorCode::SegmentNotFound`] if the connection has not mounted it, or the code of the master.
pub(crate) async fn unmount(link: &Link, name: &str) -> Result<(), ErrorCode> {
    let segment = link.segments.lock().get(name).copied();
    let segment = segment.ok_or(ErrorCode::SegmentNotFound)?;
    let request = Request::UnmountSegment { id: segment.id, grace_ms: 0, failure: "" };
    let unmounted = match link.ask(&request, PATIENCE).await {
        Ok(Reply::Done(result)) => result,
        Ok(Reply::Refused(code)) => Err(code),
        Ok(_) => Err(ErrorCode::InternalError),
        Err(fault) => Err(code(&fault)),
    };
    if matches!(unmounted, Ok(()) | Err(ErrorCode::SegmentNotFound)) {
        link.segments.lock().remove(name);
    }
    unmounted
}

/// Pings until the connection has ended or has no segment, and mounts again what a new leader does not know.
async fn ping(link: Weak<Link>) {
    loop {
        sleep(PING).await;
        let Some(link) = link.upgrade() else { return };
        let lent = link.segments.lock().clone();
        if lent.is_empty() {
            return;
        }
        match link.ask(&link.segments.ping(), PATIENCE).await {
            Ok(Reply::Pong(pong)) if pong.need_remount => {
                for (name, segment) in lent {
                    if let Err(code) = ask_to_mount(&link, &name, segment).await {
                        debug!(name, %code, "a segment of a gRPC client was not mounted again");
                    }
                }
            }
            Ok(_) => {}
            Err(error) => debug!(%error, "a ping of a gRPC client failed"),
        }
    }
}

fn code(fault: &Fault) -> ErrorCode {
    match fault {
        Fault::TimedOut => ErrorCode::RpcTimeout,
        Fault::Refused(refusal) => refusal.code,
        _ => ErrorCode::RpcFail,
    }
}
