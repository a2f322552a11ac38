//! Descriptors that forked children do not inherit. Without this, a child would keep files and sockets of its parent
//! open.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// The descriptors of this process that its children must not inherit.
static OPEN: Mutex<Table> = Mutex::new(Table::new());

struct Table {
    open: BTreeSet<RawFd>,
    /// Files that are being closed, which may take long. Their numbers may belong to others already.
    closing: BTreeMap<RawFd, FileIdentity>,
    /// How often this process was forked.
    forks: u64,
}

impl Table {
    const fn new() -> Self {
        Self { open: BTreeSet::new(), closing: BTreeMap::new(), forks: 0 }
    }
}

/// Which file a descriptor belongs to: the device, and the number there.
type FileIdentity = (u32, u32, u64);

/// A descriptor that children of this process do not inherit. A file lock on it ends with this process, and a socket's
/// peer notices when this process ends. In a child the number belongs to an unused eventfd.
///
/// This covers children of the C library's `fork`. A child that executes another program loses the descriptor by
/// close-on-exec.
#[derive(Debug)]
pub struct Private<T: AsFd> {
    descriptor: ManuallyDrop<T>,
    /// Whether it belongs to a file: to open or to close that can take as long as a network filesystem does not answer.
    is_file: bool,
}

impl<T: AsFd> Private<T> {
    /// Wraps an open descriptor. A child forked between its opening and this call inherits it.
    #[must_use]
    pub fn new(descriptor: T) -> Self {
        enter(&mut open(), descriptor)
    }

    /// Wraps the descriptor that `make` opens. No child can be forked meanwhile, so `make` must not block.
    ///
    /// # Errors
    /// The error of `make`.
    pub fn open<E>(make: impl FnOnce() -> Result<T, E>) -> Result<Self, E> {
        let mut open = open();
        make().map(|descriptor| enter(&mut open, descriptor))
    }

    /// Converts the descriptor to another type.
    #[must_use]
    pub fn convert<U: AsFd + From<T>>(self) -> Private<U> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the value is taken once, since `this` is never dropped.
        let descriptor = unsafe { ManuallyDrop::take(&mut this.descriptor) };
        let number = descriptor.as_fd().as_raw_fd();
        let other = U::from(descriptor);
        assert_eq!(other.as_fd().as_raw_fd(), number, "a descriptor keeps its number");
        Private { descriptor: ManuallyDrop::new(other), is_file: this.is_file }
    }
}

impl Private<File> {
    /// Opens a file, without the lock that each connection and each fork needs: a network filesystem may not answer.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn open_file(options: &OpenOptions, path: &Path) -> io::Result<Self> {
        let mut forks = open().forks;
        let mut file = options.open(path)?;
        loop {
            let mut table = open();
            if table.forks == forks {
                let mut private = enter(&mut table, file);
                private.is_file = true;
                return Ok(private);
            }
            // A child may have inherited the file, with the locks that it will get. It does not inherit another opening.
            forks = table.forks;
            drop(table);
            file = options.clone().create(false).create_new(false).truncate(false).open(path)?;
        }
    }
}

impl Private<OwnedFd> {
    /// Duplicates the descriptor.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        let mut clone = Self::open(|| self.descriptor.try_clone())?;
        clone.is_file = self.is_file;
        Ok(clone)
    }
}

impl Private<TcpStream> {
    /// Connects to an address.
    ///
    /// # Errors
    /// The kernel's error. Its kind is `TimedOut` if the peer did not answer within `timeout`.
    pub fn connect(address: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = Private::open(|| Socket::new(domain, Type::STREAM, Some(Protocol::TCP)))?;
        socket.connect_timeout(&address.into(), timeout)?;
        Ok(socket.convert())
    }

