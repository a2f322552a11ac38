//! Opening a prefix: claims it, and finds its records.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Builder};
use std::time::{Duration, Instant, SystemTime};

use mooncake_memory::with_waiting_helpers;

use super::config::PacksConfig;
use super::entry::{Change, JournalEntry, JournalState, Owner, Pack};
use super::journal::{Journal, claim, is_longer};
use super::names::{CHECKPOINTS, JOURNAL, PACKS, name_of, number_of};
use super::pack_file::is_cut_or_gone;
use super::process::Life;
use super::state::{PackState, PacksState, Shared};
use super::{PackStore, process};
use crate::bucket::Bucket;
use crate::contents::{Contents, FoundRecord};
use crate::errors::{Broken, OpenError};
use crate::index::IndexEntry;
use crate::record::{Record, RecordId};

/// How often to read a journal that changes while it is read.
const MOST_READS: usize = 4;
/// After this silence any host may take a prefix over.
const LONG_SILENCE: Duration = Duration::from_secs(600);

impl PackStore {
    /// Opens a prefix, or creates it, and calls `told` with each durable record.
    ///
    /// # Errors
    /// Another process owns the prefix, its journal is damaged or of another format, or the store does not answer.
    pub fn open(
        bucket: Arc<dyn Bucket>,
        config: PacksConfig,
        on_record: impl FnMut(Record),
    ) -> Result<PackStore, OpenError> {
        let mut found = read_journal(&*bucket)?;
        let is_free = is_free(&*bucket, &found, &config)?;
        let owner = Owner { host: config.host.clone(), process: process::own() };
        let claimed = vec![Change::Claimed(owner)];
        let number = found.state.next;
        let entry = JournalEntry { number, owner: config.seed, changes: claimed };
        let since = config.clock.now();
        if !is_free || !claim(&*bucket, &entry)? {
            return Err(OpenError::InUse(PathBuf::from("a prefix of the object store")));
        }
        found.state.take(entry);
        let packs: Vec<Arc<Pack>> = found.state.packs.values().cloned().collect();
        let journal =
            Journal::new(Arc::clone(&bucket), (found.state, found.checkpoint), (since, &config));
        // Journal numbers are unique to a process, so no other process uses these pack ids.
        let state = PacksState { next_pack: number << 32, ..PacksState::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { config, bucket, journal, state, changed });
        let keeping = Arc::clone(&shared);
        let keeper = Builder::new().name("mooncake-packs".to_owned());
        let keeper = keeper.spawn(move || keeping.run_maintenance())?;
        let opened = PackStore { shared, keeper: Some(keeper) };
        opened.take_over(packs, on_record)?;
        Ok(opened)
    }

    /// Takes over the packs of the previous owner.
    fn take_over(
        &self,
        packs: Vec<Arc<Pack>>,
        mut on_record: impl FnMut(Record),
    ) -> Result<(), OpenError> {
        let shared = &self.shared;
        let own = shared.lock().next_pack;
        let listed = shared.bucket.list(PACKS)?.into_iter().filter_map(|it| number_of(&it.name));
        let is_orphan = |id: &u64| *id < own && !packs.iter().any(|pack| pack.id == *id);
        let orphans: Vec<u64> = listed.filter(is_orphan).collect();
        let tables = with_waiting_helpers(&packs, |pack| read_table(&*shared.bucket, pack));
        let mut taken: BTreeMap<RecordId, (Record, IndexEntry)> = BTreeMap::new();
        let mut needless = Vec::new();
        for (pack, table) in packs.iter().zip(tables) {
            let table = table?;
            let mut missing = pack.live.clone();
            for FoundRecord { block, record } in table {
                if missing.remove(&(block as u32)) {
                    let entry = IndexEntry::ready(pack.id, block, &record);
                    // The record was put twice: its first put failed, as far as the caller knew. The pack of the
                    // higher id counts.
                    if let Some((_, older)) = taken.insert(record.name, (record, entry)) {
                        needless.push((older.file, older.block));
                    }
                }
            }
            if !missing.is_empty() {
                tracing::warn!(pack = pack.id, records = missing.len(), "a pack has lost records");
            }
            needless.extend(missing.into_iter().map(|block| (pack.id, block)));
        }
        if !needless.is_empty() {
            let one = |(pack, block)| Change::Dropped { pack, blocks: vec![block] };
            let dropped = shared.journal.append(needless.into_iter().map(one).collect());
            dropped.map_err(|error| OpenError::Io(io::Error::other(Broken::from(error))))?;
        }
        let mut records: BTreeMap<u64, Vec<(RecordId, IndexEntry)>> = BTreeMap::new();
        let mut state = shared.lock();
        state.dead.extend(orphans);
        for (name, (record, entry)) in taken {
            state.index.insert(name, entry);
            records.entry(entry.file).or_default().push((name, entry));
            on_record(record);
        }
        for pack in &packs {
            match records.get(&pack.id) {
                Some(records) => _ = state.packs.insert(pack.id, PackState::new(pack, records)),
                None => state.dead.push(pack.id),
            }
        }
        Ok(())
    }
}

/// A journal as it was read from the store.
struct Found {
    state: JournalState,
    /// Number of the last entry that the last checkpoint covers; zero if there is no checkpoint.
    checkpoint: u64,
    /// When the last entry or checkpoint was stored.
    modified: Option<SystemTime>,
}

