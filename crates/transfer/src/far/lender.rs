use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use mooncake_fabric::{
    Access, Address, Domain, Exposed, OpenError, RegisterError, Revocation, Target,
};
use mooncake_memory::{HeldSlice, Registration, SlotTable};
use mooncake_types::SegmentId;
use mooncake_wire::{RemoteSegment, TransportDescriptor};

use crate::SharedSegment;

/// Lends the segments of a node to peers that read and write them one-sided.
pub struct FarLender {
    domain: Arc<Domain>,
    /// What peers read. It is replaced once it was closed.
    readers: Mutex<Arc<Target>>,
    lent: Mutex<HashMap<SegmentId, LentSegment>>,
}

/// How peers read a segment.
struct LentSegment {
    slots: Weak<SlotTable>,
    readers: Arc<Target>,
    remote: RemoteSegment,
}

/// The keys of a segment, valid for as long as it is lent.
#[derive(Debug)]
struct Keys {
    #[expect(dead_code, reason = "held for its drop")]
    memory: Exposed,
    #[expect(dead_code, reason = "held for its drop")]
    slots: Exposed,
    /// Closed with the lender, if not before.
    readers: Weak<Target>,
    revocation: Revocation,
}

impl Registration for Keys {}

impl Drop for Keys {
    /// The memory may be unmapped next, while a read of it is under way. Where a key does not stop that, the endpoint is
    /// closed. Readers of other segments then greet the node anew.
    fn drop(&mut self) {
        if let (Revocation::Endpoint, Some(readers)) = (self.revocation, self.readers.upgrade()) {
            readers.close();
        }
    }
}

impl fmt::Debug for FarLender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FarLender({:?})", self.domain)
    }
}

impl FarLender {
    /// Opens an endpoint for readers.
    ///
    /// # Errors
    /// The provider refuses.
    pub fn open(domain: &Arc<Domain>) -> Result<Self, OpenError> {
        let readers = Mutex::new(Arc::new(Target::open(domain)?));
        Ok(Self { domain: Arc::clone(domain), readers, lent: Mutex::default() })
    }

    /// What peers are told of it; `None` if there is no endpoint for them.
    pub(crate) fn descriptor(&self) -> Option<TransportDescriptor> {
        let readers = self.readers().inspect_err(|error| {
            tracing::warn!(%error, "peers of other hosts cannot read one-sided");
        });
        let address = readers.ok()?.address().to_bytes().into();
        Some(TransportDescriptor { kind: self.domain.device().transport(), address })
    }

    fn readers(&self) -> Result<Arc<Target>, OpenError> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.is_closed() {
            *readers = Arc::new(Target::open(&self.domain)?);
        }
        Ok(Arc::clone(&readers))
    }

    /// How peers read a segment, which is registered if it is not yet.
    pub(crate) fn lend(
        &self,
        id: SegmentId,
        shared: &SharedSegment,
    ) -> Result<RemoteSegment, RegisterError> {
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        let readers = self.readers().map_err(|_| RegisterError::Closed)?;
        let is_this = |known: &&LentSegment| {
            let is_same = |slots: Arc<SlotTable>| Arc::ptr_eq(&slots, &shared.slots);
            Arc::ptr_eq(&known.readers, &readers) && known.slots.upgrade().is_some_and(is_same)
        };
        if let Some(known) = lent.get(&id).filter(is_this) {
            return Ok(known.remote.clone());
        }
        lent.retain(|_, known| known.slots.upgrade().is_some_and(|slots| !slots.is_closed()));
        let expose = |memory| readers.expose(memory, Access::Read);
        let memory = expose(HeldSlice::whole(Arc::clone(&shared.region)))?;
        let slots = expose(shared.slots.memory())?;
        let remote = RemoteSegment {
            memory: memory.remote().to_bytes().into(),
            slots: slots.remote().to_bytes().into(),
        };
        let revocation = self.domain.device().revocation();
        let keys = Keys { memory, slots, readers: Arc::downgrade(&readers), revocation };
        if !shared.slots.keep_while_lent(Box::new(keys)) {
            return Err(RegisterError::Closed);
        }
        let slots = Arc::downgrade(&shared.slots);
        lent.insert(id, LentSegment { slots, readers, remote: remote.clone() });
        Ok(remote)
    }

    /// An endpoint for one writer. When it is dropped, the writer reaches nothing any more, whatever it has under way.
    /// `None` where a peer has to join first.
    pub(crate) fn open_to_writer(&self) -> Result<Option<Target>, OpenError> {
        if self.domain.device().joins_in_pairs() {
            return Ok(None);
        }
        Target::open(&self.domain).map(Some)
    }

    /// An endpoint for the peer that has these ends of a connection, and the address of the other ends. When it is dropped,
    /// the peer reaches nothing by it any more.
    /// `via` is the address of this host by which the peer is connected.
    pub(crate) fn admit(
        &self,
        peer: &[u8],
        via: Option<IpAddr>,
    ) -> Result<(Target, Bytes), String> {
        let peer = Address::from_bytes(peer).map_err(|error| error.to_string())?;
        let target = Target::open(&self.domain).map_err(|error| error.to_string())?;
        let address = target.admit(&peer, via).map_err(|error| error.to_string())?;
        Ok((target, address.to_bytes().into()))
    }
}
