//! The access rights of ranges of this process's memory, as the kernel lists them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

/// The access that all bytes of a range allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// All bytes can be read.
    pub read: bool,
    /// All bytes can be written.
    pub write: bool,
}

const NONE: Access = Access { read: false, write: false };
const FULL: Access = Access { read: true, write: true };

/// Most mappings that are read. Memory behind them counts as inaccessible.
const MAX_MAPPINGS: usize = 1 << 20;

/// The mappings of this process at one moment.
#[derive(Debug)]
pub struct Mappings {
    /// Ascending ranges; `None` if the kernel does not list them.
    listed: Option<Vec<(Range<u64>, Access)>>,
}

impl Mappings {
    /// Reads the mappings of this process. It takes one system call for each thirty of them or so.
    #[must_use]
    pub fn read() -> Mappings {
        Mappings { listed: lines().and_then(listed).ok() }
    }

    /// The access that all bytes from `start` to before `end` allow. Full access if the kernel lists no mappings.
    #[must_use]
    pub fn access(&self, start: u64, end: u64) -> Access {
        let Some(listed) = &self.listed else { return FULL };
        let (mut at, mut found) = (start, FULL);
        let first = listed.partition_point(|(range, _)| range.end <= start);
        for (range, access) in &listed[first..] {
            if range.start > at {
                return NONE;
            }
            found.read &= access.read;
            found.write &= access.write;
            at = range.end;
            if at >= end {
                return found;
            }
        }
        NONE
    }
}

/// Describes the mapping at an address in words.
#[must_use]
pub fn describe_address(address: u64) -> String {
    let Ok(lines) = lines() else { return "the system lists no mappings".to_owned() };
    let lines = lines.lines().take(MAX_MAPPINGS).map_while(Result::ok);
    describe(lines, address)
}

fn describe(mut lines: impl Iterator<Item = String>, address: u64) -> String {
    let holds = |line: &String| parse(line).is_some_and(|(range, _)| range.contains(&address));
    let Some(line) = lines.find(holds) else {
        return "no mapping of this process holds it, as is so for memory of a GPU".to_owned();
    };
    let mut words = line.split_whitespace();
    let flags = words.nth(1).unwrap_or_default().to_owned();
    let name: Vec<&str> = words.skip(3).collect();
    match name.is_empty() {
        true => format!("it lies in a mapping without a name that allows {flags}"),
        false => format!("it lies in a mapping of {} that allows {flags}", name.join(" ")),
    }
}

/// Whether the processor can read the byte at an address, which may be unmapped. Takes one short system call, which
/// every sandbox allows.
#[must_use]
pub fn is_readable(address: usize) -> bool {
    // Size of a signal set. It is aligned, so that what the kernel reads does not cross into the next page.
    const SET_BYTES: usize = 8;
    let set: *const u8 = std::ptr::with_exposed_provenance(address & !(SET_BYTES - 1));
    if set.is_null() {
        // The kernel takes a null pointer as "no set" and would read nothing.
        return false;
    }
    let no_such_change = -1;
    // SAFETY: the kernel copies the set, or fails if it cannot. It then rejects the unknown operation, so nothing
    // changes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            no_such_change,
            set,
            std::ptr::null::<u8>(),
            SET_BYTES,
        )
    };
    result == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

fn lines() -> io::Result<BufReader<File>> {
    File::open("/proc/self/maps").map(BufReader::new)
}

/// Parses the list of mappings, in ascending order, one per line: `first-end rwxp ...` in hexadecimal. Merges
/// neighbours that allow the same access.
fn listed(lines: impl BufRead) -> io::Result<Vec<(Range<u64>, Access)>> {
    let mut listed: Vec<(Range<u64>, Access)> = Vec::new();
    for line in lines.lines().take(MAX_MAPPINGS) {
        let Some((range, access)) = parse(&line?) else { continue };
        match listed.last_mut() {
            Some((last, same)) if last.end == range.start && *same == access => {
                last.end = range.end;
            }
            _ => listed.push((range, access)),
        }
    }
    Ok(listed)
}

