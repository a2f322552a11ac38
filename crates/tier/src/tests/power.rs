//! A disk in memory whose power can be cut: of what was not synced any sectors are lost.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use mooncake_memory::{Buffer, RawSlice};

use super::Dice;
use crate::layout::SECTOR;
use crate::{BlockFile, Directory};

/// The disk, whatever process uses it.
#[derive(Clone)]
pub(super) struct Power(Arc<Mutex<World>>);

struct World {
    dice: Dice,
    files: BTreeMap<u64, Image>,
    /// Removed since the power was cut last: they may come back.
    removed: BTreeMap<u64, Image>,
    /// Calls that write, until one fails.
    fails_in: Option<u64>,
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

impl Power {
    pub(super) fn new(seed: u64) -> Power {
        let dice = Dice(seed.wrapping_mul(2) + 1);
        let (files, removed) = (BTreeMap::new(), BTreeMap::new());
        Power(Arc::new(Mutex::new(World { dice, files, removed, fails_in: None, life: 0 })))
    }

    pub(super) fn directory(&self) -> Files {
        Files { power: self.clone(), life: self.lock().life }
    }

    /// The process dies; the system lives on.
    pub(super) fn kill(&self) {
        let mut world = self.lock();
        world.life += 1;
        world.fails_in = None;
    }

    /// The system dies: of each write since the last sync any sectors are on the disk.
    pub(super) fn cut(&self) {
        self.kill();
        let world = &mut *self.lock();
        let removed = std::mem::take(&mut world.removed);
        for (number, image) in removed {
            if world.dice.happens(2) {
                world.files.insert(number, image);
            }
        }
        // All, none, or some.
        let one_in = [1, 2, 10, 1_000_000][world.dice.below(4) as usize];
        for image in world.files.values_mut() {
            for (at, bytes) in std::mem::take(&mut image.writes) {
                image.lasting.resize(image.lasting.len().max(at + bytes.len()), 0);
                let mut from = 0;
                while from < bytes.len() {
                    let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
                    if world.dice.happens(one_in) {
                        image.lasting[at + from..at + to].copy_from_slice(&bytes[from..to]);
                    }
                    from = to;
                }
            }
            image.now.clone_from(&image.lasting);
        }
    }

    /// One of the next calls that write fails.
    pub(super) fn fail_in(&self, calls: u64) {
        self.lock().fails_in = Some(calls);
    }

    /// Changes a byte of a file.
    pub(super) fn damage(&self, number: u64, at: usize) {
        let mut world = self.lock();
        let image = world.files.get_mut(&number).expect("the file is there");
        image.now[at] ^= 0x20;
        image.lasting[at] ^= 0x20;
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.lock().files.keys().copied().collect()
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no test panics here")
    }
}

impl World {
    fn check(&mut self, life: u64) -> io::Result<()> {
        if self.life != life {
            return Err(io::Error::other("the process is dead"));
        }
        match &mut self.fails_in {
            Some(0) => Err(io::Error::other("the disk is made to fail")),
            Some(calls) => {
                *calls -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

pub(super) struct Files {
    power: Power,
    life: u64,
}

impl Directory for Files {
    fn create(&self, number: u64, len: u64) -> io::Result<Arc<dyn BlockFile>> {
        let mut world = self.power.lock();
        world.check(self.life)?;
        let zeros = vec![0; len as usize];
        let image = Image { now: zeros.clone(), lasting: zeros, writes: Vec::new() };
        assert!(world.files.insert(number, image).is_none(), "{number} is there already");
        drop(world);
        self.open(number)
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn BlockFile>> {
        let there = self.power.lock().files.contains_key(&number);
        if !there {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(OpenFile { power: self.power.clone(), life: self.life, number }))
    }

    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.power.numbers())
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        let mut world = self.power.lock();
        world.check(self.life)?;
        let image = world.files.remove(&number).ok_or(io::ErrorKind::NotFound)?;
        world.removed.insert(number, image);
        Ok(())
    }
}

struct OpenFile {
    power: Power,
    life: u64,
    number: u64,
}

impl BlockFile for OpenFile {
    fn write(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let bytes: Vec<u8> = slices.iter().flat_map(RawSlice::to_vec).collect();
        let mut world = self.power.lock();
        world.check(self.life)?;
        let at = at as usize;
        let image = world.files.get_mut(&self.number).ok_or(io::ErrorKind::NotFound)?;
        image.now.resize(image.now.len().max(at + bytes.len()), 0);
        image.now[at..at + bytes.len()].copy_from_slice(&bytes);
        image.writes.push((at, bytes));
        Ok(())
    }

    fn read(&self, slices: &[RawSlice], at: u64) -> io::Result<()> {
        let world = self.power.lock();
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

    fn sync(&self) -> io::Result<()> {
        let mut world = self.power.lock();
        world.check(self.life)?;
        if let Some(image) = world.files.get_mut(&self.number) {
            image.lasting.clone_from(&image.now);
            image.writes.clear();
        }
        Ok(())
    }
}
