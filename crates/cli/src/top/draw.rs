//! Paints the screen.

use mooncake_types::ByteSize;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

use super::rates::{Growth, TIERS, WAYS, curve};
use super::told::{Segment, Told};
use super::view::View;
use crate::objects::output::plain;

const MEDIA: [&str; 4] = ["memory", "disk", "shared disk", "object store"];
/// Columns of names on the left, of curves, and of bars.
const NAMES: usize = 13;
const CURVE: usize = 30;
const BAR: usize = 30;
/// Most problems and drains that are shown.
const MOST_PROBLEMS: usize = 3;
const MOST_DRAINS: usize = 2;
/// A segment that is as full as this is shown as full.
const FULL: f64 = 0.95;

pub(super) fn draw(frame: &mut Frame<'_>, told: &Told, view: &mut View, failure: Option<&str>) {
    let mut lines = vec![head(told, failure), Line::default()];
    lines.extend(tiers(told));
    lines.extend(numbers(told));
    lines.extend(drains(told));
    lines.extend(problems(told));
    lines.push(Line::default());
    let [above, table, foot] = Layout::vertical([
        Constraint::Length(lines.len() as u16),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(lines), above);
    draw_segments(frame, told, view, table);
    frame.render_widget(Paragraph::new(Line::styled(keys(view), faint())), foot);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn colored(color: Color) -> Style {
    Style::new().fg(color)
}

fn head(told: &Told, failure: Option<&str>) -> Line<'static> {
    let now = &told.now;
    let state = match failure {
        Some(reason) => Span::styled(plain(reason), colored(Color::Red)),
        None if now.state == "serving" => Span::styled("serving", colored(Color::Green)),
        None => Span::styled(now.state.clone(), colored(Color::Red)),
    };
    let leader = now.leader.as_deref().unwrap_or("unknown");
    let rest = format!(
        "  epoch {}, for {}  {} clients  {} objects",
        now.epoch.unwrap_or_default(),
        lasting(now.leads_ms / 1_000),
        now.clients,
        told.latest("keys"),
    );
    Line::from(vec![
        Span::styled(plain(&now.cluster), bold()),
        Span::raw(format!("  leader {leader}  ")),
        state,
        Span::raw(rest),
    ])
}

fn lasting(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match (days, hours, minutes) {
        (1.., _, _) => format!("{days} d {} h", hours % 24),
        (_, 1.., _) => format!("{hours} h {} min", minutes % 60),
        (_, _, 1..) => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{seconds} s"),
    }
}

/// A line with a bar for each medium that the pool has.
fn tiers(told: &Told) -> Vec<Line<'static>> {
    let line = |medium: &&str| {
        let all = || told.segments.iter().filter(|it| it.medium == **medium && it.in_sight);
        let (used, bytes): (u64, u64) =
            (all().map(|it| it.used).sum(), all().map(|it| it.bytes).sum());
        let count = all().count();
        (count > 0).then(|| {
            let share = used as f64 / u64::max(bytes, 1) as f64;
            let text = format!(
                " {:>5.1}%  {} of {} in {count} segment{}",
                share * 100.0,
                ByteSize(used),
                ByteSize(bytes),
                if count == 1 { "" } else { "s" }
            );
            Line::from(vec![name(medium), bar(share), Span::raw(text)])
        })
    };
    MEDIA.iter().filter_map(line).collect()
}

fn name(name: &str) -> Span<'static> {
    Span::styled(format!("{name:<NAMES$}"), bold())
}

fn bar(share: f64) -> Span<'static> {
    let full = ((share * BAR as f64).round() as usize).min(BAR);
    let text = "█".repeat(full) + &"░".repeat(BAR - full);
    Span::styled(text, colored(fill_color(share)))
}

fn fill_color(share: f64) -> Color {
    if share >= FULL { Color::Yellow } else { Color::Cyan }
}

/// What happens in the pool: a curve of the last hour, and the numbers of now.
fn numbers(told: &Told) -> Vec<Line<'static>> {
    let now = Growth::of_now(told);
    let line =
        |of: &str, top: Option<f64>, value: &dyn Fn(&Growth<'_>) -> Option<f64>, text: String| {
            let values: Vec<Option<f64>> =
                Growth::of_hour(told).map(|growth| value(&growth?)).collect();
            let drawn = Span::styled(curve(&values, CURVE, top), colored(Color::Blue));
            Line::from(vec![name(of), drawn, Span::raw(format!("  {text}"))])
        };
    let rate = |field: &str| now.map_or(0.0, |it| it.per_second(field));
    let bytes = |rate: f64| format!("{}/s", ByteSize(rate as u64));
    let shares = |of: &[(&str, &'static str)]| {
        let shares = now.map(|it| it.shares(of)).unwrap_or_default();
        let text = shares.iter().map(|(name, share)| format!("{:.0}% {name}", share * 100.0));
        text.collect::<Vec<_>>().join(", ")
    };
    let share = now.and_then(|it| it.hit_share());
    let hits = share.map_or("nothing was asked for".to_owned(), |share| {
        format!("{:.1}%  {:.1} hits/s, {:.1} misses/s", share * 100.0, rate("hits"), rate("misses"))
    });
    let reads = [shares(&WAYS), shares(&TIERS)].into_iter().filter(|it| !it.is_empty());
    let reads = [bytes(now.map_or(0.0, |it| it.read()))].into_iter().chain(reads);
    let puts = format!(
        "{}  {:.1} objects/s, {:.1} refused/s",
        bytes(rate("put_bytes")),
        rate("puts"),
        rate("refused")
    );
    let evicted =
        format!("{}  {:.1} objects/s", bytes(rate("evicted_bytes")), rate("evicted_keys"));
    let requests = format!(
        "{:.0}/s  {:.1}/s took the master over 10 ms{}",
        rate("requests"),
        rate("slow"),
        tasks(told)
    );
    vec![
        line("hit ratio", Some(1.0), &|it| it.hit_share(), hits),
        line("reads", None, &|it| Some(it.read()), reads.collect::<Vec<_>>().join("  ")),
        line("puts", None, &|it| Some(it.per_second("put_bytes")), puts),
        line("evictions", None, &|it| Some(it.per_second("evicted_bytes")), evicted),
        line("requests", None, &|it| Some(it.per_second("requests")), requests),
    ]
}