    /// Begins to connect to an address, on a socket that does not block. The socket is writable once that has ended,
    /// and has an error if it failed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn begin_connect(address: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = Private::open(|| Socket::new(domain, Type::STREAM, Some(Protocol::TCP)))?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(socket.convert()),
        }
    }

    /// Gives the descriptor to the owner that `take` makes of it, which keeps its number. Children do not inherit it for
    /// as long as the first part of the result lives, which must be dropped before the second. No child can be forked
    /// meanwhile, so `take` must not block.
    ///
    /// # Errors
    /// The error of `take`, which has then closed the descriptor.
    pub fn hand_over<T: AsFd, E>(
        self,
        take: impl FnOnce(TcpStream) -> Result<T, E>,
    ) -> Result<(PrivateWhile, T), E> {
        let mut table = open();
        let mut this = ManuallyDrop::new(self);
        // SAFETY: the value is taken once, since `this` is never dropped.
        let stream = unsafe { ManuallyDrop::take(&mut this.descriptor) };
        let number = stream.as_raw_fd();
        match take(stream) {
            Ok(owner) => {
                assert_eq!(owner.as_fd().as_raw_fd(), number, "a descriptor keeps its number");
                Ok((PrivateWhile(number), owner))
            }
            Err(error) => {
                table.open.remove(&number);
                Err(error)
            }
        }
    }

    /// Duplicates the descriptor of the socket.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Self::open(|| self.descriptor.try_clone())
    }
}

impl Private<UnixStream> {
    /// Two sockets that are connected with each other.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let mut table = open();
        let (one, other) = UnixStream::pair()?;
        Ok((enter(&mut table, one), enter(&mut table, other)))
    }
}

impl<T: AsFd> Drop for Private<T> {
    fn drop(&mut self) {
        let number = self.descriptor.as_fd().as_raw_fd();
        let identity = self.is_file.then(|| identity(number)).flatten();
        let mut table = open();
        table.open.remove(&number);
        let Some(identity) = identity else {
            // SAFETY: dropped once, here, and never used afterwards. Still under the lock, so that a forked child either
            // finds the descriptor in `OPEN` or does not inherit it. Large memory is still mapped, so closing its
            // descriptor is quick.
            unsafe { ManuallyDrop::drop(&mut self.descriptor) };
            return;
        };
        table.closing.insert(number, identity);
        drop(table);
        // SAFETY: as above. Without the lock, because the file's filesystem may not answer; a child that is forked
        // meanwhile finds the descriptor in `closing`.
        unsafe { ManuallyDrop::drop(&mut self.descriptor) };
        let mut table = open();
        if table.closing.get(&number) == Some(&identity) {
            table.closing.remove(&number);
        }
    }
}

impl<T: AsFd> Deref for Private<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.descriptor
    }
}

impl<T: AsFd> AsFd for Private<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Keeps a descriptor that has another owner from children, as [`Private`] does. Drop this before the owner closes the
/// descriptor: the number may then be reused.
#[derive(Debug)]
pub struct PrivateWhile(RawFd);

impl PrivateWhile {
    /// Registers an open descriptor. A child forked between its opening and this call inherits it.
    #[must_use]
    pub fn open(descriptor: &impl AsFd) -> Self {
        let number = descriptor.as_fd().as_raw_fd();
        note(&mut open(), number);
        Self(number)
    }

    /// Registers the descriptor that `make` opens. No child can be forked meanwhile, so `make` must not block.
    ///
    /// # Errors
    /// The error of `make`.
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
        open().open.remove(&self.0);
    }
}

fn enter<T: AsFd>(table: &mut Table, descriptor: T) -> Private<T> {
    note(table, descriptor.as_fd().as_raw_fd());
    Private { descriptor: ManuallyDrop::new(descriptor), is_file: false }
}

fn note(table: &mut Table, number: RawFd) {
    static HOOK: Once = Once::new();
    // SAFETY: the hooks are functions of this program, which is never unloaded before the process ends.
    HOOK.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child));
    });
    // An earlier file of this number has given it up, even if its closing has not ended.
    table.closing.remove(&number);
    table.open.insert(number);
}

/// The file that a descriptor belongs to, as far as the kernel knows without asking a filesystem. Async-signal-safe.
fn identity(number: RawFd) -> Option<FileIdentity> {
    // SAFETY: an all-zero `statx` is valid.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: the path is an empty string, and `found` lives across the call.
    let result =
        unsafe { libc::statx(number, c"".as_ptr(), flags, libc::STATX_INO, &raw mut found) };
    (result == 0).then_some((found.stx_dev_major, found.stx_dev_minor, found.stx_ino))
}

fn open() -> MutexGuard<'static, Table> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static HELD: RefCell<Option<MutexGuard<'static, Table>>> = const { RefCell::new(None) };
}

