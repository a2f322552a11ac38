//! Failure domains: groups of segments that may fail at once. The nearest domain of a segment is the host of its
//! endpoint. The domains that its node names follow, the nearest first.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::slab::Slab;

/// The failure domains of a segment by number, the nearest first. Equal numbers mean the same domain.
pub(crate) type DomainIds = SmallVec<[u32; 2]>;

/// The domains in which segments lie.
#[derive(Debug, Default)]
pub(super) struct Domains {
    known: Slab<Domain>,
    by_name: HashMap<Arc<str>, u32, foldhash::fast::FixedState>,
}

#[derive(Debug)]
struct Domain {
    name: Arc<str>,
    /// Segments that lie in it.
    segments: usize,
    /// How many of these segments take puts.
    grantable: usize,
}

impl Domains {
    /// Counts a new segment in the domain of its host and in the named domains. Gives the numbers of these domains.
    pub(super) fn join(&mut self, host: &str, named: &[String]) -> DomainIds {
        let names = std::iter::once(host).chain(named.iter().map(String::as_str));
        let counted = |name| {
            let id = self.number(name);
            self.known[id].segments += 1;
            id
        };
        names.map(counted).collect()
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let name: Arc<str> = name.into();
        let id = self.known.insert(Domain { name: Arc::clone(&name), segments: 0, grantable: 0 });
        self.by_name.insert(name, id);
        id
    }

    /// Counts a segment out of these domains.
    pub(super) fn leave(&mut self, ids: &[u32]) {
        for &id in ids {
            self.known[id].segments -= 1;
            if self.known[id].segments == 0 {
                let domain = self.known.remove(id);
                self.by_name.remove(&domain.name);
            }
        }
    }

    /// Counts a segment in these domains that begins to take puts, or stops.
    pub(super) fn set_grantable(&mut self, ids: &[u32], takes_puts: bool) {
        for &id in ids {
            let count = &mut self.known[id].grantable;
            *count = count.strict_add_signed(if takes_puts { 1 } else { -1 });
        }
    }

    /// How many segments lie in a domain, and how many of them take puts.
    pub(super) fn counts(&self, id: u32) -> (usize, usize) {
        (self.known[id].segments, self.known[id].grantable)
    }

    pub(super) fn name(&self, id: u32) -> Arc<str> {
        Arc::clone(&self.known[id].name)
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}

/// The host of an endpoint like `host:port`.
pub(super) fn host_of(endpoint: &str) -> &str {
    endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host)
}
