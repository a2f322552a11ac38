//! Explains why calls are refused. Callers get a code; the log says now and then what it means here.

use std::time::Instant;

use mooncake_calls::current;
use mooncake_types::{ByteSize, CallId, ErrorCode, PutItem, Reply, Request, SegmentPage, limits};
use tracing::field::{DisplayValue, display};

use super::session::Session;

/// The codes whose cause only the master knows.
const FULL: ErrorCode = ErrorCode::NoAvailableHandle;
const REFUSED: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

/// The codes of puts that a quota forbids.
const TENANT_CODES: [ErrorCode; 2] =
    [ErrorCode::TenantQuotaExceeded, ErrorCode::TenantNotRegistered];

impl Session {
    /// Logs why some of these puts were refused, unless the log said so shortly before.
    pub(super) fn explain_puts(&self, items: &[PutItem<'_>], results: &[Result<(), ErrorCode>]) {
        let full = items.iter().zip(results).filter(|(_, result)| **result == Err(FULL));
        if let Some(longest) = full.map(|(item, _)| item.len).max()
            && let Some(further) = self.refusals.admit(FULL, Instant::now())
            && let Some(pool) = self.listed()
        {
            tracing::warn!(
                request = request(),
                further,
                "a put was refused with -200: {}",
                why_full(&pool, longest)
            );
        }
        for code in TENANT_CODES {
            if results.contains(&Err(code))
                && let Some(further) = self.refusals.admit(code, Instant::now())
                && let Some(advice) = code.advice()
            {
                let number = code.number();
                tracing::warn!(
                    request = request(),
                    further,
                    "a put was refused with {number}: {}",
                    advice.meaning
                );
            }
        }
        self.explain("a put", results);
    }

    /// Logs why some of these calls were refused by a master that answers, unless the log said so shortly before.
    pub(super) fn explain<'a, T: 'a>(
        &self,
        what: &str,
        results: impl IntoIterator<Item = &'a Result<T, ErrorCode>>,
    ) {
        if results.into_iter().any(|result| matches!(result, Err(REFUSED)))
            && let Some(further) = self.refusals.admit(REFUSED, Instant::now())
        {
            let why = why_refused(self.listed().as_ref());
            tracing::warn!(request = request(), further, "{what} was refused with -1010: {why}");
        }
    }

    /// The first page of the pool's segments, and what stands in the way of puts there.
    fn listed(&self) -> Option<SegmentPage> {
        let request = Request::ListSegments { from: 0, limit: limits::MAX_LISTED_SEGMENTS };
        match self.pool.call(&request) {
            Ok(Reply::Segments(page)) => Some(page),
            _ => None,
        }
    }
}

/// The id of the call, for its lines.
fn request() -> Option<DisplayValue<CallId>> {
    current().map(display)
}

fn why_full(pool: &SegmentPage, longest: u64) -> String {
    let total: u64 = pool.segments.iter().map(|segment| segment.len).sum();
    let (room, object) = (ByteSize(total), ByteSize(longest));
    if pool.segments.is_empty() {
        "the pool is empty: no node lends memory. Start a mooncake_client, or set global_segment_size".to_owned()
    } else if longest > total {
        format!("the object has {object}, more than all memory of the pool, {room}; lend more")
    } else if pool.put_obstacle.is_empty() {
        format!("no room for {object} in the pool's {room}")
    } else {
        format!("no room for {object} in the pool: {}", pool.put_obstacle)
    }
}

fn why_refused(pool: Option<&SegmentPage>) -> String {
    match pool {
        None => "the master said so, and does not answer now".to_owned(),
        Some(pool) if pool.put_obstacle.is_empty() => {
            "the master takes no changes for now; its log says why".to_owned()
        }
        Some(pool) => pool.put_obstacle.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mooncake_types::{ListedSegment, Medium, Seal, SegmentAddress, SegmentId};

    use super::*;

    fn pool(lens: &[u64], put_obstacle: &str) -> SegmentPage {
        let name: Arc<str> = Arc::from("n:1");
        let address = SegmentAddress {
            id: SegmentId(1),
            name: Arc::clone(&name),
            endpoint: name,
            medium: Medium::Memory,
        };
        let listed = |&len: &u64| ListedSegment { address: address.clone(), len, seal: Seal::NONE };
        let segments = lens.iter().map(listed).collect();
        SegmentPage { segments, put_obstacle: put_obstacle.to_owned(), next: None }
    }

    #[test]
    fn a_full_pool_is_told_from_an_empty_one_from_one_that_is_too_small_and_from_one_without_nodes()
    {
        let dead = "no node in sight takes puts: 2 whose nodes do not ping";
        for (lent, obstacle, longest, expected) in [
            (&[][..], "no node lends memory", 1, "the pool is empty: no node lends memory."),
            (
                &[1 << 30, 1 << 30],
                dead,
                3 << 30,
                "the object has 3 GB, more than all memory of the pool, 2 GB",
            ),
            (&[1 << 30, 1 << 30], "", 2 << 30, "no room for 2 GB in the pool's 2 GB"),
            (
                &[1 << 30, 1 << 30],
                dead,
                2 << 30,
                "no room for 2 GB in the pool: no node in sight takes puts: 2 whose nodes do not ping",
            ),
        ] {
            let why = why_full(&pool(lent, obstacle), longest);
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[test]
    fn a_dead_coordinator_is_not_told_as_a_start_of_the_master() {
        let silent = "no coordinator since 3 s: etcd at http://e1:2379 gave no useful answer";
        assert_eq!(why_refused(Some(&pool(&[1], silent))), silent);
        assert!(why_refused(Some(&pool(&[1], ""))).contains("its log says why"));
        assert!(why_refused(None).contains("does not answer now"));
    }
}
