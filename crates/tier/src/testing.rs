//! A disk in memory, for tests. Its calls can fail, and its power can be cut.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mooncake_memory::{Buffer, RawSlice};

use mooncake_types::Chance;
use rustix::io::Errno;

use crate::layout::SECTOR;
use crate::{BlockFile, Directory, Notes, ReadAt};

pub use crate::bucket_double::{BucketDouble, DoubleBucket};

/// Set in the number of a draft, which otherwise equals that of its file.
const DRAFT: u64 = 1 << 63;

/// The disk itself. It outlives the simulated processes that use it. A power cut loses any of the sectors that were
/// not synced.
#[derive(Clone)]
pub struct DiskDouble {
    world: Arc<Mutex<World>>,
    /// Signalled when syncs are released, and when an awaited read begins.
    let_go: Arc<Condvar>,
}

struct World {
    chance: Chance,
    files: BTreeMap<u64, Image>,
    /// Files that were removed, not durably yet: a power cut may bring them back.
    removed: BTreeMap<u64, Image>,
    /// Bytes that files may yet take, if others have filled the disk.
    free_bytes: Option<u64>,
    /// The note, and a newer note whose writing failed: a power cut may bring that one to the disk.
    note: (Option<Vec<u8>>, Option<Vec<u8>>),
    /// The calls that are to fail.
    fault: Option<Fault>,
    /// Whether syncs block.
    are_syncs_held: bool,
    /// How many writing calls were made.
    writes: u64,
    /// How many files got another number.
    renumbered: u64,
    /// Whether all reads of files fail.
    is_unreadable: bool,
    /// Sectors of files that cannot be read: number of the file, number of the sector. Writing one mends it.
    bad_sectors: BTreeSet<(u64, u64)>,
    /// How many more reads must begin before any of them ends.
    awaited_reads: usize,
    /// Number of the running process. [`DiskDouble::kill`] increments it, and all files of older processes are closed.
    life: u64,
}

/// Writing calls that fail.
#[derive(Clone, Copy)]
struct Fault {
    /// How many more calls succeed before one fails.
    succeeds: u64,
    /// How many calls then fail.
    fails: u64,
    /// The system's number of the error.
    errno: Errno,
}

#[derive(Clone, Default)]
struct Image {
    now: Vec<u8>,
    lasting: Vec<u8>,
    /// Writes since the last sync: offset and bytes.
    writes: Vec<(usize, Vec<u8>)>,
}

impl Image {
    /// Writes those sectors of some bytes to the disk for which `is_written` returns true.
    fn write_lasting(&mut self, at: usize, bytes: &[u8], mut is_written: impl FnMut() -> bool) {
        self.lasting.resize(self.lasting.len().max(at + bytes.len()), 0);
        let mut from = 0;
        while from < bytes.len() {
            let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
            if is_written() {
                self.lasting[at + from..at + to].copy_from_slice(&bytes[from..to]);
            }
            from = to;
        }
    }
}

impl DiskDouble {
    /// An empty disk. `seed` decides which sectors a power cut loses.
    #[must_use]
    pub fn new(seed: u64) -> DiskDouble {
        let world = World {
            chance: Chance::new(seed),
            files: BTreeMap::new(),
            removed: BTreeMap::new(),
            free_bytes: None,
            note: (None, None),
            fault: None,
            are_syncs_held: false,
            writes: 0,
            renumbered: 0,
            is_unreadable: false,
            bad_sectors: BTreeSet::new(),
            awaited_reads: 0,
            life: 0,
        };
        DiskDouble { world: Arc::new(Mutex::new(world)), let_go: Arc::default() }
    }

    /// The disk as the running process sees it. [`DiskDouble::kill`] makes this handle fail.
    #[must_use]
    pub fn directory(&self) -> DoubleDirectory {
        DoubleDirectory { disk: self.clone(), life: self.lock().life }
    }

    /// Kills the process that uses the disk. The operating system keeps running, so no write is lost.
    pub fn kill(&self) {
        let mut world = self.lock();
        world.life += 1;
        world.fault = None;
        world.is_unreadable = false;
    }

    /// Cuts the power. Of each write since the last sync, a random choice of sectors is on the disk.
    pub fn cut(&self) {
        self.kill();
        let world = &mut *self.lock();
        // A note whose writing failed may have reached the disk.
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
        // All, half, a tenth or none of the sectors.
        let one_in = [1, 2, 10, 1_000_000][world.chance.below(4) as usize];
        for image in world.files.values_mut() {
            for (at, bytes) in std::mem::take(&mut image.writes) {
                image.write_lasting(at, &bytes, || world.chance.below(one_in) == 0);
            }
            image.now.clone_from(&image.lasting);
        }
    }

