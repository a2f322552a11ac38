use std::sync::Arc;

use mooncake_memory::{Buffer, RawSlice};
use mooncake_types::{DummyObject, DummyReply, DummyRequest, ErrorCode, Piece};

use super::DummyStore;
use super::host_link::Attachment;
use super::put::{NONSENSE, check_key, settle};
use super::stage::{NoPlace, Room, Stage, copy, copy_out};
use mooncake_client::{GetTarget, MakeRoom, Passing};

/// Longest target that room is made for as a whole, in bytes; of a longer one only the length of its object.
const SMALL_BYTES: u64 = 64 << 10;

/// How often an object may change its length between the question and the read.
const ROUNDS: usize = 3;

/// An object to be got.
struct Want<'k> {
    key: &'k str,
    /// Most bytes that it may have.
    capacity: u64,
    /// The caller's memory, if it is shared.
    in_place: Option<Vec<Piece>>,
}

/// Wants that go into one call.
#[derive(Default)]
struct Batch<'k, 'p> {
    positions: Vec<usize>,
    objects: Vec<DummyObject<'k>>,
    passing: Vec<Option<Passing<'p>>>,
}

type Lengths = Vec<Result<u64, ErrorCode>>;

impl DummyStore {
    /// Gets objects into the callers' memory, as [`mooncake_client::Store::get_into`]. An object that is longer than the pool is
    /// [`ErrorCode::InvalidParams`], unless the memory is shared.
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
        self.fetch(&attachment, &wants, |position, bytes| copy_out(bytes, &items[position].dst))
    }

    /// Gets objects into buffers of their lengths, as [`mooncake_client::Store::get`].
    pub fn get(&self, keys: &[&str]) -> Vec<Result<Buffer, ErrorCode>> {
        let attachment = match self.attachment() {
            Ok(attachment) => attachment,
            Err(code) => return keys.iter().map(|_| Err(code)).collect(),
        };
        let wants: Vec<Result<Want<'_>, ErrorCode>> = keys
            .iter()
            .map(|key| check_key(key).map(|()| Want { key, capacity: u64::MAX, in_place: None }))
            .collect();
        let mut buffers: Vec<Option<Buffer>> = keys.iter().map(|_| None).collect();
        let results = self.fetch(&attachment, &wants, |position, bytes| {
            let buffer = Buffer::try_zeroed(bytes.len()).ok_or(ErrorCode::BufferOverflow)?;
            copy(bytes, buffer.raw())?;
            buffers[position] = Some(buffer);
            Ok(())
        });
        let filled = results.into_iter().zip(buffers);
        filled.map(|(result, buffer)| result.and_then(|_| buffer.ok_or(NONSENSE))).collect()
    }

    /// Gets objects into memory that is made for them, as [`mooncake_client::Store::get_placed`].
    pub fn get_placed(
        &self,
        keys: &[&str],
        make_room: &mut MakeRoom<'_>,
    ) -> Vec<Result<u64, ErrorCode>> {
        let attachment = match self.attachment() {
            Ok(attachment) => attachment,
            Err(code) => return vec![Err(code); keys.len()],
        };
        let wants: Vec<Result<Want<'_>, ErrorCode>> = keys
            .iter()
            .map(|key| check_key(key).map(|()| Want { key, capacity: u64::MAX, in_place: None }))
            .collect();
        self.fetch(&attachment, &wants, |position, bytes| {
            let room = make_room(&[(position, bytes.len() as u64)]).pop().flatten();
            let room = room.filter(|room| room.len() == bytes.len());
            copy(bytes, room.ok_or(ErrorCode::BufferOverflow)?)
        })
    }

    /// Gets what is wanted, and shows `deliver` the bytes that passed through the pool.
    fn fetch(
        &self,
        attachment: &Arc<Attachment>,
        wants: &[Result<Want<'_>, ErrorCode>],
        mut deliver: impl FnMut(usize, RawSlice) -> Result<(), ErrorCode>,
    ) -> Lengths {
        let mut results: Lengths = wants
            .iter()
            .map(|want| Err(want.as_ref().err().copied().unwrap_or(NONSENSE)))
            .collect();
        let mut open: Vec<usize> =
            (0..wants.len()).filter(|&position| wants[position].is_ok()).collect();
        for _ in 0..ROUNDS {
            let sized = self.size_up(wants, &open, &mut results);
            let (mut next, mut asked) = (0, vec![false; wants.len()]);
            while next < sized.len() {
                let batch = gather(&self.stage(attachment), wants, &sized, &mut next, &mut results);
                batch.positions.iter().for_each(|&at| asked[at] = true);
                self.send_gets(attachment, batch, &mut results, &mut deliver);
            }
            // Room was made for a shorter object than the one that was found.
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

    /// By position, how many bytes to make room for; wants whose objects are missing or too long are answered.
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

    fn send_gets(
        &self,
        attachment: &Arc<Attachment>,
        batch: Batch<'_, '_>,
        results: &mut Lengths,
        deliver: &mut impl FnMut(usize, RawSlice) -> Result<(), ErrorCode>,
    ) {
        let Batch { positions, objects, passing } = batch;
        if positions.is_empty() {
            return;
        }
        let answer = self.link.call(attachment, &DummyRequest::Get { objects });
        let answered = match &answer {
            Ok(DummyReply::Lengths(answered)) if answered.len() == positions.len() => {
                answered.clone()
            }
            Ok(_) => vec![Err(NONSENSE); positions.len()],
            Err(failure) => vec![Err(failure.code()); positions.len()],
        };
        for ((at, result), passing) in positions.into_iter().zip(answered).zip(&passing) {
            results[at] = match (result, passing) {
                (Ok(len), Some(passing)) => {
                    let bytes = passing.slice();
                    match usize::try_from(len).ok().filter(|&len| len <= bytes.len()) {
                        Some(wanted) => deliver(at, bytes.sub(0, wanted)).map(|()| len),
                        None => Err(NONSENSE),
                    }
                }
                (result, _) => result,
            };
        }
        settle(answer.as_ref().err(), passing.into_iter().flatten());
    }
}

/// Takes wants from `next` on for as long as they have room together, and answers those that never will.
fn gather<'k, 'p>(
    stage: &Stage<'p>,
    wants: &[Result<Want<'k>, ErrorCode>],
    sized: &[(usize, u64)],
    next: &mut usize,
    results: &mut Lengths,
) -> Batch<'k, 'p> {
    let (mut batch, mut room) = (Batch::default(), Room::new());
    let mut passing = 0;
    while let Some(&(at, len)) = sized.get(*next) {
        let Ok(want) = &wants[at] else { unreachable!("only good wants are sized up") };
        let placed = match &want.in_place {
            Some(pieces) => Ok((pieces.clone(), None)),
            None => stage.pass(len, passing == 0).map(|placed| (placed.pieces, placed.passing)),
        };
        match placed {
            Ok((pieces, through)) => {
                if !room.take(want.key.len(), pieces.len()) {
                    break;
                }
                passing += usize::from(through.is_some());
                batch.positions.push(at);
                batch.objects.push(DummyObject { key: want.key, pieces });
                batch.passing.push(through);
            }
            Err(NoPlace::Yet) => break,
            Err(NoPlace::Ever(code)) => results[at] = Err(code),
        }
        *next += 1;
    }
    batch
}
