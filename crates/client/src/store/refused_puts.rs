//! Explains why puts are refused. Callers get a code; the log says now and then what it means here.

use std::time::Instant;

use mooncake_types::{ByteSize, ErrorCode, PutItem, Reply, Request, limits};

use super::session::Session;

impl Session {
    /// Logs why some of these puts were refused, unless the log said so shortly before.
    pub(super) fn explain(&self, items: &[PutItem<'_>], results: &[Result<(), ErrorCode>]) {
        let refused = |code: ErrorCode| {
            let all = items.iter().zip(results).filter(move |(_, result)| **result == Err(code));
            all.map(|(item, _)| item.len).max()
        };
        let admit = |code| self.refused_puts.admit(code, Instant::now());
        let (full, too_early) =
            (ErrorCode::NoAvailableHandle, ErrorCode::UnavailableInCurrentStatus);
        if let Some(longest) = refused(full)
            && let Some(further) = admit(full)
            && let Some(lent) = self.lent_by_all()
        {
            tracing::warn!(further, "a put was refused with -200: {}", why_full(&lent, longest));
        }
        if refused(too_early).is_some()
            && let Some(further) = admit(too_early)
        {
            tracing::warn!(
                further,
                "a put was refused with -1010: the master has just started, and takes none until the nodes that it \
                 remembers have reported, or their time is over; try again in a few seconds"
            );
        }
    }

    /// Lengths of the pool's segments, by the first page of their list.
    fn lent_by_all(&self) -> Option<Vec<u64>> {
        let request = Request::ListSegments { from: 0, limit: limits::MAX_LISTED_SEGMENTS };
        match self.pool.call(&request) {
            Ok(Reply::Segments(page)) => {
                Some(page.segments.iter().map(|segment| segment.len).collect())
            }
            _ => None,
        }
    }
}

fn why_full(lent: &[u64], longest: u64) -> String {
    let total: u64 = lent.iter().sum();
    let (pool, object) = (ByteSize(total), ByteSize(longest));
    if lent.is_empty() {
        "the pool is empty: no node lends memory. Start a mooncake_client, or set global_segment_size".to_owned()
    } else if longest > total {
        format!("the object has {object}, more than all memory of the pool, {pool}; lend more")
    } else {
        format!(
            "no room for {object} in the pool's {pool}: what lies there is leased, pinned or unfinished; wait for a \
             lease, pin less, or lend more"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_pool_is_told_from_an_empty_one_and_from_one_that_is_too_small() {
        for (lent, longest, expected) in [
            (&[][..], 1, "the pool is empty: no node lends memory."),
            (
                &[1 << 30, 1 << 30],
                3 << 30,
                "the object has 3 GB, more than all memory of the pool, 2 GB",
            ),
            (
                &[1 << 30, 1 << 30],
                2 << 30,
                "no room for 2 GB in the pool's 2 GB: what lies there is leased",
            ),
        ] {
            let why = why_full(lent, longest);
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
