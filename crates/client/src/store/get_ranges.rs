use std::sync::{Arc, Weak};

use mooncake_ops::{CacheLimits, GetItem, Part, RouteCache, RoutesOp};
use mooncake_types::ErrorCode;

use super::Store;
use super::closed::CLOSED;
use super::memory::NoMemory;
use super::ranged::{Fragments, Ranged};
use super::session::Session;
use super::stored_keys::StoredKeys;

impl Store {
    /// Gets parts of objects straight into the callers' memory. All fragments of one item are of one version.
    ///
    /// Returns the results of the fragments of each item: their lengths in bytes, or [`ErrorCode::InvalidParams`] for
    /// a fragment that runs past the end of the object. If the get of an item fails, all its fragments get the error
    /// that [`Store::get_into`] would return. The master is asked once for each item, however many fragments it has.
    pub fn get_ranges(&self, items: &[Ranged<'_>]) -> Vec<Vec<Result<u64, ErrorCode>>> {
        let stored = self.stored(items.iter().map(|item| item.key));
        read(items, &stored, |wanted, memory| match self.session() {
            None => vec![Err(CLOSED); wanted.len()],
            Some(session) => session.get(wanted, memory),
        })
    }

    /// Looks objects up for later reads of their parts, and leases them. A key that is not there, or whose look-up
    /// fails, is looked up again when it is read.
    ///
    /// # Errors
    /// [`ErrorCode::UnavailableInCurrentStatus`] after [`Store::close`].
    pub fn prepare_get_ranges(&self, keys: &[&str]) -> Result<RangedReadSnapshot, ErrorCode> {
        let session = self.session().ok_or(CLOSED)?;
        let _call = session.begin("prepare_get_ranges", keys.len());
        let stored = self.stored(keys.iter().copied());
        let keys = &*stored.all(keys);
        // The routes may be of a later leader, and are then forgotten with those of this one.
        let epoch = session.host.epoch();
        let found = session.driver().drive(RoutesOp::new(keys), NoMemory);
        let routes = RouteCache::new(RangedReadSnapshot::limits(keys.len()));
        let found = keys.iter().zip(found);
        let found = found.filter_map(|(&key, route)| Some((key, Arc::new(route.ok()?))));
        routes.keep(found, session.clock.now(), epoch);
        Ok(RangedReadSnapshot { routes, session: Arc::downgrade(&session) })
    }

    /// As [`Store::get_ranges`], by the replica lists of a snapshot of this store. Once half of an object's lease is
    /// over, its list is asked for again before any byte moves. [`ErrorCode::InvalidParams`] for all fragments if the
    /// snapshot is that of another store, or of this one before it was closed.
    pub fn get_ranges_by(
        &self,
        snapshot: &RangedReadSnapshot,
        items: &[Ranged<'_>],
    ) -> Vec<Vec<Result<u64, ErrorCode>>> {
        let stored = self.stored(items.iter().map(|item| item.key));
        read(items, &stored, |wanted, memory| match self.session() {
            None => vec![Err(CLOSED); wanted.len()],
            Some(session) if !std::ptr::eq(snapshot.session.as_ptr(), Arc::as_ptr(&session)) => {
                vec![Err(ErrorCode::InvalidParams); wanted.len()]
            }
            Some(session) => session.get_by_snapshot(&snapshot.routes, wanted, memory),
        })
    }
}

/// Where objects lie, for repeated reads of their parts without a look-up for each read.
#[derive(Debug)]
pub struct RangedReadSnapshot {
    routes: RouteCache,
    session: Weak<Session>,
}

impl RangedReadSnapshot {
    /// Room for so many routes, in each of the two generations.
    fn limits(keys: usize) -> CacheLimits {
        CacheLimits { entries: 2 * (keys + 1), bytes: usize::MAX }
    }
}

fn read(
    items: &[Ranged<'_>],
    stored: &StoredKeys,
    get: impl FnOnce(&[GetItem<'_>], &mut Fragments<'_, '_>) -> Vec<Result<u64, ErrorCode>>,
) -> Vec<Vec<Result<u64, ErrorCode>>> {
    let parts: Vec<Vec<Part>> = items.iter().map(Ranged::parts).collect();
    let key_of = |position: usize| stored.at(position, items[position].key);
    let wanted = parts.iter().enumerate();
    let wanted: Vec<GetItem<'_>> =
        wanted.map(|(position, parts)| GetItem::parts(key_of(position), parts)).collect();
    let found = get(&wanted, &mut Fragments::new(items));
    let of_item = |(found, parts): (Result<u64, ErrorCode>, &Vec<Part>)| {
        parts.iter().map(|part| of_fragment(found, part)).collect()
    };
    found.into_iter().zip(&parts).map(of_item).collect()
}

fn of_fragment(object_len: Result<u64, ErrorCode>, part: &Part) -> Result<u64, ErrorCode> {
    match part.lies_within(object_len?) {
        true => Ok(part.len),
        false => Err(ErrorCode::InvalidParams),
    }
}
