use bytes::Bytes;
use mooncake_types::{
    DummyReply, DummyRequest, Epoch, ErrorCode, Follow, FollowPage, RangeDrop, RangeRead,
    RangeWrite, Reply, Request, Seal, SegmentId,
};
use mooncake_wire as wire;
use mooncake_wire::{DecodeError, HEADER_LEN, Header, Hello, Kind, Refusal, Shared, Welcome};

/// The content of a frame of each kind.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame<'a> {
    Hello(Hello),
    Welcome(Welcome),
    Challenge(wire::Nonce),
    Proof(wire::Proof),
    Refusal(Refusal),
    Request(Request<'a>),
    Reply(Reply),
    Read(Vec<RangeRead>),
    Write(Epoch, Vec<RangeWrite<'a>>),
    Drop(Vec<(RangeDrop, Seal)>),
    Follow(Follow),
    FollowReply(Result<(SegmentId, FollowPage<'a>), ErrorCode>),
    Share(SegmentId),
    ShareReply(Result<Shared, ErrorCode>),
    Begin(Epoch, Vec<RangeWrite<'a>>),
    Begun(wire::Begun),
    Expose(Vec<RangeRead>),
    Join(Bytes),
    JoinReply(Result<Bytes, ErrorCode>),
    Pin(Vec<RangeRead>),
    Unpin(Vec<u64>),
    Promise(Vec<RangeRead>),
    /// One result for each range, in a frame of this kind.
    Results(Kind, Vec<Result<(), ErrorCode>>),
    Keepalive,
    DummyRequest(DummyRequest<'a>),
    DummyReply(DummyReply),
}

impl Frame<'_> {
    /// Encodes header and body.
    pub(crate) fn encode(&self, request_id: u64) -> Vec<u8> {
        let (mut bytes, id) = (Vec::new(), request_id);
        let out = &mut bytes;
        match self {
            Frame::Hello(hello) => wire::encode_hello(out, id, hello),
            Frame::Welcome(welcome) => wire::encode_welcome(out, id, welcome),
            Frame::Challenge(nonce) => wire::encode_challenge(out, id, nonce),
            Frame::Proof(proof) => wire::encode_proof(out, id, proof),
            Frame::Refusal(refusal) => wire::encode_refusal(out, id, refusal),
            Frame::Request(request) => wire::encode_request(out, id, request),
            Frame::Reply(reply) => wire::encode_reply(out, id, reply),
            Frame::Read(ranges) => wire::encode_read(out, id, ranges),
            Frame::Write(epoch, ranges) => wire::encode_write(out, id, *epoch, ranges),
            Frame::Drop(ranges) => wire::encode_drop(out, id, ranges),
            Frame::Follow(follow) => wire::encode_follow(out, id, follow),
            Frame::FollowReply(Ok((segment, page))) => {
                wire::encode_follow_reply(out, id, (*segment, Ok(page)));
            }
            Frame::FollowReply(Err(code)) => {
                wire::encode_follow_reply(out, id, (SegmentId(0), Err(*code)));
            }
            Frame::Share(segment) => wire::encode_share(out, id, *segment),
            Frame::ShareReply(answer) => {
                wire::encode_share_reply(out, id, answer.as_ref().map_err(|&code| code));
            }
            Frame::Begin(epoch, ranges) => wire::encode_begin(out, id, *epoch, ranges),
            Frame::Begun(begun) => wire::encode_begun(out, id, begun),
            Frame::Expose(ranges) => wire::encode_expose(out, id, ranges),
            Frame::Join(address) => wire::encode_join(out, id, address),
            Frame::JoinReply(answer) => {
                wire::encode_join_reply(out, id, answer.as_ref().map_err(|&code| code));
            }
            Frame::Pin(ranges) => wire::encode_pin(out, id, ranges),
            Frame::Unpin(pins) => wire::encode_unpin(out, id, pins),
            Frame::Promise(ranges) => wire::encode_promise(out, id, ranges),
            Frame::Results(kind, results) => wire::encode_results(out, *kind, id, results),
            Frame::Keepalive => out.extend(wire::keepalive(id)),
            Frame::DummyRequest(request) => wire::encode_dummy_request(out, id, request),
            Frame::DummyReply(reply) => wire::encode_dummy_reply(out, id, reply),
        }
        bytes
    }
}

/// Decodes a body and passes its content to `see`.
pub(crate) fn decode<T>(
    kind: Kind,
    body: &[u8],
    see: impl FnOnce(Frame<'_>) -> T,
) -> Result<T, DecodeError> {
    let owned = || Bytes::copy_from_slice(body);
    Ok(match kind {
        Kind::Hello => see(Frame::Hello(wire::decode_hello(body)?)),
        Kind::Welcome => see(Frame::Welcome(wire::decode_welcome(body)?)),
        Kind::Challenge => see(Frame::Challenge(wire::decode_challenge(body)?)),
        Kind::Proof => see(Frame::Proof(wire::decode_proof(body)?)),
        Kind::Refusal => see(Frame::Refusal(wire::decode_refusal(body)?)),
        Kind::Request => {
            let message = wire::decode_request(owned())?;
            see(Frame::Request(message.request()?))
        }
        Kind::Reply => see(Frame::Reply(wire::decode_reply(owned())?)),
        Kind::Read => see(Frame::Read(wire::decode_read(body)?)),
        Kind::Write => {
            let message = wire::decode_write(owned())?;
            see(Frame::Write(message.epoch(), message.ranges()?))
        }
        Kind::Drop => see(Frame::Drop(wire::decode_drop(body)?)),
        Kind::Follow => see(Frame::Follow(wire::decode_follow(body)?)),
        Kind::FollowReply => {
            let message = wire::decode_follow_reply(owned())?;
            see(Frame::FollowReply(message.page()?))
        }
        Kind::Share => see(Frame::Share(wire::decode_share(body)?)),
        Kind::ShareReply => see(Frame::ShareReply(wire::decode_share_reply(body)?)),
        Kind::Begin => {
            let message = wire::decode_write(owned())?;
            see(Frame::Begin(message.epoch(), message.ranges()?))
        }
        Kind::Begun => see(Frame::Begun(wire::decode_begun(body)?)),
        Kind::Expose => see(Frame::Expose(wire::decode_read(body)?)),
        Kind::Join => see(Frame::Join(wire::decode_join(body)?)),
        Kind::JoinReply => see(Frame::JoinReply(wire::decode_join_reply(body)?)),
        Kind::Pin => see(Frame::Pin(wire::decode_read(body)?)),
        Kind::Unpin => see(Frame::Unpin(wire::decode_unpin(body)?)),
        Kind::Promise => see(Frame::Promise(wire::decode_read(body)?)),
        Kind::ReadReply
        | Kind::WriteReply
        | Kind::DropReply
        | Kind::BeginReply
        | Kind::Complete
        | Kind::CompleteReply
        | Kind::PinReply
        | Kind::PromiseReply => see(Frame::Results(kind, wire::decode_results(body)?)),
        Kind::Keepalive => see(Frame::Keepalive),
        Kind::DummyRequest => {
            let message = wire::decode_dummy_request(owned())?;
            see(Frame::DummyRequest(message.request()?))
        }
        Kind::DummyReply => see(Frame::DummyReply(wire::decode_dummy_reply(owned())?)),
    })
}

/// Splits a frame into header and body, and checks the body's length.
pub(crate) fn split(frame: &[u8]) -> (Header, &[u8]) {
    let (header, body) = frame.split_first_chunk::<HEADER_LEN>().expect("a frame has a header");
    let header = Header::decode(header).expect("what was encoded has a sound header");
    assert_eq!(header.body_len as usize, body.len());
    (header, body)
}

/// Decodes a body from any peer. If the decoder accepts it, the value must encode and decode to itself.
pub(crate) fn survive(kind: Kind, body: &[u8]) {
    let again = decode(kind, body, |frame| frame.encode(1));
    let Ok(again) = again else { return };
    let (header, body) = split(&again);
    let twice = decode(header.kind, body, |frame| frame.encode(1));
    assert_eq!(twice.as_ref(), Ok(&again), "{kind:?}: {body:02x?}");
}
