use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_types::Epoch;

use crate::backend::{Backend, Claim, Claimed, Term, Won};
use crate::holder::Holder;
use crate::{CoordinatorError, LeaderView, Options, Record, boot_time};

const PLACE: &str = "memory";

/// The store that coordinators in memory share, with a place for each cluster. Clones share it too.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    places: Arc<Mutex<Places>>,
    is_unreachable: Arc<AtomicBool>,
    /// Longest record that is taken, in bytes; zero: any.
    limit_bytes: Arc<AtomicUsize>,
    /// Held while calls are blocked.
    gate: Arc<Mutex<()>>,
}

/// No call is answered while this lives.
#[derive(Debug)]
pub struct Stall<'a> {
    _gate: MutexGuard<'a, ()>,
}

#[derive(Debug, Default)]
struct Places {
    clusters: BTreeMap<String, ClusterEntry>,
}

#[derive(Debug, Default)]
struct ClusterEntry {
    holder: Option<(Vec<u8>, Instant)>,
    record: Option<Vec<u8>>,
}

impl MemoryStore {
    /// Sets whether calls are answered; at first they are.
    pub fn set_reachable(&self, is_reachable: bool) {
        self.is_unreachable.store(!is_reachable, Ordering::SeqCst);
    }

    /// Limits the length of records, in bytes.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.limit_bytes.store(limit_bytes, Ordering::SeqCst);
    }

    /// The same store over another connection, which stays reachable when this one is not.
    #[must_use]
    pub fn another_way(&self) -> Self {
        Self { places: Arc::clone(&self.places), ..Self::default() }
    }

    /// From now on calls block, until the result is dropped.
    #[must_use]
    pub fn stall(&self) -> Stall<'_> {
        Stall { _gate: self.gate.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Ends the leadership of a cluster.
    pub fn depose(&self, cluster_id: &str) {
        self.lock().place(cluster_id).holder = None;
    }

    /// Writes any bytes where the leader's name is kept.
    pub fn spoil_leader(&self, cluster_id: &str, bytes: &[u8]) {
        let until = boot_time::now() + Duration::from_secs(3600);
        self.lock().place(cluster_id).holder = Some((bytes.to_vec(), until));
    }

    /// Writes any bytes where the record is kept.
    pub fn spoil_record(&self, cluster_id: &str, bytes: &[u8]) {
        self.lock().place(cluster_id).record = Some(bytes.to_vec());
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self) -> Result<MutexGuard<'_, Places>, CoordinatorError> {
        drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
        // Checked under the lock, so that a call that begins after the store was cut off gets no answer.
        let places = self.lock();
        match self.is_unreachable.load(Ordering::SeqCst) {
            false => Ok(places),
            true => Err(CoordinatorError::unavailable(PLACE, "it was made unreachable")),
        }
    }
}

impl Places {
    fn place(&mut self, cluster_id: &str) -> &mut ClusterEntry {
        self.clusters.entry(cluster_id.to_owned()).or_default()
    }
}

impl ClusterEntry {
    /// The holder, unless its lease is over.
    fn holder(&mut self) -> Result<Option<Holder>, CoordinatorError> {
        self.holder.take_if(|(_, until)| *until <= boot_time::now());
        let holder = self.holder.as_ref().map(|(text, _)| Holder::decode(text)).transpose();
        holder.map_err(|reason| CoordinatorError::corrupt(PLACE, reason))
    }

    fn record(&self, cluster_id: &str) -> Result<Record, CoordinatorError> {
        let Some(text) = &self.record else { return Ok(Record::empty()) };
        Record::decode(text, cluster_id).map_err(|reason| CoordinatorError::corrupt(PLACE, reason))
    }
}

/// A coordinator in memory.
#[derive(Debug)]
pub(crate) struct MemoryBackend {
    store: MemoryStore,
    options: Options,
}

impl MemoryBackend {
    pub(crate) fn new(store: &MemoryStore, options: &Options) -> Self {
        Self { store: store.clone(), options: options.clone() }
    }

    fn take(&self, place: &mut ClusterEntry, claim: &Claim) -> Result<Won, CoordinatorError> {
        let cluster_id = &self.options.cluster_id;
        let record = place.record(cluster_id)?.succeed(claim.now);
        let holder = claim.holder(record.epoch());
        let asked_at = boot_time::now();
        place.holder = Some((holder.encode().into_bytes(), asked_at + self.options.ttl));
        place.record = Some(record.encode(cluster_id).into_bytes());
        let held = MemoryTerm { store: self.store.clone(), options: self.options.clone(), holder };
        Ok(Won { term: Box::new(held), record, asked_at })
    }
}

impl Backend for MemoryBackend {
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError> {
        let mut places = self.store.reach()?;
        let place = places.place(&self.options.cluster_id);
        match place.holder()? {
            Some(holder) => Ok(Claimed::Held(Some(holder.view()))),
            None => self.take(place, claim).map(Claimed::Won),
        }
    }

    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError> {
        let mut places = self.store.reach()?;
        let holder = places.place(&self.options.cluster_id).holder()?;
        Ok(holder.map(|holder| holder.view()))
    }

    fn poll_every(&self) -> Duration {
        Duration::from_millis(5)
    }
}

#[derive(Debug)]
struct MemoryTerm {
    store: MemoryStore,
    options: Options,
    holder: Holder,
}

impl MemoryTerm {
    /// Changes the place, if this leader still holds it.
    fn with(&self, act: impl FnOnce(&mut ClusterEntry)) -> Result<(), CoordinatorError> {
        let mut places = self.store.reach()?;
        let place = places.place(&self.options.cluster_id);
        let found = place.holder()?;
        if found.as_ref() != Some(&self.holder) {
            return Err(self.deposed_by(found.as_ref()));
        }
        act(place);
        Ok(())
    }

    fn deposed_by(&self, found: Option<&Holder>) -> CoordinatorError {
        let reason = match found {
            None => "nobody leads".to_owned(),
            Some(holder) => format!("{} leads under epoch {}", holder.address, holder.epoch),
        };
        CoordinatorError::Deposed { epoch: Epoch(self.holder.epoch), reason }
    }
}

impl Term for MemoryTerm {
    fn renew(&self) -> Result<(), CoordinatorError> {
        let until = boot_time::now() + self.options.ttl;
        self.with(|place| place.holder = Some((self.holder.encode().into_bytes(), until)))
    }

    fn resume(&self, acknowledged: Epoch) -> Result<(), CoordinatorError> {
        let mut places = self.store.reach()?;
        let place = places.place(&self.options.cluster_id);
        let found = place.holder()?;
        let is_taken = found.as_ref().is_some_and(|holder| *holder != self.holder);
        if is_taken || place.record(&self.options.cluster_id)?.epoch() != acknowledged {
            return Err(self.deposed_by(found.as_ref()));
        }
        let until = boot_time::now() + self.options.ttl;
        place.holder = Some((self.holder.encode().into_bytes(), until));
        Ok(())
    }

    fn write(&self, record: &Record) -> Result<(), CoordinatorError> {
        let text = record.encode(&self.options.cluster_id);
        let (len_bytes, limit_bytes) = (text.len(), self.limit_bytes());
        if len_bytes > limit_bytes {
            return Err(CoordinatorError::Full { place: PLACE.to_owned(), len_bytes, limit_bytes });
        }
        self.with(|place| place.record = Some(text.into_bytes()))
    }

    fn limit_bytes(&self) -> usize {
        match self.store.limit_bytes.load(Ordering::SeqCst) {
            0 => usize::MAX,
            limit_bytes => limit_bytes,
        }
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        self.with(|place| place.holder = None)
    }
}
