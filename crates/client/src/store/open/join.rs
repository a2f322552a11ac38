use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_node::Host;
use mooncake_ops::RouteCache;
use mooncake_types::{Chance, ErrorCode, Medium, without_password};

use super::disk::{DISK_SUFFIX, OBJECT_STORE_SUFFIX};
use super::opening::{HEARTBEAT_TIMEOUT, Opening};
use crate::bind::{Bound, ListenOptions, bind, bind_locally};
use crate::heartbeat::{MasterSession, TurnOutcome};
use crate::membership::{Lent, Membership};
use crate::metrics::Metrics;
use crate::open_error::OpenError;
use crate::rpc::DialError;

/// A client that waits for its master for longer than this logs a warning.
const COMPLAINT: Duration = Duration::from_secs(1);

/// Longest time between two calls of `is_wanted`.
const LONGEST_REST: Duration = Duration::from_millis(50);

impl Opening {
    /// Connects to the master.
    pub(super) fn join(
        &mut self,
        host: &Arc<Host>,
        routes: &Arc<RouteCache>,
        metrics: &Arc<Metrics>,
    ) -> Result<MasterSession, OpenError> {
        let mut master = MasterSession {
            membership: Membership::new(self.masters.count(), Chance::new(self.chance.bits())),
            dialer: self.dialer(self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT)),
            host: Arc::clone(host),
            seals: self.seals.clone(),
            metrics: Arc::clone(metrics),
            routes: Arc::clone(routes),
            clock: self.clock,
            connection: None,
            next_page: None,
            aborts_calls: self.config.rpc_timeout > HEARTBEAT_TIMEOUT,
        };
        self.turn_until(&mut master, |master| master.connection.is_some())?;
        Ok(master)
    }

    pub(super) fn bind(&self, master: &MasterSession) -> Result<Bound, OpenError> {
        if self.config.only_this_host {
            return bind_locally(&self.config.local_hostname);
        }
        let connection = master.connection.as_ref().expect("joining ended with a connection");
        let local = connection.local_addr().ok_or_else(|| OpenError::MasterUnreachable {
            master: without_password(&self.config.master),
            waited_ms: 0,
            reason: "it is behind a local socket".to_owned(),
        })?;
        let options = ListenOptions {
            local_hostname: &self.config.local_hostname,
            bind_address: self.config.bind_address.as_deref(),
            ports: self.config.ports.clone(),
            preferred_port: self.config.preferred_port,
            search_from: self.search_from(local.ip()),
            towards_master: local.ip(),
            serves: self.config.segment_bytes > 0,
            advertise: self.config.advertise_address.as_deref(),
            port_is_a_name: self.config.port_is_a_name,
        };
        bind(&options)
    }

    /// Lends the segments, and waits until the master has mounted them. Returns those on a disk of this node.
    pub(super) fn lend(
        &self,
        master: &mut MasterSession,
        host: &Host,
        (name, endpoint): (&str, &str),
    ) -> Result<Vec<Lent>, OpenError> {
        // All segments of a process are mounted with the same run.
        let run = host.run();
        let lent = |medium, id, name: String, len| {
            let (endpoint, domains) = (endpoint.to_owned(), self.config.domains.clone());
            Lent { id, name, endpoint, len, run, medium, domains }
        };
        let memory = host.segments().into_iter().map(|segment| {
            lent(Medium::Memory, segment.id(), name.to_owned(), segment.len_bytes())
        });
        let disks = host.disks().into_iter().map(|disk| {
            // The name of a shared disk is its folder: readers find its files by this name.
            let folder = disk.folder().map(|folder| folder.display().to_string());
            let is_shared = disk.medium() == Medium::SharedDisk;
            let called = folder.filter(|_| is_shared);
            let suffix = match disk.medium() {
                Medium::ObjectStore => OBJECT_STORE_SUFFIX,
                _ => DISK_SUFFIX,
            };
            let called = called.unwrap_or_else(|| format!("{name}{suffix}"));
            lent(disk.medium(), disk.id(), called, disk.len_bytes())
        });
        let all: Vec<Lent> = memory.chain(disks).collect();
        master.membership.lend(all.clone());
        self.mount(master)?;
        self.mount_again_if_refused(master, host, &all)?;
        let disks = all.into_iter().filter(|lent| lent.medium == Medium::Disk).collect();
        match master.membership.mount_refusal() {
            None => Ok(disks),
            Some((segment, code)) => Err(mount_refused(segment, code)),
        }
    }

    /// Waits until the master has mounted or refused every segment. A leader that puts them off is asked again for as
    /// long as reaching the master may take.
    pub(super) fn mount(&self, master: &mut MasterSession) -> Result<(), OpenError> {
        let is_denied = |master: &MasterSession| {
            let refusal = master.membership.mount_refusal();
            refusal.is_some_and(|(_, code)| code == ErrorCode::PermissionDenied)
        };
        let is_over = |master: &MasterSession| master.membership.is_settled() || is_denied(master);
        self.turn_until(master, is_over).map_err(|error| {
            match (&error, master.membership.mount_refusal()) {
                (OpenError::MasterUnreachable { .. }, Some((segment, code))) => {
                    mount_refused(segment, code)
                }
                _ => error,
            }
        })
    }

    /// Takes steps until `done`. Stops when the store is not wanted any more, or reaching the master takes too long.
    pub(super) fn turn_until(
        &self,
        master: &mut MasterSession,
        done: impl Fn(&MasterSession) -> bool,
    ) -> Result<(), OpenError> {
        let started = Instant::now();
        let patience = self.config.rpc_connect_timeout;
        let mut reason = "there was no time for one".to_owned();
        let mut has_complained = false;
        while !done(master) {
            let waited = started.elapsed();
            let waits = self.config.wait_for_master && master.membership.mount_refusal().is_none();
            if waited >= patience && !waits {
                let master = without_password(&self.config.master);
                let waited_ms = waited.as_millis() as u64;
                return Err(OpenError::MasterUnreachable { master, waited_ms, reason });
            }
            if !(self.is_wanted)() {
                return Err(OpenError::GivenUp);
            }
            if waited >= COMPLAINT && !has_complained {
                has_complained = true;
                self.warn_of_wait(&reason);
            }
            match master.turn() {
                TurnOutcome::Done => {}
                TurnOutcome::NotConnected(DialError::Refused { address, code, message }) => {
                    return Err(OpenError::Refused { master: address, code, message });
                }
                TurnOutcome::NotConnected(error) => reason = error.to_string(),
                TurnOutcome::NotAnswered(error) => reason = error.to_string(),
                TurnOutcome::Idle(until) => {
                    let wait = Duration::from_millis(until.since_ms(self.clock.now()));
                    let left = patience.checked_sub(waited).unwrap_or(LONGEST_REST);
                    std::thread::sleep(wait.min(left).min(LONGEST_REST));
                }
            }
        }
        Ok(())
    }

    /// Logs what the opening waits for.
    fn warn_of_wait(&self, reason: &str) {
        let master = without_password(&self.config.master);
        if self.config.wait_for_master {
            tracing::warn!(
                master,
                reason,
                "no master has taken this client yet; it goes on trying until one does"
            );
            return;
        }
        let patience_s = self.config.rpc_connect_timeout.as_secs();
        tracing::warn!(
            master,
            reason,
            patience_s,
            "no master has taken this client yet; it goes on trying"
        );
    }
}

fn mount_refused(segment: &Lent, code: ErrorCode) -> OpenError {
    OpenError::MountRefused { name: segment.name.clone(), bytes: segment.len, code }
}
