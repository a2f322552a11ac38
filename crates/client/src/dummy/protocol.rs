//! What a dummy says to its host process, and is answered: one frame each. No object byte is in a frame; it names
//! places in memory that both have mapped.
//!
//! A frame is a head of twelve bytes (`MKDU`, the kind, three zeros, the length of the body) and a body. The descriptor
//! of shared memory travels with the head of [`Call::Share`].

use mooncake_types::{ErrorCode, ReplicateConfig, limits};

use super::fields::{Reader, Writer};

/// What this build speaks; another is refused.
pub(super) const PROTOCOL_VERSION: u32 = 2;

/// Length of a frame's head in bytes.
pub(super) const HEAD_LEN: usize = 12;

/// Longest body of the first frame on a connection, in bytes.
pub(super) const MAX_HELLO_BYTES: usize = 4096;

/// Longest body of any other frame, in bytes.
pub(super) const MAX_BODY_BYTES: usize = limits::MAX_FRAME_BODY_BYTES as usize;

/// Most pieces of memory that one call names.
pub(super) const MAX_PIECES: usize = 1 << 16;

/// Longest list of names of preferred segments.
pub(super) const MAX_PREFERRED: usize = 1024;

const MAGIC: [u8; 4] = *b"MKDU";

/// What is wrong with a frame. Who sends one is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of a dummy client makes no sense: {0}")]
pub(super) struct Malformed(pub(super) &'static str);

/// A place in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The number that [`Call::Share`] was answered with.
    pub(super) map: u32,
    /// First byte, counted from the start of the shared memory.
    pub(super) offset: u64,
    /// Length in bytes.
    pub(super) len: u64,
}

/// An object, and where its bytes come from or go to, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) key: &'a str,
    /// For puts only; empty: none.
    pub(super) group: &'a str,
    pub(super) pieces: Vec<Piece>,
}

/// Parts of an object, by their offsets in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RangedItem<'a> {
    pub(super) key: &'a str,
    pub(super) fragments: Vec<(u64, Piece)>,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call<'a> {
    /// The first on every connection.
    Hello {
        version: u32,
        token: &'a str,
        /// The guest that this is a further connection of; absent on the first one, which is its life line.
        guest: Option<u128>,
    },
    /// Maps the memory whose descriptor comes along.
    Share {
        len: u64,
    },
    /// Unmaps it.
    Unshare {
        map: u32,
    },
    /// Is the master there?
    Health,
    Put {
        upsert: bool,
        config: ReplicateConfig<'a>,
        items: Vec<Item<'a>>,
    },
    GetInto {
        items: Vec<Item<'a>>,
    },
    GetRanges {
        items: Vec<RangedItem<'a>>,
    },
    Exist {
        keys: Vec<&'a str>,
    },
    /// To get them, if so said: what is not there is a miss.
    Locate {
        to_get: bool,
        keys: Vec<&'a str>,
    },
    Remove {
        keys: Vec<&'a str>,
        force: bool,
    },
    /// Without a pattern: all objects.
    RemoveScan {
        pattern: Option<&'a str>,
        force: bool,
    },
    List {
        pattern: &'a str,
    },
    Clear {
        keys: Vec<&'a str>,
        segment: &'a str,
    },
}

/// The head of a frame, of a call or an answer alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u8,
    pub(super) body_len: u32,
}

impl Head {
    pub(super) fn encode(self) -> [u8; HEAD_LEN] {
        let mut head = [0; HEAD_LEN];
        head[..4].copy_from_slice(&MAGIC);
        head[4] = self.kind;
        head[8..].copy_from_slice(&self.body_len.to_le_bytes());
        head
    }

    /// Reads a head whose body may have `longest` bytes.
    pub(super) fn decode(head: &[u8; HEAD_LEN], longest: usize) -> Result<Self, Malformed> {
        let [a, b, c, d, kind, 0, 0, 0, length @ ..] = *head else {
            return Err(Malformed("its head is not that of a frame"));
        };
        if [a, b, c, d] != MAGIC {
            return Err(Malformed("its head is not that of a frame"));
        }
        let body_len = u32::from_le_bytes(length);
        if body_len as usize > longest {
            return Err(Malformed("it is too long"));
        }
        Ok(Self { kind, body_len })
    }
}

