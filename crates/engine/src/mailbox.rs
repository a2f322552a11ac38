use std::collections::VecDeque;

use thiserror::Error;

/// Most bytes of a note's name and text together.
pub const MAX_NOTE_BYTES: usize = 64 << 10;

/// Most notes in the mailbox.
pub const MAX_NOTES: usize = 65_536;

/// Most bytes of all notes in the mailbox.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// Length of the prefix of an encoded note, which says how long the name is.
pub(crate) const HEAD_BYTES: usize = 4;

/// A message that one engine leaves with another after a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The subject of the note.
    pub name: String,
    /// The message.
    pub text: String,
}

/// A note is longer than [`MAX_NOTE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a note of {len} bytes is longer than {MAX_NOTE_BYTES}")]
pub struct NoteTooLong {
    /// Its length in bytes.
    pub len: usize,
}

impl Note {
    /// Encodes the note: the length of the name in four bytes, little endian, then the name and the text.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, NoteTooLong> {
        let len = self.len();
        if len > MAX_NOTE_BYTES {
            return Err(NoteTooLong { len });
        }
        let mut bytes = (self.name.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(self.text.as_bytes());
        Ok(bytes)
    }

    /// Decodes a note. `None` if the bytes are not those of a note.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Note> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let (name, text) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
        let owned = |bytes| std::str::from_utf8(bytes).map(str::to_owned).ok();
        let note = Note { name: owned(name)?, text: owned(text)? };
        (note.len() <= MAX_NOTE_BYTES).then_some(note)
    }

    fn len(&self) -> usize {
        self.name.len() + self.text.len()
    }
}

/// Notes that have arrived and were not taken, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    notes: VecDeque<Note>,
    bytes: usize,
}

impl Mailbox {
    /// Adds a note. False if the mailbox is full: the sender then learns of it, and no acknowledged note is lost.
    pub(crate) fn put(&mut self, note: Note) -> bool {
        let bytes = self.bytes + note.len();
        let fits = self.notes.len() < MAX_NOTES && bytes <= MAX_WAITING_BYTES;
        if fits {
            self.bytes = bytes;
            self.notes.push_back(note);
        }
        fits
    }

    /// Takes all notes.
    pub(crate) fn take(&mut self) -> Vec<Note> {
        self.bytes = 0;
        std::mem::take(&mut self.notes).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, text: &str) -> Note {
        Note { name: name.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_note_comes_out_as_it_went_in() {
        for note in [note("", ""), note("name", ""), note("", "text"), note("näme", "tëxt\0")] {
            assert_eq!(Note::decode(&note.encode().expect("short")), Some(note));
        }
    }

    #[test]
    fn bytes_that_are_no_note_are_refused() {
        let too_long = [&4_u32.to_le_bytes()[..], &[b'x'; MAX_NOTE_BYTES + 1]].concat();
        let broken: [&[u8]; 6] = [
            b"",
            b"\x01\0\0",
            b"\x01\0\0\0",
            b"\xff\xff\xff\xffname",
            b"\x01\0\0\0\xff",
            &too_long,
        ];
        for bytes in broken {
            assert_eq!(Note::decode(bytes), None, "{:?}", &bytes[..bytes.len().min(9)]);
        }
        let long = note("n", &"x".repeat(MAX_NOTE_BYTES));
        assert_eq!(long.encode(), Err(NoteTooLong { len: MAX_NOTE_BYTES + 1 }));
    }

    #[test]
    fn a_full_box_refuses_and_keeps_what_it_has() {
        let mut mailbox = Mailbox::default();
        for number in 0..MAX_NOTES {
            assert!(mailbox.put(note(&number.to_string(), "")));
        }
        assert!(!mailbox.put(note("late", "")));
        let notes = mailbox.take();
        assert_eq!((notes.len(), &notes[0], mailbox.take()), (MAX_NOTES, &note("0", ""), vec![]));
        let large = "x".repeat(MAX_NOTE_BYTES);
        for _ in 0..MAX_WAITING_BYTES / MAX_NOTE_BYTES {
            assert!(mailbox.put(note("", &large)));
        }
        assert!(!mailbox.put(note("", "x")));
    }
}
