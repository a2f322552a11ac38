use std::time::Duration;

use mooncake_types::{ErrorCode, MountOutcome, Reply, Request, ScanAction};

use super::histogram::Histogram;
use super::operation::{Operation, RequestOutcome};

/// Upper bounds of latencies, in seconds.
pub(crate) const LATENCY_BOUNDS: [f64; 16] =
    [1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.1, 1.0];

/// Upper bounds of the sizes of objects, in bytes.
pub(crate) const SIZE_BOUNDS: [f64; 12] = [
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    17_179_869_184.0,
];

/// The counts of one operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperationMetrics {
    pub(crate) requests: u64,
    /// Requests without one success.
    pub(crate) failures: u64,
    /// Keys of batches.
    pub(crate) items: u64,
    pub(crate) failed_items: u64,
    /// Batches with successes and failures.
    pub(crate) partial_successes: u64,
    /// Seconds in the state machine.
    pub(crate) latency: Histogram<16>,
}

/// The counts of requests, by operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcMetrics {
    operations: [OperationMetrics; Operation::COUNT],
    /// Sizes of the objects that room was granted for, in bytes.
    pub(crate) value_size: Histogram<12>,
    /// Objects that scans removed.
    pub(crate) scan_removed: u64,
    /// Mounts of segments whose entries the master asked for, or had dropped.
    pub(crate) remounts: u64,
    /// Requests to put one object that were refused because its key is taken.
    pub(crate) taken: u64,
    /// Objects of batches that were refused because their keys are taken.
    pub(crate) taken_in_batches: u64,
}

impl Default for RpcMetrics {
    fn default() -> Self {
        let operation = OperationMetrics {
            requests: 0,
            failures: 0,
            items: 0,
            failed_items: 0,
            partial_successes: 0,
            latency: Histogram::new(&LATENCY_BOUNDS),
        };
        Self {
            operations: std::array::from_fn(|_| operation.clone()),
            value_size: Histogram::new(&SIZE_BOUNDS),
            scan_removed: 0,
            remounts: 0,
            taken: 0,
            taken_in_batches: 0,
        }
    }
}

impl RpcMetrics {
    /// How many requests there were, and how many of them took the state machine longer than this bound of the
    /// latencies.
    pub(crate) fn requests_and_slow(&self, bound: f64) -> (u64, u64) {
        let requests = self.operations.iter().map(|it| it.requests).sum();
        let slow = self.operations.iter().map(|it| it.latency.above(bound)).sum();
        (requests, slow)
    }

    pub(crate) fn of(&self, operation: Operation) -> &OperationMetrics {
        &self.operations[operation as usize]
    }

    /// Counts one request. The pages of one scan are one request; each page's latency counts.
    pub(crate) fn record(&mut self, request: &Request<'_>, reply: &Reply, took: Duration) {
        let operation = Operation::of(request);
        let outcome = RequestOutcome::of(reply);
        let metrics = &mut self.operations[operation as usize];
        metrics.latency.observe(took.as_secs_f64());
        let continues = matches!(request, Request::Scan(scan) if scan.cursor != 0);
        metrics.requests += u64::from(!continues);
        metrics.failures += u64::from(outcome.failed > 0 && outcome.failed == outcome.items);
        if operation.is_batch() {
            metrics.items += outcome.items;
            metrics.failed_items += outcome.failed;
            metrics.partial_successes +=
                u64::from(outcome.failed > 0 && outcome.failed < outcome.items);
        }
        self.record_content(request, reply);
    }

    fn record_content(&mut self, request: &Request<'_>, reply: &Reply) {
        match (request, reply) {
            (Request::PutStart(start), Reply::Granted { results, .. }) => {
                for (put, result) in start.puts.iter().zip(results) {
                    if result.is_ok() {
                        self.value_size.observe(put.len as f64);
                    }
                }
                let is_taken =
                    |result: &&Result<_, _>| matches!(result, Err(ErrorCode::ObjectAlreadyExists));
                let taken = results.iter().filter(is_taken).count() as u64;
                match results.len() {
                    1 => self.taken += taken,
                    _ => self.taken_in_batches += taken,
                }
            }
            (Request::MountSegment(_), Reply::Mounted(outcome)) => {
                self.remounts += u64::from(*outcome != MountOutcome::Ready);
            }
            (Request::Scan(scan), Reply::Scanned(page)) if scan.action != ScanAction::List => {
                self.scan_removed += page.removed;
            }
            _ => {}
        }
    }
}
