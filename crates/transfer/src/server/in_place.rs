//! Writes that the peer makes by itself, in memory that it shares with this process.

use std::cmp::Reverse;
use std::net::Shutdown;
use std::sync::Arc;

use bytes::Bytes;
use mooncake_types::{Epoch, ErrorCode, RangeWrite};
use mooncake_wire::{
    Header, Kind, decode_complete, decode_write, encode_begin_reply, encode_complete_reply,
};

use super::connection::{Connection, End, Service};
use super::open_write::OpenWrite;
use crate::{Interrupt, SegmentHost, stream};

/// Tells a peer that writes in place to stop. This side goes on listening: until the peer has closed its side, or said
/// what it completed, it may still be writing, and its tickets stay open.
struct AskToStop(Arc<Connection>);

impl Interrupt for AskToStop {
    fn interrupt(&self) {
        // Fails only if the connection has ended already.
        let _ = self.0.stream().shutdown(Shutdown::Write);
    }
}

type Begun<'a> = Vec<Result<OpenWrite<'a>, ErrorCode>>;

/// Begins all ranges, those of the newest grants first: who waits for an older writer then holds nothing that is older
/// still, so no two peers can wait for each other. The results are in the order of the ranges.
fn begin_all<'a>(
    host: &'a dyn SegmentHost,
    epoch: Epoch,
    ranges: &[RangeWrite<'_>],
    connection: &Arc<Connection>,
) -> Begun<'a> {
    let stop: Arc<dyn Interrupt> = Arc::new(AskToStop(Arc::clone(connection)));
    let begin = |range: &RangeWrite<'_>| {
        let ticket = host.begin_write(epoch, range, Arc::clone(&stop))?;
        let is_whole = ticket.memory.len() as u64 == range.len;
        let open = OpenWrite::new(host, ticket);
        if is_whole { Ok(open) } else { Err(ErrorCode::InternalError) }
    };
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&index| Reverse(ranges[index].grant));
    let mut begun: Vec<_> = order.into_iter().map(|index| (index, begin(&ranges[index]))).collect();
    begun.sort_by_key(|&(index, _)| index);
    begun.into_iter().map(|(_, begun)| begun).collect()
}

impl Service {
    /// Lets the peer write ranges, and waits, for as long as its connection lasts, until it says what it has done.
    pub(super) fn serve_begin(&mut self, header: &Header) -> Result<(), End> {
        let id = header.request_id;
        let body = Bytes::copy_from_slice(self.body(header)?);
        let message = decode_write(body).map_err(|error| End::body(id, &error))?;
        let ranges = message.ranges().map_err(|error| End::body(id, &error))?;
        let host = Arc::clone(&self.host);
        let begun = begin_all(&*host, message.epoch(), &ranges, &self.connection);
        let results: Vec<_> =
            begun.iter().map(|begun| begun.as_ref().map(|_| ()).map_err(|&code| code)).collect();
        self.out.clear();
        encode_begin_reply(&mut self.out, id, &results);
        stream::send_all(self.connection.stream(), &self.out, &[], false)?;
        self.finish_begun(begun)
    }

    fn finish_begun(&mut self, begun: Begun<'_>) -> Result<(), End> {
        let header = self.next_header()?;
        let id = header.request_id;
        if header.kind != Kind::Complete {
            let message = format!("a Begin is followed by Complete, not by {:?}", header.kind);
            return Err(End::broken(id, message));
        }
        let done = decode_complete(self.body(&header)?).map_err(|error| End::body(id, &error))?;
        if done.len() != begun.len() {
            let message = format!("{} ranges began, not {}", begun.len(), done.len());
            return Err(End::broken(id, message));
        }
        let finish = |(begun, done): (Result<OpenWrite<'_>, ErrorCode>, Result<(), ErrorCode>)| {
            let open = begun?;
            done?;
            open.complete(Vec::new())
        };
        let results: Vec<_> = begun.into_iter().zip(done).map(finish).collect();
        self.out.clear();
        encode_complete_reply(&mut self.out, id, &results);
        Ok(stream::send_all(self.connection.stream(), &self.out, &[], false)?)
    }
}