    /// How many writing calls were made so far.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.lock().writes
    }

    /// How many files got another number so far.
    #[must_use]
    pub fn renumbered(&self) -> u64 {
        self.lock().renumbered
    }

    /// After `calls` writing calls, all later ones fail until [`DiskDouble::kill`].
    pub fn fail_in(&self, calls: u64) {
        self.lock().fault = Some(Fault { succeeds: calls, fails: u64::MAX, errno: Errno::IO });
    }

    /// After `calls` writing calls, exactly one fails.
    pub fn fail_once_in(&self, calls: u64) {
        self.lock().fault = Some(Fault { succeeds: calls, fails: 1, errno: Errno::IO });
    }

    /// After `calls` writing calls, so many find no space, whether or not it was set aside: the filesystem writes
    /// nothing in place, or sets nothing aside.
    pub fn run_out_in(&self, calls: u64, fails: u64) {
        self.lock().fault = Some(Fault { succeeds: calls, fails, errno: Errno::NOSPC });
    }

    /// Blocks all syncs, or releases them.
    pub fn hold_syncs(&self, are_held: bool) {
        self.lock().are_syncs_held = are_held;
        self.let_go.notify_all();
    }

    /// Has others fill the disk to the last byte, or makes room again. What a file has set aside stays its own, and what
    /// is removed makes room.
    pub fn fill(&self, is_full: bool) {
        self.lock().free_bytes = is_full.then_some(0);
    }

    /// Makes all reads of files fail, or succeed again.
    pub fn refuse_reads(&self, is_unreadable: bool) {
        self.lock().is_unreadable = is_unreadable;
    }

    /// Makes the sector of a file unreadable in which a byte lies, until it is written. A power cut mends nothing.
    pub fn break_sector(&self, number: u64, at: u64) {
        self.lock().bad_sectors.insert((number, at / SECTOR as u64));
    }

    /// Makes all sectors readable again, as after a fault of a cable.
    pub fn mend_sectors(&self) {
        self.lock().bad_sectors.clear();
    }

    /// Lets no read end before `count` reads have begun.
    ///
    /// # Panics
    /// A read panics after it has waited for ten seconds.
    pub fn gather_reads(&self, count: usize) {
        self.lock().awaited_reads = count;
    }

    /// Flips a bit of one byte of a file.
    ///
    /// # Panics
    /// If the file or the byte does not exist.
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
        let Some(fault) = &mut self.fault else { return Ok(()) };
        if fault.succeeds > 0 {
            fault.succeeds -= 1;
            return Ok(());
        }
        let errno = fault.errno;
        fault.fails -= 1;
        if fault.fails == 0 {
            self.fault = None;
        }
        Err(errno.into())
    }

    /// Takes bytes of the disk for a file.
    fn take_room(&mut self, bytes: usize) -> io::Result<()> {
        let Some(free) = self.free_bytes else { return Ok(()) };
        self.free_bytes = Some(free.checked_sub(bytes as u64).ok_or(Errno::NOSPC)?);
        Ok(())
    }

    /// Makes the room of a file free that was removed.
    fn free(&mut self, image: &Image) {
        self.free_bytes = self.free_bytes.map(|free| free + image.now.len() as u64);
    }

    /// Whether a call that failed has done its work all the same.
    fn is_done_anyhow(&mut self) -> bool {
        self.chance.below(2) == 0
    }

    /// The contents of an open file. A removed file takes writes, too. `None` if its removal is durable: then no
    /// process finds it again.
    fn image(&mut self, number: u64) -> Option<&mut Image> {
        self.files.get_mut(&number).or_else(|| self.removed.get_mut(&number))
    }
}

/// The [`DiskDouble`] as one process sees it.
pub struct DoubleDirectory {
    disk: DiskDouble,
    life: u64,
}

impl Directory for DoubleDirectory {
    fn create(&self, number: u64, len: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        // On a full disk the file is there, and has no length.
        let room = world.take_room(len as usize);
        let zeros = vec![0; if room.is_ok() { len as usize } else { 0 }];
        let image = Image { now: zeros.clone(), lasting: zeros, writes: Vec::new() };
        assert!(world.files.insert(number, image).is_none(), "{number} is there already");
        room?;
        // The sync that makes the new name durable also makes earlier removals durable.
        world.removed.clear();
        drop(world);
        self.open(number)
    }

