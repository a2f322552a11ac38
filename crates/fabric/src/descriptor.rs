//! What a target tells its peers: its address, and how its memory is reached. As bytes, and read from bytes that may be
//! wrong in any way.

use thiserror::Error;

use crate::address::{Address, MAX_ADDRESS_BYTES};
use crate::error::TransferError;
use crate::keys::{Keys, MAX_NICS, NicKeys};

/// Most pieces of remote memory.
pub const MAX_PIECES: usize = 4096;

/// First byte of every descriptor: the version of its form.
const FORM: u8 = 1;

/// The form of memory that has a key for each NIC of the peer.
const FORM_OF_NICS: u8 = 2;

/// Bytes that are no descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DescriptorError {
    /// They end too early, or go on behind the end.
    #[error("a descriptor of the wrong length")]
    Length,
    /// They have a form that this version does not know.
    #[error("a descriptor of the unknown form {form}")]
    Form {
        /// The first byte.
        form: u8,
    },
    /// An address is longer than any.
    #[error("an address of {bytes} bytes")]
    Address {
        /// Its length.
        bytes: u64,
    },
    /// Pieces do not make up the memory.
    #[error("{pieces} pieces of {piece_bytes} bytes for remote memory of {len} bytes")]
    Pieces {
        /// Number of pieces.
        pieces: u64,
        /// Length of all but the last.
        piece_bytes: u64,
        /// Length of the memory.
        len: u64,
    },
    /// A piece does not lie in any address space.
    #[error("remote memory of {len} bytes at {base:#x}")]
    Base {
        /// Address of the first byte.
        base: u64,
        /// Length of the piece.
        len: u64,
    },
    /// The memory has keys for no NIC, or for more than any device has.
    #[error("remote memory with keys for {nics} NICs")]
    Nics {
        /// Number of NICs.
        nics: u8,
    },
}

/// A piece of remote memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// What the provider calls the address of the first byte.
    pub(crate) base: u64,
    pub(crate) keys: Keys,
}

/// Memory of a peer that can be read, written, or both, as its target allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    len: u64,
    piece_bytes: u64,
    pieces: Vec<Piece>,
}

/// Bytes of one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RemoteRange {
    pub(crate) address: u64,
    pub(crate) keys: Keys,
    pub(crate) len: u64,
}

impl RemoteMemory {
    pub(crate) fn new(
        len: u64,
        piece_bytes: u64,
        pieces: Vec<Piece>,
    ) -> Result<RemoteMemory, DescriptorError> {
        let count = pieces.len() as u64;
        let is_whole = piece_bytes != 0 && len != 0 && len.div_ceil(piece_bytes) == count;
        if !is_whole || pieces.len() > MAX_PIECES {
            return Err(DescriptorError::Pieces { pieces: count, piece_bytes, len });
        }
        let memory = RemoteMemory { len, piece_bytes, pieces };
        for (at, piece) in memory.pieces.iter().enumerate() {
            let len = memory.piece_len(at);
            if piece.base.checked_add(len).is_none() {
                return Err(DescriptorError::Base { base: piece.base, len });
            }
        }
        Ok(memory)
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Always false: memory of no bytes is not described.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn piece_len(&self, at: usize) -> u64 {
        (self.len - at as u64 * self.piece_bytes).min(self.piece_bytes)
    }

    /// The piece that holds an offset: its bytes from there on, at most `len`.
    pub(crate) fn range(&self, offset: u64, len: u64) -> RemoteRange {
        let (at, within) = ((offset / self.piece_bytes) as usize, offset % self.piece_bytes);
        let Piece { base, keys } = self.pieces[at];
        RemoteRange { address: base + within, keys, len: len.min(self.piece_len(at) - within) }
    }

    /// Checks that a range lies within the memory.
    pub(crate) fn check(&self, offset: u64, len: u64) -> Result<(), TransferError> {
        match offset.checked_add(len).is_some_and(|end| end <= self.len) {
            true => Ok(()),
            false => Err(TransferError::OutOfRange { offset, len, remote_len: self.len }),
        }
    }

    /// How many NICs of the peer may have keys: that of the first piece counts.
    fn nics(&self) -> Option<u8> {
        match self.pieces.first()?.keys {
            Keys::One(_) => None,
            Keys::Each(keys) => Some(keys.count() as u8),
        }
    }

    /// The descriptor as bytes, at most 26 + (10 + 4 times [`MAX_NICS`]) times [`MAX_PIECES`] of them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let nics = self.nics();
        let mut bytes = vec![if nics.is_some() { FORM_OF_NICS } else { FORM }];
        for word in [self.len, self.piece_bytes, self.pieces.len() as u64] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(nics);
        for Piece { base, keys } in &self.pieces {
            bytes.extend(base.to_le_bytes());
            match keys {
                Keys::One(key) => bytes.extend(key.to_le_bytes()),
                Keys::Each(keys) => {
                    bytes.extend([keys.has(), keys.near()]);
                    let each = keys.each().map(Option::unwrap_or_default);
                    each.for_each(|key| bytes.extend(key.to_le_bytes()));
                }
            }
        }
        bytes
    }

