//! What disks log: one line for each cause, and not one for each object.

use std::io;
use std::sync::{Arc, Mutex};

use mooncake_tier::testing::DiskDouble;
use mooncake_types::{ErrorCode, SegmentId};

use super::{Piece, host, put, version};

const SEGMENT: SegmentId = SegmentId(1);

/// Captures log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log lines of this thread while `act` runs.
fn logged(act: impl FnOnce()) -> Vec<String> {
    let log = Log::default();
    let of_writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_ansi(false)
        .with_writer(move || of_writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    let bytes = log.0.lock().expect("no writer panicked").clone();
    let text = String::from_utf8(bytes).expect("a log is text");
    text.lines().map(str::to_owned).collect()
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
