//! Identities of processes, by which a host can tell for certain that a process has died.

use std::fs;

/// The name of this host; empty if the system does not tell.
pub(crate) fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The identity of this process: boot id, pid namespace, pid and start time.
pub(super) fn own() -> String {
    of(std::process::id())
}

/// The identity of a process of this boot and pid namespace.
pub(super) fn of(pid: u32) -> String {
    format!("{} {pid} {}", scope(), started(pid).unwrap_or_default())
}

/// Whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Dead,
    /// Another process than this one, and it is alive.
    Alive,
    /// The process belongs to another boot or namespace. Or it is this process, which may have closed the prefix.
    Unknown,
}

/// Whether a process is alive. This is known only for other processes of this boot and pid namespace.
pub(super) fn life_of(process: &str) -> Life {
    let Some((other_scope, rest)) = process.rsplit_once(' ').and_then(|(front, started)| {
        let (scope, pid) = front.rsplit_once(' ')?;
        Some((scope, (pid.parse::<u32>().ok()?, started)))
    }) else {
        return Life::Unknown;
    };
    let (pid, then) = rest;
    let is_known = !then.is_empty() && other_scope == scope() && !scope().is_empty();
    // Where this process cannot see itself in /proc, another process may be alive and invisible.
    if !is_known || !is_visible() || process == own() {
        return Life::Unknown;
    }
    match started(pid).is_some_and(|now| now == then) {
        true => Life::Alive,
        false => Life::Dead,
    }
}

/// Boot id and pid namespace: a pid is meaningful only within these. Empty if either is unknown.
fn scope() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match (boot.trim(), namespace.to_str().unwrap_or_default()) {
        ("", _) | (_, "") => String::new(),
        (boot, namespace) => format!("{boot}-{namespace}"),
    }
}

/// Whether /proc shows processes at all: it must show this one.
fn is_visible() -> bool {
    started(std::process::id()).is_some()
}

/// When a process started, in clock ticks since boot. `None` if it does not exist or has ended.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the command's name, in parentheses, and may contain any characters.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // A process that has ended remains as a zombie until its parent reaps it.
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