    /// Reads a descriptor.
    ///
    /// # Errors
    /// The bytes are not one.
    pub fn from_bytes(bytes: &[u8]) -> Result<RemoteMemory, DescriptorError> {
        let (form, mut input) = Input::of_any_form(bytes)?;
        let [len, piece_bytes, count] = [input.word()?, input.word()?, input.word()?];
        if count > MAX_PIECES as u64 {
            return Err(DescriptorError::Pieces { pieces: count, piece_bytes, len });
        }
        let nics = match form {
            FORM_OF_NICS => Some(input.bytes::<1>()?[0]),
            _ => None,
        };
        if let Some(nics) = nics.filter(|&nics| nics == 0 || usize::from(nics) > MAX_NICS) {
            return Err(DescriptorError::Nics { nics });
        }
        let piece = |_| Ok(Piece { base: input.word()?, keys: input.keys(nics)? });
        let pieces = (0..count).map(piece).collect::<Result<_, _>>()?;
        input.end()?;
        RemoteMemory::new(len, piece_bytes, pieces)
    }
}

impl Address {
    /// The address as bytes, at most 13 + [`MAX_ADDRESS_BYTES`] of them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORM];
        bytes.extend(u64::from(self.format).to_le_bytes());
        bytes.extend(&self.bytes);
        bytes
    }

    /// Reads an address. Whether an endpoint can use it is checked when it connects.
    ///
    /// # Errors
    /// The bytes are not one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Address, DescriptorError> {
        let mut input = Input::new(bytes)?;
        let format = u32::try_from(input.word()?).map_err(|_| DescriptorError::Length)?;
        let bytes = input.rest.to_vec();
        if bytes.is_empty() || bytes.len() > MAX_ADDRESS_BYTES {
            return Err(DescriptorError::Address { bytes: bytes.len() as u64 });
        }
        Ok(Address { format, bytes })
    }
}

struct Input<'b> {
    rest: &'b [u8],
}

impl<'b> Input<'b> {
    /// Bytes of the first form.
    fn new(bytes: &'b [u8]) -> Result<Self, DescriptorError> {
        match Input::of_any_form(bytes)? {
            (FORM, input) => Ok(input),
            (form, _) => Err(DescriptorError::Form { form }),
        }
    }

    fn of_any_form(bytes: &'b [u8]) -> Result<(u8, Self), DescriptorError> {
        match bytes.split_first() {
            Some((&form @ (FORM | FORM_OF_NICS), rest)) => Ok((form, Input { rest })),
            Some((&form, _)) => Err(DescriptorError::Form { form }),
            None => Err(DescriptorError::Length),
        }
    }

