use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use mooncake_connection::TrustedUsers;
use mooncake_memory::{Private, spawn_unpinned};
use mooncake_types::{ErrorCode, LogLimiter, descriptor_remedy};
use mooncake_wire::Refusal;

use super::connection::{Origin, PeerConnection, STACK_BYTES};
use super::listeners::Listener;
use super::overdue_pins::OverduePeer;
use super::receiver::Receiver;
use super::refuse;
use super::registry::Registry;
use super::server_context::ServerContext;
use super::service::Service;

/// Threads of a listener that wait for a connection: a new client opens two.
const WAITING: usize = 2;

/// Most connections beyond the limit that get a refusal at a time; further ones are closed without.
const MAX_REFUSING: usize = 32;

/// How long to wait when the system has no descriptor or thread left for another connection.
const BACK_OFF: Duration = Duration::from_millis(20);

/// Accepts connections. At any time some threads wait for the next one, and each serves one connection to its end.
/// Another thread starts their successors. So no connection waits for a thread to start, which may take long in a
/// process that is busy with its memory.
pub(super) struct Acceptor {
    listener: Listener,
    registry: Arc<Registry>,
    context: Arc<ServerContext>,
    /// How many threads wait for a connection.
    waiting: Mutex<usize>,
    /// Notified when fewer threads wait, and when the server closes.
    changed: Condvar,
}

impl Acceptor {
    pub(super) fn new(
        listener: Listener,
        registry: &Arc<Registry>,
        context: &Arc<ServerContext>,
    ) -> Self {
        let (registry, context) = (Arc::clone(registry), Arc::clone(context));
        Self { listener, registry, context, waiting: Mutex::new(0), changed: Condvar::new() }
    }

    /// Starts the first threads.
    ///
    /// # Errors
    /// The system has none.
    pub(super) fn begin(self: &Arc<Self>) -> io::Result<()> {
        (0..WAITING).try_for_each(|_| self.add())
    }

    /// Starts further threads as they are needed, until the server is closed.
    pub(super) fn run(self: &Arc<Self>) {
        while self.is_one_wanted() {
            #[cfg(test)]
            let _gate = STARTS.read().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = self.add() {
                tracing::warn!(%error, "no thread for further connections");
                std::thread::sleep(BACK_OFF);
            }
        }
    }

    /// Ends [`Acceptor::run`] and all waiting threads. The registry must be closed already.
    pub(super) fn shut_down(&self) {
        self.listener.shut_down();
        // Locked, so that no thread is between its check and its wait.
        drop(self.waiting());
        self.changed.notify_all();
    }

    /// Waits until there are too few threads; false once the server is closed.
    fn is_one_wanted(&self) -> bool {
        let is_idle = |waiting: &mut usize| *waiting >= WAITING && !self.registry.is_closed();
        let waited = self.changed.wait_while(self.waiting(), is_idle);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        !self.registry.is_closed()
    }

    fn add(self: &Arc<Self>) -> io::Result<()> {
        *self.waiting() += 1;
        let (acceptor, running) = (Arc::clone(self), self.registry.begin_thread());
        let thread = Builder::new().name("data".into()).stack_size(STACK_BYTES);
        let serve = move || {
            // Moved out of the closure first, so that it is dropped after everything else that the thread holds.
            let _running = running;
            let acceptor = acceptor;
            acceptor.serve_one();
        };
        let started = spawn_unpinned(thread, serve);
        if started.is_err() {
            *self.waiting() -= 1;
        }
        started.map(drop)
    }

    fn waiting(&self) -> MutexGuard<'_, usize> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a connection and serves it.
    fn serve_one(&self) {
        // Allocated before it is needed, since that may be slow too.
        let receiver = Receiver::new(self.context.config.busy_poll);
        let accepted = self.accept();
        *self.waiting() -= 1;
        self.changed.notify_all();
        let Some((stream, origin)) = accepted else { return };
        if let Err(error) = self.serve(stream, origin, receiver) {
            tracing::warn!(?origin, %error, "a connection could not be served");
        }
    }

    /// The next connection; none once the server is closed.
    fn accept(&self) -> Option<(Private<TcpStream>, Origin)> {
        while !self.registry.is_closed() {
            match self.listener.accept() {
                Ok(accepted) => return Some(accepted),
                Err(error) if is_passing(&error) => {}
                Err(_) if self.registry.is_closed() => {}
                Err(error) => {
                    static SAID: LogLimiter<io::ErrorKind> = LogLimiter::new();
                    if let Some(further) = SAID.admit(error.kind(), Instant::now()) {
                        let remedy = descriptor_remedy(error.raw_os_error());
                        tracing::warn!(%error, further, "no connection can be accepted now{remedy}");
                    }
                    std::thread::sleep(BACK_OFF);
                }
            }
        }
        None
    }

    fn serve(
        &self,
        stream: Private<TcpStream>,
        origin: Origin,
        receiver: Receiver,
    ) -> io::Result<()> {
        let (open, most) = (self.registry.open(), self.context.config.max_connections);
        if open >= most.saturating_add(MAX_REFUSING) {
            return Err(io::Error::other("too many connections"));
        }
        let refusal = if open >= most {
            let message = format!("the node serves {most} connections already");
            Some(Refusal { code: ErrorCode::UnavailableInCurrentStatus, message })
        } else if origin == Origin::Local {
            TrustedUsers::Own.check(stream.as_fd()).err().map(|stranger| Refusal {
                code: ErrorCode::IllegalClient,
                message: stranger.to_string(),
            })
        } else {
            None
        };
        let connection = Arc::new(PeerConnection::new(stream, origin));
        let Some(membership) = self.registry.enter(&connection) else { return Ok(()) };
        match refusal {
            Some(refusal) => {
                tracing::info!(%refusal, "a connection is refused");
                refuse::refuse(connection.stream(), 0, &refusal);
            }
            None => {
                let context = Arc::clone(&self.context);
                let service = Service::new(Arc::clone(&connection), context, receiver);
                if let Some(pins) = service.run(&self.registry) {
                    let peer = OverduePeer { connection, pins, membership };
                    self.context.overdue.add(peer, &self.registry);
                }
            }
        }
        Ok(())
    }
}

/// Held by a test that keeps the system from starting threads.
#[cfg(test)]
pub(crate) static STARTS: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// Whether the error is that of one connection, which ended before it was accepted.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}
