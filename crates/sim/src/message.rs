use bytes::Bytes;
use mooncake_types::{ClientId, Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite};

use crate::extents::Piece;
use crate::node::WriterTicket;
use crate::one_sided::Door;

/// A message on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// To a master: the id of the client that connects.
    Hello(ClientId),
    /// The master's epoch.
    Welcome(Epoch),
    /// The body of a request's frame.
    Request(Bytes),
    /// The body of a reply's frame.
    Reply(Bytes),
    /// To a node: writes a range. Its bytes follow in [`Message::Part`]s. If `is_small`, they come in one part, and
    /// the node begins the write only when it has them.
    Write {
        epoch: Epoch,
        range: RangeWrite<'static>,
        is_small: bool,
    },
    Part(Vec<Piece>),
    /// To a node: the peer wants to write the range itself, into shared memory if both are on one host, else one-sided.
    Begin {
        epoch: Epoch,
        range: RangeWrite<'static>,
    },
    /// The peer may write, under this ticket, and by this door if it is on another host; or the node refused.
    Begun(Result<(WriterTicket, Option<Door>), ErrorCode>),
    /// The peer has written all bytes, or has given up.
    Complete(Result<(), ErrorCode>),
    Drop(RangeDrop),
    /// The peer has a copy of this range, and asks the node for a promise to keep it.
    Promise(RangeRead),
    /// Whether the node promised to keep the range.
    Promised(Result<(), ErrorCode>),
    /// How a write or a drop ended.
    Done(Result<(), ErrorCode>),
    Read(RangeRead),
    Found(Result<Vec<Piece>, ErrorCode>),
    /// The last message: the sender closed its side, or the connection broke.
    Close,
    /// No process runs at the site that the client connected to.
    Deserted,
}
