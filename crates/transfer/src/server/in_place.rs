//! Writes that the peer makes directly into memory of this process: memory that both share, or one-sided.

use std::cmp::Reverse;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mooncake_fabric::Access;
use mooncake_memory::{Interest, poll_sockets};
use mooncake_types::limits::MAX_BEGIN_RANGES;
use mooncake_types::mutation::{Rule, is_broken};
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use mooncake_wire::{Header, Kind, decode_complete, decode_write};

use super::connection::PeerConnection;
use super::far_write::FarDoor;
use super::served::Arrival;
use super::server_context::ServerContext;
use super::service::{End, Service};
use crate::open_write::OpenWrite;
use crate::{FarLender, Interrupt, SegmentHost};

/// A range that takes longer to begin had to wait for an older writer. The peer may have gone meanwhile.
const WAITED: Duration = Duration::from_millis(1);

/// Asks a peer that writes in place to stop. The peer may still be writing until it closes its side, or reports what
/// it completed. Until then, this side keeps receiving and the tickets stay open.
struct AskToStop {
    connection: Arc<PeerConnection>,
    asked: AtomicBool,
}

impl Interrupt for AskToStop {
    fn interrupt(&self) {
        self.asked.store(true, Ordering::Release);
        // Fails only if the connection has ended already.
        let _ = self.connection.stream().shutdown(Shutdown::Write);
    }
}

/// What a peer says about ranges that it has begun.
pub(super) struct Completed {
    pub(super) id: u64,
    pub(super) done: Vec<Result<(), ErrorCode>>,
    /// Whether requests of it may still be under way, though others have moved the bytes.
    may_be_late: bool,
}

pub(super) type BegunWrites<'a> = Vec<Result<OpenWrite<'a>, ErrorCode>>;

/// Begins all ranges, those of the newest grants first: a peer that waits for an older writer then holds only newer
/// ranges, so no two peers wait for each other. The results are in the order of the ranges. If the peer is gone, or
/// was asked to stop before it could begin, all are abandoned.
fn begin_all<'a>(
    (host, context): (&'a dyn SegmentHost, &ServerContext),
    epoch: Epoch,
    ranges: &[RangeWrite<'_>],
    (connection, is_far): (&Arc<PeerConnection>, bool),
) -> io::Result<BegunWrites<'a>> {
    let gate = context.gate(Kind::Begin);
    let asked = AtomicBool::new(false);
    let stop = Arc::new(AskToStop { connection: Arc::clone(connection), asked });
    let begin = |range: &RangeWrite<'_>| {
        gate.check_write(epoch, range)?;
        let is_lent =
            host.share(range.segment).is_some() || (is_far && host.exposes(range.segment));
        // The memory is not shared: the peer would write where the node does not look.
        if !is_lent && host.owns(range.segment) {
            return Err(ErrorCode::InvalidParams);
        }
        // A peer of another host is not waited for: without its keys it writes nothing.
        let interrupt = match is_far {
            true => Arc::clone(connection) as Arc<dyn Interrupt>,
            false => Arc::clone(&stop) as Arc<dyn Interrupt>,
        };
        OpenWrite::begin(host, epoch, range, interrupt)
    };
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&index| Reverse(ranges[index].grant));
    let mut begun = Vec::with_capacity(order.len());
    for index in order {
        let started = Instant::now();
        begun.push((index, begin(&ranges[index])));
        let is_stopped = connection.is_interrupted() || stop.asked.load(Ordering::Acquire);
        let has_waited = started.elapsed() >= WAITED;
        if is_stopped || (has_waited && has_hung_up(connection.stream())) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
    }
    begun.sort_by_key(|&(index, _)| index);
    Ok(begun.into_iter().map(|(_, begun)| begun).collect())
}

/// Whether the peer has closed its side. A peer that waits for its reply sends nothing.
fn has_hung_up(stream: &TcpStream) -> bool {
    let mut sockets = [(stream.as_fd(), Interest { read: true, write: false })];
    let polled = poll_sockets(&mut sockets, Duration::ZERO);
    polled.is_ok() && sockets[0].1.read && !matches!(stream.peek(&mut [0]), Ok(1))
}

