//! Descriptors and forks: what a child holds open counts as open, whatever becomes of its parent.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Descriptors of this process that its children do not get. All that are in it are open.
static OPEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

/// A descriptor that children of this process do not get. A lock that hangs on it ends with this process, and who is at
/// the other end of it sees when this process has gone. In a child it is the number of something that does nothing.
///
/// Only children that the system's `fork` makes; one that executes a program anyway has nothing that closes then.
#[derive(Debug)]
pub struct Private<T: AsFd>(ManuallyDrop<T>);

impl<T: AsFd> Private<T> {
    /// Takes an open descriptor. A child that was made between its opening and this has it.
    #[must_use]
    pub fn new(descriptor: T) -> Self {
        enter(&mut open(), descriptor)
    }

    /// Takes what `make` opens, which must not wait: no child is made meanwhile.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn open<E>(make: impl FnOnce() -> Result<T, E>) -> Result<Self, E> {
        let mut open = open();
        make().map(|descriptor| enter(&mut open, descriptor))
    }

    /// The same descriptor as another type.
    #[must_use]
    pub fn convert<U: AsFd + From<T>>(self) -> Private<U> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: it is taken once, since `this` is never dropped.
        let descriptor = unsafe { ManuallyDrop::take(&mut this.0) };
        let number = descriptor.as_fd().as_raw_fd();
        let other = U::from(descriptor);
        assert_eq!(other.as_fd().as_raw_fd(), number, "a descriptor keeps its number");
        Private(ManuallyDrop::new(other))
    }
}

impl Private<OwnedFd> {
    /// Another descriptor of what this one is of.
    ///
    /// # Errors
    /// The system has none left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Self::open(|| self.0.try_clone())
    }
}

impl Private<TcpStream> {
    /// Connects to an address.
    ///
    /// # Errors
    /// The system's, of kind `TimedOut` if nobody has answered after `timeout`.
    pub fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = Private::open(|| Socket::new(domain, Type::STREAM, Some(Protocol::TCP)))?;
        socket.connect_timeout(&address.into(), timeout)?;
        Ok(socket.convert())
    }

    /// Another descriptor of the same socket.
    ///
    /// # Errors
    /// The system has none left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Self::open(|| self.0.try_clone())
    }
}

impl<T: AsFd> Drop for Private<T> {
    fn drop(&mut self) {
        let mut open = open();
        open.remove(&self.0.as_fd().as_raw_fd());
        // SAFETY: it is dropped once, here; nobody uses it afterwards. Under the lock: a child that is made now has to know
        // of the descriptor, or must not have it. What holds much memory is still mapped, so that closing takes no time.
        unsafe { ManuallyDrop::drop(&mut self.0) }
    }
}

impl<T: AsFd> Deref for Private<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: AsFd> AsFd for Private<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Keeps an open descriptor from children of this process, as [`Private`] does, for an owner that lends it mutably. It must
/// go before the descriptor is closed: later its number may be that of another.
#[derive(Debug)]
pub struct PrivateWhile(RawFd);

impl PrivateWhile {
    /// Begins. A child that was made between its opening and this has it.
    #[must_use]
    pub fn open(descriptor: &impl AsFd) -> Self {
        let number = descriptor.as_fd().as_raw_fd();
        note(&mut open(), number);
        Self(number)
    }

    /// Begins with what `make` opens, which must not wait: no child is made meanwhile.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn make<T: AsFd, E>(make: impl FnOnce() -> Result<T, E>) -> Result<(Self, T), E> {
        let mut open = open();
        let descriptor = make()?;
        let number = descriptor.as_fd().as_raw_fd();
        note(&mut open, number);
        Ok((Self(number), descriptor))
    }
}

impl Drop for PrivateWhile {
    fn drop(&mut self) {
        open().remove(&self.0);
    }
}

fn enter<T: AsFd>(open: &mut BTreeSet<RawFd>, descriptor: T) -> Private<T> {
    note(open, descriptor.as_fd().as_raw_fd());
    Private(ManuallyDrop::new(descriptor))
}

fn note(open: &mut BTreeSet<RawFd>, number: RawFd) {
    static HOOK: Once = Once::new();
    // SAFETY: the hooks are functions of this program, which is never unloaded before the process ends.
    HOOK.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
    open.insert(number);
}

fn open() -> MutexGuard<'static, BTreeSet<RawFd>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static HELD: RefCell<Option<MutexGuard<'static, BTreeSet<RawFd>>>> = const { RefCell::new(None) };
}

/// On the thread that forks. No descriptor is opened or closed here until the child is made.
extern "C" fn before() {
    let open = open();
    // A thread that is ending has no such place any more; then the list is not held.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(open));
}

