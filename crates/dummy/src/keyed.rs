use std::cmp::Ordering;

use mooncake_types::{DummyReply, DummyRequest, ErrorCode, ExistOptions, PrefetchLimits, limits};

use super::batch::{CallRoom, INVALID_REPLY, by_position};
use super::put::{check_key, statuses};
use super::segment_table::locations;
use super::store::DummyStore;
use mooncake_client::{Health, ObjectLocation, ProbeLeases, probe};

/// Results by position.
type Results<T> = Vec<Result<T, ErrorCode>>;

impl DummyStore {
    /// Whether the host process answers, and its master answers it.
    #[must_use]
    pub fn health(&self) -> Health {
        match self.ask(&DummyRequest::Health) {
            Ok(DummyReply::Health(true)) => Health::Ok,
            _ => Health::MasterUnreachable,
        }
    }

    /// As [`mooncake_client::Store::exist`].
    pub fn exist(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>> {
        self.exist_with(keys, ExistOptions::default())
    }

    /// As [`mooncake_client::Store::exist_with`].
    pub fn exist_with(&self, keys: &[&str], options: ExistOptions) -> Vec<Result<bool, ErrorCode>> {
        let found =
            |answer| if let DummyReply::Exist(results) = answer { Some(results) } else { None };
        self.by_key(keys, |keys| DummyRequest::Exist { keys, options }, found)
    }

    /// As [`mooncake_client::Store::exist_prefetching`], if the host process prefetches, and within its limits.
    pub fn exist_prefetching(&self, keys: &[&str]) -> Vec<Result<bool, ErrorCode>> {
        let prefetch = Some(PrefetchLimits::default());
        self.exist_with(keys, ExistOptions { prefetch, ..ExistOptions::default() })
    }

    /// As [`mooncake_client::Store::probe`].
    pub fn probe(&self, keys: &[&str], leases: ProbeLeases) -> Vec<Result<bool, ErrorCode>> {
        probe(keys, leases, |keys, options| self.exist_with(keys, options))
    }

    /// As [`mooncake_client::Store::prefix_len`].
    ///
    /// # Errors
    /// As there.
    pub fn prefix_len(&self, keys: &[&str], leased_from: usize) -> Result<u64, ErrorCode> {
        keys.iter().try_for_each(|key| check_key(key))?;
        let (mut left, mut found) = (keys, 0);
        while !left.is_empty() {
            let mut room = CallRoom::new();
            let taken = left.iter().take_while(|key| room.take(key.len(), 0)).count();
            let (asked, rest) = left.split_at(taken);
            let leased_from = leased_from.saturating_sub(keys.len() - left.len());
            let leased_from = leased_from.min(taken) as u32;
            let answer =
                self.ask(&DummyRequest::PrefixLen { keys: asked.to_vec(), leased_from })?;
            let DummyReply::PrefixLen(count) = answer else { return Err(INVALID_REPLY) };
            found += u64::from(count);
            left = match taken.cmp(&(count as usize)) {
                Ordering::Equal => rest,
                Ordering::Greater => break,
                Ordering::Less => return Err(INVALID_REPLY),
            };
        }
        Ok(found)
    }

    /// As [`mooncake_client::Store::locate`].
    pub fn locate(&self, keys: &[&str]) -> Vec<Result<ObjectLocation, ErrorCode>> {
        self.locate_for(keys, false)
    }

    /// As [`locate`](Self::locate); a key without an object counts as a missed get.
    pub(super) fn locate_to_get(&self, keys: &[&str]) -> Vec<Result<ObjectLocation, ErrorCode>> {
        self.locate_for(keys, true)
    }

    fn locate_for(&self, keys: &[&str], to_get: bool) -> Vec<Result<ObjectLocation, ErrorCode>> {
        let found = |answer| match answer {
            DummyReply::Located { results, segments } => Some(locations(results, &segments)),
            _ => None,
        };
        self.by_key(keys, |keys| DummyRequest::Locate { to_get, keys }, found)
    }

    /// As [`mooncake_client::Store::size`].
    ///
    /// # Errors
    /// As there.
    pub fn size(&self, key: &str) -> Result<u64, ErrorCode> {
        let found = self.locate(&[key]).into_iter().next();
        found.unwrap_or(Err(INVALID_REPLY)).map(|location| location.len)
    }

    /// As [`mooncake_client::Store::remove`].
    pub fn remove(&self, keys: &[&str], force: bool) -> Vec<Result<(), ErrorCode>> {
        self.by_key(keys, |keys| DummyRequest::Remove { keys, force }, statuses)
    }

    /// As [`mooncake_client::Store::clear_replicas`].
    pub fn clear_replicas(&self, keys: &[&str], segment: &str) -> Vec<Result<(), ErrorCode>> {
        if segment.len() > limits::MAX_NAME_BYTES {
            return vec![Err(ErrorCode::InvalidParams); keys.len()];
        }
        self.by_key(keys, |keys| DummyRequest::ClearReplicas { keys, segment }, statuses)
    }

    /// As [`mooncake_client::Store::remove_all`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_all(&self, force: bool) -> Result<u64, ErrorCode> {
        self.remove_scanned(None, force)
    }