fn parse(line: &str) -> Option<(Range<u64>, Access)> {
    let mut words = line.split(' ');
    let (first, end) = words.next()?.split_once('-')?;
    let flags = words.next()?.as_bytes();
    let range = u64::from_str_radix(first, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let access = Access { read: *flags.first()? == b'r', write: *flags.get(1)? == b'w' };
    Some((range, access))
}

#[cfg(test)]
mod tests {
    use rustix::mm::{MprotectFlags, mprotect};

    use super::*;

    const LIST: &str = "\
1000-2000 r--p 00000000 00:00 0
2000-4000 rw-p 00000000 00:00 0 [heap]
4000-5000 rw-s 00000000 00:01 7 /memfd:x (deleted)
6000-7000 rw-p 00000000 00:00 0
7000-8000 ---p 00000000 00:00 0
nonsense
";

    #[test]
    fn a_range_is_as_accessible_as_its_least_accessible_byte() {
        let read_only = Access { read: true, write: false };
        let mappings = Mappings { listed: Some(listed(LIST.as_bytes()).expect("text")) };
        for (start, end, expected) in [
            (0x2000, 0x4000, FULL),
            (0x2fff, 0x3000, FULL),
            (0x3000, 0x5000, FULL),
            (0x1000, 0x1001, read_only),
            (0x1fff, 0x2001, read_only),
            (0x4fff, 0x5001, NONE),
            (0x5000, 0x5001, NONE),
            (0x0fff, 0x1001, NONE),
            (0x6000, 0x8000, NONE),
            (0x8000, 0x8001, NONE),
            (0x7fff, u64::MAX, NONE),
        ] {
            assert_eq!(mappings.access(start, end), expected, "{start:#x}-{end:#x}");
        }
        assert_eq!(Mappings { listed: None }.access(8, 16), FULL);
    }

    #[test]
    fn this_process_can_use_its_own_memory_and_not_the_first_page() {
        let (mappings, bytes) = (Mappings::read(), [0_u8; 100]);
        let start = bytes.as_ptr().addr() as u64;
        assert_eq!(mappings.access(start, start + 100), FULL);
        assert_eq!(mappings.access(16, 32), NONE);
        let text = "read only".as_ptr().addr() as u64;
        assert_eq!(mappings.access(text, text + 9), Access { read: true, write: false });
    }

    #[test]
    fn an_address_is_described_by_its_mapping() {
        let named = format!("{LIST}8000-9000 ---s 00000000 00:05 1 /dev/nvidia-uvm\n");
        let of = |address| describe(named.lines().map(str::to_owned), address);
        assert_eq!(of(0x2fff), "it lies in a mapping of [heap] that allows rw-p");
        assert_eq!(of(0x4000), "it lies in a mapping of /memfd:x (deleted) that allows rw-s");
        assert_eq!(of(0x7000), "it lies in a mapping without a name that allows ---p");
        assert_eq!(of(0x8fff), "it lies in a mapping of /dev/nvidia-uvm that allows ---s");
        assert!(of(0x5000).starts_with("no mapping of this process holds it"));
    }

    #[test]
    fn what_the_processor_cannot_read_is_told_without_a_crash() {
        let region = crate::Region::anonymous(3 * crate::page_bytes()).expect("memory");
        let (start, len) = (region.whole().as_ptr(), crate::page_bytes() as usize);
        // SAFETY: changes the second page of a mapping that only this test uses.
        unsafe { mprotect(start.add(len).cast(), len, MprotectFlags::empty()) }.unwrap();
        let start = start.expose_provenance();
        let found = [0, len - 1, len, 2 * len - 1, 2 * len].map(|at| is_readable(start + at));
        assert_eq!(found, [true, true, false, false, true]);
        assert_eq!([0, 16, usize::MAX].map(is_readable), [false; 3]);
        assert!(describe_address((start + len) as u64).ends_with("that allows ---s"));
    }
}
