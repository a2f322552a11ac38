//! Which segments have room: an index over the segments that take puts. A search skips segments without room.
//!
//! It is a complete binary tree. A leaf has the room of one segment. Each other node has, field by field, the best
//! value of the leaves below it. A search skips whole subtrees that cannot have the wanted room.

use mooncake_types::Tick;

/// The room of a segment, or field by field the best of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// The size class of its longest free range: see [`mooncake_alloc::class_of`].
    pub(crate) class: u32,
    /// The size class of the longest free range that leaves the segment below its high watermark.
    pub(crate) class_below_mark: u32,
    /// Length of the whole segment, in bytes.
    pub(crate) capacity: u64,
    /// Nothing can be evicted there before this time.
    pub(crate) evictable_from: Tick,
}

impl Room {
    /// A place without a segment.
    const NONE: Room =
        Room { class: 0, class_below_mark: 0, capacity: 0, evictable_from: Tick(u64::MAX) };

    fn best(self, other: Room) -> Room {
        Room {
            class: self.class.max(other.class),
            class_below_mark: self.class_below_mark.max(other.class_below_mark),
            capacity: self.capacity.max(other.capacity),
            evictable_from: self.evictable_from.min(other.evictable_from),
        }
    }
}

/// The room of each segment that takes puts, by its place among them.
#[derive(Debug)]
pub(crate) struct Rooms {
    /// The root is at 1; the nodes below `i` are at `2 * i` and `2 * i + 1`.
    nodes: Vec<Room>,
    /// Bytes of the segments below each node, so that a segment can be drawn in proportion to its length.
    bytes: Vec<u64>,
    /// Number of leaves. The first leaf is at this index too.
    leaves: usize,
}

impl Rooms {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Room::NONE; 2], bytes: vec![0; 2], leaves: 1 }
    }

    pub(crate) fn get(&self, place: usize) -> Room {
        self.nodes.get(self.leaves + place).copied().unwrap_or(Room::NONE)
    }

    /// Notes the room of the segment at a place.
    pub(crate) fn set(&mut self, place: usize, room: Room) {
        if place >= self.leaves {
            self.grow(place + 1);
        }
        let mut at = self.leaves + place;
        let mut room = room;
        while self.nodes[at] != room {
            self.nodes[at] = room;
            if at == 1 {
                return;
            }
            room = self.nodes[at].best(self.nodes[at ^ 1]);
            at /= 2;
        }
    }

    /// Notes that there is no segment at this place any more.
    pub(crate) fn clear(&mut self, place: usize) {
        self.set(place, Room::NONE);
        self.set_len(place, 0);
    }

    /// Notes the length of the segment at a place, in bytes.
    pub(crate) fn set_len(&mut self, place: usize, len: u64) {
        if place >= self.leaves {
            self.grow(place + 1);
        }
        let mut at = self.leaves + place;
        self.bytes[at] = len;
        while at > 1 {
            at /= 2;
            self.bytes[at] = self.bytes[2 * at] + self.bytes[2 * at + 1];
        }
    }

    /// The place of the segment with the byte at the fraction `part` / 2^64 of all bytes; none if there is no byte.
    pub(crate) fn at_share(&self, part: u64) -> Option<usize> {
        let mut byte = ((u128::from(self.bytes[1]) * u128::from(part)) >> 64) as u64;
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            if self.bytes[at] <= byte {
                byte -= self.bytes[at];
                at += 1;
            }
        }
        (byte < self.bytes[at]).then(|| at - self.leaves)
    }

    /// The first place from `from` on whose room is `wanted`. If that holds for a leaf, it must hold for the nodes
    /// above it.
    fn first_from(&self, from: usize, wanted: impl Fn(&Room) -> bool) -> Option<usize> {
        if from >= self.leaves {
            return None;
        }
        let mut at = self.leaves + from;
        loop {
            if wanted(&self.nodes[at]) {
                if at >= self.leaves {
                    return Some(at - self.leaves);
                }
                at *= 2;
                continue;
            }
            // The next subtree: a right child first climbs until it is a left child.
            while at & 1 == 1 {
                at /= 2;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
    }

    /// The next place of a walk whose room is `wanted`.
    pub(crate) fn next(
        &self,
        cursor: &mut Cursor,
        wanted: impl Fn(&Room) -> bool,
    ) -> Option<usize> {
        if !cursor.is_turned {
            if let Some(place) = self.first_from(cursor.next, &wanted) {
                cursor.next = place + 1;
                return Some(place);
            }
            (cursor.is_turned, cursor.next) = (true, 0);
        }
        let place = self.first_from(cursor.next, &wanted).filter(|&place| place < cursor.start)?;
        cursor.next = place + 1;
        Some(place)
    }

    fn grow(&mut self, wanted: usize) {
        let leaves = wanted.next_power_of_two();
        let mut nodes = vec![Room::NONE; 2 * leaves];
        nodes[leaves..leaves + self.leaves].copy_from_slice(&self.nodes[self.leaves..]);
        for at in (1..leaves).rev() {
            nodes[at] = nodes[2 * at].best(nodes[2 * at + 1]);
        }
        let mut bytes = vec![0; 2 * leaves];
        bytes[leaves..leaves + self.leaves].copy_from_slice(&self.bytes[self.leaves..]);
        for at in (1..leaves).rev() {
            bytes[at] = bytes[2 * at] + bytes[2 * at + 1];
        }
        (self.nodes, self.bytes, self.leaves) = (nodes, bytes, leaves);
    }
}

/// The progress of a walk over all places: from a start to the end, then from the first place to the start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    start: usize,
    next: usize,
    is_turned: bool,
    passed_over: u32,
}

