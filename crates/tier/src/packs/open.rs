//! Opening a prefix: whose it is, and what lies there.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, Builder};
use std::time::{Duration, Instant, SystemTime};

use mooncake_memory::with_waiting_helpers;

use super::config::PacksConfig;
use super::entry::{Change, Entry, JournalState, Owner, Pack};
use super::journal::{Journal, claim, is_longer};
use super::names::{CHECKPOINTS, JOURNAL, PACKS, name_of, number_of};
use super::pack_file::is_cut_or_gone;
use super::process::Life;
use super::state::{PackState, Shared, State};
use super::{Packs, process};
use crate::bucket::Bucket;
use crate::contents::{Contents, FoundRecord};
use crate::errors::{Broken, OpenError};
use crate::index::Entry as IndexEntry;
use crate::record::{Name, Record};

/// How often a journal is read again that changed meanwhile.
const MOST_READS: usize = 4;
/// A prefix whose journal nobody has added to for so long may be taken over by any host.
const LONG_SILENCE: Duration = Duration::from_secs(600);

impl Packs {
    /// Opens a prefix, or begins it. Each record that lasts is `told`.
    ///
    /// # Errors
    /// Another process owns it, what lies there is no journal of this format, or the store does not answer.
    pub fn open(
        bucket: Arc<dyn Bucket>,
        config: PacksConfig,
        told: impl FnMut(Record),
    ) -> Result<Packs, OpenError> {
        let mut found = read_journal(&*bucket)?;
        let is_free = is_free(&*bucket, &found, &config)?;
        let owner = Owner { host: config.host.clone(), process: process::own() };
        let claimed = vec![Change::Claimed(owner)];
        let number = found.state.next;
        let entry = Entry { number, owner: config.seed, changes: claimed };
        let since = Instant::now();
        if !is_free || !claim(&*bucket, &entry)? {
            return Err(OpenError::InUse(PathBuf::from("a prefix of the object store")));
        }
        found.state.take(entry);
        let packs: Vec<Arc<Pack>> = found.state.packs.values().cloned().collect();
        let journal =
            Journal::new(Arc::clone(&bucket), (found.state, found.checkpoint), (since, &config));
        // No other process has had this number.
        let state = State { next_pack: number << 32, ..State::default() };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let shared = Arc::new(Shared { config, bucket, journal, state, changed });
        let keeping = Arc::clone(&shared);
        let keeper = Builder::new().name("mooncake-packs".to_owned());
        let keeper = keeper.spawn(move || keeping.keep())?;
        let opened = Packs { shared, keeper: Some(keeper) };
        opened.take_over(packs, told)?;
        Ok(opened)
    }

    /// Takes what the owner before left.
    fn take_over(
        &self,
        packs: Vec<Arc<Pack>>,
        mut told: impl FnMut(Record),
    ) -> Result<(), OpenError> {
        let shared = &self.shared;
        let own = shared.lock().next_pack;
        let listed = shared.bucket.list(PACKS)?.into_iter().filter_map(|it| number_of(&it.name));
        let is_orphan = |id: &u64| *id < own && !packs.iter().any(|pack| pack.id == *id);
        let orphans: Vec<u64> = listed.filter(is_orphan).collect();
        let tables = with_waiting_helpers(&packs, |pack| read_table(&*shared.bucket, pack));
        let mut taken: BTreeMap<Name, (Record, IndexEntry)> = BTreeMap::new();
        let mut needless = Vec::new();
        for (pack, table) in packs.iter().zip(tables) {
            let table = table?;
            let mut missing = pack.live.clone();
            for FoundRecord { block, record } in table {
                if missing.remove(&(block as u32)) {
                    let entry = IndexEntry::ready(pack.id, block, &record);
                    // The same record twice: its first put failed, as far as its caller knows.
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
        let mut records: BTreeMap<u64, Vec<(Name, IndexEntry)>> = BTreeMap::new();
        let mut state = shared.lock();
        state.dead.extend(orphans);
        for (name, (record, entry)) in taken {
            state.index.insert(name, entry);
            records.entry(entry.file).or_default().push((name, entry));
            told(record);
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

/// A journal as it was read.
struct Found {
    state: JournalState,
    /// The entry up to which the last checkpoint goes.
    checkpoint: u64,
    /// When the last entry was stored, or the last checkpoint.
    modified: Option<SystemTime>,
}

/// Reads a journal whose owner may be at work.
fn read_journal(bucket: &dyn Bucket) -> Result<Found, OpenError> {
    for _ in 0..MOST_READS {
        if let Some(found) = try_read_journal(bucket)? {
            return Ok(found);
        }
    }
    Err(OpenError::InUse(PathBuf::from("a prefix of the object store")))
}

/// Nothing if a part of it was removed meanwhile.
fn try_read_journal(bucket: &dyn Bucket) -> Result<Option<Found>, OpenError> {
    let mut numbers = BTreeMap::new();
    for listed in bucket.list(JOURNAL)? {
        numbers.extend(number_of(&listed.name).map(|number| (number, listed.modified)));
    }
    // After the entries: those that go are covered by a checkpoint that is there then.
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
    // A checkpoint may have taken the place of all entries.
    let entries = numbers.last_key_value().map(|(_, &modified)| modified);
    let modified = checkpoints.iter().map(|it| it.modified).chain(entries).max();
    Ok(Some(Found { state, checkpoint: checkpoint.unwrap_or(0), modified }))
}

/// An entry of the journal, or a checkpoint. One that cannot be understood is an error.
fn read_entry(bucket: &dyn Bucket, folder: &str, number: u64) -> io::Result<Option<Entry>> {
    let name = name_of(folder, number);
    let Some(bytes) = bucket.get(&name)? else { return Ok(None) };
    match Entry::decode(&bytes).filter(|entry| entry.number == number) {
        Some(entry) => Ok(Some(entry)),
        None => {
            let reason = format!(
                "{name} is damaged, or another version made it; remove the prefix, or name another"
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
    }
}

/// Whether no process owns the prefix. Where one did and it may be gone, this waits to see whether it stores another entry.
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

/// The records that the table of a pack names; none if the pack is gone or damaged.
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

    /// Whether a prefix is free whose last owner is this process of this host, for one of the host `here` that waits for so long.
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
