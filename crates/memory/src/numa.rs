use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::{RawSlice, Region};

/// Most processors that a [`CpuSet`] holds. A node that lists further ones is an error.
const MAX_PROCESSORS: usize = CpuSet::MAX_CPU;

/// Most nodes that a [`Mask`] holds.
const MAX_NODES: u32 = 1024;

/// The mask length that is passed to system calls. The kernel reads one bit less.
const MASK_LEN: libc::c_ulong = 1024 + 1;

/// Whether a thread of this process was bound to a node.
static BOUND: AtomicBool = AtomicBool::new(false);

/// Binds this thread to the processors of a NUMA node, and prefers memory of that node while it has any. Threads that
/// [`crate::spawn_unpinned`] starts afterwards keep the processors of the thread that starts them.
///
/// # Errors
/// `NotFound` if the node does not exist; otherwise the error of a system call.
pub fn bind_to_numa_node(node: u32) -> io::Result<()> {
    let listed = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"))?;
    let processors = numbers(&listed).ok_or(io::ErrorKind::InvalidData)?;
    mask(node)?;
    // A node may have memory and no processors.
    if !processors.is_empty() {
        let mut set = CpuSet::new();
        processors.into_iter().for_each(|processor| set.set(processor));
        sched_setaffinity(None, &set)?;
    }
    prefer(node)?;
    BOUND.store(true, Ordering::Relaxed);
    Ok(())
}

/// Whether a thread of this process was bound to a node.
pub(crate) fn is_bound() -> bool {
    BOUND.load(Ordering::Relaxed)
}

/// Parses a list of numbers like `0-3,8`.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for span in list.trim().split(',').filter(|span| !span.is_empty()) {
        let (first, last) = span.split_once('-').unwrap_or((span, span));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_PROCESSORS {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// How many NUMA nodes this host has; one if the kernel does not tell.
#[must_use]
pub fn numa_nodes() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/node/online").ok();
    online.and_then(|list| numbers(&list)).map_or(1, |nodes| nodes.len().max(1))
}

/// Most pages of which it is asked where they are.
const MAX_SAMPLES: usize = 16;

/// The NUMA node of memory; `None` if it is on several, or the kernel does not tell. Pages that were never used are on none.
#[must_use]
pub fn numa_node_of(memory: RawSlice<'_>) -> Option<u32> {
    let step = memory.len().div_ceil(MAX_SAMPLES).max(1);
    let at = |from: usize| memory.as_ptr().wrapping_add(from).cast::<libc::c_void>();
    let mut pages: Vec<*mut libc::c_void> = (0..memory.len()).step_by(step).map(at).collect();
    let mut nodes: Vec<libc::c_int> = vec![-1; pages.len()];
    let (this_process, count, no_flags) = (0, pages.len(), 0);
    // SAFETY: without nodes to move to, the call only stores where pages are, in a list with room for all.
    let result = unsafe {
        let (pages, nodes) = (pages.as_mut_ptr(), nodes.as_mut_ptr());
        let stay: *const libc::c_int = std::ptr::null();
        libc::syscall(libc::SYS_move_pages, this_process, count, pages, stay, nodes, no_flags)
    };
    let first = u32::try_from(*nodes.first()?).ok()?;
    let is_first = |&node: &libc::c_int| u32::try_from(node) == Ok(first);
    (result == 0 && nodes.iter().all(is_first)).then_some(first)
}

impl Region {
    /// Prefers a NUMA node for the pages that the region does not have yet, whichever thread touches them first.
    ///
    /// # Errors
    /// The node does not exist, or the kernel refuses.
    pub fn prefer_numa_node(&self, node: u32) -> io::Result<()> {
        let nodes = mask(node)?;
        let (whole, policy) = (self.whole(), libc::c_long::from(libc::MPOL_PREFERRED));
        let (nodes, no_flags) = (nodes.as_ptr(), 0 as libc::c_long);
        // SAFETY: exactly a mapping of this region, of which no byte changes; the mask has as many bits as the kernel
        // reads.
        let result = unsafe {
            let (start, len) = (whole.as_ptr(), whole.len());
            libc::syscall(libc::SYS_mbind, start, len, policy, nodes, MASK_LEN, no_flags)
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

const MASK_BITS: u32 = libc::c_ulong::BITS;
type Mask = [libc::c_ulong; (MAX_NODES / MASK_BITS) as usize];

/// A mask with one node set.
fn mask(node: u32) -> io::Result<Mask> {
    let mut nodes: Mask = [0; (MAX_NODES / MASK_BITS) as usize];
    let word = nodes.get_mut((node / MASK_BITS) as usize).ok_or(io::ErrorKind::InvalidInput)?;
    *word = 1 << (node % MASK_BITS);
    Ok(nodes)
}

fn prefer(node: u32) -> io::Result<()> {
    let nodes = mask(node)?;
    let policy = libc::c_long::from(libc::MPOL_PREFERRED);
    // SAFETY: the mask has as many bits as the kernel reads.
    let result =
        unsafe { libc::syscall(libc::SYS_set_mempolicy, policy, nodes.as_ptr(), MASK_LEN) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_numbers_are_read() {
        assert_eq!(numbers("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(numbers("\n"), Some(vec![]), "a node may have memory alone");
        for wrong in ["a", "3-1", "0-99999999", "1,-2"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
        assert!(numa_nodes() > 0);
    }

    #[test]
    fn memory_of_a_node_that_is_not_there_is_refused() {
        let region = Region::anonymous(10_000).unwrap();
        for node in [MAX_NODES - 1, MAX_NODES, u32::MAX] {
            assert!(region.prefer_numa_node(node).is_err(), "{node}");
        }
        region.whole().write_from(&[1; 10_000]);
    }

    #[test]
    fn memory_is_on_the_node_that_its_pages_are_on() {
        let region = Region::anonymous(100_000).unwrap();
        assert_eq!(numa_node_of(region.whole()), None, "it has no pages yet");
        region.whole().write_from(&[1; 100_000]);
        let node = numa_node_of(region.whole());
        assert!(node.is_none_or(|node| (node as usize) < 1024), "{node:?}");
        if numa_nodes() == 1 {
            assert_eq!(node, Some(0));
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_named_so() {
        let error = std::thread::spawn(|| bind_to_numa_node(4_000_000)).join().unwrap();
        assert_eq!(error.map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    }
}
