//! What a region is registered with: a driver that locks its pages, a network card that reads and writes them.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// What a registrar returned for the memory of one region. Its drop gives the memory back, while it is mapped still.
pub trait Registration: Any + fmt::Debug + Send + Sync {}

/// All registrations of one region: a chain, since a region has few. An entry stays where it is until the region goes.
#[derive(Debug, Default)]
pub(crate) struct Registrations {
    first: OnceLock<Box<Entry>>,
}

#[derive(Debug)]
struct Entry {
    registrar: Registrar,
    made: OnceLock<Box<dyn Registration>>,
    /// Held by the thread that registers.
    making: Mutex<()>,
    next: OnceLock<Box<Entry>>,
}

/// A kind of registration, and which of those that make this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Registrar {
    kind: TypeId,
    number: u32,
}

impl Registrations {
    pub(crate) fn get_or_make<R: Registration, E>(
        &self,
        number: u32,
        make: impl FnOnce() -> Result<R, E>,
    ) -> Result<&R, E> {
        let entry = self.entry(Registrar { kind: TypeId::of::<R>(), number });
        if entry.made.get().is_none() {
            let making = entry.making.lock().unwrap_or_else(PoisonError::into_inner);
            if entry.made.get().is_none() {
                let made = Box::new(make()?);
                entry.made.set(made).expect("only the thread that holds the lock sets it");
            }
            drop(making);
        }
        let made: &dyn Any = &**entry.made.get().expect("it was just made, if not before");
        Ok(made.downcast_ref().expect("the entry is for this type"))
    }

    /// The entry of a registrar, which is added if there is none.
    fn entry(&self, registrar: Registrar) -> &Entry {
        let mut link = &self.first;
        loop {
            // Another thread may add an entry here for another registrar. This one's is then looked for behind it.
            let entry = link.get_or_init(|| Box::new(Entry::of(registrar)));
            if entry.registrar == registrar {
                return entry;
            }
            link = &entry.next;
        }
    }
}

impl Entry {
    fn of(registrar: Registrar) -> Self {
        let (made, making, next) = (OnceLock::new(), Mutex::new(()), OnceLock::new());
        Self { registrar, made, making, next }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{Buffer, RawSlice, Region};

    /// A stand-in for the table of a driver: by address, how often the memory was registered.
    type Table = Arc<Mutex<BTreeMap<usize, usize>>>;

    /// Registered in a table, until it is dropped.
    #[derive(Debug)]
    struct InTable {
        table: Table,
        address: usize,
    }

    impl Registration for InTable {}

    impl InTable {
        fn new(table: &Table, region: &Region) -> Result<Self, Infallible> {
            let address = region.whole().as_ptr().addr();
            *table.lock().unwrap().entry(address).or_default() += 1;
            Ok(Self { table: Arc::clone(table), address })
        }
    }

    impl Drop for InTable {
        fn drop(&mut self) {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            let is_in = |line: &str| {
                let range = line.split(' ').next().and_then(|range| range.split_once('-'));
                let number = |hex: &str| usize::from_str_radix(hex, 16).unwrap();
                range.is_some_and(|(start, end)| {
                    (number(start)..number(end)).contains(&self.address)
                })
            };
            assert!(maps.lines().any(is_in), "the memory is mapped until it is given back");
            self.table.lock().unwrap().remove(&self.address);
        }
    }

    #[derive(Debug)]
    struct OfAnotherKind(u32);

    impl Registration for OfAnotherKind {}

    #[test]
    fn memory_is_registered_once_with_each_registrar_whoever_comes_first() {
        let tables: [Table; 2] = Default::default();
        let region = Region::anonymous(1 << 20).unwrap();
        let address = region.whole().as_ptr().addr();
        std::thread::scope(|scope| {
            for at in 0..8 {
                let (tables, region) = (&tables, &region);
                scope.spawn(move || {
                    for number in [at % 2, 1 - at % 2] {
                        let table = &tables[number];
                        let make = || InTable::new(table, region);
                        let Ok(found) = region.registered(number as u32, make);
                        assert!(Arc::ptr_eq(&found.table, table));
                    }
                });
            }
        });
        for table in &tables {
            assert_eq!(*table.lock().unwrap(), BTreeMap::from([(address, 1)]));
        }
        let Ok(other) = region.registered(1, || Ok::<_, Infallible>(OfAnotherKind(5)));
        assert_eq!(other.0, 5);
    }

    #[test]
    fn a_region_that_is_gone_is_forgotten_before_its_address_is_used_again() {
        let table = Table::default();
        let mut addresses = Vec::new();
        for _ in 0..20 {
            let region = Region::anonymous(1 << 20).unwrap();
            addresses.push(region.whole().as_ptr().addr());
            let Ok(_) = region.registered(0, || InTable::new(&table, &region));
            assert_eq!(table.lock().unwrap().values().collect::<Vec<_>>(), [&1]);
        }
        assert_eq!(table.lock().unwrap().len(), 0);
        addresses.sort_unstable();
        addresses.dedup();
        assert!(addresses.len() < 20, "the kernel uses addresses again");
    }

    #[test]
    fn lent_memory_is_given_back_before_its_owner_takes_it() {
        let (table, buffer) = (Table::default(), Arc::new(Buffer::zeroed(100)));
        #[derive(Debug)]
        struct Owner(Table, #[expect(dead_code, reason = "held for its drop")] Arc<Buffer>);
        impl Drop for Owner {
            fn drop(&mut self) {
                assert_eq!(self.0.lock().unwrap().len(), 0);
            }
        }
        let owner = Owner(Arc::clone(&table), Arc::clone(&buffer));
        // SAFETY: the region's keeper holds the buffer until the region is gone.
        let bytes = unsafe { RawSlice::new(buffer.raw().as_ptr(), 100) };
        let region = Region::lent(bytes, Box::new(owner)).unwrap();
        let Ok(_) = region.registered(0, || InTable::new(&table, &region));
        assert_eq!(table.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_registration_that_failed_is_tried_again() {
        let region = Region::anonymous(4096).unwrap();
        let tries = AtomicUsize::new(0);
        let register = || {
            region.registered(0, || match tries.fetch_add(1, Ordering::Relaxed) {
                0 => Err("no more memory may be locked"),
                tried => Ok(OfAnotherKind(tried as u32)),
            })
        };
        assert_eq!(register().unwrap_err(), "no more memory may be locked");
        assert_eq!([register().unwrap().0, register().unwrap().0], [1, 1]);
    }
}
