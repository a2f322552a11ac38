use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mooncake_fabric::{Access, Domain, Exposed, OpenError, RegisterError, Target};
use mooncake_memory::{HeldSlice, Registration, SlotTable};
use mooncake_types::SegmentId;
use mooncake_wire::{RemoteSegment, TransportDescriptor};

use crate::SharedSegment;

/// Lends the segments of a node to peers that read and write them one-sided.
pub struct FarLender {
    domain: Arc<Domain>,
    /// What peers read.
    readers: Target,
    lent: Mutex<HashMap<SegmentId, LentSegment>>,
}

/// How peers read a segment.
struct LentSegment {
    slots: Weak<SlotTable>,
    remote: RemoteSegment,
}

/// The keys of a segment, valid for as long as it is lent.
#[derive(Debug)]
struct Keys {
    #[expect(dead_code, reason = "held for its drop")]
    memory: Exposed,
    #[expect(dead_code, reason = "held for its drop")]
    slots: Exposed,
}

impl Registration for Keys {}

impl fmt::Debug for FarLender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FarLender({:?})", self.readers)
    }
}

/// The name of a device's transport: both sides must use the same provider.
pub(super) fn kind_of(domain: &Domain) -> String {
    format!("libfabric:{}", domain.device().provider)
}

impl FarLender {
    /// Opens an endpoint for readers.
    ///
    /// # Errors
    /// The provider refuses.
    pub fn open(domain: &Arc<Domain>) -> Result<Self, OpenError> {
        let readers = Target::open(domain)?;
        Ok(Self { domain: Arc::clone(domain), readers, lent: Mutex::default() })
    }

    /// What peers are told of it.
    pub(crate) fn descriptor(&self) -> TransportDescriptor {
        let address = self.readers.address().to_bytes().into();
        TransportDescriptor { kind: kind_of(&self.domain), address }
    }

    /// How peers read a segment, which is registered if it is not yet.
    pub(crate) fn lend(
        &self,
        id: SegmentId,
        shared: &SharedSegment,
    ) -> Result<RemoteSegment, RegisterError> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_this = |slots: &Weak<SlotTable>| {
            slots.upgrade().is_some_and(|slots| Arc::ptr_eq(&slots, &shared.slots))
        };
        if let Some(known) = lent.get(&id).filter(|known| is_this(&known.slots)) {
            return Ok(known.remote.clone());
        }
        lent.retain(|_, known| known.slots.upgrade().is_some_and(|slots| !slots.is_closed()));
        let expose = |memory| self.readers.expose(memory, Access::Read);
        let memory = expose(HeldSlice::whole(Arc::clone(&shared.region)))?;
        let slots = expose(shared.slots.memory())?;
        let remote = RemoteSegment {
            memory: memory.remote().to_bytes().into(),
            slots: slots.remote().to_bytes().into(),
        };
        if !shared.slots.keep_while_lent(Box::new(Keys { memory, slots })) {
            return Err(RegisterError::Closed);
        }
        let slots = Arc::downgrade(&shared.slots);
        lent.insert(id, LentSegment { slots, remote: remote.clone() });
        Ok(remote)
    }

    /// An endpoint for one writer. When it is dropped, the writer reaches nothing any more, whatever it has under way.
    pub(crate) fn open_to_writer(&self) -> Result<Target, OpenError> {
        Target::open(&self.domain)
    }
}
