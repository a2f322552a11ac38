//! What a dummy is answered.

use mooncake_ops::{ObjectLocation, ReplicaLocation, Stripe};
use mooncake_types::{Epoch, ErrorCode, SegmentAddress, SegmentId, Version, limits};

use super::fields::{Reader, Writer};
use super::protocol::{MAX_BODY_BYTES, MAX_PIECES, Malformed, frame, read_status, write_status};

/// Longest message of a refusal, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// One answer. Lists are by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// To a hello: the guest's name for further connections, and what the host process is known by.
    Welcome {
        guest: u128,
        hostname: String,
    },
    /// Nothing is answered on this connection any more.
    Refused {
        code: ErrorCode,
        message: String,
    },
    /// To [`super::protocol::Call::Share`]: the number of the map.
    Shared(Result<u32, ErrorCode>),
    /// To an unshare, a put, a remove or a clear.
    Statuses(Vec<Result<(), ErrorCode>>),
    Health(bool),
    /// Of a get: the lengths of the objects.
    Lengths(Vec<Result<u64, ErrorCode>>),
    /// Of a ranged get, by item and fragment.
    Ranges(Vec<Vec<Result<u64, ErrorCode>>>),
    Exist(Vec<Result<bool, ErrorCode>>),
    Located(Vec<Result<ObjectLocation, ErrorCode>>),
    Count(Result<u64, ErrorCode>),
    Listed(Result<Vec<(String, ObjectLocation)>, ErrorCode>),
}

impl Answer {
    const fn kind(&self) -> u8 {
        match self {
            Answer::Welcome { .. } => 128,
            Answer::Refused { .. } => 129,
            Answer::Shared(_) => 130,
            Answer::Statuses(_) => 131,
            Answer::Health(_) => 132,
            Answer::Lengths(_) => 133,
            Answer::Ranges(_) => 134,
            Answer::Exist(_) => 135,
            Answer::Located(_) => 136,
            Answer::Count(_) => 137,
            Answer::Listed(_) => 138,
        }
    }

    /// The answer as a frame; one that is too long for a frame becomes [`ErrorCode::BufferOverflow`].
    pub(super) fn encode(&self) -> Vec<u8> {
        let encoded = self.encode_unbounded();
        if encoded.len() <= MAX_BODY_BYTES {
            return encoded;
        }
        let too_long = ErrorCode::BufferOverflow;
        let short = match self {
            Answer::Located(results) => {
                Answer::Located(results.iter().map(|_| Err(too_long)).collect())
            }
            Answer::Listed(_) => Answer::Listed(Err(too_long)),
            _ => Answer::Refused { code: too_long, message: String::new() },
        };
        short.encode_unbounded()
    }

    fn encode_unbounded(&self) -> Vec<u8> {
        frame(self.kind(), |out| match self {
            Answer::Welcome { guest, hostname } => {
                out.u128(*guest);
                out.text(hostname);
            }
            Answer::Refused { code, message } => {
                out.u32(code.number().cast_unsigned());
                out.text(&message[..message.floor_char_boundary(MAX_MESSAGE_BYTES)]);
            }
            Answer::Shared(result) => write_status(out, result, |out, map| out.u32(*map)),
            Answer::Statuses(results) => {
                out.list(results.iter(), |out, result| write_status(out, result, |_, ()| ()));
            }
            Answer::Health(well) => out.flag(*well),
            Answer::Lengths(results) => out.list(results.iter(), write_length),
            Answer::Ranges(items) => {
                out.list(items.iter(), |out, results| out.list(results.iter(), write_length));
            }
            Answer::Exist(results) => out.list(results.iter(), |out, result| {
                write_status(out, result, |out, found| out.flag(*found));
            }),
            Answer::Located(results) => {
                out.list(results.iter(), |out, result| write_status(out, result, write_location));
            }
            Answer::Count(result) => write_length(out, result),
            Answer::Listed(result) => write_status(out, result, |out, objects| {
                out.list(objects.iter(), |out, (key, location)| {
                    out.text(key);
                    write_location(out, location);
                });
            }),
        })
    }

    /// The answer that a frame of this kind and body holds.
    pub(super) fn decode(kind: u8, body: &[u8]) -> Result<Self, Malformed> {
        const KEYS: usize = limits::MAX_BATCH_KEYS;
        let mut body = Reader(body);
        let answer = match kind {
            128 => Answer::Welcome {
                guest: body.u128()?,
                hostname: body.text(limits::MAX_NAME_BYTES)?.to_owned(),
            },
            129 => Answer::Refused {
                code: read_status(&mut body, |_| Ok(()))?.err().unwrap_or(ErrorCode::InternalError),
                message: body.text(MAX_MESSAGE_BYTES)?.to_owned(),
            },
            130 => Answer::Shared(read_status(&mut body, Reader::u32)?),
            131 => Answer::Statuses(body.list(KEYS, |body| read_status(body, |_| Ok(())))?),
            132 => Answer::Health(body.flag()?),
            133 => Answer::Lengths(body.list(KEYS, read_length)?),
            134 => Answer::Ranges(body.list(KEYS, |body| body.list(MAX_PIECES, read_length))?),
            135 => Answer::Exist(body.list(KEYS, |body| read_status(body, Reader::flag))?),
            136 => Answer::Located(body.list(KEYS, |body| read_status(body, read_location))?),
            137 => Answer::Count(read_length(&mut body)?),
            138 => Answer::Listed(read_status(&mut body, |body| {
                body.list(MAX_BODY_BYTES, |body| {
                    Ok((body.text(limits::MAX_KEY_BYTES)?.to_owned(), read_location(body)?))
                })
            })?),
            _ => return Err(Malformed("there is no such answer")),
        };
        body.end()?;
        Ok(answer)
    }
}

fn write_length(out: &mut Writer<'_>, result: &Result<u64, ErrorCode>) {
    write_status(out, result, |out, len| out.u64(*len));
}

fn read_length(body: &mut Reader<'_>) -> Result<Result<u64, ErrorCode>, Malformed> {
    read_status(body, Reader::u64)
}

fn write_location(out: &mut Writer<'_>, location: &ObjectLocation) {
    out.u64(location.version.epoch.0);
    out.u64(location.version.counter);
    out.u64(location.len);
    out.list(location.replicas.iter(), |out, replica| {
        out.u32(replica.number);
        out.list(replica.stripes.iter(), |out, stripe| {
            out.u128(stripe.segment.id.0);
            out.text(&stripe.segment.name);
            out.text(&stripe.segment.endpoint);
            out.u64(stripe.offset);
            out.u64(stripe.len);
        });
    });
}

fn read_location(body: &mut Reader<'_>) -> Result<ObjectLocation, Malformed> {
    let version = Version { epoch: Epoch(body.u64()?), counter: body.u64()? };
    let len = body.u64()?;
    let replicas = body.list(limits::MAX_REPLICAS as usize, |body| {
        let number = body.u32()?;
        let stripes = body.list(limits::MAX_STRIPES, read_stripe)?;
        Ok(ReplicaLocation { number, stripes })
    })?;
    Ok(ObjectLocation { version, len, replicas })
}

fn read_stripe(body: &mut Reader<'_>) -> Result<Stripe, Malformed> {
    let segment = SegmentAddress {
        id: SegmentId(body.u128()?),
        name: body.text(limits::MAX_NAME_BYTES)?.into(),
        endpoint: body.text(limits::MAX_NAME_BYTES)?.into(),
    };
    Ok(Stripe { segment, offset: body.u64()?, len: body.u64()? })
}
