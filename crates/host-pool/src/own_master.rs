//! The master that a process of a pool runs.

use std::process;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use mooncake_client::{OpenError, StoreConfig};
use mooncake_connection::LOCAL_MARK;
use mooncake_master::{Config, LeadershipConfig, Master, ServeError};
use mooncake_memory::spawn_unpinned;
use tokio::sync::oneshot;

use crate::folder::LEASE;

/// A master in threads of this process. Dropping it stops it.
#[derive(Debug)]
pub(crate) struct OwnMaster {
    /// Where processes of this host reach it.
    endpoint: String,
    /// A child that was forked has none of the threads.
    process: u32,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), ServeError>>,
}

impl OwnMaster {
    /// Starts it: one of those that this coordinator elects, or the only one of its pool.
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
                // An error means that it was dropped, which stops it too.
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

    /// Gives the leadership back, if it leads, and returns when it serves nobody any more. Doing it again changes nothing.
    pub(crate) fn stop(&self) {
        if self.process != process::id() {
            return self.abandon();
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Running { stop, thread }) = running else { return };
        // It may have ended by itself.
        let _ = stop.send(());
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the master of this process"),
            // It has said so already.
            Err(_) => {}
        }
    }
}

impl OwnMaster {
    /// In a child that was forked: its parent's threads are not there to be stopped, and one of them may have held the lock.
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

/// The rules are those that a master has by default. Disks are used where one is lent, whichever process leads.
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
        // Nodes of one host are asked quickly. To follow them costs each process as much as leading.
        warm_standby: false,
        pool: mooncake_meta::Config { offload: true, ..mooncake_meta::Config::default() },
        ..Config::default()
    }
}
