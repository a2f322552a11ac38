//! What the process may do with a range of its memory, as the system lists it.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;

/// What may be done with all bytes of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

const NONE: Access = Access { read: false, write: false };
const FULL: Access = Access { read: true, write: true };

/// Most mappings that are looked at; what lies behind them is taken for none.
const MAX_MAPPINGS: usize = 1 << 20;

/// All memory of the process, as it was at one moment.
#[derive(Debug)]
pub(crate) struct Mappings {
    /// In ascending order; `None` if the system does not list them.
    listed: Option<Vec<(Range<u64>, Access)>>,
}

impl Mappings {
    /// Those of this process. It costs a system call for about thirty of them.
    pub(crate) fn read() -> Mappings {
        let listed = File::open("/proc/self/maps").and_then(|file| listed(BufReader::new(file)));
        let listed = listed.inspect_err(|error| {
            tracing::debug!(%error, "the system does not list the mappings");
        });
        Mappings { listed: listed.ok() }
    }

    /// What may be done with all bytes from `start` to before `end`. Everything, where the system does not tell.
    pub(crate) fn access(&self, start: u64, end: u64) -> Access {
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

/// The mappings come in ascending order, one a line: `first-end rwxp ...`, both in hexadecimal. Neighbours that allow the
/// same become one.
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
}
