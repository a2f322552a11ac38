//! Notes of how often evicted objects had been used. An object that comes back soon keeps its uses.

use crate::objects::mix_hash;

/// Notes in a set, which has the size of a cache line. A key's note is in one set.
const WAYS: usize = 16;
/// Fewest notes for each object in the pool.
const NOTES_PER_OBJECT: usize = 6;
/// One spare note for this many notes, so that a pool that grows a little keeps its table.
const SLACK: usize = 8;
const LEAST_NOTES: usize = 64 * WAYS;
/// Generations for which a note counts. The notes that are made in that time fill half the table, so hardly any
/// replaces another that counts. Therefore objects that were evicted together are forgotten together, and no block in
/// the middle of a chain is forgotten alone.
const WINDOW: u32 = 8;

const USES_BITS: u32 = 2;
const GENERATION_BITS: u32 = 6;
/// The generation of an empty note. The others go round from 1.
const EMPTY: u32 = 0;
const GENERATIONS: u32 = (1 << GENERATION_BITS) - 1;

/// A table of notes about evicted objects. A note takes four bytes, which makes about 27 bytes for each object in the
/// pool.
///
/// A note has 24 bits of the key's hash, its generation, and the uses. About one look-up in a million finds another
/// key's note, which does no harm.
#[derive(Debug)]
pub(crate) struct Ghosts {
    notes: Vec<u32>,
    generation: u32,
    made: usize,
}

impl Ghosts {
    pub(crate) fn new() -> Self {
        Self { notes: Vec::new(), generation: 1, made: 0 }
    }

    /// Notes how often an object had been used that is evicted from a pool of `objects`. Replaces a table that has
    /// become too small with an empty one.
    pub(crate) fn note(&mut self, hash: u64, uses: u8, objects: usize) {
        let wanted = objects.saturating_mul(NOTES_PER_OBJECT);
        if self.notes.len() < wanted {
            let len = (wanted + wanted / SLACK).next_multiple_of(WAYS).max(LEAST_NOTES);
            self.notes = vec![EMPTY; len];
        }
        if self.notes.is_empty() {
            return;
        }
        self.made += 1;
        if self.made >= self.notes.len() / (2 * WINDOW as usize) {
            self.made = 0;
            self.generation = self.generation % GENERATIONS + 1;
        }
        let note = mark(hash) | (self.generation << USES_BITS) | u32::from(uses);
        let generation = self.generation;
        let set = set_of(&mut self.notes, hash);
        let oldest = set.iter_mut().max_by_key(|note| age(**note, generation));
        *oldest.expect("a set has notes") = note;
    }

    /// Takes the note of an object: how often it had been used, if it was evicted recently.
    pub(crate) fn take(&mut self, hash: u64) -> Option<u8> {
        if self.notes.is_empty() {
            return None;
        }
        let generation = self.generation;
        let note = set_of(&mut self.notes, hash).iter_mut().find(|note| {
            (**note ^ mark(hash)) >> (USES_BITS + GENERATION_BITS) == 0
                && age(**note, generation) < WINDOW
        })?;
        let uses = *note & ((1 << USES_BITS) - 1);
        *note = EMPTY;
        Some(uses as u8)
    }
}

/// The set of a key's note.
fn set_of(notes: &mut [u32], hash: u64) -> &mut [u32] {
    let sets = notes.len() / WAYS;
    let set = ((u128::from(mix_hash(hash)) * sets as u128) >> 64) as usize;
    &mut notes[set * WAYS..][..WAYS]
}

/// The part of a note that identifies its key.
fn mark(hash: u64) -> u32 {
    (hash as u32) << (USES_BITS + GENERATION_BITS)
}

/// Generations since a note was made. An empty note counts as older than all others.
fn age(note: u32, now: u32) -> u32 {
    match (note >> USES_BITS) & GENERATIONS {
        EMPTY => u32::MAX,
        made => (now + GENERATIONS - made) % GENERATIONS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        (number + 1).wrapping_mul(0xD134_2543_DE82_EF95) ^ number.rotate_left(40)
    }

    #[test]
    fn a_note_is_found_once() {
        let mut ghosts = Ghosts::new();
        assert_eq!(ghosts.take(hash(1)), None);
        ghosts.note(hash(1), 3, 100);
        ghosts.note(hash(2), 0, 100);
        assert_eq!((ghosts.take(hash(1)), ghosts.take(hash(1))), (Some(3), None));
        assert_eq!((ghosts.take(hash(2)), ghosts.take(hash(3))), (Some(0), None));
    }

    #[test]
    fn what_was_evicted_together_is_forgotten_together() {
        const OBJECTS: usize = 10_000;
        let mut ghosts = Ghosts::new();
        for number in 0..1_000_000 {
            ghosts.note(hash(number), (number % 4) as u8, OBJECTS);
        }
        let size = ghosts.notes.len();
        assert!((6 * OBJECTS..7 * OBJECTS).contains(&size));
        let mut found = |back: std::ops::Range<u64>| {
            let count = back.end - back.start;
            let numbers = back.map(|back| 999_999 - back);
            let found = numbers.filter(|&it| ghosts.take(hash(it)) == Some((it % 4) as u8)).count();
            found as f64 / count as f64
        };
        let half = size as u64 / 2;
        assert!(found(half..half + 10_000) < 0.01, "old ones are forgotten");
        assert!(found(0..half - half / 8) > 0.99, "young ones are known");
    }

    #[test]
    fn a_pool_that_grew_begins_anew() {
        let mut ghosts = Ghosts::new();
        ghosts.note(hash(1), 1, 100);
        ghosts.note(hash(2), 2, 1_000_000);
        assert_eq!((ghosts.take(hash(1)), ghosts.take(hash(2))), (None, Some(2)));
    }
}