/// A whole frame: the head, and the body that `write` appends.
pub(super) fn frame(kind: u8, write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut frame = vec![0; HEAD_LEN];
    write(&mut Writer(&mut frame));
    let body_len = u32::try_from(frame.len() - HEAD_LEN).expect("bodies are bounded");
    frame[..HEAD_LEN].copy_from_slice(&Head { kind, body_len }.encode());
    frame
}

impl<'a> Call<'a> {
    /// The number that tells the calls apart.
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Call::Hello { .. } => 1,
            Call::Share { .. } => 2,
            Call::Unshare { .. } => 3,
            Call::Health => 4,
            Call::Put { .. } => 5,
            Call::GetInto { .. } => 6,
            Call::GetRanges { .. } => 7,
            Call::Exist { .. } => 8,
            Call::Locate { .. } => 9,
            Call::Remove { .. } => 10,
            Call::RemoveScan { .. } => 11,
            Call::List { .. } => 12,
            Call::Clear { .. } => 13,
        }
    }

    /// The call as a frame.
    pub(super) fn encode(&self) -> Vec<u8> {
        frame(self.kind(), |out| match self {
            Call::Hello { version, token, guest } => {
                out.u32(*version);
                out.text(token);
                out.option(*guest, Writer::u128);
            }
            Call::Share { len } => out.u64(*len),
            Call::Unshare { map } => out.u32(*map),
            Call::Health => {}
            Call::Put { upsert, config, items } => {
                out.flag(*upsert);
                write_config(out, config);
                out.list(items.iter(), write_item);
            }
            Call::GetInto { items } => out.list(items.iter(), write_item),
            Call::GetRanges { items } => out.list(items.iter(), |out, item| {
                out.text(item.key);
                out.list(item.fragments.iter(), |out, (from, piece)| {
                    out.u64(*from);
                    write_piece(out, piece);
                });
            }),
            Call::Exist { keys } => write_keys(out, keys),
            Call::Locate { to_get, keys } => {
                out.flag(*to_get);
                write_keys(out, keys);
            }
            Call::Remove { keys, force } => {
                out.flag(*force);
                write_keys(out, keys);
            }
            Call::RemoveScan { pattern, force } => {
                out.flag(*force);
                out.option(*pattern, Writer::text);
            }
            Call::List { pattern } => out.text(pattern),
            Call::Clear { keys, segment } => {
                out.text(segment);
                write_keys(out, keys);
            }
        })
    }

    /// The call that a frame of this kind and body holds.
    pub(super) fn decode(kind: u8, body: &'a [u8]) -> Result<Self, Malformed> {
        let mut body = Reader(body);
        let mut pieces = MAX_PIECES;
        let call = match kind {
            1 => Call::Hello {
                version: body.u32()?,
                token: body.text(limits::MAX_NAME_BYTES)?,
                guest: body.option(Reader::u128)?,
            },
            2 => Call::Share { len: body.u64()? },
            3 => Call::Unshare { map: body.u32()? },
            4 => Call::Health,
            5 => Call::Put {
                upsert: body.flag()?,
                config: read_config(&mut body)?,
                items: body.list(limits::MAX_BATCH_KEYS, |body| read_item(body, &mut pieces))?,
            },
            6 => Call::GetInto {
                items: body.list(limits::MAX_BATCH_KEYS, |body| read_item(body, &mut pieces))?,
            },
            7 => Call::GetRanges {
                items: body.list(limits::MAX_BATCH_KEYS, |body| read_ranged(body, &mut pieces))?,
            },
            8 => Call::Exist { keys: read_keys(&mut body)? },
            9 => Call::Locate { to_get: body.flag()?, keys: read_keys(&mut body)? },
            10 => Call::Remove { force: body.flag()?, keys: read_keys(&mut body)? },
            11 => Call::RemoveScan {
                force: body.flag()?,
                pattern: body.option(|body| body.text(limits::MAX_REGEX_BYTES + 1))?,
            },
            12 => Call::List { pattern: body.text(limits::MAX_REGEX_BYTES + 1)? },
            13 => Call::Clear {
                segment: body.text(limits::MAX_NAME_BYTES)?,
                keys: read_keys(&mut body)?,
            },
            _ => return Err(Malformed("there is no such call")),
        };
        body.end()?;
        Ok(call)
    }
}

