//! The printed text, the same as JSON, and the rules for problems.

use std::fmt::Write;

use mooncake_master::{Problem, SegmentSight};
use mooncake_types::ByteSize;
use serde_json::{Value, json};

use super::master::{Master, Trouble};
use crate::drain::api::Progress;
use crate::drain::line;
use crate::segment_list::ListedSegment;

const MEDIA: [&str; 4] = ["memory", "disk", "shared disk", "object store"];

/// The pool, as its leader describes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pool {
    pub(super) object_count: Option<u64>,
    pub(super) segments: Vec<ListedSegment>,
    /// The running drain jobs.
    pub(super) drains: Vec<Progress>,
}

/// All of it as JSON. What is not known is null.
pub(super) fn json(masters: &[Master], pool: Option<&Pool>, problems: &[Trouble]) -> Value {
    let segment = |it: &ListedSegment| {
        json!({"name": it.name, "endpoint": it.endpoint, "medium": it.medium, "domains": it.domains, "state": it.state,
               "used_bytes": it.used_bytes, "len_bytes": it.len_bytes, "in_sight": it.is_in_sight,
               "reachable": it.is_reachable})
    };
    let problem = |it: &Trouble| json!({"text": it.text, "remedy": it.remedy});
    json!({
        "masters": masters.iter().map(Master::json).collect::<Vec<_>>(),
        "objects": pool.and_then(|it| it.object_count),
        "segments": pool.map(|it| it.segments.iter().map(segment).collect::<Vec<_>>()),
        "drains": pool.map(|it| it.drains.iter().map(Progress::json).collect::<Vec<_>>()),
        "problems": problems.iter().map(problem).collect::<Vec<_>>(),
    })
}

/// The text to print, which lists the problems at its end.
pub(super) fn text(masters: &[Master], pool: Option<&Pool>, problems: &[Trouble]) -> String {
    let mut text = "masters\n".to_owned();
    text += &table(masters.iter().map(Master::cells));
    if let Some(pool) = pool {
        text += "pool\n";
        text += &table(totals(pool));
        text += "segments\n";
        text += &table(pool.segments.iter().map(cells));
        if !pool.drains.is_empty() {
            text += "drains\n";
            let cells = |it: &Progress| [it.job_id.clone(), it.segments.join(", "), line(it)];
            text += &table(pool.drains.iter().map(cells));
        }
    }
    if !problems.is_empty() {
        text += "problems\n";
        for Trouble { text: problem, remedy } in problems {
            let _ = writeln!(text, "  {problem}");
            if !remedy.is_empty() {
                let _ = writeln!(text, "    {remedy}");
            }
        }
    }
    text
}

/// What is wrong with masters and pool.
pub(super) fn problems(masters: &[Master], pool: Option<&Pool>) -> Vec<Trouble> {
    let mut problems: Vec<Trouble> = masters.iter().filter_map(Master::problem).collect();
    let leader = masters.iter().find(|master| master.leads());
    if leader.is_none() {
        let all_answer = masters.iter().all(|master| master.health.is_ok());
        let problem = match (masters.iter().find_map(Master::known_leader), all_answer) {
            (Some(leader), true) => {
                format!(
                    "the master that leads serves clients at {leader}: name its admin server, too"
                )
            }
            (Some(leader), false) => format!(
                "the master that leads serves clients at {leader}, and its admin server gave no answer"
            ),
            (None, _) => "no master leads".to_owned(),
        };
        problems.push(problem.into());
    }
    let Some(pool) = pool else { return problems };
    match leader.and_then(Master::problems_of_pool) {
        Some(of_pool) => problems.extend(of_pool),
        // A master of an earlier release names none.
        None if !pool.segments.iter().any(ListedSegment::is_memory) => {
            problems.push("no node lends memory".to_owned().into());
        }
        None => {}
    }
    problems.extend(pool.segments.iter().filter_map(segment_problem));
    problems
}

fn segment_problem(segment: &ListedSegment) -> Option<Trouble> {
    let ListedSegment { name, medium, endpoint, is_in_sight, is_reachable, .. } = segment;
    let (is_in_sight, is_reachable) = (*is_in_sight, *is_reachable);
    let sight = SegmentSight { name, medium, endpoint, is_in_sight, is_reachable };
    Problem::of_segment(&sight).map(Into::into)
}

fn totals(pool: &Pool) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    if let Some(count) = pool.object_count {
        rows.push(["objects".to_owned(), count.to_string()]);
    }
    for medium in MEDIA {
        let of_medium = || pool.segments.iter().filter(|it| it.medium == medium && it.is_in_sight);
        let used: u64 = of_medium().map(|segment| segment.used_bytes).sum();
        let len: u64 = of_medium().map(|segment| segment.len_bytes).sum();
        let count = of_medium().count();
        let plural = if count == 1 { "" } else { "s" };
        if count > 0 {
            rows.push([
                medium.to_owned(),
                format!("{} in {count} segment{plural}", share(used, len)),
            ]);
        }
    }
    rows
}

fn cells(segment: &ListedSegment) -> [String; 5] {
    let sight = match (segment.is_in_sight, segment.is_reachable) {
        (false, _) => "out of sight".to_owned(),
        (true, false) => "unreachable".to_owned(),
        (true, true) => segment.domains.join(", "),
    };
    let (name, medium, state) = (&segment.name, &segment.medium, &segment.state);
    let used = share(segment.used_bytes, segment.len_bytes);
    [name.clone(), medium.clone(), state.clone(), used, sight]
}

/// A share like `1 GB of 4 GB (25.0%)`.
fn share(used: u64, len: u64) -> String {
    let percent = if len == 0 { 0.0 } else { used as f64 / len as f64 * 100.0 };
    format!("{} of {} ({percent:.1}%)", ByteSize(used), ByteSize(len))
}

/// Indented rows. Each column is as wide as its widest cell.
fn table<const COLUMNS: usize>(rows: impl IntoIterator<Item = [String; COLUMNS]>) -> String {
    let rows: Vec<[String; COLUMNS]> = rows.into_iter().collect();
    if rows.is_empty() {
        return "  none\n".to_owned();
    }
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("  {cell:<width$}"));
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    text
}
