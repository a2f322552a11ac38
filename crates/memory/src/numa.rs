use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{CpuSet, sched_setaffinity};

/// Most processors that one node may list: a set holds no more.
const MAX_PROCESSORS: usize = CpuSet::MAX_CPU;

/// Highest node number that the system call takes here.
const MAX_NODES: u32 = 1024;

/// Has a thread of this process asked for a node?
static BOUND: AtomicBool = AtomicBool::new(false);

/// Runs this thread on the processors of a NUMA node from now on, and has its memory allocated there while the node
/// has room. Threads that this process starts for itself afterwards stay with the threads that start them.
///
/// # Errors
/// `NotFound` if the system has no such node; otherwise what the system calls answer.
pub fn bind_to_numa_node(node: u32) -> io::Result<()> {
    let listed = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist"))?;
    let processors = processors(&listed).ok_or(io::ErrorKind::InvalidData)?;
    if node >= MAX_NODES {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // A node may have memory alone.
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

/// The processors of a list like `0-3,8`.
fn processors(list: &str) -> Option<Vec<usize>> {
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

fn prefer(node: u32) -> io::Result<()> {
    const BITS: u32 = libc::c_ulong::BITS;
    let mut nodes: [libc::c_ulong; (MAX_NODES / BITS) as usize] = [0; (MAX_NODES / BITS) as usize];
    nodes[(node / BITS) as usize] = 1 << (node % BITS);
    let max_node = libc::c_ulong::from(MAX_NODES);
    // SAFETY: the kernel reads `max_node` bits of the mask, which has as many.
    let result = unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_PREFERRED, nodes.as_ptr(), max_node)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(processors("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(processors("\n"), Some(vec![]), "a node may have memory alone");
        for wrong in ["a", "3-1", "0-99999999", "1,-2"] {
            assert_eq!(processors(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_named_so() {
        let error = std::thread::spawn(|| bind_to_numa_node(4_000_000)).join().unwrap();
        assert_eq!(error.map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    }
}