fn write_keys(out: &mut Writer<'_>, keys: &[&str]) {
    out.list(keys.iter(), |out, key| out.text(key));
}

fn read_keys<'a>(body: &mut Reader<'a>) -> Result<Vec<&'a str>, Malformed> {
    body.list(limits::MAX_BATCH_KEYS, read_key)
}

/// One byte more than a key may have, so that the master says what is wrong with it.
fn read_key<'a>(body: &mut Reader<'a>) -> Result<&'a str, Malformed> {
    body.text(limits::MAX_KEY_BYTES + 1)
}

fn write_item(out: &mut Writer<'_>, item: &Item<'_>) {
    out.text(item.key);
    out.text(item.group);
    out.list(item.pieces.iter(), write_piece);
}

fn read_item<'a>(body: &mut Reader<'a>, pieces: &mut usize) -> Result<Item<'a>, Malformed> {
    let key = read_key(body)?;
    let group = body.text(limits::MAX_GROUP_BYTES + 1)?;
    let read = body.list(*pieces, read_piece)?;
    *pieces -= read.len();
    Ok(Item { key, group, pieces: read })
}

fn read_ranged<'a>(body: &mut Reader<'a>, pieces: &mut usize) -> Result<RangedItem<'a>, Malformed> {
    let key = read_key(body)?;
    let fragments = body.list(*pieces, |body| Ok((body.u64()?, read_piece(body)?)))?;
    *pieces -= fragments.len();
    Ok(RangedItem { key, fragments })
}

fn write_piece(out: &mut Writer<'_>, piece: &Piece) {
    out.u32(piece.map);
    out.u64(piece.offset);
    out.u64(piece.len);
}

fn read_piece(body: &mut Reader<'_>) -> Result<Piece, Malformed> {
    Ok(Piece { map: body.u32()?, offset: body.u64()?, len: body.u64()? })
}

fn write_config(out: &mut Writer<'_>, config: &ReplicateConfig<'_>) {
    use mooncake_types::SoftPin;
    out.u32(config.replica_num);
    match config.soft_pin {
        SoftPin::Preserve => out.byte(0),
        SoftPin::Enable { ttl_ms } => {
            out.byte(1);
            out.option(ttl_ms, Writer::u64);
        }
        SoftPin::Disable => out.byte(2),
        SoftPin::Sliding => out.byte(3),
    }
    out.flag(config.hard_pin);
    out.byte(config.data_type);
    write_keys(out, &config.preferred_segments);
    out.list(config.excluded_segments.iter(), |out, id| out.u128(id.0));
}

fn read_config<'a>(body: &mut Reader<'a>) -> Result<ReplicateConfig<'a>, Malformed> {
    use mooncake_types::{SegmentId, SoftPin};
    Ok(ReplicateConfig {
        replica_num: body.u32()?,
        soft_pin: match body.byte()? {
            0 => SoftPin::Preserve,
            1 => SoftPin::Enable { ttl_ms: body.option(Reader::u64)? },
            2 => SoftPin::Disable,
            3 => SoftPin::Sliding,
            _ => return Err(Malformed("there is no such soft pin")),
        },
        hard_pin: body.flag()?,
        data_type: body.byte()?,
        preferred_segments: body.list(MAX_PREFERRED, |body| body.text(limits::MAX_NAME_BYTES))?,
        excluded_segments: body.list(MAX_PREFERRED, |body| body.u128().map(SegmentId))?,
    })
}

pub(super) fn write_status<T>(
    out: &mut Writer<'_>,
    result: &Result<T, ErrorCode>,
    write: impl FnOnce(&mut Writer<'_>, &T),
) {
    match result {
        Ok(value) => {
            out.u32(0);
            write(out, value);
        }
        Err(code) => out.u32(code.number().cast_unsigned()),
    }
}

pub(super) fn read_status<'a, T>(
    body: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Result<T, ErrorCode>, Malformed> {
    match body.i32()? {
        0 => read(body).map(Ok),
        number => Ok(Err(ErrorCode::from_number(number).unwrap_or(ErrorCode::InternalError))),
    }
}