/// Runs on the forking thread. It holds the lock, so no private descriptor is opened or closed until the child exists.
extern "C" fn before() {
    let mut open = open();
    open.forks += 1;
    // A thread that is ending has no thread-locals any more; the lock is then not held during the fork.
    let _ = HELD.try_with(|held| *held.borrow_mut() = Some(open));
}

/// Runs on the forking thread, in the parent.
extern "C" fn in_parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().take());
}

/// Runs on the only thread of the child.
extern "C" fn in_child() {
    let _ = HELD.try_with(|held| {
        if let Some(open) = held.borrow_mut().take() {
            put_out(&open);
        }
    });
}

/// Replaces each descriptor by an unused eventfd, so that its number stays taken. Otherwise a copied owner in the
/// child would later close an unrelated descriptor of this number.
fn put_out(table: &Table) {
    for (&number, &file) in &table.closing {
        if identity(number) == Some(file) {
            // SAFETY: the child's copies of its owner never use it; no memory is involved.
            unsafe { libc::close(number) };
        }
    }
    let open = &table.open;
    let nothing = || {
        // SAFETY: creates a descriptor; no memory is involved.
        unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }
    };
    let Some(&first) = open.first() else { return };
    let mut dummy = nothing();
    if dummy < 0 {
        // There is no free number. Closing this descriptor frees one for the eventfd.
        // SAFETY: the child's copies of its owner never use it; no memory is involved.
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
        // SAFETY: the descriptor was created here, and nothing else uses it.
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

    #[test]
    fn a_socket_that_another_owner_takes_over_is_private_still() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || Private::begin_connect(listener.local_addr().unwrap()).unwrap();
        let (private, stream) = connect().hand_over(Ok::<_, io::Error>).unwrap();
        let number = stream.as_raw_fd();
        assert_eq!(Child::make().descriptor(number), "anon_inode:[eventfd]");
        drop(private);
        assert!(Child::make().descriptor(number).starts_with("socket:"));
        let refused = connect().hand_over(|_| Err::<TcpStream, _>(io::Error::other("no")));
        assert_eq!(refused.unwrap_err().to_string(), "no");
    }

    /// Whether a thread is blocked, according to the kernel.
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
            // SAFETY: returns a number; no memory is involved.
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

    /// A file of a filesystem that answers nothing, until a thread opens the other end.
    fn pipe_without_writer() -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("mooncake-stalled-{}", std::process::id()));
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the name is a string that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        path
    }

    #[test]
    fn a_file_that_is_opened_for_long_keeps_no_socket_and_no_fork_waiting() {
        let path = pipe_without_writer();
        let opening = path.clone();
        let thread = std::thread::spawn(move || {
            Private::open_file(File::options().read(true), &opening).unwrap()
        });
        let (near, _far) = UnixStream::pair().unwrap();
        let near = Private::new(near);
        let child = Child::make();
        assert_eq!(child.descriptor(near.as_raw_fd()), "anon_inode:[eventfd]");
        assert!(!thread.is_finished());
        // Opens both ends: this one, and a second time that of the thread, which a child was forked beside.
        let writer = File::options().read(true).write(true).open(&path).unwrap();
        let file = thread.join().unwrap();
        let child = Child::make();
        assert_eq!(child.descriptor(file.as_raw_fd()), "anon_inode:[eventfd]");
        drop((writer, file));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_that_is_being_closed_is_closed_in_a_child_and_another_of_its_number_is_not() {
        let path = std::env::temp_dir().join(format!("mooncake-closing-{}", std::process::id()));
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        let file = Private::open_file(&options, &path).unwrap();
        let (number, identity) = (file.as_raw_fd(), identity(file.as_raw_fd()).unwrap());
        let other = File::open("/dev/null").unwrap();
        let elsewhere = other.as_raw_fd();
        // As while another thread waits for the filesystem.
        let closing = [(number, identity), (elsewhere, identity)];
        open().open.remove(&number);
        open().closing.extend(closing);
        let child = Child::make();
        assert_eq!(child.descriptor(number), "nothing");
        assert_eq!(child.descriptor(elsewhere), "/dev/null");
        closing.iter().for_each(|(number, _)| _ = open().closing.remove(number));
        drop(file);
        assert!(open().closing.is_empty());
        std::fs::remove_file(path).unwrap();
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
