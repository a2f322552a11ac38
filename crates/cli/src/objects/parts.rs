//! Large objects, moved a part at a time: the memory of a command does not grow with the object, and its progress
//! shows.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, Fragment, PutItem, Ranged, ReplicateConfig, Store, Version,
};

use super::outcome::CommandError;
use super::progress::Progress;

/// Bytes that move at a time. An object of this length or less moves at once.
pub(super) const PART_BYTES: u64 = 16 << 20;

/// How often the lease of an object is renewed while it is read.
const RENEWAL: Duration = Duration::from_secs(1);
/// Most attempts to read one part.
const MOST_ATTEMPTS: u32 = 3;

/// Why an object did not move.
#[derive(Debug)]
pub(super) enum MoveError {
    /// The pool says so.
    Pool(ErrorCode),
    /// The other side of the move failed.
    Other(CommandError),
}

impl From<ErrorCode> for MoveError {
    fn from(code: ErrorCode) -> Self {
        Self::Pool(code)
    }
}

/// Reads an object, and passes its bytes on in their order. All are of one version.
pub(super) fn read(
    store: &Store,
    key: &str,
    mut sink: impl FnMut(&[u8]) -> Result<(), CommandError>,
) -> Result<u64, MoveError> {
    let (version, len) = begin(store, key)?;
    let progress = Progress::start("get", len);
    let buffer = Buffer::zeroed(len.min(PART_BYTES) as usize);
    let (mut at, mut begun, mut attempts) = (0, Instant::now(), 0);
    while at < len {
        if begun.elapsed() > RENEWAL {
            renew(store, key, version)?;
            begun = Instant::now();
        }
        let slice = buffer.raw().sub(0, (len - at).min(PART_BYTES) as usize);
        let taken = slice.len();
        let fragments = vec![Fragment { object_offset: at, slice: slice.into() }];
        match only(store.get_session_read(&[Ranged { key, fragments }])) {
            Ok(_) => {
                sink(&buffer.as_slice()[..taken]).map_err(MoveError::Other)?;
                progress.moved(taken as u64);
                (at, attempts) = (at + taken as u64, 0);
            }
            Err(ErrorCode::LeaseExpired) if attempts < MOST_ATTEMPTS => {
                renew(store, key, version)?;
                (begun, attempts) = (Instant::now(), attempts + 1);
            }
            Err(code) => return Err(code.into()),
        }
    }
    store.get_session_end(&[key]);
    Ok(len)
}

/// Begins a session on the newest version. Returns that and its length.
fn begin(store: &Store, key: &str) -> Result<(Version, u64), MoveError> {
    for _ in 0..MOST_ATTEMPTS {
        let before = only(store.locate(&[key]))?.version;
        let len = only(store.get_session_start(&[key]))?;
        // Versions of a key only grow: if both are the same, so is that of the session.
        if only(store.locate(&[key]))?.version == before {
            return Ok((before, len));
        }
    }
    Err(replaced())
}

/// Begins the session anew, on the same version.
fn renew(store: &Store, key: &str, version: Version) -> Result<(), MoveError> {
    match begin(store, key)? {
        (found, _) if found == version => Ok(()),
        _ => Err(replaced()),
    }
}

fn replaced() -> MoveError {
    MoveError::Other(CommandError::failed(
        "the object was replaced while it was read; get it again",
    ))
}

/// Puts an object of this length from a reader. Nothing is put if the reader has fewer bytes.
pub(super) fn write(
    store: &Store,
    item: PutItem<'_>,
    config: &ReplicateConfig<'_>,
    source: &mut dyn Read,
) -> Result<(), MoveError> {
    only(store.put_session_start(&[item], config))?;
    let written = write_all(store, item, source);
    if written.is_err() {
        // The first error tells why; the master discards the put in any case.
        let _ = store.put_session_revoke(&[item.key]);
    }
    written?;
    Ok(only(store.put_session_end(&[item.key]))?)
}

fn write_all(store: &Store, item: PutItem<'_>, source: &mut dyn Read) -> Result<(), MoveError> {
    let (key, len) = (item.key, item.len);
    let progress = Progress::start("put", len);
    let mut buffer = Buffer::zeroed(len.min(PART_BYTES) as usize);
    let mut at = 0;
    while at < len {
        let taken = (len - at).min(PART_BYTES) as usize;
        source.read_exact(&mut buffer.as_mut_slice()[..taken]).map_err(unreadable)?;
        let slice = buffer.raw().sub(0, taken).into();
        let fragments = vec![Fragment { object_offset: at, slice }];
        only(store.put_session_write(&[Ranged { key, fragments }]))?;
        progress.moved(taken as u64);
        at += taken as u64;
    }
    Ok(())
}

fn unreadable(error: io::Error) -> MoveError {
    let reason = match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file became shorter while it was read".to_owned(),
        _ => format!("cannot read the file: {error}"),
    };
    MoveError::Other(CommandError::failed(reason))
}

/// The result of a call on one key.
pub(super) fn only<T>(results: Vec<Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
    results.into_iter().next().unwrap_or(Err(ErrorCode::InternalError))
}
