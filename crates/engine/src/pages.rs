use thiserror::Error;

use crate::Piece;

/// One field of pages: where its parts lie in this process and in the peer, and how long each is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The address of the field in page 0 of this process.
    pub local: u64,
    /// The distance between pages of this process, in bytes.
    pub local_stride: u64,
    /// The address of the field in page 0 of the peer.
    pub remote: u64,
    /// The distance between pages of the peer, in bytes.
    pub remote_stride: u64,
    /// The length of the field in one page, in bytes.
    pub len: u64,
}

/// Pages and their fields: each field of each page is one piece of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    pages: Vec<(u64, u64)>,
    fields: Vec<Field>,
}

/// Why pages make no transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PagesError {
    /// The lists of pages differ in length.
    #[error("{local} pages of this process, but {remote} of the peer")]
    Uneven {
        /// How many pages of this process there are.
        local: usize,
        /// How many pages of the peer there are.
        remote: usize,
    },
    /// A field has no bytes.
    #[error("field {field} has no bytes")]
    Empty {
        /// The position of the field.
        field: usize,
    },
    /// A field of a page runs past the end of the address space.
    #[error("field {field} of page {page} runs past the end of memory")]
    PastTheEnd {
        /// The position of the field.
        field: usize,
        /// The number of the page.
        page: u64,
    },
}

impl Pages {
    /// The fields of these pages: page `local[i]` of this process and page `remote[i]` of the peer.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(local: Vec<u64>, remote: Vec<u64>, fields: Vec<Field>) -> Result<Pages, PagesError> {
        if local.len() != remote.len() {
            return Err(PagesError::Uneven { local: local.len(), remote: remote.len() });
        }
        for (number, field) in fields.iter().enumerate() {
            if field.len == 0 {
                return Err(PagesError::Empty { field: number });
            }
            let ends = [
                (&local, field.local, field.local_stride),
                (&remote, field.remote, field.remote_stride),
            ];
            for (pages, base, stride) in ends {
                // If the last page lies within memory, all do.
                let Some(&page) = pages.iter().max() else { continue };
                let start = page.checked_mul(stride).and_then(|from| base.checked_add(from));
                let end = start.and_then(|start| start.checked_add(field.len));
                end.ok_or(PagesError::PastTheEnd { field: number, page })?;
            }
        }
        Ok(Pages { pages: local.into_iter().zip(remote).collect(), fields })
    }

    /// The pieces, field by field, in batches of at most `size`, which is not zero.
    pub(crate) fn batches(&self, size: usize) -> impl Iterator<Item = Vec<Piece>> {
        let mut pieces = self.fields.iter().flat_map(|field| {
            self.pages.iter().map(|&(local, remote)| Piece {
                local: field.local + local * field.local_stride,
                remote: field.remote + remote * field.remote_stride,
                len: field.len,
            })
        });
        std::iter::from_fn(move || {
            let batch: Vec<Piece> = pieces.by_ref().take(size).collect();
            (!batch.is_empty()).then_some(batch)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: Field =
        Field { local: 1000, local_stride: 10, remote: 5000, remote_stride: 100, len: 8 };

    fn piece(local: u64, remote: u64, len: u64) -> Piece {
        Piece { local, remote, len }
    }

    #[test]
    fn each_field_of_each_page_is_a_piece() {
        let other = Field { local: 2000, local_stride: 0, len: 1, ..FIELD };
        let pages = Pages::new(vec![0, 7], vec![3, 1], vec![FIELD, other]).expect("they fit");
        let expected = vec![
            piece(1000, 5300, 8),
            piece(1070, 5100, 8),
            piece(2000, 5300, 1),
            piece(2000, 5100, 1),
        ];
        for size in 1..6 {
            let batches: Vec<Vec<Piece>> = pages.batches(size).collect();
            assert!(batches.iter().all(|batch| batch.len() <= size));
            assert_eq!(batches.concat(), expected, "{size} at a time");
        }
        let none = Pages::new(vec![], vec![], vec![FIELD]).expect("nothing is wrong");
        assert_eq!(none.batches(4).count(), 0);
    }

    #[test]
    fn pages_that_make_no_transfer_are_refused() {
        let check = |local: &[u64], remote: &[u64], field, error| {
            assert_eq!(Pages::new(local.to_vec(), remote.to_vec(), vec![FIELD, field]), Err(error));
        };
        check(&[1, 2], &[1], FIELD, PagesError::Uneven { local: 2, remote: 1 });
        check(&[1], &[1], Field { len: 0, ..FIELD }, PagesError::Empty { field: 1 });
        let past = |field, page| PagesError::PastTheEnd { field, page };
        check(&[1], &[u64::MAX, 3][..1], FIELD, past(0, u64::MAX));
        check(&[1, 5, 2], &[1, 1, 1], Field { local_stride: u64::MAX / 4, ..FIELD }, past(1, 5));
        check(&[0], &[0], Field { remote: u64::MAX - 7, ..FIELD }, past(1, 0));
        let last = Field { remote: u64::MAX - 8, ..FIELD };
        assert!(Pages::new(vec![0], vec![0], vec![last]).is_ok());
    }
}
