//! A disk in memory, for tests: its calls can fail, and its power can be cut.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooncake_memory::{Buffer, RawSlice};

use mooncake_types::Chance;

use crate::layout::SECTOR;
use crate::{BlockFile, Directory, Notes, ReadAt};

pub use crate::bucket_double::{BucketDouble, DoubleBucket};

/// The bit by which the number of a draft differs from that of its file.
const DRAFT: u64 = 1 << 63;

/// The disk, whatever process uses it. When its power is cut, any sectors are lost of what was not synced.
#[derive(Clone)]
pub struct DiskDouble {
    world: Arc<Mutex<World>>,
    /// Syncs may end.
    let_go: Arc<Condvar>,
}

struct World {
    chance: Chance,
    files: BTreeMap<u64, Image>,
    /// Removed since the power was cut last: they may come back.
    removed: BTreeMap<u64, Image>,
    /// There is no room for more files than this.
    most_files: usize,
    /// The note, and another that takes its place unless the power is cut first.
    note: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// Calls that write, until one fails.
    fails_in: Option<u64>,
    /// Only one call fails.
    fails_once: bool,
    /// Syncs do not end.
    are_syncs_held: bool,
    /// Calls that wrote.
    writes: u64,
    /// Nothing can be read from the files.
    is_unreadable: bool,
    /// Reads that are still to begin before one of those ends that began.
    awaited_reads: usize,
    /// Grows whenever a process dies: what it had open is closed.
    life: u64,
}

#[derive(Clone, Default)]
struct Image {
    now: Vec<u8>,
    lasting: Vec<u8>,
    /// Since the last sync.
    writes: Vec<(usize, Vec<u8>)>,
}

impl DiskDouble {
    /// An empty disk, whose losses follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> DiskDouble {
        let world = World {
            chance: Chance::new(seed),
            files: BTreeMap::new(),
            removed: BTreeMap::new(),
            most_files: usize::MAX,
            note: (None, None),
            fails_in: None,
            fails_once: false,
            are_syncs_held: false,
            writes: 0,
            is_unreadable: false,
            awaited_reads: 0,
            life: 0,
        };
        DiskDouble { world: Arc::new(Mutex::new(world)), let_go: Arc::default() }
    }

    /// The disk as one process sees it, until that is killed.
    #[must_use]
    pub fn directory(&self) -> DoubleDirectory {
        DoubleDirectory { disk: self.clone(), life: self.lock().life }
    }

    /// The process dies; the system lives on.
    pub fn kill(&self) {
        let mut world = self.lock();
        world.life += 1;
        world.fails_in = None;
        world.is_unreadable = false;
    }

    /// The system dies: of each write since the last sync any sectors are on the disk.
    pub fn cut(&self) {
        self.kill();
        let world = &mut *self.lock();
        // A note that was not acknowledged may be there.
        if let Some(newer) = world.note.1.take()
            && world.chance.below(2) == 0
        {
            world.note.0 = Some(newer);
        }
        let removed = std::mem::take(&mut world.removed);
        for (number, image) in removed {
            if world.chance.below(2) == 0 {
                world.files.insert(number, image);
            }
        }
        // All, none, or some.
        let one_in = [1, 2, 10, 1_000_000][world.chance.below(4) as usize];
        for image in world.files.values_mut() {
            for (at, bytes) in std::mem::take(&mut image.writes) {
                image.lasting.resize(image.lasting.len().max(at + bytes.len()), 0);
                let mut from = 0;
                while from < bytes.len() {
                    let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
                    if world.chance.below(one_in) == 0 {
                        image.lasting[at + from..at + to].copy_from_slice(&bytes[from..to]);
                    }
                    from = to;
                }
            }
            image.now.clone_from(&image.lasting);
        }
    }

    /// The calls that wrote so far.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// After so many calls that write, all fail until the process is killed.
    pub fn fail_in(&self, calls: u64) {
        let mut world = self.lock();
        (world.fails_in, world.fails_once) = (Some(calls), false);
    }

    /// After so many calls that write, one fails.
    pub fn fail_once_in(&self, calls: u64) {
        let mut world = self.lock();
        (world.fails_in, world.fails_once) = (Some(calls), true);
    }

    /// From now on no sync ends, or all do.
    pub fn hold_syncs(&self, are_held: bool) {
        self.lock().are_syncs_held = are_held;
        self.let_go.notify_all();
    }

    /// From now on there is no room for more files than there are, or there is again.
    pub fn fill(&self, is_full: bool) {
        let mut world = self.lock();
        world.most_files = if is_full { world.files.len() } else { usize::MAX };
    }

    /// From now on nothing can be read from the files, or it can again.
    pub fn refuse_reads(&self, is_unreadable: bool) {
        self.lock().is_unreadable = is_unreadable;
    }

    /// No read ends before so many have begun.
    ///
    /// # Panics
    /// A read panics that waits for ten seconds.
    pub fn gather_reads(&self, count: usize) {
        self.lock().awaited_reads = count;
    }

    /// Changes a byte of a file.
    ///
    /// # Panics
    /// If there is no such file, or no such byte.
    pub fn damage(&self, number: u64, at: usize) {
        let mut world = self.lock();
        let image = world.files.get_mut(&number).expect("the file is there");
        image.now[at] ^= 0x20;
        image.lasting[at] ^= 0x20;
    }

    /// The numbers of the files.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        self.lock().files.keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no test panics while it holds the disk")
    }
}

