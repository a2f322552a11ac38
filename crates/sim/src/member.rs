//! A process of a client, as far as it asks others: its threads and what they share.

use bytes::Bytes;
use mooncake_types::{ClientId, Request, SegmentId};
use mooncake_wire::HEADER_LEN;

use crate::beat::Beat;
use crate::clock::Clock;
use crate::desk::Desk;
use crate::fiber::Fiber;
use crate::host::Host;
use crate::hot::HotCache;
use crate::ids::{Process, Site};
use crate::net::Net;
use crate::verbs::Routes;

/// The thread that does what an engine asks for.
pub(crate) const CALLER: usize = 0;
/// The thread that carries out tasks of the master.
pub(crate) const CARRIER: usize = 1;
/// The thread that renews leases.
pub(crate) const RENEWER: usize = 2;
/// The thread that takes segments back and lends others.
pub(crate) const LENDER: usize = 3;
const FIBERS: usize = 4;

pub(crate) struct Member {
    /// Its place among the members and hosts.
    pub(crate) number: usize,
    pub(crate) process: Process,
    pub(crate) client: ClientId,
    pub(crate) clock: Clock,
    pub(crate) beat: Beat,
    pub(crate) fibers: [Fiber; FIBERS],
    pub(crate) routes: Routes,
    pub(crate) hot: HotCache,
    pub(crate) own: &'static [SegmentId],
    /// Segments that could not be reached, and when the master was told.
    pub(crate) doubts: Vec<(SegmentId, u64)>,
}

/// What all processes share.
pub(crate) struct Around<'w> {
    pub(crate) net: &'w mut Net,
    pub(crate) desk: &'w mut Desk,
    pub(crate) hosts: &'w mut [Host],
}

impl Member {
    pub(crate) fn new(
        process: Process,
        client: ClientId,
        clock: Clock,
        beat: Beat,
        own: &'static [SegmentId],
    ) -> Self {
        let Site::Member(number) = process.site else { unreachable!("a member's site") };
        Self {
            number,
            process,
            client,
            clock,
            beat,
            fibers: std::array::from_fn(|_| Fiber::default()),
            routes: Routes::new(),
            hot: HotCache::default(),
            own,
            doubts: Vec::new(),
        }
    }

    /// A node could not be reached: the master is told with the next ping, which comes at once.
    pub(crate) fn doubt(&mut self, segment: SegmentId, around: &mut Around<'_>) {
        const INTERVAL_US: u64 = 100_000;
        let now_us = around.net.now_us;
        self.doubts.retain(|(_, at)| at + INTERVAL_US > now_us);
        if self.doubts.iter().all(|(known, _)| *known != segment) {
            self.doubts.push((segment, now_us));
            self.beat.report(segment);
            self.beat.wake(self.process, around.net);
        }
    }
}

/// The body of a request's frame.
pub(crate) fn encode(request: &Request<'_>) -> Bytes {
    let mut frame = Vec::new();
    mooncake_wire::encode_request(&mut frame, 0, request);
    Bytes::from(frame).slice(HEADER_LEN..)
}
