//! An object store in memory, for tests. Its calls can fail, answer late, or take effect only after they have failed.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use mooncake_types::Chance;

use crate::bucket::{Bucket, ListedObject};

/// The store itself. It outlives the simulated processes that use it.
#[derive(Clone)]
pub struct BucketDouble(Arc<Mutex<World>>);

struct World {
    chance: Chance,
    objects: BTreeMap<String, (Vec<u8>, SystemTime)>,
    /// Writes that returned an error to their callers and may still take effect later.
    delayed: Vec<Write>,
    /// How many more writing calls succeed before one fails.
    fails_in: Option<u64>,
    fails_once: bool,
    is_unreadable: bool,
    /// The next `create` answers `AlreadyExists` although the object does not exist.
    conflicts_once: bool,
    delay: Duration,
    /// Number of the running process. [`BucketDouble::kill`] increments it.
    life: u64,
    gets: u64,
    puts: u64,
}

#[derive(Clone)]
enum Write {
    Create(String, Vec<u8>),
    Put(String, Vec<u8>),
    Remove(String),
}

impl BucketDouble {
    /// An empty store. `seed` decides what each failed write does.
    #[must_use]
    pub fn new(seed: u64) -> BucketDouble {
        BucketDouble(Arc::new(Mutex::new(World {
            chance: Chance::new(seed),
            objects: BTreeMap::new(),
            delayed: Vec::new(),
            fails_in: None,
            fails_once: false,
            is_unreadable: false,
            conflicts_once: false,
            delay: Duration::ZERO,
            life: 0,
            gets: 0,
            puts: 0,
        })))
    }

    /// The store as the running process sees it. [`BucketDouble::kill`] makes this handle fail.
    #[must_use]
    pub fn bucket(&self) -> DoubleBucket {
        DoubleBucket { store: self.clone(), life: self.lock().life }
    }

    /// Kills the process that uses the store. Its delayed writes may still take effect.
    pub fn kill(&self) {
        let mut world = self.lock();
        world.life += 1;
        world.fails_in = None;
        world.is_unreadable = false;
    }

    /// After `calls` writing calls, all later ones fail until [`BucketDouble::kill`] or [`BucketDouble::heal`]. A
    /// failed write may take effect, now or later.
    pub fn fail_in(&self, calls: u64) {
        let mut world = self.lock();
        (world.fails_in, world.fails_once) = (Some(calls), false);
    }

    /// After `calls` writing calls, exactly one fails.
    pub fn fail_once_in(&self, calls: u64) {
        let mut world = self.lock();
        (world.fails_in, world.fails_once) = (Some(calls), true);
    }

    /// The next `create` answers `AlreadyExists`, as if a concurrent attempt conflicted with it. That attempt creates
    /// nothing.
    pub fn conflict_once(&self) {
        self.lock().conflicts_once = true;
    }

    /// Makes all calls succeed again.
    pub fn heal(&self) {
        let mut world = self.lock();
        (world.fails_in, world.is_unreadable) = (None, false);
    }

    /// Makes all reads fail.
    pub fn refuse_reads(&self) {
        self.lock().is_unreadable = true;
    }

    /// Makes all objects older by `by`, by the store's clock.
    pub fn age(&self, by: Duration) {
        self.lock().objects.values_mut().for_each(|(_, modified)| *modified -= by);
    }

    /// Makes every call take `time`.
    pub fn delay(&self, time: Duration) {
        self.lock().delay = time;
    }

    /// The names of all objects in a folder.
    #[must_use]
    pub fn names(&self, folder: &str) -> Vec<String> {
        let world = self.lock();
        world.objects.keys().filter(|name| is_in(folder, name)).cloned().collect()
    }

    /// How many reads and listings were made so far.
    #[must_use]
    pub fn gets(&self) -> u64 {
        self.lock().gets
    }

    /// How many `put` calls, each of which writes a pack, were made so far.
    #[must_use]
    pub fn puts(&self) -> u64 {
        self.lock().puts
    }

    /// Replaces the bytes of an object by what `change` returns, or removes the object if that is `None`.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn damage(&self, name: &str, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
        let mut world = self.lock();
        let (bytes, modified) = world.objects.remove(name).expect("the object is there");
        if let Some(bytes) = change(bytes) {
            world.objects.insert(name.to_owned(), (bytes, modified));
        }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics while it holds the store")
    }
}

fn is_in(folder: &str, name: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl World {
    fn carry_out(&mut self, write: Write) -> io::Result<()> {
        match write {
            Write::Create(name, _) if self.objects.contains_key(&name) => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Write::Create(name, bytes) | Write::Put(name, bytes) => {
                self.objects.insert(name, (bytes, SystemTime::now()));
            }
            Write::Remove(name) => _ = self.objects.remove(&name),
        }
        Ok(())
    }

    fn fails(&mut self) -> bool {
        match &mut self.fails_in {
            Some(0) => {
                self.fails_in = (!self.fails_once).then_some(0);
                true
            }
            Some(calls) => {
                *calls -= 1;
                false
            }
            None => false,
        }
    }

    fn write(&mut self, life: u64, write: Write) -> io::Result<()> {
        // A delayed write takes effect at a random later time.
        if !self.delayed.is_empty() && self.chance.below(3) == 0 {
            let at = self.chance.below(self.delayed.len() as u64) as usize;
            let late = self.delayed.swap_remove(at);
            let _ = self.carry_out(late);
        }
        if self.life != life {
            return Err(io::Error::other("the process is dead"));
        }
        if matches!(write, Write::Create(..)) && std::mem::take(&mut self.conflicts_once) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !self.fails() {
            return self.carry_out(write);
        }
        match self.chance.below(3) {
            0 => {}
            1 => _ = self.carry_out(write),
            _ => self.delayed.push(write),
        }
        Err(io::Error::other("the store is made to fail"))
    }
}

/// The [`BucketDouble`] as one process sees it.
pub struct DoubleBucket {
    store: BucketDouble,
    life: u64,
}

impl DoubleBucket {
    fn write(&self, write: Write) -> io::Result<()> {
        self.wait();
        self.store.lock().write(self.life, write)
    }

    fn wait(&self) {
        let delay = self.store.lock().delay;
        std::thread::sleep(delay);
    }

    fn look(&self) -> io::Result<MutexGuard<'_, World>> {
        self.wait();
        let mut world = self.store.lock();
        world.gets += 1;
        match world.is_unreadable || world.life != self.life {
            true => Err(io::Error::other("the store is made unreadable")),
            false => Ok(world),
        }
    }
}

impl Bucket for DoubleBucket {
    fn create(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.write(Write::Create(name.to_owned(), bytes))
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.store.lock().puts += 1;
        self.write(Write::Put(name.to_owned(), bytes))
    }

    fn get(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.look()?.objects.get(name).map(|(bytes, _)| bytes.clone()))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> io::Result<Vec<u8>> {
        let world = self.look()?;
        let (bytes, _) = world.objects.get(name).ok_or(io::ErrorKind::NotFound)?;
        let part = bytes.get(range.start as usize..range.end as usize);
        Ok(part.ok_or(io::ErrorKind::UnexpectedEof)?.to_vec())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<ListedObject>> {
        let world = self.look()?;
        let listed = world.objects.iter().filter(|(name, _)| is_in(folder, name));
        let listed = listed.map(|(name, &(_, modified))| (name.clone(), modified));
        Ok(listed.map(|(name, modified)| ListedObject { name, modified }).collect())
    }

    fn remove_all(&self, names: &[String]) -> io::Result<()> {
        names.iter().try_for_each(|name| self.write(Write::Remove(name.clone())))
    }
}
