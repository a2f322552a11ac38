//! What the page is told, as JSON.

use mooncake_meta::{SegmentReport, Stats};
use mooncake_types::{DrainReport, Rights};
use mooncake_wire::{PROTOCOL_VERSION, SOFTWARE_VERSION};
use serde::Serialize;

use crate::admin::drains::DrainAnswer;
use crate::admin::health::StandbyKnowledge;
use crate::admin::segments::{medium_name, state_name};
use crate::hot_keys::HotKey;
use crate::hour::{FIELDS, Sample};
use crate::problems::{Problem, SegmentSight};

/// Most segments whose problems are told one by one.
const MOST_SEGMENT_PROBLEMS: usize = 100;

/// The event `now`. What only a leader knows is absent on a standby.
#[derive(Serialize)]
pub(super) struct Now<'a> {
    pub(super) cluster: &'a str,
    pub(super) version: &'static str,
    pub(super) protocol: u32,
    pub(super) role: &'static str,
    pub(super) state: &'static str,
    pub(super) leader: Option<String>,
    pub(super) epoch: Option<u64>,
    /// Why this master does not serve, where there is more to say than its state.
    pub(super) reason: Option<String>,
    pub(super) following: Option<StandbyKnowledge>,
    #[serde(flatten)]
    pub(super) pool: Option<Pool>,
}

/// The pool, as its leader knows it.
#[derive(Serialize)]
pub(super) struct Pool {
    pub(super) leads_ms: u64,
    pub(super) clients: usize,
    pub(super) clients_away: usize,
    pub(super) sample: Sample,
    /// Bytes reserved in each segment, in the order of the event `segments`.
    pub(super) used: Vec<u64>,
    pub(super) problems: Vec<ToldProblem>,
    pub(super) drains: Vec<DrainAnswer>,
    pub(super) tasks: [TaskRow; 6],
}

#[derive(Serialize)]
pub(super) struct ToldProblem {
    text: String,
    remedy: &'static str,
}

/// Tasks of a kind: those that run or wait for their nodes, and those that have ended.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct TaskRow {
    name: &'static str,
    under_way: u64,
    done: u64,
    failed: u64,
}

/// The event `segments`: what seldom changes.
#[derive(Serialize)]
pub(super) struct Segments<'a> {
    pub(super) high_watermark: f64,
    pub(super) segments: Vec<Segment<'a>>,
}

#[derive(Serialize)]
pub(super) struct Segment<'a> {
    id: String,
    name: &'a str,
    endpoint: &'a str,
    medium: &'static str,
    domains: Vec<&'a str>,
    state: &'static str,
    in_sight: bool,
    reachable: bool,
    /// Whether it has removals to catch up with.
    behind: bool,
    bytes: u64,
}

/// The event `hot`, for viewers who may know keys.
#[derive(Serialize)]
pub(super) struct Hot {
    /// Whether this master counts reads of single objects.
    pub(super) counts_reads: bool,
    pub(super) keys: Vec<HotRow>,
}

#[derive(Serialize)]
pub(super) struct HotRow {
    key: String,
    replicas: u32,
    ago_ms: u64,
}

/// The event `samples`.
#[derive(Serialize)]
pub(super) struct Samples {
    fields: [&'static str; FIELDS.len()],
    pub(super) samples: Vec<Sample>,
    /// Whether these are all, and not those since the last event.
    pub(super) restart: bool,
}

/// Whether the names of keys may be told to someone with these rights.
pub(super) fn may_know_keys(rights: Rights) -> bool {
    rights.include(Rights::READ)
}

impl<'a> Now<'a> {
    /// What a master that does not lead tells.
    pub(super) fn of_master(cluster: &'a str, (role, state): (&'static str, &'static str)) -> Self {
        let (version, protocol) = (SOFTWARE_VERSION, PROTOCOL_VERSION);
        let (leader, epoch, reason, following, pool) = (None, None, None, None, None);
        Self { cluster, version, protocol, role, state, leader, epoch, reason, following, pool }
    }
}

impl Samples {
    pub(super) fn new(samples: Vec<Sample>, restart: bool) -> Self {
        Self { fields: FIELDS, samples, restart }
    }
}

impl From<Problem> for ToldProblem {
    fn from(Problem { text, remedy }: Problem) -> Self {
        Self { text, remedy }
    }
}

impl From<(HotKey, u64)> for HotRow {
    fn from((HotKey { key, replicas, .. }, ago_ms): (HotKey, u64)) -> Self {
        Self { key, replicas, ago_ms }
    }
}

impl<'a> From<&'a SegmentReport> for Segment<'a> {
    fn from(report: &'a SegmentReport) -> Self {
        Self {
            id: report.id.to_string(),
            name: &report.name,
            endpoint: &report.endpoint,
            medium: medium_name(report.medium),
            domains: report.domains.iter().map(|domain| &**domain).collect(),
            state: state_name(report.state),
            in_sight: report.in_sight,
            reachable: report.is_reached,
            behind: report.behind,
            bytes: report.capacity,
        }
    }
}

