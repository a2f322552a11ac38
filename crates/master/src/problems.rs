//! What an operator should look at in the pool of a leader, one sentence a cause. `mooncake status` prints it, beside
//! what the list of segments shows.

use crate::drain_log;
use crate::obstacle;
use crate::owner::Owner;

/// The problems of the pool. A leader that does not serve yet does not know it well enough.
pub(crate) fn of(owner: &Owner) -> Vec<String> {
    let mut problems = Vec::new();
    if obstacle::to_changes(owner).is_none() {
        problems.extend(obstacle::to_any_put(owner));
        problems.extend(of_replicas(owner));
    }
    problems.extend(owner.recent_troubles());
    let stalled = |job| drain_log::stall(&job).map(|why| format!("drain job {}: {why}", job.id));
    problems.extend(owner.meta.running_drains().into_iter().filter_map(stalled));
    let late = owner.record_late();
    if !late.is_zero() {
        problems.push(format!(
            "the membership record could not be written for {} s: no segment can join, and none that is lost is given \
             up",
            late.as_secs()
        ));
    }
    problems
}

fn of_replicas(owner: &Owner) -> Option<String> {
    let (short, repairs) = owner.meta.lacking_replicas();
    let repair = match repairs {
        0 => "none is being repaired: there is no room, or no replica to copy from".to_owned(),
        copies => format!("{copies} are being copied"),
    };
    (short > 0)
        .then(|| format!("{short} objects have fewer replicas than were asked for; {repair}"))
}
