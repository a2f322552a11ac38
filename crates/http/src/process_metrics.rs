//! Metrics of the program and its process, under the names that Prometheus's own clients use.

use std::fmt;
use std::fs;

use crate::prometheus::{Family, Metrics};

/// Ticks of the kernel's clock in a second, as programs see them on Linux.
const TICKS_PER_SECOND: u64 = 100;

/// The memory of the process under the names of the C++ package: name, help, and the line of `/proc/self/status`.
const MEMORY: [(&str, &str, &str); 7] = [
    ("mooncake_process_rss_bytes", "Bytes of memory in use", "VmRSS:"),
    ("mooncake_process_rss_peak_bytes", "The most that it was", "VmHWM:"),
    ("mooncake_process_rss_anon_bytes", "Of these, memory of no file", "RssAnon:"),
    ("mooncake_process_rss_file_bytes", "Of these, memory of files", "RssFile:"),
    ("mooncake_process_rss_shmem_bytes", "Of these, shared memory", "RssShmem:"),
    ("mooncake_process_vsize_bytes", "Bytes of addresses", "VmSize:"),
    ("mooncake_process_swap_bytes", "Bytes that were swapped out", "VmSwap:"),
];

/// Writes them. What the system does not tell is left out.
///
/// # Errors
/// Those of the writer.
pub fn write(
    version: &str,
    protocol_version: u32,
    out: &mut Metrics<'_, '_>,
) -> Result<(), fmt::Error> {
    let build = Family {
        name: "mooncake_build_info",
        help: "1, with the version of the program",
        label: "version",
    };
    out.gauges(build, [(version, 1)])?;
    out.gauge(
        "mooncake_protocol_version",
        "The version of the protocol that the program speaks",
        protocol_version.into(),
    )?;
    let of_file = |path| fs::read_to_string(path).unwrap_or_default();
    let (stat, status) = (of_file("/proc/self/stat"), of_file("/proc/self/status"));
    let (limits, system) = (of_file("/proc/self/limits"), of_file("/proc/stat"));
    let gauges = [
        (
            "process_start_time_seconds",
            "When the process started, in seconds since 1970",
            start_time(&stat, &system),
        ),
        ("process_resident_memory_bytes", "Bytes of memory in use", bytes(&status, "VmRSS:")),
        (
            "process_open_fds",
            "Open file descriptors",
            fs::read_dir("/proc/self/fd").ok().map(|all| all.count() as u64),
        ),
        ("process_max_fds", "Most file descriptors that may be open", max_fds(&limits)),
    ];
    let memory = MEMORY.map(|(name, help, line)| (name, help, bytes(&status, line)));
    for (name, help, value) in gauges.into_iter().chain(memory) {
        if let Some(value) = value {
            out.gauge(name, help, value)?;
        }
    }
    match cpu_seconds(&stat) {
        Some(seconds) => {
            out.counter("process_cpu_seconds_total", "Whole seconds of processor time", seconds)
        }
        None => Ok(()),
    }
}

/// The field of `/proc/self/stat` with this number, from 3 on. The second field, the name, may hold anything.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<u64> {
    Some(field(stat, 14)?.saturating_add(field(stat, 15)?) / TICKS_PER_SECOND)
}

fn start_time(stat: &str, system: &str) -> Option<u64> {
    let booted: u64 = word_after(system, "btime")?.parse().ok()?;
    Some(booted.saturating_add(field(stat, 22)? / TICKS_PER_SECOND))
}

/// The bytes of a line of `/proc/self/status`, which counts in KiB.
fn bytes(status: &str, line: &str) -> Option<u64> {
    let kib: u64 = word_after(status, line)?.parse().ok()?;
    kib.checked_mul(1024)
}

fn max_fds(limits: &str) -> Option<u64> {
    word_after(limits, "Max open files")?.parse().ok()
}

/// The first word of the line that begins so.
fn word_after<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(begin))?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "4242 (a) b (c) S 1 2 3 0 -1 4194304 100 0 0 0 1234 766 0 0 20 0 9 0 500 1000 250";

    #[test]
    fn the_numbers_of_the_kernel_are_read() {
        assert_eq!(cpu_seconds(STAT), Some(20));
        assert_eq!(start_time(STAT, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_005));
        assert_eq!(bytes("Name:\tx\nVmRSS:\t    2048 kB\n", "VmRSS:"), Some(2 << 20));
        assert_eq!(max_fds("Limit Soft Hard\nMax open files   1024   4096  files\n"), Some(1024));
        assert_eq!(max_fds("Max open files   unlimited   unlimited  files\n"), None);
        assert_eq!((cpu_seconds(""), start_time("1 (x) S", "")), (None, None));
    }

    #[test]
    fn a_process_is_described() {
        let text =
            crate::prometheus::text(|out| write("1.2.3", 7, out)).expect("it can be written");
        for name in [
            "mooncake_build_info{version=\"1.2.3\"} 1",
            "mooncake_protocol_version 7",
            "process_start_time_seconds 1",
            "process_resident_memory_bytes ",
            "process_open_fds ",
            "mooncake_process_rss_bytes ",
            "mooncake_process_rss_peak_bytes ",
            "mooncake_process_rss_anon_bytes ",
            "mooncake_process_rss_file_bytes ",
            "mooncake_process_rss_shmem_bytes ",
            "mooncake_process_vsize_bytes ",
            "mooncake_process_swap_bytes ",
            "process_cpu_seconds_total ",
        ] {
            assert!(
                text.lines().any(|line| line.starts_with(name)),
                "{name} is missing in\n{text}"
            );
        }
    }
}
