use std::sync::Arc;
use std::time::Duration;

use super::keys::{BothKeys, Keys};
use super::message::{created_at, read, write, written_at};
use super::term::{EtcdTerm, Revisions};
use crate::backend::{Backend, Claim, Claimed, Won};
use crate::holder::Holder;
use crate::location::EtcdCluster;
use crate::{CoordinatorError, LeaderView, Options, Record, boot_time};

/// Longest pause between two questions: they are cheap.
const QUICK_POLL: Duration = Duration::from_millis(50);

/// The keys of a cluster of masters in a cluster of etcd.
#[derive(Debug)]
pub(crate) struct EtcdBackend {
    keys: Arc<Keys>,
    options: Options,
}

impl EtcdBackend {
    pub(crate) fn new(cluster: &EtcdCluster, options: &Options) -> Self {
        let keys = Keys::new(cluster, options);
        Self { keys: Arc::new(keys), options: options.clone() }
    }

    /// Creates the leader's key, if there is none and the record has not changed since it was found.
    fn take(&self, claim: &Claim, found: &BothKeys, lease: i64) -> Result<Taken, CoordinatorError> {
        let Keys { leader, record: record_key, .. } = &*self.keys;
        let record = self.keys.decode_record(found.record.as_ref())?.succeed(claim.now);
        let text = self.keys.encode_record(&record)?;
        let holder = claim.holder(record.epoch());
        let seen = found.record.as_ref().map_or(0, |found| found.mod_revision);
        let conditions = [created_at(leader, 0), written_at(record_key, seen)];
        let operations = [write(leader, &holder.encode(), lease), write(record_key, &text, 0)];
        let answer = self.keys.txn(&conditions, &operations)?;
        if answer.succeeded {
            let revision = answer.revision();
            return Ok(Taken::Own(
                holder,
                record,
                Revisions { holder: revision, record: revision },
            ));
        }
        let now = self.keys.found(answer)?;
        match (now.holder, now.record) {
            // Done by an earlier attempt whose answer was lost.
            (Some((found, made_at)), Some(written)) if found == holder => {
                let revisions = Revisions { holder: made_at, record: written.mod_revision };
                Ok(Taken::Own(holder, record, revisions))
            }
            (other, _) => Ok(Taken::Other(other.map(|(holder, _)| holder.view()))),
        }
    }
}

enum Taken {
    Own(Holder, Record, Revisions),
    Other(Option<LeaderView>),
}

impl Backend for EtcdBackend {
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError> {
        let found = self.keys.look()?;
        if let Some((holder, _)) = &found.holder {
            return Ok(Claimed::Held(Some(holder.view())));
        }
        self.keys.decode_record(found.record.as_ref())?;
        let asked_at = boot_time::now();
        let lease = self.keys.grant_lease()?.id;
        let taken = self.take(claim, &found, lease);
        match taken {
            Ok(Taken::Own(holder, record, revisions)) => {
                let term =
                    Box::new(EtcdTerm::new(Arc::clone(&self.keys), holder, lease, revisions));
                Ok(Claimed::Won(Won { term, record, asked_at }))
            }
            Ok(Taken::Other(seen)) => {
                // Best effort: an unused lease expires.
                let _ = self.keys.revoke(lease);
                Ok(Claimed::Held(seen))
            }
            Err(error) => {
                // If the key was created after all, this removes it.
                let _ = self.keys.revoke(lease);
                Err(error)
            }
        }
    }

    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError> {
        let answer = self.keys.txn(&[], &[read(&self.keys.leader)])?;
        let found = self.keys.found(answer)?;
        Ok(found.holder.map(|(holder, _)| holder.view()))
    }

    fn poll_every(&self) -> Duration {
        self.options.poll_every().min(QUICK_POLL)
    }
}