    fn renumber(&self, number: u64, new: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut world = self.disk.lock();
        let checked = match world.check(self.life) {
            Err(error) if world.life != self.life || !world.is_done_anyhow() => return Err(error),
            checked => checked,
        };
        let image = world.files.remove(&number).ok_or(io::ErrorKind::NotFound)?;
        assert!(world.files.insert(new, image).is_none(), "{new} is there already");
        checked?;
        world.removed.clear();
        world.renumbered += 1;
        drop(world);
        self.open(new)
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
        world.free(&image);
        world.removed.insert(number, image);
        Ok(())
    }

    fn draft(&self, number: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        world.files.insert(number | DRAFT, Image::default());
        let number = number | DRAFT;
        Ok(Arc::new(OpenFile { disk: self.disk.clone(), life: self.life, number }))
    }

    fn publish(&self, number: u64) -> io::Result<()> {
        let mut world = self.disk.lock();
        let checked = match world.check(self.life) {
            Err(error) if world.life != self.life || !world.is_done_anyhow() => return Err(error),
            checked => checked,
        };
        let image = world.files.remove(&(number | DRAFT)).ok_or(io::ErrorKind::NotFound)?;
        if let Some(older) = world.files.insert(number, image) {
            world.free(&older);
        }
        checked
    }

    fn discard(&self, number: u64) -> io::Result<()> {
        let mut world = self.disk.lock();
        world.check(self.life)?;
        let image = world.files.remove(&(number | DRAFT)).ok_or(io::ErrorKind::NotFound)?;
        world.free(&image);
        Ok(())
    }

    /// If the call fails, the file may return after a power cut.
    fn remove_all(&self, numbers: &[u64]) -> io::Result<()> {
        for number in numbers {
            let mut world = self.disk.lock();
            let checked = world.check(self.life);
            if let Some(image) = world.files.remove(number) {
                world.free(&image);
                world.removed.insert(*number, image);
            }
            checked?;
            world.removed.remove(number);
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
        let len: usize = slices.iter().map(RawSlice::len).sum();
        let sectors = at / SECTOR as u64..(at + len as u64).div_ceil(SECTOR as u64);
        let bad = world.bad_sectors.range((self.number, sectors.start)..(self.number, sectors.end));
        if world.is_unreadable || bad.count() > 0 {
            return Err(Errno::IO.into());
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
        let mut bytes: Vec<u8> = slices.iter().flat_map(RawSlice::to_vec).collect();
        let mut world = self.disk.lock();
        let checked = world.check(self.life);
        if checked.is_err() {
            if world.life != self.life {
                return checked;
            }
            let sectors = (bytes.len() / SECTOR) as u64;
            bytes.truncate(world.chance.below(sectors + 1) as usize * SECTOR);
        }
        let at = at as usize;
        let Some(image) = world.image(self.number) else { return checked };
        let more = (at + bytes.len()).saturating_sub(image.now.len());
        world.take_room(more)?;
        let image = world.image(self.number).expect("it was there");
        image.now.resize(image.now.len().max(at + bytes.len()), 0);
        image.now[at..at + bytes.len()].copy_from_slice(&bytes);
        let written = at / SECTOR..(at + bytes.len()).div_ceil(SECTOR);
        image.writes.push((at, bytes));
        written.for_each(|sector| _ = world.bad_sectors.remove(&(self.number, sector as u64)));
        checked
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.lock();
        while world.are_syncs_held {
            world = self.disk.let_go.wait(world).unwrap_or_else(PoisonError::into_inner);
        }
        let checked = world.check(self.life);
        if checked.is_err() && world.life != self.life {
            return checked;
        }
        let is_full =
            checked.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StorageFull);
        let mut chance = Chance::new(world.chance.bits());
        let one_in = 1 + chance.below(2);
        if let Some(image) = world.image(self.number).filter(|_| checked.is_ok() || is_full) {
            for (at, bytes) in std::mem::take(&mut image.writes) {
                image.write_lasting(at, &bytes, || checked.is_ok() || chance.below(one_in) == 0);
            }
            // Where space is sought only now, the system drops what finds none.
            image.now.clone_from(&image.lasting);
        }
        checked
    }
}
