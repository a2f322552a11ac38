//! The client half of a process: its threads, and what they share.

use bytes::Bytes;
use mooncake_types::{ClientId, Request, SegmentId};
use mooncake_wire::HEADER_LEN;

use crate::beat::Beat;
use crate::clock::Clock;
use crate::fiber::Fiber;
use crate::host::Host;
use crate::hot::HotCache;
use crate::ids::{Process, Site};
use crate::net::Net;
use crate::run_state::RunState;
use crate::verbs::Routes;

/// The thread that runs the operations of an engine.
pub(crate) const CALLER: usize = 0;
/// The thread that runs tasks of the master.
pub(crate) const CARRIER: usize = 1;
/// The thread that renews leases of routes.
pub(crate) const RENEWER: usize = 2;
/// The thread that takes segments back and lends them again.
pub(crate) const LENDER: usize = 3;
const FIBERS: usize = 4;

pub(crate) struct Member {
    /// Its index among the members and hosts.
    pub(crate) number: usize,
    pub(crate) process: Process,
    pub(crate) client: ClientId,
    pub(crate) clock: Clock,
    pub(crate) beat: Beat,
    pub(crate) fibers: [Fiber; FIBERS],
    pub(crate) routes: Routes,
    pub(crate) hot: HotCache,
    pub(crate) own: &'static [SegmentId],
    /// Segments that could not be reached, and when that was reported to the master.
    pub(crate) doubts: Vec<(SegmentId, u64)>,
}

/// The rest of the world, as an event at one member sees it.
pub(crate) struct EventContext<'w> {
    pub(crate) net: &'w mut Net,
    pub(crate) run_state: &'w mut RunState,
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

    /// Reports a node that could not be reached, with a ping at once. Each segment is reported every 100 ms at most.
    pub(crate) fn doubt(&mut self, segment: SegmentId, around: &mut EventContext<'_>) {
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
