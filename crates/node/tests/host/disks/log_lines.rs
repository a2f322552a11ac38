//! What disks log: one line for each cause, and not one for each object.

use mooncake_tier::testing::DiskDouble;
use mooncake_types::{ErrorCode, SegmentId};

use super::{Piece, host, put, version};

const SEGMENT: SegmentId = SegmentId(1);

/// The log lines of this thread while `act` runs.
fn logged(act: impl FnOnce()) -> Vec<String> {
    mooncake_testing::logged(act).lines().map(str::to_owned).collect()
}

fn count(lines: &[String], text: &str) -> usize {
    lines.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn a_full_disk_is_a_few_lines_and_not_one_for_each_put() {
    let double = DiskDouble::new(1);
    let host = host(&double, SEGMENT);
    let piece = |number: u64| Piece::whole(number % 12 * 40_960, version(number), 30_000);
    double.fill(true);
    let lines = logged(|| {
        for number in 1..=200 {
            let refused = put(&host, SEGMENT, &piece(number));
            assert_eq!(refused, Err(ErrorCode::NoAvailableHandle));
        }
    });
    let cause = "a disk is full of what others wrote there, and nothing of it can go";
    let of_cause = count(&lines, cause);
    assert!((1..5).contains(&of_cause) && lines.len() == of_cause, "{lines:?}");
    double.fill(false);
    (201..=204).for_each(|number| put(&host, SEGMENT, &piece(number)).expect("there is room"));
    double.fill(true);
    let lines = logged(|| {
        (205..=400).for_each(|number| put(&host, SEGMENT, &piece(number)).expect("others go"));
    });
    let of_cause = count(&lines, "objects left a disk for want of room");
    assert!((1..5).contains(&of_cause) && lines.len() == of_cause, "{lines:?}");
    assert!(host.disk_losses().no_room > 0);
}
