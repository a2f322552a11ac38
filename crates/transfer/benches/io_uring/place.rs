use std::io;
use std::mem::{size_of, zeroed};

/// Which processors a thread may use. Threads that it starts may use the same.
#[derive(Clone, Copy)]
pub(crate) struct Place(libc::cpu_set_t);

impl Place {
    /// That of the calling thread.
    pub(crate) fn here() -> io::Result<Place> {
        // SAFETY: a set is plain bits; none set means no processor.
        let mut set: libc::cpu_set_t = unsafe { zeroed() };
        // SAFETY: the set is ours, and of the length that is told.
        let result = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        if result == 0 { Ok(Place(set)) } else { Err(io::Error::last_os_error()) }
    }

    /// The first and the last processor of these: the two ends of a connection do without each other's there, as on two
    /// hosts. The same one twice if there is only one.
    pub(crate) fn ends(self) -> [Place; 2] {
        // SAFETY: only bits within the set are asked for.
        let is_set = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &self.0) };
        let mut cpus = (0..8 * size_of::<libc::cpu_set_t>()).filter(is_set);
        let first = cpus.next().expect("a thread has a processor");
        [first, cpus.next_back().unwrap_or(first)].map(Place::only)
    }

    fn only(cpu: usize) -> Place {
        // SAFETY: as in `here`; the processor was found in a set of the same length.
        unsafe {
            let mut set: libc::cpu_set_t = zeroed();
            libc::CPU_SET(cpu, &mut set);
            Place(set)
        }
    }

    /// Moves the calling thread there.
    pub(crate) fn enter(self) -> io::Result<()> {
        // SAFETY: the set is only read, and of the length that is told.
        let result = unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), &raw const self.0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
