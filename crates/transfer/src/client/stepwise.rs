//! Reads a reply that differs from the predicted one: a range failed, the peer refuses or breaks the protocol, or it
//! sends keepalives first.

use std::os::fd::BorrowedFd;

use mooncake_connection::Fault;
use mooncake_connection::codec::{Arrival, Awaited, BadFrame, refused};
use mooncake_memory::{Buffer, Wait, copy_checked, recv_bytes};
use mooncake_wire::{HEADER_LEN, Kind, decode_results};

use super::inbound::{Inbound, fine_ranges};

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
        if let Arrival::Part { wanted } = self.head()? {
            let held = self.unread.len();
            self.unread.resize(wanted, 0);
            let received = recv_bytes(socket, &mut self.unread[held..], wait);
            self.unread.truncate(held + received.as_ref().map_or(0, |count| *count));
            received?;
        }
        self.read_head()
    }

    /// How much of the head has arrived: of the statuses, or of what comes in their place.
    fn head(&self) -> Result<Arrival, BadFrame> {
        let kinds = [self.awaited, Kind::Refusal, Kind::Keepalive];
        let max_body = STATUS_BYTES * (self.ranges.len() as u32 + 2);
        let awaited = Awaited { kinds: &kinds, request_id: Some(self.request_id), max_body };
        awaited.look_at(&self.unread)
    }

    /// Decodes the head once all of it has arrived, and moves the bytes behind it to their places.
    pub(super) fn read_head(&mut self) -> Result<(), Fault> {
        while let Arrival::Whole(header) = self.head()? {
            let head_len = header.frame_len();
            if header.kind == Kind::Keepalive {
                self.unread.drain(..head_len);
                continue;
            }
            let body = &self.unread[HEADER_LEN..head_len];
            if header.kind == Kind::Refusal {
                let refusal = refused(body);
                tracing::warn!(%refusal, "a node ended a connection");
                return Err(refusal);
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
            return self.put_in_place(head_len);
        }
        self.stepwise = !self.unread.is_empty();
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
