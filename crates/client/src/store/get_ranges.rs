use mooncake_ops::{GetItem, Part};
use mooncake_types::ErrorCode;

use super::Store;
use super::closed::CLOSED;
use super::ranged::{Fragments, Ranged};

impl Store {
    /// Gets parts of objects straight into the callers' memory. All fragments of one item are of one version.
    ///
    /// Returns the results of the fragments of each item: their lengths in bytes, or [`ErrorCode::InvalidParams`] for
    /// a fragment that runs past the end of the object. If the get of an item fails, all its fragments get the error
    /// that [`Store::get_into`] would return. The master is asked once for each item, however many fragments it has.
    pub fn get_ranges(&self, items: &[Ranged<'_>]) -> Vec<Vec<Result<u64, ErrorCode>>> {
        let parts: Vec<Vec<Part>> = items.iter().map(Ranged::parts).collect();
        let found = match self.session() {
            None => vec![Err(CLOSED); items.len()],
            Some(session) => {
                let wanted = items.iter().zip(&parts);
                let wanted: Vec<GetItem<'_>> =
                    wanted.map(|(item, parts)| GetItem::parts(item.key, parts)).collect();
                session.get(&wanted, &mut Fragments::new(items))
            }
        };
        let of_item = |(found, parts): (Result<u64, ErrorCode>, &Vec<Part>)| {
            parts.iter().map(|part| of_fragment(found, part)).collect()
        };
        found.into_iter().zip(&parts).map(of_item).collect()
    }
}

fn of_fragment(object_len: Result<u64, ErrorCode>, part: &Part) -> Result<u64, ErrorCode> {
    match part.lies_within(object_len?) {
        true => Ok(part.len),
        false => Err(ErrorCode::InvalidParams),
    }
}