/// The problems of single segments.
pub(super) fn segment_problems(reports: &[SegmentReport]) -> Vec<Problem> {
    let problem = |report: &SegmentReport| {
        Problem::of_segment(&SegmentSight {
            name: &report.name,
            medium: medium_name(report.medium),
            endpoint: &report.endpoint,
            is_in_sight: report.in_sight,
            is_reachable: report.is_reached,
        })
    };
    let mut problems: Vec<Problem> = reports.iter().filter_map(problem).collect();
    if let Some(further @ 1..) = problems.len().checked_sub(MOST_SEGMENT_PROBLEMS) {
        problems.truncate(MOST_SEGMENT_PROBLEMS);
        let text = format!("{further} further segments are out of sight or cannot be reached");
        problems.push(Problem { text, remedy: "" });
    }
    problems
}

/// The tasks of a leader with these counts and running drains.
pub(super) fn tasks(stats: &Stats, drains: &[DrainReport]) -> [TaskRow; 6] {
    let c = &stats.counters;
    let row = |name, under_way: usize, done, failed| TaskRow {
        name,
        under_way: under_way as u64,
        done,
        failed,
    };
    let moving = drains.iter().filter(|job| !job.status.has_ended());
    let moving: u64 = moving.map(|job| job.active_units).sum();
    [
        row(
            "all copies and moves",
            stats.pending_tasks + stats.processing_tasks,
            c.tasks_succeeded,
            c.tasks_failed,
        ),
        row("repairs", stats.repairs_under_way, c.repairs.made, c.repairs.failed),
        row("copies to disks", stats.offloads_under_way, c.offloads.made, c.offloads.failed),
        row("copies to memory", stats.promotions_under_way, c.promotions.made, c.promotions.failed),
        row(
            "extra replicas",
            stats.replications_under_way,
            c.replications.made,
            c.replications.failed,
        ),
        TaskRow {
            name: "moves of drains",
            under_way: moving,
            done: c.drain_moved,
            failed: c.drain_failures,
        },
    ]
}

#[cfg(test)]
mod tests {
    use mooncake_meta::{Copies, Counters};
    use mooncake_types::DrainStatus;

    use super::*;

    #[test]
    fn tasks_are_told_by_their_purpose() {
        let copies = |made, failed| Copies { made, bytes: 0, failed };
        let counters = Counters {
            tasks_succeeded: 20,
            tasks_failed: 21,
            repairs: copies(22, 23),
            offloads: copies(24, 25),
            promotions: copies(26, 27),
            replications: copies(28, 29),
            drain_moved: 30,
            drain_failures: 31,
            ..Counters::default()
        };
        let stats = Stats {
            counters,
            pending_tasks: 1,
            processing_tasks: 2,
            repairs_under_way: 4,
            offloads_under_way: 5,
            promotions_under_way: 6,
            replications_under_way: 7,
            ..Stats::default()
        };
        let job = |status| DrainReport { status, active_units: 8, ..DrainReport::default() };
        let rows = tasks(&stats, &[job(DrainStatus::Running), job(DrainStatus::Succeeded)]);
        let numbers = rows.map(|row| (row.under_way, row.done, row.failed));
        let expected =
            [(3, 20, 21), (4, 22, 23), (5, 24, 25), (6, 26, 27), (7, 28, 29), (8, 30, 31)];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn names_of_keys_need_the_right_to_read() {
        for (rights, expected) in [
            (Rights::METRICS, false),
            (Rights::METRICS | Rights::WRITE, false),
            (Rights::METRICS | Rights::READ, true),
            (Rights::ALL, true),
        ] {
            assert_eq!(may_know_keys(rights), expected, "{rights}");
        }
    }
}
