//! What a node gives to a peer of another host that reads or writes one-sided.

use bytes::Bytes;
use mooncake_fabric::{Access, Exposed, OpenError, Target};
use mooncake_memory::HeldSlice;
use mooncake_types::ErrorCode;
use mooncake_wire::{
    Begun, Header, RemoteSegment, Shared, decode_join, encode_begun, encode_join_reply,
    encode_share_reply,
};

use super::service::{End, Service};
use crate::{FarLender, SharedSegment};

/// An endpoint for one peer, and the address by which the peer reaches it. When it is dropped, the peer reaches nothing by
/// it any more, whatever it has under way.
pub(super) struct FarEndpoint {
    target: Target,
    address: Bytes,
}

impl FarEndpoint {
    /// Opens one for a peer that has none; `None` where a peer has to join first.
    fn open(lender: &FarLender) -> Result<Option<Self>, OpenError> {
        let opened = lender.open_to_writer()?;
        Ok(opened.map(|target| {
            let address = target.address().to_bytes().into();
            Self { target, address }
        }))
    }
}

/// The door for a peer to ranges that it has begun. It is closed before the writes are completed or abandoned: no byte
/// of the peer, however late it comes, is written afterwards.
pub(super) struct FarDoor {
    // The keys go before their endpoint.
    keys: Vec<Exposed>,
    endpoint: FarEndpoint,
}

impl FarDoor {
    /// Gives the peer keys of the ranges that were begun. A range that has none is given up, and no range is without an
    /// endpoint.
    pub(super) fn open<T>(
        lender: &FarLender,
        kept: Option<FarEndpoint>,
        access: Access,
        begun: &mut [Result<T, ErrorCode>],
        held: impl Fn(&T) -> &HeldSlice,
    ) -> (Option<Self>, Begun) {
        let opened = kept.map_or_else(|| FarEndpoint::open(lender), |kept| Ok(Some(kept)));
        let opened = opened.inspect_err(|error| tracing::warn!(%error, "a peer gets no endpoint"));
        let Ok(Some(endpoint)) = opened else { return (None, no_door(begun)) };
        let target = &endpoint.target;
        let mut keys = Vec::with_capacity(begun.len());
        let mut expose = |open: &T| {
            let exposed = target.expose(held(open).clone(), access).map_err(|error| {
                tracing::warn!(%error, "a peer cannot reach a range one-sided");
                ErrorCode::NoAvailableHandle
            })?;
            let memory = Bytes::from(exposed.remote().to_bytes());
            keys.push(exposed);
            Ok(memory)
        };
        let ranges = begun.iter_mut().map(|begun| {
            let memory = expose(begun.as_ref().map_err(|&code| code)?);
            if let Err(code) = memory {
                *begun = Err(code);
            }
            memory
        });
        let ranges = ranges.collect();
        let address = endpoint.address.clone();
        (Some(Self { keys, endpoint }), Begun { address, ranges })
    }

    /// Makes the keys invalid. Keeps the endpoint for further writes of the peer if it says that all of these have
    /// ended; otherwise closes it, as on drop: then nothing that is under way arrives.
    pub(super) fn close(self, have_ended: bool) -> Option<FarEndpoint> {
        let Self { keys, endpoint } = self;
        drop(keys);
        have_ended.then_some(endpoint)
    }
}

impl Service {
    /// Connects the end of a peer of another host with one of this node. It lives as long as the connection, at most.
    pub(super) fn serve_join(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let peer = decode_join(self.body(header)).map_err(|error| End::body(id, &error))?;
        let admitted = match self.lender() {
            Some(lender) => {
                let local = self.connection.stream().local_addr().ok();
                lender.admit(&peer, local.map(|address| address.ip()))
            }
            None => Err("nothing is lent here".to_owned()),
        };
        let answer = admitted.map_err(|reason| {
            tracing::warn!(reason, "a peer of another host cannot join");
            ErrorCode::NoAvailableHandle
        });
        let answer = answer.map(|(target, address)| {
            self.writer = Some(FarEndpoint { target, address: address.clone() });
            address
        });
        self.out.clear();
        encode_join_reply(&mut self.out, id, answer.as_ref().map_err(|&code| code));
        self.send_out()
    }

    /// Tells a peer of another host how it reads a segment.
    pub(super) fn lend(
        &mut self,
        header: &Header,
        lender: &FarLender,
        (segment, shared): (mooncake_types::SegmentId, &SharedSegment),
    ) -> Result<(), End> {
        let lent = lender.lend(segment, shared).map_err(|error| {
            tracing::warn!(%segment, %error, "a segment is not lent to other hosts");
            ErrorCode::NoAvailableHandle
        });
        let len = shared.region.len();
        let lent = lent.map(|remote: RemoteSegment| Shared {
            len,
            address: 0,
            has_memory: false,
            remote: Some(remote),
        });
        self.out.clear();
        encode_share_reply(&mut self.out, header.request_id, lent.as_ref().map_err(|&code| code));
        self.send_out()
    }

    pub(super) fn reply_begun(&mut self, id: u64, begun: &Begun) -> Result<(), End> {
        self.out.clear();
        encode_begun(&mut self.out, id, begun);
        self.send_out()
    }
}

/// The answer if there is no endpoint for the peer.
fn no_door<T>(begun: &mut [Result<T, ErrorCode>]) -> Begun {
    let refuse = |begun: &mut Result<T, ErrorCode>| {
        let code = begun.as_ref().err().copied().unwrap_or(ErrorCode::NoAvailableHandle);
        *begun = Err(code);
        Err(code)
    };
    Begun { address: Bytes::new(), ranges: begun.iter_mut().map(refuse).collect() }
}