/// Reads a journal while its owner may still be writing.
fn read_journal(bucket: &dyn Bucket) -> Result<Found, OpenError> {
    for _ in 0..MOST_READS {
        if let Some(found) = try_read_journal(bucket)? {
            return Ok(found);
        }
    }
    Err(OpenError::InUse(PathBuf::from("a prefix of the object store")))
}

/// Reads the journal once. Returns `None` if a part of it was removed meanwhile.
fn try_read_journal(bucket: &dyn Bucket) -> Result<Option<Found>, OpenError> {
    let mut numbers = BTreeMap::new();
    for listed in bucket.list(JOURNAL)? {
        numbers.extend(number_of(&listed.name).map(|number| (number, listed.modified)));
    }
    // Listed after the entries: if an entry is removed meanwhile, the checkpoint that covers it exists by then.
    let checkpoints = bucket.list(CHECKPOINTS)?;
    let checkpoint = checkpoints.iter().filter_map(|it| number_of(&it.name)).max();
    let mut state = JournalState { next: 1, ..JournalState::default() };
    if let Some(number) = checkpoint {
        let Some(entry) = read_entry(bucket, CHECKPOINTS, number)? else { return Ok(None) };
        state.take(entry);
    }
    let later: Vec<u64> = numbers.range(state.next..).map(|(&number, _)| number).collect();
    for entry in with_waiting_helpers(&later, |&number| read_entry(bucket, JOURNAL, number)) {
        match entry?.filter(|entry| entry.number == state.next) {
            Some(entry) => state.take(entry),
            None => return Ok(None),
        }
    }
    // A checkpoint may have replaced all entries.
    let entries = numbers.last_key_value().map(|(_, &modified)| modified);
    let modified = checkpoints.iter().map(|it| it.modified).chain(entries).max();
    Ok(Some(Found { state, checkpoint: checkpoint.unwrap_or(0), modified }))
}

/// Reads an entry or a checkpoint. Fails if it cannot be decoded.
fn read_entry(bucket: &dyn Bucket, folder: &str, number: u64) -> io::Result<Option<JournalEntry>> {
    let name = name_of(folder, number);
    let Some(bytes) = bucket.get(&name)? else { return Ok(None) };
    match JournalEntry::decode(&bytes).filter(|entry| entry.number == number) {
        Some(entry) => Ok(Some(entry)),
        None => {
            let reason = format!(
                "{name} is damaged, or another version made it; remove the prefix, or name another"
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
    }
}

/// Whether no process owns the prefix. If the last owner may be gone, this waits for `silence` and watches for a new
/// entry.
fn is_free(bucket: &dyn Bucket, found: &Found, config: &PacksConfig) -> io::Result<bool> {
    let Some(owner) = &found.state.owner else { return Ok(true) };
    match process::life_of(&owner.process) {
        Life::Dead => return Ok(true),
        Life::Alive => return Ok(false),
        Life::Unknown => {}
    }
    let age = found.modified.and_then(|modified| modified.elapsed().ok());
    let is_silent = age.is_some_and(|age| age >= LONG_SILENCE);
    if owner.host != config.host && !is_silent {
        return Ok(false);
    }
    let next = found.state.next;
    let until = Instant::now() + config.silence;
    loop {
        let is_over = Instant::now() >= until;
        if is_longer(bucket, (next, next))? {
            return Ok(false);
        }
        if is_over {
            return Ok(true);
        }
        thread::sleep(config.silence / 20);
    }
}

/// The records that a pack's table names; none if the pack is missing or damaged.
fn read_table(bucket: &dyn Bucket, pack: &Pack) -> io::Result<Vec<FoundRecord>> {
    if pack.table_len == 0 {
        return Ok(Vec::new());
    }
    let range = pack.len..pack.len + pack.table_len;
    match bucket.get_range(&name_of(PACKS, pack.id), range) {
        Ok(table) => Ok(Contents::decode(&table, pack.nonce)),
        Err(error) if is_cut_or_gone(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket_double::BucketDouble;

    /// Runs [`is_free`] on the host `here`, for a prefix whose last owner is this process of this host.
    fn check(host: &str, process: &str, silence: Duration) -> bool {
        let owner = Owner { host: host.to_owned(), process: process.to_owned() };
        let state = JournalState { next: 2, owner: Some(owner), ..JournalState::default() };
        let found = Found { state, checkpoint: 0, modified: Some(SystemTime::now()) };
        let config =
            PacksConfig { host: "here".to_owned(), silence, ..PacksConfig::usual(1 << 20, 1) };
        is_free(&BucketDouble::new(1).bucket(), &found, &config).expect("the store answers")
    }

    #[test]
    fn a_start_waits_only_for_owners_of_which_it_cannot_tell_whether_they_live() {
        let (long, short) = (Duration::from_secs(600), Duration::from_millis(1));
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("there is a `cat`");
        let of_child = process::of(child.id());
        let begun = Instant::now();
        assert!(!check("here", &of_child, long), "it lives");
        drop(child.stdin.take());
        child.wait().expect("it ends");
        assert!(check("here", &of_child, long), "it is dead");
        assert!(!check("elsewhere", "another", long), "its host has nothing to do with this one");
        assert!(begun.elapsed() < long / 2);
        assert!(check("here", "another", short), "it was silent");
        assert!(check("here", &process::own(), short), "this process may have given it up");
    }
}
