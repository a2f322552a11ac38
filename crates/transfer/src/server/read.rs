//! Requests for ranges. Disks are read for those that have arrived while earlier replies are sent.

use std::collections::VecDeque;
use std::sync::Arc;

use mooncake_calls::{Stage, around};
use mooncake_connection::codec::{Arrival, Awaited};
use mooncake_memory::{WorkAhead, with_helpers_ahead, with_waiting_helpers};
use mooncake_types::limits::MAX_FRAME_PAYLOAD_BYTES;
use mooncake_types::{ErrorCode, RangeRead};
use mooncake_wire::{HEADER_LEN, Header, Kind, decode_read};

use super::server_context::ServerContext;
use super::service::{End, Service};
use crate::begin_reads::{begin_read, disk_order};
use crate::{ReadTicket, SegmentHost};

/// Most payload that is read from disks for requests behind the one that is answered: as much as a client asks for
/// ahead of replies.
const AHEAD_BYTES: u64 = 8 << 20;

/// About how much is read from disks at a time for one connection. Reads at the same time share the disk, and end
/// together: were there more of them, the first reply would have to wait for longer.
const BYTES_AT_ONCE: u64 = 4 << 20;

/// A request for ranges.
struct ReadRequest {
    id: u64,
    ranges: Vec<RangeRead>,
    /// How many of the ranges are read. Those behind them exceed what one frame may ask for.
    admitted: usize,
    /// Which of these lie on disks, in the order in which they are read.
    on_disk: Vec<usize>,
}

impl ReadRequest {
    fn new(host: &dyn SegmentHost, id: u64, ranges: Vec<RangeRead>) -> Self {
        let admitted = admitted(&ranges);
        let on_disk = disk_order(host, ranges[..admitted].iter().enumerate());
        Self { id, ranges, admitted, on_disk }
    }

    /// The outcomes of all ranges, given those that are read.
    fn with_rest(&self, read: impl Iterator<Item = Begun>) -> Vec<Begun> {
        let refused = self.admitted..self.ranges.len();
        read.chain(refused.map(|_| Err(ErrorCode::InvalidParams))).collect()
    }

    fn bytes(&self) -> u64 {
        self.ranges.iter().fold(0, |sum, range| sum.saturating_add(range.len))
    }

    /// How many ranges as long as these are read at the same time.
    fn reads_at_once(&self) -> usize {
        let mean = self.bytes() / self.ranges.len().max(1) as u64;
        usize::try_from(BYTES_AT_ONCE / mean.max(1)).unwrap_or(usize::MAX).max(1)
    }

    fn ranges_on_disk(&self) -> impl Iterator<Item = RangeRead> {
        self.on_disk.iter().map(|&at| self.ranges[at])
    }
}

/// How many of the first ranges one frame may ask for: a longer range travels alone. So no peer takes more staging
/// memory of a disk or a GPU than one range needs, or a frame of short ones.
fn admitted(ranges: &[RangeRead]) -> usize {
    let mut bytes = 0_u64;
    let fits = |range: &&RangeRead| {
        bytes = bytes.saturating_add(range.len);
        bytes <= MAX_FRAME_PAYLOAD_BYTES
    };
    ranges.iter().take_while(fits).count().max(ranges.len().min(1))
}

type Begun = Result<ReadTicket, ErrorCode>;

/// Reads of disks that are done ahead of the replies.
type DiskReads<'a> = WorkAhead<'a, RangeRead, Begun>;

impl ServerContext {
    /// Finds the bytes of a range that the master has let the peer read, or reads them from the disk.
    fn begin_read(&self, range: &RangeRead) -> Begun {
        self.gate(Kind::Read).check_read(range)?;
        begin_read(&*self.host, range)
    }
}

impl Service {
    /// Answers a request for ranges, and if some lie on disks, also the requests for ranges on disks behind it.
    pub(super) fn serve_read(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let ranges = decode_read(self.body(header)).map_err(|error| End::body(id, &error))?;
        let request = ReadRequest::new(&*self.host, id, ranges);
        if request.on_disk.is_empty() {
            let begin = |range| self.context.begin_read(range);
            let begun = request.with_rest(request.ranges[..request.admitted].iter().map(begin));
            return self.answer_read(id, begun);
        }
        let context = Arc::clone(&self.context);
        let begin = |range| context.begin_read(&range);
        with_helpers_ahead(request.reads_at_once(), begin, |disk| {
            disk.queue(request.ranges_on_disk());
            let mut requests = VecDeque::from([request]);
            for number in 0.. {
                self.take_requests_behind(&mut requests, disk);
                let Some(request) = requests.pop_front() else { break };
                let begun = self.await_disk(&request, disk, number > 0);
                self.answer_read(request.id, begun)?;
            }
            Ok(())
        })
    }

    /// Adds the requests for ranges on disks that have arrived behind these, and has the disks read for them.
    fn take_requests_behind(
        &mut self,
        requests: &mut VecDeque<ReadRequest>,
        disk: &mut DiskReads<'_>,
    ) {
        let mut bytes = requests.iter().map(ReadRequest::bytes).fold(0, u64::saturating_add);
        self.receiver.fill_now(self.connection.stream());
        let inbox = &mut self.receiver.inbox;
        while let Ok(Arrival::Whole(header)) = inbox.look_for(&Awaited::any_of(&[Kind::Read]))
            && let Ok(ranges) = decode_read(&inbox.held()[HEADER_LEN..header.frame_len()])
        {
            let request = ReadRequest::new(&*self.host, header.request_id, ranges);
            bytes = bytes.saturating_add(request.bytes());
            if request.on_disk.is_empty() || bytes > AHEAD_BYTES {
                break;
            }
            inbox.take(header.frame_len());
            disk.queue(request.ranges_on_disk());
            requests.push_back(request);
        }
    }

    /// The outcomes for a request whose ranges on disks are the next that `disk` reads.
    fn await_disk(
        &self,
        request: &ReadRequest,
        disk: &mut DiskReads<'_>,
        was_ahead: bool,
    ) -> Vec<Begun> {
        let _keepalive = self.keepalive(request.id);
        let mut begun: Vec<Option<Begun>> = (0..request.admitted).map(|_| None).collect();
        around(Stage::Disk, || request.on_disk.iter().for_each(|&at| begun[at] = disk.take()));
        if was_ahead {
            self.read_again(request, &mut begun);
        }
        let begin = |(range, begun): (_, Option<Begun>)| {
            begun.unwrap_or_else(|| self.context.begin_read(range))
        };
        request.with_rest(request.ranges.iter().zip(begun).map(begin))
    }

    /// Reads what found no free memory: earlier replies that waited to be sent had it.
    fn read_again(&self, request: &ReadRequest, begun: &mut [Option<Begun>]) {
        let is_busy = |at: &usize| matches!(begun[*at], Some(Err(ErrorCode::ObjectReplicaBusy)));
        let busy: Vec<usize> = request.on_disk.iter().copied().filter(is_busy).collect();
        let again = with_waiting_helpers(&busy, |&at| self.context.begin_read(&request.ranges[at]));
        busy.into_iter().zip(again).for_each(|(at, again)| begun[at] = Some(again));
    }
}