/// The tasks that are under way.
fn tasks(told: &Told) -> String {
    let running = told.now.tasks.iter().filter(|task| task.under_way > 0);
    let text = running.map(|task| format!("{} {}", task.under_way, plain(&task.name)));
    let text = text.collect::<Vec<_>>().join(", ");
    if text.is_empty() { text } else { format!("; {text}") }
}

fn drains(told: &Told) -> Vec<Line<'static>> {
    let running = told.now.drains.iter().filter(|drain| drain.runs()).take(MOST_DRAINS);
    let line = |drain: &super::told::Drain| {
        let all = drain.migrated_bytes + drain.remaining_bytes;
        let share = drain.migrated_bytes as f64 / all.max(1) as f64;
        let text = format!(
            " {:>5.1}%  {}, {} left",
            share * 100.0,
            plain(&drain.segments.join(", ")),
            ByteSize(drain.remaining_bytes)
        );
        Line::from(vec![name("drain"), bar(share), Span::raw(text)])
    };
    running.map(line).collect()
}

fn problems(told: &Told) -> Vec<Line<'static>> {
    let problems = &told.now.problems;
    let mut lines = Vec::new();
    for problem in problems.iter().take(MOST_PROBLEMS) {
        let text = Span::styled(format!("! {}", plain(&problem.text)), colored(Color::Yellow));
        lines.push(Line::from(text));
        if !problem.remedy.is_empty() {
            lines.push(Line::styled(format!("  {}", plain(&problem.remedy)), faint()));
        }
    }
    if let Some(more @ 1..) = problems.len().checked_sub(MOST_PROBLEMS) {
        let text = format!("! and {more} more: mooncake status lists them");
        lines.push(Line::styled(text, colored(Color::Yellow)));
    }
    lines
}

fn draw_segments(frame: &mut Frame<'_>, told: &Told, view: &mut View, area: Rect) {
    let listed = view.listed(&told.segments);
    let room = usize::from(area.height.saturating_sub(1));
    view.first = view.first.min(listed.len().saturating_sub(room));
    let rows = listed.iter().skip(view.first).take(room).map(|it| segment_row(it));
    let widths = [
        Constraint::Min(22),
        Constraint::Length(12),
        Constraint::Length(14),
        Constraint::Length(12),
        Constraint::Length(6),
        Constraint::Length(20),
        Constraint::Min(10),
    ];
    let head = Row::new(["segment", "tier", "state", "", "fill", "used", "domains"]);
    let head = head.style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_widget(Table::new(rows, widths).header(head), area);
}

fn segment_row(segment: &Segment) -> Row<'static> {
    const CELLS: usize = 10;
    let share = segment.fill();
    let full = ((share * CELLS as f64).round() as usize).min(CELLS);
    let color = match segment.in_sight && segment.reachable {
        true => fill_color(share),
        false => Color::Red,
    };
    let text = |text: &str| Span::raw(plain(text));
    let bar = "█".repeat(full) + &"░".repeat(CELLS - full);
    Row::new([
        text(&segment.name),
        text(&segment.medium),
        Span::styled(
            segment.state(),
            if color == Color::Red { colored(color) } else { Style::new() },
        ),
        Span::styled(bar, colored(color)),
        Span::raw(format!("{:.1}%", share * 100.0)),
        Span::raw(format!("{} of {}", ByteSize(segment.used), ByteSize(segment.bytes))),
        text(&segment.domains.join(", ")),
    ])
}

fn keys(view: &View) -> String {
    let filter = match (view.is_typing, view.filter.is_empty()) {
        (true, _) => format!("filter: {}_", view.filter),
        (false, true) => "/ filters".to_owned(),
        (false, false) => format!("/ filters (now {})", view.filter),
    };
    let turned = if view.is_reversed { ", turned round" } else { "" };
    format!("s sorts (by {}{turned})  r turns round  {filter}  q ends", view.order.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_their_two_largest_units() {
        for (seconds, expected) in
            [(0, "0 s"), (61, "1 min 1 s"), (3_720, "1 h 2 min"), (90_000, "1 d 1 h")]
        {
            assert_eq!(lasting(seconds), expected);
        }
    }
}