    fn bytes<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], DescriptorError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(DescriptorError::Length)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn word(&mut self) -> Result<u64, DescriptorError> {
        self.bytes().map(u64::from_le_bytes)
    }

    /// The keys of a piece: one, or those of so many NICs.
    fn keys(&mut self, nics: Option<u8>) -> Result<Keys, DescriptorError> {
        let Some(nics) = nics else { return self.word().map(Keys::One) };
        let [has, near] = self.bytes()?;
        let mut each = [None; MAX_NICS];
        for (nic, key) in each.iter_mut().enumerate().take(nics.into()) {
            let number = u32::from_le_bytes(self.bytes()?);
            *key = (has & (1 << nic) != 0).then_some(number);
        }
        Ok(Keys::Each(NicKeys::new(each.into_iter().take(nics.into()), near)))
    }

    fn end(&self) -> Result<(), DescriptorError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DescriptorError::Length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(len: u64, piece_bytes: u64) -> RemoteMemory {
        let piece = |at| Piece { base: 1000 * (at + 1), keys: Keys::One(7 + at) };
        RemoteMemory::new(len, piece_bytes, (0..len.div_ceil(piece_bytes)).map(piece).collect())
            .unwrap()
    }

    /// Memory of two pieces, at a device of three NICs.
    fn of_nics() -> RemoteMemory {
        let keys = |near| Keys::Each(NicKeys::new([Some(7), None, Some(u32::MAX)], near));
        let pieces = vec![Piece { base: 1000, keys: keys(1) }, Piece { base: 2000, keys: keys(0) }];
        RemoteMemory::new(150, 100, pieces).unwrap()
    }

    #[test]
    fn memory_with_keys_of_nics_that_no_device_has_is_refused() {
        let bytes = of_nics().to_bytes();
        assert_eq!(bytes.len(), 26 + 2 * (10 + 3 * 4));
        for len in 0..bytes.len() {
            assert!(RemoteMemory::from_bytes(&bytes[..len]).is_err(), "{len} bytes of it");
        }
        for nics in [0, 9, 255] {
            let mut changed = bytes.clone();
            changed[25] = nics;
            let error = DescriptorError::Nics { nics };
            assert_eq!(RemoteMemory::from_bytes(&changed), Err(error));
        }
    }

    #[test]
    fn a_descriptor_is_read_as_it_was_written() {
        for memory in [memory(1, 1 << 30), memory(250, 100), memory(300, 100), of_nics()] {
            assert_eq!(RemoteMemory::from_bytes(&memory.to_bytes()), Ok(memory));
        }
        let address = Address { format: 9, bytes: b"fi_shm://1\0".to_vec() };
        assert_eq!(Address::from_bytes(&address.to_bytes()), Ok(address));
    }

    #[test]
    fn every_part_of_a_range_lies_in_one_piece() {
        let memory = memory(250, 100);
        let check = |offset, len, address, key, expected_len| {
            let expected = RemoteRange { address, keys: Keys::One(key), len: expected_len };
            assert_eq!(memory.range(offset, len), expected);
        };
        check(0, 250, 1000, 7, 100);
        check(99, 2, 1099, 7, 1);
        check(100, 150, 2000, 8, 100);
        check(230, 20, 3030, 9, 20);
        for (offset, len, is_within) in
            [(0, 250, true), (250, 0, true), (249, 2, false), (u64::MAX, 2, false)]
        {
            assert_eq!(memory.check(offset, len).is_ok(), is_within, "{len} from {offset}");
        }
    }

    #[test]
    fn bytes_that_are_no_descriptor_are_refused() {
        let bytes = memory(250, 100).to_bytes();
        for len in 0..bytes.len() {
            assert!(RemoteMemory::from_bytes(&bytes[..len]).is_err(), "{len} bytes of it");
        }
        let change = |at: usize, to: u64| {
            let mut changed = bytes.clone();
            changed[at..at + 8].copy_from_slice(&to.to_le_bytes());
            RemoteMemory::from_bytes(&changed)
        };
        let pieces =
            |pieces, piece_bytes, len| Err(DescriptorError::Pieces { pieces, piece_bytes, len });
        assert_eq!(change(1, 301), pieces(3, 100, 301));
        assert_eq!(change(1, 0), pieces(3, 100, 0));
        assert_eq!(change(9, 0), pieces(3, 0, 250));
        assert_eq!(change(17, 1 << 40), pieces(1 << 40, 100, 250));
        assert_eq!(change(17, 2), Err(DescriptorError::Length));
        let base = u64::MAX - 99;
        assert_eq!(change(25, base), Err(DescriptorError::Base { base, len: 100 }));
        let with_more = [bytes.as_slice(), &[0]].concat();
        assert_eq!(RemoteMemory::from_bytes(&with_more), Err(DescriptorError::Length));
        assert_eq!(RemoteMemory::from_bytes(&[3, 0]), Err(DescriptorError::Form { form: 3 }));

        let address = |len: usize| Address { format: 12, bytes: vec![1; len] }.to_bytes();
        assert!(Address::from_bytes(&address(MAX_ADDRESS_BYTES)).is_ok());
        for len in [0, MAX_ADDRESS_BYTES + 1] {
            let error = DescriptorError::Address { bytes: len as u64 };
            assert_eq!(Address::from_bytes(&address(len)), Err(error));
        }
        assert_eq!(Address::from_bytes(&[1, 2]), Err(DescriptorError::Length));
        let of_nics = Err(DescriptorError::Form { form: 2 });
        assert_eq!(Address::from_bytes(&[2; 20]), of_nics);
        assert_eq!(Address::from_bytes(&[1; 20]), Err(DescriptorError::Length));
    }
}
