use mooncake_memory::{Buffer, RawSlice};
use mooncake_types::{DummyObject, DummyReply, DummyRequest, ErrorCode, Piece};

use super::batch::{Batch, INVALID_REPLY, Staged, gather};
use super::put::check_key;
use super::stage::{NoPlace, Stage, copy, copy_out};
use super::store::DummyStore;
use mooncake_client::{GetTarget, Rooms};

/// A target up to this length, in bytes, gets room for all of it. For a longer target, the length of the object is
/// looked up first.
const SMALL_BYTES: u64 = 64 << 10;

/// How often a get is tried if an object changes its length between the look-up and the read.
const ROUNDS: usize = 3;

/// An object to get.
struct Want<'k> {
    key: &'k str,
    /// Most bytes that the object may have.
    capacity: u64,
    /// The pieces of the caller's memory, if it is shared.
    in_place: Option<Vec<Piece>>,
}

pub(super) type Lengths = Vec<Result<u64, ErrorCode>>;

impl DummyStore {
    /// Gets objects into the callers' memory, as [`mooncake_client::Store::get_into`]. An object that is longer than
    /// the pool fails with [`ErrorCode::InvalidParams`], unless the memory is shared.
    pub fn get_into(&self, items: &[GetTarget<'_>]) -> Vec<Result<u64, ErrorCode>> {
        let attachment = match self.attachment() {
            Ok(attachment) => attachment,
            Err(code) => return vec![Err(code); items.len()],
        };
        let stage = self.stage(&attachment);
        let wants: Vec<Result<Want<'_>, ErrorCode>> = items
            .iter()
            .map(|item| {
                check_key(item.key)?;
                let in_place = stage.in_place(&item.dst)?;
                Ok(Want { key: item.key, capacity: item.dst.total_len(), in_place })
            })
            .collect();
        self.fetch(&stage, &wants, |position, bytes| copy_out(bytes, &items[position].dst))
    }

    /// Gets objects into buffers of their lengths, as [`mooncake_client::Store::get`].
    pub fn get(&self, keys: &[&str]) -> Vec<Result<Buffer, ErrorCode>> {
        let mut buffers: Vec<Option<Buffer>> = keys.iter().map(|_| None).collect();
        let results = self.get_placed(keys, &mut buffers);
        let filled = results.into_iter().zip(buffers);
        filled.map(|(result, buffer)| result.and_then(|_| buffer.ok_or(INVALID_REPLY))).collect()
    }

    /// Gets objects into memory that is made for them, as [`mooncake_client::Store::get_placed`].
    pub fn get_placed(&self, keys: &[&str], rooms: &mut dyn Rooms) -> Vec<Result<u64, ErrorCode>> {
        let attachment = match self.attachment() {
            Ok(attachment) => attachment,
            Err(code) => return vec![Err(code); keys.len()],
        };
        let wants: Vec<Result<Want<'_>, ErrorCode>> = keys
            .iter()
            .map(|key| check_key(key).map(|()| Want { key, capacity: u64::MAX, in_place: None }))
            .collect();
        self.fetch(&self.stage(&attachment), &wants, |position, bytes| {
            rooms.make(&[(position, bytes.len() as u64)]);
            let room = rooms.room(position).filter(|room| room.len() == bytes.len());
            copy(bytes, room.ok_or(ErrorCode::BufferOverflow)?)
        })
    }

    /// Gets the wanted objects, and calls `deliver` with the bytes that passed through the pool.
    fn fetch(
        &self,
        stage: &Stage<'_>,
        wants: &[Result<Want<'_>, ErrorCode>],
        mut deliver: impl FnMut(usize, RawSlice) -> Result<(), ErrorCode>,
    ) -> Lengths {
        let mut results: Lengths = wants
            .iter()
            .map(|want| Err(want.as_ref().err().copied().unwrap_or(INVALID_REPLY)))
            .collect();
        let mut open: Vec<usize> =
            (0..wants.len()).filter(|&position| wants[position].is_ok()).collect();
        for _ in 0..ROUNDS {
            let sized = self.size_up(wants, &open, &mut results);
            let (mut next, mut asked) = (0, vec![false; wants.len()]);
            while next < sized.len() {
                let place = |index: usize, is_alone| {
                    let (at, len) = sized[index];
                    let want = wants[at].as_ref().expect("only good wants are sized up");
                    place(stage, want, len, is_alone)
                };
                let refuse = |index: usize, code| results[sized[index].0] = Err(code);
                let mut batch = gather(&mut next, sized.len(), place, refuse);
                batch.positions.iter_mut().for_each(|position| *position = sized[*position].0);
                batch.positions.iter().for_each(|&at| asked[at] = true);
                send(stage, batch, &mut results, &mut deliver);
            }
            // Repeat these: room was made for a shorter object than was found.
            let grown = |&&(at, len): &&(usize, u64)| {
                results[at] == Err(ErrorCode::InvalidParams)
                    && asked[at]
                    && wants[at].as_ref().is_ok_and(|want| len < want.capacity)
            };
            open = sized.iter().filter(grown).map(|&(at, _)| at).collect();
            if open.is_empty() {
                break;
            }
        }
        results
    }

    /// How many bytes to make room for, by position. Wants whose objects are missing or too long get their errors at
    /// once.
    fn size_up(
        &self,
        wants: &[Result<Want<'_>, ErrorCode>],
        open: &[usize],
        results: &mut Lengths,
    ) -> Vec<(usize, u64)> {
        let open = open.iter().filter_map(|&at| Some((at, wants[at].as_ref().ok()?)));
        let (known, unknown): (Vec<_>, Vec<_>) =
            open.partition(|(_, want)| want.in_place.is_some() || want.capacity <= SMALL_BYTES);
        let mut sized: Vec<(usize, u64)> =
            known.into_iter().map(|(at, want)| (at, want.capacity)).collect();
        let keys: Vec<&str> = unknown.iter().map(|(_, want)| want.key).collect();
        for ((at, want), found) in unknown.into_iter().zip(self.locate_to_get(&keys)) {
            match found.map(|location| location.len) {
                Ok(len) if len <= want.capacity => sized.push((at, len)),
                Ok(_) => results[at] = Err(ErrorCode::InvalidParams),
                Err(code) => results[at] = Err(code),
            }
        }
        sized
    }
}

/// Where the bytes of an object go: to the caller's memory if it is shared, otherwise `len` bytes through the pool.
fn place<'k, 'p>(
    stage: &Stage<'p>,
    want: &Want<'k>,
    len: u64,
    is_alone: bool,
) -> Result<Staged<'p, DummyObject<'k>>, NoPlace> {
    let (pieces, passing) = match &want.in_place {
        Some(pieces) => (pieces.clone(), None),
        None => {
            let placed = stage.pass(len, is_alone)?;
            (placed.pieces, placed.passing)
        }
    };
    let (key, count) = (want.key, pieces.len());
    let request = DummyObject { key, pieces };
    Ok(Staged { request, name_bytes: key.len(), pieces: count, passing })
}

fn send<'k>(
    stage: &Stage<'_>,
    mut batch: Batch<'_, DummyObject<'k>>,
    results: &mut Lengths,
    deliver: &mut impl FnMut(usize, RawSlice) -> Result<(), ErrorCode>,
) {
    let request = |objects| DummyRequest::Get { objects };
    let answers = batch.send(stage, batch.positions.len(), request, lengths);
    for ((at, answer), passing) in batch.positions.into_iter().zip(answers).zip(&batch.passing) {
        results[at] = match (answer, passing) {
            (Ok(len), Some(passing)) => {
                let bytes = passing.slice();
                match usize::try_from(len).ok().filter(|&len| len <= bytes.len()) {
                    Some(wanted) => deliver(at, bytes.sub(0, wanted)).map(|()| len),
                    None => Err(INVALID_REPLY),
                }
            }
            (answer, _) => answer,
        };
    }
}

/// The lengths in the reply to a read.
pub(super) fn lengths(answer: DummyReply) -> Option<Lengths> {
    if let DummyReply::Lengths(lengths) = answer { Some(lengths) } else { None }
}
