//! One term of this master as the leader: the state machine, and the connections that it serves.

use std::collections::BTreeMap;
use std::io;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mooncake_calls::Watch;
use mooncake_ha::{Change, boot_time};
use mooncake_kv_events::Publisher;
use mooncake_meta::{Meta, Shadow};
use mooncake_types::{ErrorCode, SegmentId, Tick};
use mooncake_wire::Refusal;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet, yield_now};
use tokio::time::timeout;
use tracing::{debug, info};

use crate::accept::{Listener, Peer, accept};
use crate::ask::Questions;
use crate::clock::Clock;
use crate::config::Config;
use crate::http2::Http2Door;
use crate::leadership::{Authority, Recorder, Term, Unwritten, drained, record};
use crate::metadata_server::Cleanup;
use crate::owner::Owner;
use crate::refuse::refuse;
use crate::shell::Shell;
use crate::tenants::QuotaBook;
use crate::{connection, kv_events, reach, recovery_log, request_poller, timer};

/// How long connections may take to receive their last replies when the master stops.
const FAREWELL: Duration = Duration::from_millis(500);

/// Most connections over the limit that get a refusal at a time; further ones are closed without.
const REFUSED_AT_A_TIME: usize = 256;

/// See the module. Dropping it ends every connection without another reply.
pub(crate) struct LeaderServer {
    shell: Rc<Shell>,
    stop: watch::Sender<bool>,
    /// The tasks that run until the end.
    core: JoinSet<()>,
    open: JoinSet<()>,
    refused: JoinSet<()>,
}

impl LeaderServer {
    /// Builds the state machine of a new leader, with the shadows that it followed as a standby. It reads the quotas
    /// of tenants, if there are any.
    ///
    /// # Errors
    /// The system has no thread.
    pub(crate) fn begin(
        config: Config,
        (term, followed, quotas): (&Term, BTreeMap<SegmentId, Shadow>, Option<&QuotaBook>),
        questions: Questions,
        (calls, cleanup): (Arc<Watch>, Option<Cleanup>),
        (kv_events, http2): (Option<Arc<Publisher>>, Option<Http2Door>),
    ) -> io::Result<LeaderServer> {
        let (stop, stopping) = watch::channel(false);
        let (recorded, durable) = mpsc::unbounded_channel();
        let recorder = Recorder::start(term, recorded)?;
        let clock = Clock::start();
        let mut meta = meta(&config, term, clock.tick(boot_time::now()));
        if let Some(quotas) = quotas {
            quotas.begin(&mut meta);
        }
        if let Some(publisher) = &kv_events {
            kv_events::begin(publisher, &mut meta);
        }
        meta.remember(followed);
        meta.resume_drains(drained(&term.leadership));
        let lateness = recorder.lateness();
        let owner = Owner::new(meta, (term, lateness.clone()), clock, (cleanup, calls));
        let shell = Rc::new(Shell::new(config, owner, recorder, stopping, (kv_events, http2)));
        let mut core = JoinSet::new();
        core.spawn_local(timer::run(Rc::clone(&shell)));
        core.spawn_local(request_poller::run(Rc::clone(&shell)));
        core.spawn_local(answer_questions(Rc::clone(&shell), questions));
        core.spawn_local(take_note(Rc::clone(&shell), durable));
        core.spawn_local(lateness.complain());
        core.spawn_local(recovery_log::run(Rc::clone(&shell)));
        core.spawn_local(reach::run(Rc::clone(&shell)));
        Ok(LeaderServer { shell, stop, core, open: JoinSet::new(), refused: JoinSet::new() })
    }

    /// Serves all connections, until the term is over.
    pub(crate) async fn serve(&mut self, listener: &Listener, term: &Term) {
        let LeaderServer { shell, core, open, refused, .. } = self;
        let mut over = std::pin::pin!(term.over());
        loop {
            tokio::select! {
                () = &mut over => return,
                (stream, peer) = accept(listener, shell.config.tcp_no_delay) => {
                    welcome(shell, open, refused, (stream, peer));
                }
                Some(ended) = open.join_next() => pass_on_panic(ended),
                Some(ended) = refused.join_next() => pass_on_panic(ended),
                Some(ended) = core.join_next() => pass_on_panic(ended),
            }
        }
    }

    /// Ends the term. Replies under way are written if their readers take them within half a second. Pending changes
    /// of the membership record are written too.
    ///
    /// # Errors
    /// The record could not be written.
    pub(crate) async fn stop(mut self) -> Result<(), Unwritten> {
        self.stop.send_replace(true);
        let ended = timeout(FAREWELL, async {
            while let Some(ended) = self.open.join_next().await {
                pass_on_panic(ended);
            }
        });
        if ended.await.is_err() {
            debug!("connections that took no reply were cut off");
        }
        self.shell.pass_on_effects();
        self.shell.recorder.finish()
    }
}

fn meta(config: &Config, term: &Term, now: Tick) -> Meta {
    let mut pool = config.pool.clone();
    let epoch = term.leadership.epoch();
    if pool.offload && pool.offload_on_evict {
        info!("Offload-on-evict mode enabled: objects go to disks when eviction chooses them");
    }
    if pool.seed == 0 {
        pool.seed = epoch.0;
    }
    pool.wall_epoch = mooncake_ha::epoch_of_now();
    let former_lease = term.leadership.former_lease();
    pool.former_lease_ms = u64::try_from(former_lease.as_millis()).unwrap_or(u64::MAX);
    match term.is_recorded {
        true => Meta::recover(pool, epoch, now, &record(&term.leadership)),
        false => Meta::unrecorded(pool, epoch, now),
    }
}

/// Tells the state machine which changes have become durable.
async fn take_note(shell: Rc<Shell>, mut durable: mpsc::UnboundedReceiver<Vec<Change>>) {
    while let Some(changes) = durable.recv().await {
        shell.owner.borrow_mut().handle_recorded(&changes);
        shell.rearm();
    }
}

fn welcome(
    shell: &Rc<Shell>,
    open: &mut JoinSet<()>,
    refused: &mut JoinSet<()>,
    (mut stream, peer): (TcpStream, Peer),
) {
    let limit = shell.config.max_connections;
    if open.len() < limit {
        open.spawn_local(connection::run(Rc::clone(shell), stream, peer));
        return;
    }
    debug!(%peer, limit, "refused: too many connections");
    if refused.len() < REFUSED_AT_A_TIME {
        let refusal = Refusal {
            code: ErrorCode::UnavailableInCurrentStatus,
            message: format!("the master serves {limit} connections, which is its limit"),
        };
        refused.spawn_local(async move { refuse(&mut stream, 0, &refusal).await });
    }
}

/// Passes a panic on: the state machine may be inconsistent after it, so the process must not continue.
fn pass_on_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// Answers questions on the owner thread, and lets all other tasks run between two of them.
async fn answer_questions(shell: Rc<Shell>, mut questions: Questions) {
    while let Some(question) = questions.recv().await {
        if shell.owner.borrow().authority() == Authority::Over {
            return;
        }
        question(&mut shell.owner.borrow_mut());
        shell.rearm();
        yield_now().await;
    }
}