impl World {
    fn check(&mut self, life: u64) -> io::Result<()> {
        if self.life != life {
            return Err(io::Error::other("the process is dead"));
        }
        self.writes += 1;
        match &mut self.fails_in {
            Some(0) => {
                self.fails_in = (!self.fails_once).then_some(0);
                Err(io::Error::other("the disk is made to fail"))
            }
            Some(calls) => {
                *calls -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// What an open file leads to. One that was removed takes writes, too; nothing if its removal lasts: nobody finds it again.
    fn image(&mut self, number: u64) -> Option<&mut Image> {
        self.files.get_mut(&number).or_else(|| self.removed.get_mut(&number))
    }
}

/// The files of a [`DiskDouble`].
pub struct DoubleDirectory {
    disk: DiskDouble,
    life: u64,
}

impl Directory for DoubleDirectory {
    fn create(&self, number: u64, len: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        let zeros = vec![0; len as usize];
        let image = Image { now: zeros.clone(), lasting: zeros, writes: Vec::new() };
        assert!(world.files.insert(number, image).is_none(), "{number} is there already");
        if world.files.len() > world.most_files {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // What makes the new name last makes it last as well that others went.
        world.removed.clear();
        drop(world);
        self.open(number)
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn BlockFile>> {
        let there = self.disk.lock().files.contains_key(&number);
        if !there {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(OpenFile { disk: self.disk.clone(), life: self.life, number }))
    }

    fn list(&self) -> io::Result<Vec<u64>> {
        let mut world = self.disk.lock();
        world.files.retain(|number, _| number & DRAFT == 0);
        Ok(world.files.keys().copied().collect())
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        let image = world.files.remove(&number).ok_or(io::ErrorKind::NotFound)?;
        world.removed.insert(number, image);
        Ok(())
    }

    fn draft(&self, number: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        if world.files.len() >= world.most_files {
            return Err(io::ErrorKind::StorageFull.into());
        }
        world.files.insert(number | DRAFT, Image::default());
        let number = number | DRAFT;
        Ok(Arc::new(OpenFile { disk: self.disk.clone(), life: self.life, number }))
    }

    fn publish(&self, number: u64) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        let image = world.files.remove(&(number | DRAFT)).ok_or(io::ErrorKind::NotFound)?;
        world.files.insert(number, image);
        Ok(())
    }

    fn discard(&self, number: u64) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        world.files.remove(&(number | DRAFT)).ok_or(io::ErrorKind::NotFound)?;
        Ok(())
    }

    /// Of those whose removal fails any may be gone.
    fn remove_all(&self, numbers: &[u64]) -> io::Result<()> {
        for number in numbers {
            let mut world = self.disk.lock();
            let checked = world.check(self.life);
            if let Some(image) = world.files.remove(number)
                && checked.is_err()
            {
                world.removed.insert(*number, image);
            }
            checked?;
        }
        Ok(())
    }

    fn settle(&self) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        world.removed.clear();
        Ok(())
    }
}

impl Notes for DoubleDirectory {
    fn note(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.disk.lock().note.0.clone())
    }

    fn set_note(&self, note: &[u8]) -> io::Result<()> {
        let mut world = self.disk.lock();
        let checked = world.check(self.life);
        if checked.is_err() && world.life == self.life {
            world.note.1 = Some(note.to_vec());
        }
        checked?;
        world.note = (Some(note.to_vec()), None);
        world.removed.clear();
        Ok(())
    }
}

struct OpenFile {
    disk: DiskDouble,
    life: u64,
    number: u64,
}

impl ReadAt for OpenFile {
    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let mut world = self.disk.lock();
        if world.awaited_reads > 0 {
            world.awaited_reads -= 1;
            self.disk.let_go.notify_all();
            let is_early = |world: &mut World| world.awaited_reads > 0;
            let patience = Duration::from_secs(10);
            let waited = self.disk.let_go.wait_timeout_while(world, patience, is_early);
            let (left, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(!timeout.timed_out(), "reads wait for each other");
            world = left;
        }
        if world.is_unreadable {
            return Err(io::Error::other("the disk is made unreadable"));
        }
        let Some(image) = world.files.get(&self.number).or(world.removed.get(&self.number)) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut at = at as usize;
        for slice in slices {
            let bytes = image.now.get(at..at + slice.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            RawSlice::copy_to(Buffer::from_vec(bytes.to_vec()).raw(), *slice);
            at += slice.len();
        }
        Ok(())
    }
}

impl BlockFile for OpenFile {
    fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let bytes: Vec<u8> = slices.iter().flat_map(RawSlice::to_vec).collect();
        let mut world = self.disk.lock();
        world.check(self.life)?;
        let at = at as usize;
        let Some(image) = world.image(self.number) else { return Ok(()) };
        image.now.resize(image.now.len().max(at + bytes.len()), 0);
        image.now[at..at + bytes.len()].copy_from_slice(&bytes);
        image.writes.push((at, bytes));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.lock();
        while world.are_syncs_held {
            world = self.disk.let_go.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        world.check(self.life)?;
        if let Some(image) = world.image(self.number) {
            image.lasting.clone_from(&image.now);
            image.writes.clear();
        }
        Ok(())
    }
}
