//! Drains that outlive their leader.

use mooncake_types::{DrainStatus, MountOutcome, SegmentId, SegmentState};

use crate::KIB;
use crate::drain::{A, carry, drain, put_on, report, state, world};
use crate::recovery::{leader, mount, mounted};

const FIRST: SegmentId = SegmentId(1);
const SECOND: SegmentId = SegmentId(2);

#[test]
fn a_drain_is_marked_until_it_is_undone_canceled_or_failed() {
    let mut world = world();
    put_on(&mut world, "moved", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(world.meta.take_drain_marks(), [(FIRST, true)]);
    carry(&mut world, id, Ok(()));
    assert_eq!(world.meta.take_drain_marks(), [], "it stays drained under the next leader");
    assert_eq!(world.meta.undrain(world.now, A), Ok(()));
    assert_eq!(world.meta.take_drain_marks(), [(FIRST, false)]);
    put_on(&mut world, "stays", 4 * KIB, &[A]);
    let id = drain(&mut world, &[A], &[]);
    assert_eq!(world.meta.cancel_drain(world.now, id), Ok(()));
    assert_eq!(world.meta.take_drain_marks(), [(FIRST, true), (FIRST, false)]);
}

#[test]
fn a_drain_outlives_its_leader() {
    let mut world = leader(&[FIRST, SECOND]);
    world.meta.resume_drains([FIRST, SegmentId(9)]);
    for segment in [FIRST, SECOND] {
        assert_eq!(mount(&mut world, segment, true), mounted(MountOutcome::Ready));
        world.advance(500);
    }
    world.advance(500);
    let jobs = world.meta.drain_jobs();
    let [job] = &jobs[..] else { panic!("{jobs:?}") };
    assert_eq!(job.segments, ["node-1:12345"]);
    assert_eq!(report(&world, job.id).status, DrainStatus::Succeeded);
    assert_eq!(state(&world, "node-1:12345"), SegmentState::Drained);
    assert_eq!(state(&world, "node-2:12345"), SegmentState::Ok);
    assert_eq!(world.meta.take_drain_marks(), [], "the record has the mark");
}
