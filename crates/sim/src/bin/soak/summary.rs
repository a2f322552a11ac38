//! The texts that a soak prints.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ran::Finding;
use crate::state::SoakState;

/// Progress, speed and time left. `since` was the state `passed` ago.
pub(crate) fn progress(state: &SoakState, since: &SoakState, passed: Duration, end: u64) -> String {
    let seconds = passed.as_secs_f64().max(0.001);
    let rate = |now: u64, then: u64| (now - then) as f64 / seconds;
    let seeds = rate(state.next, since.next);
    let left = match seeds > 0.0 {
        true => duration(end.saturating_sub(state.next) as f64 / seeds),
        false => "unknown".to_owned(),
    };
    format!(
        "{} of {} seeds: {:.0} runs/s, {:.0} events/s, {} found something, {left} left",
        grouped(state.next - state.plan.first),
        grouped(end.saturating_sub(state.plan.first)),
        rate(state.runs, since.runs),
        rate(state.all_events, since.all_events),
        state.found(),
    )
}

/// A finding, with the command that repeats it.
pub(crate) fn finding(finding: &Finding, events: u64) -> String {
    let Finding { rule, text, event, .. } = finding;
    format!("{}\n  event {event}: {rule}: {text}", finding.command(events))
}

/// The final summary.
pub(crate) fn all(state: &SoakState) -> String {
    let SoakState { plan, seconds, runs, events, all_events, .. } = state;
    let mut text = format!(
        "{} seeds from {} on, each as {}: {} runs, {} events under faults, {} in all, in {}\n",
        grouped(state.next - plan.first),
        plan.first,
        plan.kinds.join(", "),
        grouped(*runs),
        grouped(*events),
        grouped(*all_events),
        duration(*seconds),
    );
    if *seconds > 0.0 {
        let (runs, events) = (*runs as f64 / seconds, *all_events as f64 / seconds);
        text += &format!("{runs:.0} runs/s, {events:.0} events/s\n");
    }
    text += &counts("faults", &state.faults);
    text += &counts("met", &state.met);
    if state.found.is_empty() {
        return text + "nothing was wrong\n";
    }
    text += &counts("runs that found something, by rule", &state.found);
    for found in &state.findings {
        text += &(finding(found, plan.events) + "\n");
    }
    text
}

fn counts(title: &str, counts: &BTreeMap<String, u64>) -> String {
    let list: Vec<_> = counts.iter().map(|(name, &it)| format!("{name} {}", grouped(it))).collect();
    format!("{title}: {}\n", list.join(", "))
}

/// A number with a comma before every three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Plan;

    #[test]
    fn numbers_and_times_are_written_for_people() {
        let numbers = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "12,345", "1,234,567"]);
        let times = [0.4, 59.6, 61.0, 3_600.0, 90_061.0].map(duration);
        assert_eq!(times, ["0 s", "1 min 0 s", "1 min 1 s", "1 h 0 min", "25 h 1 min"]);
    }

    #[test]
    fn progress_goes_by_what_was_done_lately() {
        let plan = Plan { first: 100, events: 500, kinds: vec!["calm".to_owned()] };
        let since = SoakState { next: 200, runs: 100, all_events: 1_000, ..SoakState::new(plan) };
        let state = SoakState { next: 220, runs: 120, all_events: 9_000, ..since.clone() };
        let text = progress(&state, &since, Duration::from_secs(2), 1_220);
        let expected =
            "120 of 1,120 seeds: 10 runs/s, 4000 events/s, 0 found something, 1 min 40 s left";
        assert_eq!(text, expected);
        let text = progress(&since, &since, Duration::ZERO, 1_220);
        assert!(text.ends_with("0 found something, unknown left"), "{text}");
    }
}