impl Service {
    /// Lets the peer write ranges in place, and waits for its results for as long as the connection lasts.
    pub(super) fn serve_begin(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let body = Bytes::copy_from_slice(self.body(header));
        let message = decode_write(body).map_err(|error| End::body(id, &error))?;
        let ranges = message.ranges().map_err(|error| End::body(id, &error))?;
        if ranges.len() > MAX_BEGIN_RANGES {
            let message = format!("{} ranges are too many to begin together", ranges.len());
            return Err(End::broken(id, message));
        }
        let host = Arc::clone(&self.host);
        let lender = self.lender();
        let by = (&self.connection, lender.is_some());
        let begun = begin_all((&*host, &self.context), message.epoch(), &ranges, by)?;
        if let Some(lender) = lender {
            return self.serve_far_writes(id, &lender, begun);
        }
        let results: Vec<_> =
            begun.iter().map(|begun| begun.as_ref().map(|_| ()).map_err(|&code| code)).collect();
        self.reply(Kind::BeginReply, id, &results)?;
        self.finish_begun(begun)
    }

    fn finish_begun(&mut self, begun: BegunWrites<'_>) -> Result<(), End> {
        let Completed { id, done, .. } = self.await_complete(begun.len(), None)?;
        self.complete_begun(id, Arrival::InPlace, begun, done)
    }

    /// As [`Service::serve_begin`], for a peer of another host. The door closes before anything is completed or
    /// abandoned.
    fn serve_far_writes(
        &mut self,
        id: u64,
        lender: &FarLender,
        mut begun: BegunWrites<'_>,
    ) -> Result<(), End> {
        let kept = self.writer.take();
        let (door, answer) = FarDoor::open(lender, kept, Access::Write, &mut begun, |it| it.held());
        let mut writing = FarWriting { door, begun };
        self.reply_begun(id, &answer)?;
        let Completed { id, done, may_be_late } = self.await_complete(writing.begun.len(), None)?;
        let begun = std::mem::take(&mut writing.begun);
        let have_ended =
            begun.iter().zip(&done).all(|(begun, done)| begun.is_err() || done.is_ok());
        let is_over = have_ended && !may_be_late;
        self.writer = writing.door.take().and_then(|door| door.close(is_over));
        self.complete_begun(id, Arrival::Fabric, begun, done)
    }

    /// Waits for the results of so many ranges, until a time if there is one.
    pub(super) fn await_complete(
        &mut self,
        count: usize,
        until: Option<Instant>,
    ) -> Result<Completed, End> {
        let asked = if until.is_some() { "an Expose" } else { "a Begin" };
        let other = |kind| format!("{asked} is followed by Complete, not by {kind:?}");
        let header = self.next_frame_until(until, &[Kind::Complete], other)?;
        let id = header.request_id;
        let completed = decode_complete(self.body(&header));
        let (done, may_be_late) = completed.map_err(|error| End::body(id, &error))?;
        if done.len() != count {
            return Err(End::broken(id, format!("{count} ranges began, not {}", done.len())));
        }
        Ok(Completed { id, done, may_be_late })
    }

    fn complete_begun(
        &mut self,
        id: u64,
        arrival: Arrival,
        begun: BegunWrites<'_>,
        done: Vec<Result<(), ErrorCode>>,
    ) -> Result<(), End> {
        let finish = |(begun, done): (Result<OpenWrite<'_>, ErrorCode>, Result<(), ErrorCode>)| {
            let open = begun?;
            done?;
            open.complete(Vec::new())
        };
        let len = |begun: &Result<OpenWrite<'_>, ErrorCode>| {
            begun.as_ref().map_or(0, |open| open.memory().len() as u64)
        };
        let lens: Vec<u64> = begun.iter().map(len).collect();
        let results: Vec<_> = begun.into_iter().zip(done).map(finish).collect();
        let complete = lens.into_iter().zip(&results).filter(|(_, result)| result.is_ok());
        self.context.config.served.on_received(arrival, complete.map(|(len, _)| len));
        self.reply(Kind::CompleteReply, id, &results)
    }
}

/// One-sided writes that are under way. If the connection ends, the door goes first: the ranges are abandoned when the
/// peer reaches them no more.
struct FarWriting<'a> {
    door: Option<FarDoor>,
    begun: BegunWrites<'a>,
}

impl Drop for FarWriting<'_> {
    fn drop(&mut self) {
        if is_broken(Rule::WritersAreShutOut) {
            std::mem::forget(self.door.take());
        }
        drop(self.door.take());
        self.begun.clear();
    }
}