/// On the same thread.
extern "C" fn in_parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

/// On the only thread of the child.
extern "C" fn in_child() {
    let _ = HELD.try_with(|held| {
        if let Some(open) = held.borrow_mut().take() {
            put_out(&open);
        }
    });
}

/// Puts something that does nothing in the place of each descriptor. Its number stays taken: whoever has it here as well
/// would close what somebody else opened under it.
fn put_out(open: &BTreeSet<RawFd>) {
    let nothing = || {
        // SAFETY: makes a descriptor; no memory is involved.
        unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }
    };
    let Some(&first) = open.first() else { return };
    let mut dummy = nothing();
    if dummy < 0 {
        // There is no number left. This makes one, which the next takes.
        // SAFETY: nobody uses it in this process; no memory is involved.
        unsafe { libc::close(first) };
        dummy = nothing();
    }
    for &number in open.iter().filter(|&&number| number != dummy) {
        // SAFETY: as above.
        unsafe {
            if dummy < 0 || libc::dup3(dummy, number, libc::O_CLOEXEC) < 0 {
                libc::close(number);
            }
        }
    }
    if dummy >= 0 && !open.contains(&dummy) {
        // SAFETY: it was made here and nobody else has it.
        unsafe { libc::close(dummy) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::child::Child;

    #[test]
    fn a_socket_ends_with_its_process_though_a_child_of_that_lives_on() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let (shared, mut far_of_shared) = UnixStream::pair().unwrap();
        let near = Private::new(near);
        let (private, inherited) = (near.as_raw_fd(), shared.as_raw_fd());
        let child = Child::make();
        assert_eq!(child.descriptor(private), "anon_inode:[eventfd]");
        assert!(child.descriptor(inherited).starts_with("socket:"));
        far.write_all(b"to the parent").unwrap();
        let mut bytes = [0; 13];
        (&*near).read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"to the parent", "the parent has it still");
        drop((near, shared));
        far_of_shared.set_nonblocking(true).unwrap();
        let kind = far_of_shared.read(&mut bytes).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::WouldBlock, "the child holds this one");
        assert_eq!(far.read(&mut bytes).unwrap(), 0);
    }

    /// A thread that waits for something, as the system sees it.
    fn is_asleep(thread: libc::pid_t) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
        stat.is_ok_and(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')))
    }

    #[test]
    fn the_memory_of_a_segment_is_not_freed_under_the_lock_that_every_connection_needs() {
        let region = crate::Region::anonymous(1 << 20).unwrap();
        let address = region.whole().as_ptr().addr();
        let is_mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(|line| line.starts_with(&format!("{address:x}-")))
        };
        assert!(is_mapped());
        let held = open();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: asks for a number.
            tell.send(unsafe { libc::gettid() }).unwrap();
            drop(region);
        });
        let number = told.recv().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while !is_asleep(number) {
            assert!(std::time::Instant::now() < deadline, "it never waits for the lock");
            std::thread::yield_now();
        }
        assert!(is_mapped(), "closing the descriptor would free the memory");
        drop(held);
        thread.join().unwrap();
        assert!(!is_mapped());
    }

    #[test]
    fn what_somebody_else_owns_is_kept_from_children_for_as_long_as_that_is_wanted() {
        let (one, other) = UnixStream::pair().unwrap();
        let [kept, let_go] = [&one, &other].map(PrivateWhile::open);
        drop(let_go);
        let made = PrivateWhile::make(|| UnixStream::pair().map(|(made, _)| made)).unwrap();
        let child = Child::make();
        assert_eq!(child.descriptor(one.as_raw_fd()), "anon_inode:[eventfd]");
        assert!(child.descriptor(other.as_raw_fd()).starts_with("socket:"));
        assert_eq!(child.descriptor(made.1.as_raw_fd()), "anon_inode:[eventfd]");
        drop((kept, made));
    }

    #[test]
    fn what_was_closed_is_another_number_to_a_child() {
        let (one, other) = UnixStream::pair().unwrap();
        let (one, other) = (Private::new(one), Private::new(OwnedFd::from(other)));
        let again = other.try_clone().unwrap();
        let number = one.as_raw_fd();
        let of_clone = again.as_raw_fd();
        drop(one);
        let next = UnixStream::pair().unwrap();
        let taken = [next.0.as_raw_fd(), next.1.as_raw_fd()].contains(&number);
        let stream: Private<UnixStream> = again.convert();
        let child = Child::make();
        assert!(!taken || child.descriptor(number).starts_with("socket:"));
        assert_eq!(child.descriptor(of_clone), "anon_inode:[eventfd]");
        assert_eq!(stream.as_raw_fd(), of_clone);
    }
}
