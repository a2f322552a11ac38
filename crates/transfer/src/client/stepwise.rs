//! Reads a reply that differs from the predicted one: a range failed, the peer refuses or breaks the protocol, or it
//! sends keepalives first.

use std::os::fd::BorrowedFd;

use mooncake_memory::{Buffer, Wait, copy_checked, recv_bytes};
use mooncake_wire::{HEADER_LEN, Header, Kind, decode_refusal, decode_results};

use super::inbound::{Inbound, fine_ranges};
use mooncake_connection::Fault;

/// Generous limit for the encoding of one status, and for the bytes around all of them.
const STATUS_BYTES: u32 = 32;

impl Inbound<'_> {
    /// Collects the bytes that were received in place behind an unpredicted head.
    pub(super) fn gather_up(&mut self, mut rest: usize) {
        self.unread.clear();
        self.unread.extend_from_slice(&self.bytes[..self.received]);
        for piece in &self.pieces {
            let len = rest.min(piece.len());
            self.unread.extend_from_slice(&piece.sub(0, len).to_vec());
            rest -= len;
        }
        self.unread.extend_from_slice(&self.bytes[self.head_len..self.head_len + rest]);
        self.received = 0;
        self.stepwise = true;
    }

    /// Receives what the head still lacks, and no more.
    pub(super) fn recv_stepwise(
        &mut self,
        socket: BorrowedFd<'_>,
        wait: Wait,
    ) -> Result<(), Fault> {
        let held = self.unread.len();
        let wanted = self.head_wanted()?;
        if wanted > held {
            self.unread.resize(wanted, 0);
            let received = recv_bytes(socket, &mut self.unread[held..], wait);
            self.unread.truncate(held + received.as_ref().map_or(0, |count| *count));
            received?;
        }
        self.read_head()
    }

    /// Length of the head, as far as it is known.
    fn head_wanted(&self) -> Result<usize, Fault> {
        let Some(bytes) = self.unread.first_chunk::<HEADER_LEN>() else { return Ok(HEADER_LEN) };
        let header = Header::decode(bytes)?;
        let expected = self.awaited;
        let limit = STATUS_BYTES * (self.ranges.len() as u32 + 2);
        match header.kind {
            Kind::Refusal => {}
            kind if kind != expected && kind != Kind::Keepalive => {
                return Err(Fault::Protocol(format!("a {kind:?} frame came for a {expected:?}")));
            }
            _ if header.request_id != self.request_id => {
                let (found, wanted) = (header.request_id, self.request_id);
                return Err(Fault::Protocol(format!("reply {found} came for request {wanted}")));
            }
            _ if header.body_len > limit => {
                let (len, count) = (header.body_len, self.ranges.len());
                let reason = format!("{len} bytes are too many for the statuses of {count} ranges");
                return Err(Fault::Protocol(reason));
            }
            _ => {}
        }
        Ok(HEADER_LEN + header.body_len as usize)
    }

    /// Decodes the head once all of it has arrived, and moves the bytes behind it to their places.
    pub(super) fn read_head(&mut self) -> Result<(), Fault> {
        self.skip_keepalives()?;
        if self.unread.is_empty() {
            self.stepwise = false;
            return Ok(());
        }
        let head_len = self.head_wanted()?;
        let Some(head) = self.unread.get(..head_len) else { return Ok(()) };
        let Some((header, body)) = head.split_first_chunk::<HEADER_LEN>() else { return Ok(()) };
        if Header::decode(header)?.kind == Kind::Refusal {
            let refusal = decode_refusal(body)?;
            tracing::warn!(%refusal, "a node ended a connection");
            return Err(Fault::Refused(refusal));
        }
        let statuses = decode_results(body)?;
        if statuses.len() != self.ranges.len() {
            let (found, wanted) = (statuses.len(), self.ranges.len());
            return Err(Fault::Protocol(format!("{found} statuses came for {wanted} ranges")));
        }
        self.statuses = statuses;
        self.keep_pieces_of_fine_ranges();
        self.lay_out(head_len);
        (self.head_known, self.stepwise, self.received) = (true, false, head_len);
        self.put_in_place(head_len)
    }

    fn skip_keepalives(&mut self) -> Result<(), Fault> {
        while let Some(header) = self.unread.first_chunk::<HEADER_LEN>()
            && Header::decode(header)?.kind == Kind::Keepalive
        {
            let len = self.head_wanted()?;
            self.unread.drain(..len);
        }
        Ok(())
    }

    fn keep_pieces_of_fine_ranges(&mut self) {
        let mut from = 0;
        let starts: Vec<usize> = self
            .ranges
            .iter()
            .map(|range| {
                from += range.pieces;
                from - range.pieces
            })
            .collect();
        let kept = fine_ranges(&self.ranges, &self.statuses)
            .flat_map(|(index, range)| &self.pieces[starts[index]..starts[index] + range.pieces])
            .copied()
            .collect();
        self.pieces = kept;
    }

    /// Copies the bytes behind the head to their places. What is left begins the next reply.
    fn put_in_place(&mut self, head_len: usize) -> Result<(), Fault> {
        let unread = Buffer::from_vec(std::mem::take(&mut self.unread));
        let mut from = head_len;
        for index in 0..self.pieces.len() {
            let piece = self.pieces[index];
            let len = piece.len().min(unread.len() - from);
            copy_checked(unread.raw().sub(from, len), piece.sub(0, len))?;
            from += len;
        }
        let behind = self.fill_pieces(unread.len() - head_len);
        let len = behind.min(self.bytes.len() - head_len);
        self.bytes[head_len..head_len + len].copy_from_slice(&unread.as_slice()[from..from + len]);
        self.received += len;
        self.unread = unread.as_slice()[from + len..].to_vec();
        Ok(())
    }
}
