use std::collections::BTreeMap;

use mooncake_types::Version;

/// What each byte of the simulated memory says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The number of the object's key.
    pub(crate) key: usize,
    /// The version of the object that the byte belongs to.
    pub(crate) version: Version,
    /// The byte's offset in the object.
    pub(crate) at: u64,
    /// The grant under which it was written here.
    pub(crate) grant: Version,
}

/// A run of bytes. The first has this content; the content of the others follows from it. Bytes without a
/// write have no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) len: u64,
    pub(crate) content: Option<Content>,
}

impl Piece {
    /// The bytes from `from` on, at most `len` of them.
    fn part(self, from: u64, len: u64) -> Piece {
        let content = self.content.map(|content| Content { at: content.at + from, ..content });
        Piece { len: len.min(self.len - from), content }
    }

    fn is_followed_by(self, other: Piece) -> bool {
        self.part_after() == other.content
    }

    fn part_after(self) -> Option<Content> {
        self.content.map(|content| Content { at: content.at + self.len, ..content })
    }
}

/// Simulated memory. Its cost grows with the number of pieces written, not with its length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents {
    pieces: BTreeMap<u64, Piece>,
}

impl Extents {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Writes pieces one after the other, from `offset` on.
    pub(crate) fn write(&mut self, offset: u64, pieces: &[Piece]) {
        let mut at = offset;
        for piece in pieces.iter().filter(|piece| piece.len > 0) {
            self.clear(at, piece.len);
            self.pieces.insert(at, *piece);
            at += piece.len;
        }
    }

    /// The `len` bytes from `offset` on. Bytes without a write have no content.
    pub(crate) fn read(&self, offset: u64, len: u64) -> Vec<Piece> {
        let mut found: Vec<Piece> = Vec::new();
        let mut push = |piece: Piece| match found.last_mut() {
            Some(last) if last.is_followed_by(piece) => last.len += piece.len,
            _ if piece.len > 0 => found.push(piece),
            _ => {}
        };
        let (mut at, end) = (offset, offset + len);
        for (start, piece) in self.overlapping(offset, len) {
            if at < start {
                push(Piece { len: start - at, content: None });
                at = start;
            }
            let part = piece.part(at - start, end - at);
            push(part);
            at += part.len;
        }
        push(Piece { len: end - at, content: None });
        found
    }

    /// The pieces that share a byte with a range, with their offsets.
    pub(crate) fn overlapping(
        &self,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (u64, Piece)> + '_ {
        let before = self.pieces.range(..=offset).next_back();
        let first = before.filter(|(start, piece)| *start + piece.len > offset);
        let start = first.map_or(offset, |(&start, _)| start);
        self.pieces.range(start..offset + len).map(|(&start, &piece)| (start, piece))
    }

    fn clear(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let cut: Vec<(u64, Piece)> = self.overlapping(offset, len).collect();
        for (start, piece) in cut {
            self.pieces.remove(&start);
            if start < offset {
                self.pieces.insert(start, piece.part(0, offset - start));
            }
            if start + piece.len > end {
                self.pieces.insert(end, piece.part(end - start, piece.len));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_types::Chance;

    #[test]
    fn memory_of_pieces_is_memory_of_bytes() {
        for start in 0..200 {
            let mut chance = Chance::new(start);
            let (mut extents, mut bytes) = (Extents::default(), [None; 64]);
            for counter in 1..40 {
                let offset = chance.below(64);
                let len = 1 + chance.below(64 - offset);
                let version = Version { epoch: mooncake_types::Epoch(1), counter };
                let content = Content { key: 0, version, at: chance.below(5), grant: version };
                extents.write(offset, &[Piece { len, content: Some(content) }]);
                for at in 0..len {
                    bytes[(offset + at) as usize] =
                        Some(Content { at: content.at + at, ..content });
                }
                let offset = chance.below(64);
                let len = 1 + chance.below(64 - offset);
                let read = extents
                    .read(offset, len)
                    .into_iter()
                    .flat_map(|piece| (0..piece.len).map(move |at| piece.part(at, 1).content));
                let expected = &bytes[offset as usize..(offset + len) as usize];
                assert_eq!(read.collect::<Vec<_>>(), expected, "start {start}, step {counter}");
            }
        }
    }
}