    /// As [`mooncake_client::Store::remove_by_regex`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_by_regex(&self, pattern: &str, force: bool) -> Result<u64, ErrorCode> {
        check_pattern(pattern)?;
        self.remove_scanned(Some(pattern), force)
    }

    fn remove_scanned(&self, pattern: Option<&str>, force: bool) -> Result<u64, ErrorCode> {
        match self.ask(&DummyRequest::RemoveMatching { pattern, force })? {
            DummyReply::Removed(count) => Ok(count),
            _ => Err(INVALID_REPLY),
        }
    }

    /// As [`mooncake_client::Store::list_by_regex`], and [`ErrorCode::BufferOverflow`] for a list of more than 32 MiB.
    ///
    /// # Errors
    /// As there.
    pub fn list_by_regex(&self, pattern: &str) -> Result<Vec<(String, ObjectLocation)>, ErrorCode> {
        check_pattern(pattern)?;
        match self.ask(&DummyRequest::List { pattern })? {
            DummyReply::Listed { objects, segments } => {
                let (keys, places): (Vec<_>, Vec<_>) = objects.into_iter().unzip();
                let places = locations(places.into_iter().map(Ok).collect(), &segments);
                keys.into_iter().zip(places).map(|(key, place)| Ok((key, place?))).collect()
            }
            _ => Err(INVALID_REPLY),
        }
    }

    fn ask(&self, call: &DummyRequest<'_>) -> Result<DummyReply, ErrorCode> {
        let attachment = self.attachment()?;
        self.link.call(&attachment, call).map_err(|failure| failure.code())
    }

    /// Makes calls, each with as many keys as a frame has room for.
    fn by_key<'k, T: Clone>(
        &self,
        keys: &[&'k str],
        call: impl Fn(Vec<&'k str>) -> DummyRequest<'k>,
        found: impl Fn(DummyReply) -> Option<Results<T>>,
    ) -> Results<T> {
        let mut results: Results<T> =
            keys.iter().map(|key| Err(check_key(key).err().unwrap_or(INVALID_REPLY))).collect();
        let good: Vec<usize> = (0..keys.len()).filter(|&at| check_key(keys[at]).is_ok()).collect();
        let mut left = &good[..];
        while !left.is_empty() {
            let mut room = CallRoom::new();
            let taken = left.iter().take_while(|&&at| room.take(keys[at].len(), 0)).count();
            let (positions, rest) = left.split_at(taken);
            left = rest;
            let answered = self.ask(&call(positions.iter().map(|&at| keys[at]).collect()));
            for (&at, result) in positions.iter().zip(by_position(answered, taken, &found)) {
                results[at] = result;
            }
        }
        results
    }
}

/// Refuses a pattern for which a frame has no room. The master checks the rest.
fn check_pattern(pattern: &str) -> Result<(), ErrorCode> {
    if pattern.len() <= limits::MAX_REGEX_BYTES { Ok(()) } else { Err(ErrorCode::InvalidParams) }
}