/// Most segments with the wanted room that one walk passes over.
const MOST_SEGMENTS_PASSED: u32 = 64;

impl Cursor {
    pub(crate) fn new(start: usize) -> Self {
        Self { start, next: start, is_turned: false, passed_over: 0 }
    }

    /// Segments that the walk passed over so far.
    pub(crate) fn passed_over(&self) -> u32 {
        self.passed_over
    }

    /// Passes over a segment that was found. False if it is one too many: the walk ends.
    pub(crate) fn pass_over(&mut self) -> bool {
        self.passed_over += 1;
        self.passed_over < MOST_SEGMENTS_PASSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_types::Chance;

    #[test]
    fn the_first_place_that_is_wanted_is_found_whatever_was_noted_before() {
        let (mut rooms, mut dice) = (Rooms::new(), Chance::new(3));
        let mut expected: Vec<Room> = Vec::new();
        for _ in 0..20_000 {
            let place = dice.place(70);
            let room = Room {
                class: dice.place(5) as u32,
                class_below_mark: dice.place(5) as u32,
                capacity: dice.place(5) as u64,
                evictable_from: Tick(dice.place(5) as u64),
            };
            expected.resize(expected.len().max(place + 1), Room::NONE);
            match dice.place(4) {
                0 => {
                    rooms.clear(place);
                    expected[place] = Room::NONE;
                }
                _ => {
                    rooms.set(place, room);
                    expected[place] = room;
                }
            }
            let from = dice.place(80);
            let wanted = |it: &Room| {
                it.class >= room.class
                    && it.class_below_mark >= room.class_below_mark
                    && it.capacity >= room.capacity
                    && it.evictable_from <= room.evictable_from
            };
            let mut there = expected.iter().enumerate().skip(from);
            // The room of a place without a segment meets a wish for nothing.
            let first = there.find(|(_, it)| wanted(it)).map(|(place, _)| place);
            let found = rooms.first_from(from, wanted);
            match room.class {
                0 if first.is_none() => {}
                _ => assert_eq!(found, first, "{room:?} from {from}: {expected:?}"),
            }
            assert_eq!(rooms.get(place), expected[place]);
        }
    }

    #[test]
    fn each_place_is_drawn_for_its_share_of_the_bytes() {
        let mut rooms = Rooms::new();
        assert_eq!(rooms.at_share(7), None);
        for (place, len) in [1, 0, 2, 5].into_iter().enumerate() {
            rooms.set_len(place, len);
        }
        let drawn = (0..8).map(|eighth: u64| rooms.at_share(eighth << 61).unwrap());
        assert_eq!(drawn.collect::<Vec<_>>(), [0, 2, 2, 3, 3, 3, 3, 3]);
        assert_eq!(rooms.at_share(u64::MAX), Some(3));
    }

    #[test]
    fn segments_that_come_and_go_leave_the_shares_of_those_that_are_there() {
        let (mut rooms, mut dice) = (Rooms::new(), Chance::new(5));
        let mut lens: Vec<u64> = Vec::new();
        for _ in 0..5_000 {
            if lens.is_empty() || dice.place(lens.len() + 20) < 20 {
                lens.push(dice.place(6) as u64);
                rooms.set_len(lens.len() - 1, lens[lens.len() - 1]);
            } else {
                let place = dice.place(lens.len());
                rooms.clear(lens.len() - 1);
                lens.swap_remove(place);
                if let Some(&len) = lens.get(place) {
                    rooms.set_len(place, len);
                }
            }
            let bytes: u64 = lens.iter().sum();
            let part = dice.bits();
            let byte = ((u128::from(bytes) * u128::from(part)) >> 64) as u64;
            let mut end = 0;
            let expected = lens.iter().position(|len| {
                end += len;
                end > byte
            });
            assert_eq!(rooms.at_share(part), expected, "byte {byte} of {lens:?}");
        }
    }
}
