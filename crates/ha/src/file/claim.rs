use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use mooncake_memory::{make_owner_folder, owner_only};
use mooncake_types::Epoch;

use super::folder::{EMPTY_RECORD, FolderBackend};
use super::term::FileTerm;
use crate::backend::{Backend, Claim, Claimed, Term, Won};
use crate::{CoordinatorError, LeaderView, boot_time};

/// Longest wait for an event in the folder.
pub(super) const LONGEST_REST: Duration = Duration::from_millis(500);

impl FolderBackend {
    /// Waits until all lower claims are done. That takes one lease at most, since none of them can be renewed.
    fn outwait(&self, epoch: u64) -> Result<(), CoordinatorError> {
        let deadline = Instant::now() + self.longest_wait();
        loop {
            let claims = self.list()?.claims;
            let lower: Vec<u64> = claims.into_iter().filter(|&other| other < epoch).collect();
            let Some(leader) = self.find_leader(&lower)? else { return Ok(()) };
            if Instant::now() >= deadline {
                return Err(self.failed(format!("{} does not end to lead", leader.address)));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Twice the lease, since other masters may be configured with another length.
    fn longest_wait(&self) -> Duration {
        self.ttl() * 2
    }

    /// Begins to lead under the epoch of a new claim, or finds that another master leads.
    pub(super) fn take(&self, term: FileTerm) -> Result<Claimed, CoordinatorError> {
        let epoch = term.epoch();
        if self.list()?.highest() > epoch {
            return Ok(Claimed::Held(None));
        }
        self.outwait(epoch)?;
        let Some(previous) = self.newest_record(epoch)? else { return Ok(Claimed::Held(None)) };
        if previous.epoch().0 >= epoch {
            return Ok(Claimed::Held(None));
        }
        let record = previous.under(Epoch(epoch));
        self.write_record(epoch, &record)?;
        let asked_at = boot_time::now();
        match term.renew() {
            Ok(()) => {}
            Err(CoordinatorError::Deposed { .. }) => return Ok(Claimed::Held(None)),
            Err(error) => return Err(error),
        }
        self.tidy(epoch);
        Ok(Claimed::Won(Won { term: Box::new(term.keep()), record, asked_at }))
    }

    /// Removes the files of lower epochs, and leftovers. Best effort: they only take room.
    fn tidy(&self, epoch: u64) {
        let Ok(listing) = self.list() else { return };
        let claims = listing.claims.iter().filter(|&&other| other < epoch);
        let records = listing.records.iter().filter(|&&other| other < epoch);
        let lower = claims.map(|&other| self.claim_path(other));
        for path in lower.chain(records.map(|&other| self.record_path(other))) {
            let _ = fs::remove_file(path);
        }
        for path in listing.leftovers {
            let _ = fs::remove_file(path);
        }
    }
}

impl Backend for FolderBackend {
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError> {
        make_owner_folder(&self.path).map_err(|error| self.failed(error))?;
        let listing = self.list()?;
        if let Some(leader) = self.find_leader(&listing.claims)? {
            return Ok(Claimed::Held(Some(leader)));
        }
        if listing.claims.is_empty() && listing.records.is_empty() {
            let made = owner_only().write(true).create(true).open(self.record_path(EMPTY_RECORD));
            made.map_err(|error| self.failed(error))?;
        }
        let Some(previous) = self.newest_record(u64::MAX)? else { return Ok(Claimed::Held(None)) };
        let known = Epoch(listing.highest()).max(previous.epoch());
        let epoch = known.next(claim.now).0;
        let made = self.make_claim(claim, epoch).map_err(|error| self.failed(error))?;
        let Some(file) = made else { return Ok(Claimed::Held(None)) };
        self.take(FileTerm::new(self.clone(), file, epoch))
    }

    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError> {
        self.find_leader(&self.list()?.claims)
    }

    fn waits_for_leases(&self) -> bool {
        false
    }

    fn poll_every(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn rest(&self, seen: Option<&LeaderView>, most: Duration) {
        let most = most.min(LONGEST_REST);
        // Without a leader the next one is expected at once, so the folder is polled. It is also polled if the system
        // has no watch.
        let rested = seen.is_some_and(|seen| self.rest_until_news(seen, most).is_ok());
        if !rested {
            thread::sleep(most.min(self.poll_every()));
        }
    }
}
