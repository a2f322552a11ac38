//! Why this leader refuses changes or finds no room, in words for callers and operators.

use mooncake_meta::{ClosedSegments, KeptRanges, PutObstacle};
use mooncake_types::ByteSize;

use crate::leadership::Service;
use crate::owner::Owner;

/// Why a leader refuses all changes; `None` if it takes them.
pub(crate) fn to_changes(owner: &Owner) -> Option<String> {
    match owner.service() {
        Service::Serving => None,
        Service::Suspended => Some(match owner.silence() {
            Some(silence) => format!(
                "{silence}; until it answers, this master does not know whether it still leads"
            ),
            None => "the lease of this master is over, and it does not know whether it still leads"
                .to_owned(),
        }),
        Service::Recovering => Some(recovering(owner)),
    }
}

fn recovering(owner: &Owner) -> String {
    let Some(awaited) = owner.meta.awaited(0) else { return "the leader is recovering".to_owned() };
    let within = match awaited.at_most_ms {
        Some(ms) => format!(", and waits for them at most {:.1} s more", ms as f64 / 1_000.0),
        None => String::new(),
    };
    format!(
        "the leader is recovering: of the segments that it remembers, {} have not reported and {} are reporting what \
         they hold{within}",
        awaited.missing, awaited.telling
    )
}

/// Why puts are refused, or would be if they found no room.
pub(crate) fn to_puts(owner: &Owner) -> String {
    to_changes(owner).unwrap_or_else(|| words(&owner.meta.put_obstacle()))
}

/// Why no put at all finds a place; `None` if it is a matter of room.
pub(crate) fn to_any_put(owner: &Owner) -> Option<String> {
    match owner.meta.put_obstacle() {
        PutObstacle::Sinking | PutObstacle::InUse { .. } => None,
        obstacle => Some(words(&obstacle)),
    }
}

fn words(obstacle: &PutObstacle) -> String {
    match obstacle {
        PutObstacle::NoMemory => "no node lends memory".to_owned(),
        PutObstacle::AllClosed(closed) if closed.out_of_sight > 0 => {
            format!("no node in sight takes puts: {}; start the nodes again", of_closed(closed))
        }
        PutObstacle::AllClosed(closed) => format!("no segment takes puts: {}", of_closed(closed)),
        PutObstacle::Sinking => {
            "what eviction chose is still being copied to disks, and its memory is not free yet"
                .to_owned()
        }
        PutObstacle::InUse { used, capacity, kept, closed } => {
            let beside = match *closed == ClosedSegments::default() {
                true => String::new(),
                false => format!(" (further segments take no puts: {})", of_closed(closed)),
            };
            let room = format!("{} of {} are in use{beside}", ByteSize(*used), ByteSize(*capacity));
            match of_kept(kept) {
                Some(kept) => format!("{room}, and eviction does not take {kept}"),
                None => format!(
                    "{room}, and neither a free range nor what eviction may take for it is long enough"
                ),
            }
        }
    }
}

fn of_closed(closed: &ClosedSegments) -> String {
    let reasons = [
        (closed.out_of_sight, "whose nodes do not ping"),
        (closed.unreached, "whose nodes the master cannot reach"),
        (closed.recovering, "that are reporting what they hold"),
        (closed.leaving, "that are drained or leave"),
        (closed.stale, "that have removals to catch up with"),
    ];
    let some = reasons.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

fn of_kept(kept: &KeptRanges) -> Option<String> {
    let kept = [
        (kept.leased, "what readers have leases on (--default_kv_lease_ttl)"),
        (kept.hard_pinned, "hard-pinned objects"),
        (kept.soft_pinned, "soft-pinned objects (--allow_evict_soft_pinned_objects)"),
        (kept.unfinished, "puts that have not ended"),
    ];
    let some: Vec<&str> = kept.iter().filter(|(is, _)| *is).map(|(_, what)| *what).collect();
    (!some.is_empty()).then(|| some.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_a_put_names_its_own_cause() {
        let closed = ClosedSegments { out_of_sight: 2, leaving: 1, ..ClosedSegments::default() };
        let drained = ClosedSegments { leaving: 1, ..ClosedSegments::default() };
        let in_use = |kept| PutObstacle::InUse {
            used: 1 << 30,
            capacity: 2 << 30,
            kept,
            closed: ClosedSegments::default(),
        };
        let leased = KeptRanges { leased: true, hard_pinned: true, ..KeptRanges::default() };
        for (obstacle, expected) in [
            (PutObstacle::NoMemory, "no node lends memory"),
            (
                PutObstacle::AllClosed(closed),
                "no node in sight takes puts: 2 whose nodes do not ping, 1 that are drained or leave; start the nodes \
                 again",
            ),
            (PutObstacle::AllClosed(drained), "no segment takes puts: 1 that are drained or leave"),
            (
                in_use(leased),
                "1 GB of 2 GB are in use, and eviction does not take what readers have leases on \
                 (--default_kv_lease_ttl), hard-pinned objects",
            ),
            (
                in_use(KeptRanges::default()),
                "1 GB of 2 GB are in use, and neither a free range nor what eviction may take for it is long enough",
            ),
        ] {
            assert_eq!(words(&obstacle), expected);
        }
    }
}
