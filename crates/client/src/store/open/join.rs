use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_node::Host;
use mooncake_ops::RouteCache;
use mooncake_types::{Chance, ErrorCode, Medium, without_password};

use super::disk::{DISK_SUFFIX, OBJECT_STORE_SUFFIX};
use super::opening::{HEARTBEAT_TIMEOUT, Opening};
use crate::bind::{Bound, Wish, bind, bind_locally};
use crate::heartbeat::{Bond, Turn};
use crate::membership::{Lent, Membership};
use crate::metrics::Metrics;
use crate::open_error::OpenError;
use crate::rpc::DialError;

/// A client that waits for its master for longer than this says so.
const COMPLAINT: Duration = Duration::from_secs(1);

/// Longest time between two questions whether the store is still wanted.
const LONGEST_REST: Duration = Duration::from_millis(50);

impl Opening {
    /// Connects to the master.
    pub(super) fn join(
        &mut self,
        host: &Arc<Host>,
        routes: &Arc<RouteCache>,
        metrics: &Arc<Metrics>,
    ) -> Result<Bond, OpenError> {
        let mut bond = Bond {
            membership: Membership::new(self.masters.count(), Chance::new(self.chance.bits())),
            dialer: self.dialer(self.config.rpc_timeout.min(HEARTBEAT_TIMEOUT)),
            host: Arc::clone(host),
            metrics: Arc::clone(metrics),
            routes: Arc::clone(routes),
            clock: self.clock,
            connection: None,
            ahead: None,
            aborts_calls: self.config.rpc_timeout > HEARTBEAT_TIMEOUT,
        };
        self.turn_until(&mut bond, |bond| bond.connection.is_some())?;
        Ok(bond)
    }

    pub(super) fn bind(&mut self, bond: &Bond) -> Result<Bound, OpenError> {
        if self.config.only_this_host {
            return bind_locally(&self.config.local_hostname);
        }
        let connection = bond.connection.as_ref().expect("joining ended with a connection");
        let local =
            connection.stream().local_addr().map_err(|error| OpenError::MasterUnreachable {
                master: without_password(&self.config.master),
                waited_ms: 0,
                reason: error.to_string(),
            })?;
        let wish = Wish {
            local_hostname: &self.config.local_hostname,
            bind_address: self.config.bind_address.as_deref(),
            ports: self.config.ports.clone(),
            towards_master: local.ip(),
            serves: self.config.segment_bytes > 0,
            advertise: self.config.advertise_address.as_deref(),
            port_is_a_name: self.config.port_is_a_name,
        };
        bind(&wish, &mut self.chance)
    }

    /// Lends the segments, and waits until the master has them. Gives the disks among them.
    pub(super) fn lend(
        &self,
        bond: &mut Bond,
        host: &Host,
        (name, endpoint): (&str, &str),
    ) -> Result<Vec<Lent>, OpenError> {
        // All that a process lends has the same number of processes before it.
        let run = host.run();
        let lent = |medium, id, name: String, len| {
            let (endpoint, domains) = (endpoint.to_owned(), self.config.domains.clone());
            Lent { id, name, endpoint, len, run, medium, domains }
        };
        let memory = host.segments().into_iter().map(|segment| {
            lent(Medium::Memory, segment.id(), name.to_owned(), segment.len_bytes())
        });
        let disks = host.disks().into_iter().map(|disk| {
            // Readers find the files of a shared disk by its name.
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
        bond.membership.lend(all.clone());
        self.mount(bond)?;
        self.mount_again_if_refused(bond, host, &all)?;
        let disks = all.into_iter().filter(|lent| lent.medium == Medium::Disk).collect();
        match bond.membership.mount_refusal() {
            None => Ok(disks),
            Some((segment, code)) => Err(mount_refused(segment, code)),
        }
    }

    /// Waits until the master has taken or refused every segment. A leader that puts them off is asked for as long as
    /// reaching it may take.
    pub(super) fn mount(&self, bond: &mut Bond) -> Result<(), OpenError> {
        self.turn_until(bond, |bond| bond.membership.is_settled()).map_err(|error| {
            match (&error, bond.membership.mount_refusal()) {
                (OpenError::MasterUnreachable { .. }, Some((segment, code))) => {
                    mount_refused(segment, code)
                }
                _ => error,
            }
        })
    }

    /// Does what is due until `done`, for as long as reaching the master may take and the store is wanted.
    pub(super) fn turn_until(
        &self,
        bond: &mut Bond,
        done: impl Fn(&Bond) -> bool,
    ) -> Result<(), OpenError> {
        let started = Instant::now();
        let patience = self.config.rpc_connect_timeout;
        let mut reason = "there was no time for one".to_owned();
        let mut has_complained = false;
        while !done(bond) {
            let waited = started.elapsed();
            if waited >= patience {
                let master = without_password(&self.config.master);
                let waited_ms = waited.as_millis() as u64;
                return Err(OpenError::MasterUnreachable { master, waited_ms, reason });
            }
            if !(self.is_wanted)() {
                return Err(OpenError::GivenUp);
            }
            if waited >= COMPLAINT && !has_complained {
                has_complained = true;
                self.complain(patience, &reason);
            }
            match bond.turn() {
                Turn::Done => {}
                Turn::NotConnected(DialError::Refused { address, code, message }) => {
                    return Err(OpenError::Refused { master: address, code, message });
                }
                Turn::NotConnected(error) => reason = error.to_string(),
                Turn::NotAnswered(error) => reason = error.to_string(),
                Turn::Idle(until) => {
                    let wait = Duration::from_millis(until.since_ms(self.clock.now()));
                    std::thread::sleep(wait.min(patience - waited).min(LONGEST_REST));
                }
            }
        }
        Ok(())
    }

    /// Says what the opening waits for.
    fn complain(&self, patience: Duration, reason: &str) {
        let (master, patience_s) = (without_password(&self.config.master), patience.as_secs());
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
