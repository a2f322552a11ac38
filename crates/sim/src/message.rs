use bytes::Bytes;
use mooncake_types::{ClientId, Epoch, ErrorCode, RangeDrop, RangeRead, RangeWrite};

use crate::extents::Piece;
use crate::node::WriterTicket;

/// What travels over a connection.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// To a master: who connects.
    Hello(ClientId),
    /// The master's epoch.
    Welcome(Epoch),
    /// The body of a request's frame.
    Request(Bytes),
    /// The body of a reply's frame.
    Reply(Bytes),
    /// To a node: bytes of this range follow, in one part if `is_small`, and then the node does nothing with them before
    /// all are there.
    Write {
        epoch: Epoch,
        range: RangeWrite<'static>,
        is_small: bool,
    },
    Part(Vec<Piece>),
    /// The peer wants to write this range by itself.
    Begin {
        epoch: Epoch,
        range: RangeWrite<'static>,
    },
    /// It may, and its writer has this ticket.
    Begun(Result<WriterTicket, ErrorCode>),
    /// It has, or has given up.
    Complete(Result<(), ErrorCode>),
    Drop(RangeDrop),
    /// The peer has a copy of this range.
    Promise(RangeRead),
    /// Whether the node promises to hold it for a while.
    Promised(Result<(), ErrorCode>),
    /// How a write or a drop ended.
    Done(Result<(), ErrorCode>),
    Read(RangeRead),
    Found(Result<Vec<Piece>, ErrorCode>),
    /// Nothing follows: the sender has closed its side, or the connection broke.
    Close,
    /// Nobody listens at the port that was to be connected to.
    Deserted,
}
