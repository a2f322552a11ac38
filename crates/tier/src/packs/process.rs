//! Which process of which host something belongs to, so that its death can be told for sure.

use std::fs;

/// What this host is called; empty if it does not say.
pub(crate) fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// This process: the start of its system, the namespace of its number, the number, and when it began.
pub(super) fn own() -> String {
    of(std::process::id())
}

/// The same of a process of this system and namespace.
pub(super) fn of(pid: u32) -> String {
    format!("{} {pid} {}", scope(), started(pid).unwrap_or_default())
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Dead,
    /// It is another process than this one.
    Alive,
    /// It is of another system or namespace, or this process itself, which may have given up what it had.
    Unknown,
}

/// Whether a process lives. That can be told of processes of this system and namespace.
pub(super) fn life_of(process: &str) -> Life {
    let Some((other_scope, rest)) = process.rsplit_once(' ').and_then(|(front, started)| {
        let (scope, pid) = front.rsplit_once(' ')?;
        Some((scope, (pid.parse::<u32>().ok()?, started)))
    }) else {
        return Life::Unknown;
    };
    let (pid, then) = rest;
    let is_known = !then.is_empty() && other_scope == scope() && !scope().is_empty();
    // A process that cannot be looked at may live.
    if !is_known || !is_visible() || process == own() {
        return Life::Unknown;
    }
    match started(pid).is_some_and(|now| now == then) {
        true => Life::Alive,
        false => Life::Dead,
    }
}

/// What makes the number of a process mean this process: one start of one system, and one namespace.
fn scope() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match (boot.trim(), namespace.to_str().unwrap_or_default()) {
        ("", _) | (_, "") => String::new(),
        (boot, namespace) => format!("{boot}-{namespace}"),
    }
}

/// Whether processes can be looked at at all: this one can.
fn is_visible() -> bool {
    started(std::process::id()).is_some()
}

/// When a process began, in ticks since the system did; nothing if there is none, or if it has ended.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the command comes second, in parentheses, and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // One that has ended stays known until its parent asks.
    let has_ended = matches!(fields.next()?, "Z" | "X");
    fields.nth(18).filter(|_| !has_ended).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_this_system_is_alive_or_dead() {
        let own = own();
        assert_eq!(life_of(&own), Life::Unknown, "{own}");
        let (front, started) = own.rsplit_once(' ').expect("it has three parts");
        assert_eq!(life_of(&format!("{front} {started}0")), Life::Dead, "another had its number");
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("there is a `cat`");
        let process = of(child.id());
        assert_eq!(life_of(&process), Life::Alive);
        drop(child.stdin.take());
        while life_of(&process) == Life::Alive {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(life_of(&process), Life::Dead, "it has ended, and nobody has asked how");
        child.wait().expect("it has ended");
        assert_eq!(life_of(&process), Life::Dead);
        for other in ["", "x", "a 1 2", "other-scope 1 2", "a b c d"] {
            assert_eq!(life_of(other), Life::Unknown, "{other}");
        }
    }
}
