//! How much memory this process can use.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// The minimum of the machine's memory and the limits of this process's control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit, in bytes.
    pub bytes: u64,
    /// Whether a control group sets the limit, below the machine's memory.
    pub is_of_container: bool,
}

impl MemoryLimit {
    /// Reads the limit from the kernel. `None` if the kernel reports neither the machine's memory nor a group's limit.
    #[must_use]
    pub fn look() -> Option<MemoryLimit> {
        Self::below(Path::new("/"))
    }

    /// As [`MemoryLimit::look`], for a system whose files lie below this folder.
    fn below(root: &Path) -> Option<MemoryLimit> {
        let machine = fs::read_to_string(root.join("proc/meminfo")).ok().as_deref().and_then(total);
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let container = groups.lines().filter_map(|line| limit_of_group(root, line)).min();
        match (machine, container) {
            (Some(machine), Some(limit)) if machine <= limit => Some(Self::of_machine(machine)),
            (Some(machine), None) => Some(Self::of_machine(machine)),
            (_, Some(bytes)) => Some(MemoryLimit { bytes, is_of_container: true }),
            (None, None) => None,
        }
    }

    const fn of_machine(bytes: u64) -> MemoryLimit {
        MemoryLimit { bytes, is_of_container: false }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = mooncake_types::ByteSize(self.bytes);
        match self.is_of_container {
            true => write!(f, "{bytes}, the memory limit of its container"),
            false => write!(f, "{bytes}, all the memory of this machine"),
        }
    }
}

/// `MemTotal` in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The lowest limit of the group that a line of `/proc/self/cgroup` names, and of its ancestors.
fn limit_of_group(root: &Path, line: &str) -> Option<u64> {
    let mut fields = line.splitn(3, ':');
    let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let mount = root.join(mount);
    // Inside a container this path may not exist. The mount itself is then the container's group.
    let inner = mount.join(Path::new(group.trim_start_matches('/')));
    let groups = inner.ancestors().take_while(|folder| folder.starts_with(&mount));
    groups.filter_map(|folder| limit_in(&folder.join(file))).min()
}

/// `max` is no limit. Version 1 shows "no limit" as a huge number, which exceeds any machine's memory.
fn limit_in(file: &PathBuf) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Files<'a> = &'a [(&'a str, &'a str)];

    struct System(PathBuf);

    impl System {
        fn new(name: &str, files: Files<'_>) -> System {
            let name = format!("mooncake-limit-{}-{name}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for (file, text) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
                fs::write(path, text).expect("it can be written");
            }
            System(root)
        }
    }

    impl Drop for System {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_least_of_machine_and_container_counts() {
        const MEMINFO: (&str, &str) =
            ("proc/meminfo", "MemFree: 1 kB\nMemTotal:       4096 kB\nBuffers: 2 kB\n");
        let v2 = |group| ("proc/self/cgroup", group);
        let machine = Some(MemoryLimit { bytes: 4 << 20, is_of_container: false });
        let container = |bytes| Some(MemoryLimit { bytes, is_of_container: true });
        let cases: &[(&str, Files<'_>, Option<MemoryLimit>)] = &[
            ("nothing", &[], None),
            ("machine", &[MEMINFO], machine),
            (
                "v2",
                &[MEMINFO, v2("0::/\n"), ("sys/fs/cgroup/memory.max", "8192\n")],
                container(8192),
            ),
            (
                "v2 above",
                &[
                    MEMINFO,
                    v2("0::/pod/box\n"),
                    ("sys/fs/cgroup/pod/box/memory.max", "max\n"),
                    ("sys/fs/cgroup/pod/memory.max", "16384\n"),
                ],
                container(16384),
            ),
            (
                "v2 unlimited",
                &[MEMINFO, v2("0::/\n"), ("sys/fs/cgroup/memory.max", "max\n")],
                machine,
            ),
            (
                "v1",
                &[
                    MEMINFO,
                    ("proc/self/cgroup", "4:cpu,memory:/docker/a\n0::/\n"),
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "12288\n"),
                ],
                container(12288),
            ),
            (
                "v1 unlimited",
                &[
                    MEMINFO,
                    ("proc/self/cgroup", "4:memory:/\n"),
                    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ],
                machine,
            ),
            (
                "no meminfo",
                &[v2("0::/\n"), ("sys/fs/cgroup/memory.max", "8192\n")],
                container(8192),
            ),
            ("nonsense", &[("proc/meminfo", "MemTotal: much\n"), v2("x\n")], None),
        ];
        for (name, files, expected) in cases {
            assert_eq!(MemoryLimit::below(&System::new(name, files).0), *expected, "{name}");
        }
    }
}
