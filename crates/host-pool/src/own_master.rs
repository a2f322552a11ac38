//! The master inside a process of a pool.

use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use mooncake_client::{OpenError, StoreConfig};
use mooncake_connection::LOCAL_MARK;
use mooncake_master::{Config, LeadershipConfig, Master, ServeError};
use mooncake_memory::spawn_unpinned;
use tokio::sync::oneshot;

use crate::folder::LEASE;

/// A master on threads of this process. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct OwnMaster {
    /// The local socket at which processes of this host reach it.
    endpoint: String,
    /// The process that started it. A forked child has none of its threads.
    process: u32,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), ServeError>>,
}

impl OwnMaster {
    /// Starts the master: a candidate for this coordinator, or the only master of its pool.
    ///
    /// # Errors
    /// [`OpenError::OwnMaster`], or [`OpenError::Random`].
    pub(crate) fn start(
        store: &StoreConfig,
        coordinator: Option<String>,
    ) -> Result<Self, OpenError> {
        let failed =
            |error: &dyn std::fmt::Display| OpenError::OwnMaster { reason: error.to_string() };
        let number =
            getrandom::u64().map_err(|error| OpenError::Random { reason: error.to_string() });
        let name = format!("mooncake-master-{:016x}", number?);
        let master = Master::bind_locally(config(store, coordinator), &name);
        let master = master.map_err(|error| failed(&error))?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            master.serve(async {
                // An error means that the sender was dropped, which stops the master too.
                let _ = stopped.await;
            })
        };
        let thread = spawn_unpinned(Builder::new().name("mooncake-master".to_owned()), serve);
        let thread = thread.map_err(|error| failed(&error))?;
        let endpoint = format!("{LOCAL_MARK}{name}");
        let running = Mutex::new(Some(Running { stop, thread }));
        Ok(Self { endpoint, process: process::id(), running })
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Gives up the leadership, if the master leads, and returns when it serves no client. Further calls do nothing.
    pub(crate) fn stop(&self) {
        if self.process != process::id() {
            return self.abandon();
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { stop, thread }) = running else { return };
        // The send fails only if the master has ended by itself.
        let _ = stop.send(());
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the master of this process"),
            // The panic hook has reported the panic.
            Err(_) => {}
        }
    }
}

impl OwnMaster {
    /// Forgets the threads in a forked child: they exist only in the parent, and one of them may have held the lock.
    fn abandon(&self) {
        if let Ok(mut running) = self.running.try_lock() {
            std::mem::forget(running.take());
        }
    }
}

impl Drop for OwnMaster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The master's configuration: the defaults, with offloading to the disks that processes lend.
fn config(store: &StoreConfig, coordinator: Option<String>) -> Config {
    let leadership = match coordinator {
        None => LeadershipConfig::Alone { state_dir: None },
        Some(coordinator) => {
            LeadershipConfig::Elected { coordinator, ttl: LEASE, kubernetes: None }
        }
    };
    Config {
        cluster_id: store.cluster_id.clone(),
        auth_token: store.auth_token.clone(),
        busy_poll: store.busy_poll,
        report_metrics: false,
        leadership,
        // A new leader can read the nodes of one host quickly. To follow them would cost each process as much memory
        // as leading.
        warm_standby: false,
        pool: mooncake_meta::Config { offload: true, ..mooncake_meta::Config::default() },
        ..Config::default()
    }
}
