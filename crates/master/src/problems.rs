//! What an operator should look at in the pool, one sentence a cause, and what to do about it. `/health`, the page and
//! `mooncake status` tell the same.

use crate::drain_log;
use crate::obstacle;
use crate::owner::Owner;

/// Something that an operator should look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong.
    pub text: String,
    /// What to do; empty if the text says all.
    pub remedy: &'static str,
}

/// A segment, as far as it can be a problem.
#[derive(Clone, Copy, Debug)]
pub struct SegmentSight<'a> {
    /// Its name.
    pub name: &'a str,
    /// `memory`, `disk`, `shared disk` or `object store`.
    pub medium: &'a str,
    /// The address at which its node serves it.
    pub endpoint: &'a str,
    /// Whether its node pings.
    pub is_in_sight: bool,
    /// Whether the master reaches its endpoint.
    pub is_reachable: bool,
}

impl Problem {
    pub(crate) fn new(text: String, remedy: &'static str) -> Self {
        Self { text, remedy }
    }

    /// The problem of a leader in this state, like `recovering`, unless it serves.
    #[must_use]
    pub fn of_leader(state: &str, reason: Option<&str>) -> Option<Self> {
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let text = format!(
            "the leader is {state}{reason}: puts and removals are tried for a while, and then fail with -1010"
        );
        let remedy = match state {
            "suspended" => "look at the coordinator, and at the network between it and this master",
            _ => "start the nodes that are missing",
        };
        (state != "serving").then_some(Self { text, remedy })
    }

    /// The problem of a segment, if it has one.
    #[must_use]
    pub fn of_segment(segment: &SegmentSight<'_>) -> Option<Self> {
        let SegmentSight { name, medium, endpoint, .. } = segment;
        if !segment.is_in_sight {
            let text = format!(
                "{medium} of {name}: its node does not ping; what lies there cannot be read"
            );
            return Some(Self::new(text, "start the node again; its log says why it stopped"));
        }
        let text = format!("{medium} of {name}: the master cannot reach it at {endpoint}");
        let remedy = "look at the --host or --advertise_address of the node, and at firewalls";
        (!segment.is_reachable).then(|| Self::new(text, remedy))
    }
}

/// The problems of the pool, but for those of single segments. A leader that does not serve yet does not know it well
/// enough.
pub(crate) fn of(owner: &Owner) -> Vec<Problem> {
    let mut problems = Vec::new();
    if obstacle::to_changes(owner).is_none() {
        let no_place = |text| {
            let remedy = "start nodes that lend memory, or end drains: the list of segments says which are closed";
            Problem::new(text, remedy)
        };
        problems.extend(obstacle::to_any_put(owner).map(no_place));
        problems.extend(of_replicas(owner));
    }
    problems.extend(owner.recent_troubles());
    let stalled = |job| {
        let why = drain_log::stall(&job)?;
        let remedy = "add a node with room, or cancel the job: mooncake drain --cancel JOB";
        Some(Problem::new(format!("drain job {}: {why}", job.id), remedy))
    };
    problems.extend(owner.meta.running_drains().into_iter().filter_map(stalled));
    let late = owner.record_late();
    if !late.is_zero() {
        let text = format!(
            "the membership record could not be written for {} s: no segment can join, and none that is lost is given \
             up",
            late.as_secs()
        );
        let remedy = "look at the coordinator, or at the disk of --state_dir";
        problems.push(Problem::new(text, remedy));
    }
    problems
}

fn of_replicas(owner: &Owner) -> Option<Problem> {
    let (short, repairs) = owner.meta.lacking_replicas();
    let (repair, remedy) = match repairs {
        0 => {
            let reason = "none is being repaired: there is no room, or no replica to copy from";
            (reason.to_owned(), "add a node, or wait until a node that is away is back")
        }
        copies => (format!("{copies} are being copied"), "wait; a node that is away may come back"),
    };
    let text = format!("{short} objects have fewer replicas than were asked for; {repair}");
    (short > 0).then(|| Problem::new(text, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_a_problem_if_it_is_out_of_sight_or_not_reached() {
        for (is_in_sight, is_reachable, expected) in [
            (true, true, None),
            (
                false,
                true,
                Some("disk of n:1: its node does not ping; what lies there cannot be read"),
            ),
            (
                false,
                false,
                Some("disk of n:1: its node does not ping; what lies there cannot be read"),
            ),
            (true, false, Some("disk of n:1: the master cannot reach it at n:2")),
        ] {
            let (name, medium, endpoint) = ("n:1", "disk", "n:2");
            let sight = SegmentSight { name, medium, endpoint, is_in_sight, is_reachable };
            assert_eq!(Problem::of_segment(&sight).map(|it| it.text).as_deref(), expected);
        }
    }

    #[test]
    fn a_leader_that_serves_is_no_problem() {
        assert_eq!(Problem::of_leader("serving", None), None);
        let recovering = Problem::of_leader("recovering", Some("2 are missing")).expect("one");
        let text = "the leader is recovering (2 are missing): puts and removals are tried for a while, and then fail \
                    with -1010";
        assert_eq!(
            (&*recovering.text, recovering.remedy),
            (text, "start the nodes that are missing")
        );
    }
}
