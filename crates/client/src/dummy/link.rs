use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use mooncake_memory::{Region, peer_of};
use mooncake_types::ErrorCode;
use socket2::{Domain, SockAddr, Socket, Type};

use super::answer::Answer;
use super::line::{LineError, is_open, receive, send};
use super::protocol::{Call, MAX_BODY_BYTES, MAX_HELLO_BYTES, PROTOCOL_VERSION};
use super::{check_user, socket_name};

/// How long connecting and the handshake may take, each.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Most calls of one dummy at a time; further ones wait for one of them to end.
const MAX_LINES: usize = 32;

/// The way to the host process: a bond for as long as that process lives, then the next one.
pub(super) struct Link {
    port: u16,
    auth_token: String,
    call_timeout: Duration,
    bond: Mutex<Option<Arc<Bond>>>,
}

/// Being a guest of one host process.
pub(super) struct Bond {
    guest: u128,
    pub(super) hostname: String,
    /// The host takes the end of this connection for the end of the guest.
    life_line: UnixStream,
    lines: Mutex<Pool>,
    returned: Condvar,
    shared: Mutex<Shared>,
}

/// What the host has mapped. Whoever holds it has the life line to itself.
#[derive(Default)]
struct Shared {
    /// By the address of the first byte.
    regions: BTreeMap<usize, (Weak<Region>, u32)>,
    /// A call on the life line has no answer: one that still comes would be taken for that of the next call.
    is_over: bool,
}

#[derive(Default)]
struct Pool {
    idle: Vec<UnixStream>,
    open: usize,
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// The host is gone, or refused. Nobody touches the call's memory any more.
    Refused { code: ErrorCode, message: String },
    /// It did not answer in time. It may still touch the call's memory.
    Unknown,
}

impl CallFailure {
    pub(super) const fn code(&self) -> ErrorCode {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Unknown => ErrorCode::RpcTimeout,
        }
    }

    fn refused(code: ErrorCode, message: impl ToString) -> Self {
        Self::Refused { code, message: message.to_string() }
    }
}

impl From<LineError> for CallFailure {
    fn from(error: LineError) -> Self {
        match error {
            LineError::TimedOut => Self::Unknown,
            error => Self::refused(ErrorCode::RpcFail, error),
        }
    }
}

impl Link {
    pub(super) fn new(port: u16, auth_token: String, call_timeout: Duration) -> Self {
        Self { port, auth_token, call_timeout, bond: Mutex::default() }
    }

    /// The bond with the process that is there now.
    pub(super) fn bond(&self) -> Result<Arc<Bond>, CallFailure> {
        let mut held = self.lock();
        if let Some(bond) = held.as_ref().filter(|bond| bond.holds()) {
            return Ok(Arc::clone(bond));
        }
        *held = None;
        let (life_line, guest, hostname) = self.connect(None)?;
        let bond = Arc::new(Bond {
            guest,
            hostname,
            life_line,
            lines: Mutex::default(),
            returned: Condvar::new(),
            shared: Mutex::default(),
        });
        *held = Some(Arc::clone(&bond));
        Ok(bond)
    }

    /// Makes a call and waits for its answer.
    pub(super) fn call(&self, bond: &Arc<Bond>, call: &Call<'_>) -> Result<Answer, CallFailure> {
        let stream = self.take_line(bond)?;
        let patient = stream.set_read_timeout(Some(self.call_timeout));
        let patient = patient.map_err(|error| LineError::from(error).into());
        let answer = patient.and_then(|()| converse(&stream, call, None));
        bond.give_back(answer.is_ok().then_some(stream));
        answer.inspect_err(|_| self.part(bond))
    }

    /// Shares a region with the host, once; gives the number that pieces name it by.
    pub(super) fn share(&self, bond: &Arc<Bond>, region: &Arc<Region>) -> Result<u32, CallFailure> {
        let address = region.whole().as_ptr().expose_provenance();
        let mut shared = bond.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, map)) = shared.regions.get(&address)
            && known.ptr_eq(&Arc::downgrade(region))
        {
            return Ok(*map);
        }
        self.unshare_freed(bond, &mut shared)?;
        let Some(memory) = region.descriptor() else {
            let message = "memory without a descriptor cannot be shared";
            return Err(CallFailure::refused(ErrorCode::InvalidParams, message));
        };
        let call = Call::Share { len: region.len() };
        match self.call_on_life_line(bond, &mut shared, &call, Some(memory))? {
            Answer::Shared(Ok(map)) => {
                shared.regions.insert(address, (Arc::downgrade(region), map));
                Ok(map)
            }
            Answer::Shared(Err(code)) => {
                Err(CallFailure::refused(code, "the host does not take the memory"))
            }
            _ => Err(CallFailure::refused(ErrorCode::RpcFail, "another answer than was asked for")),
        }
    }

    /// Lets the host unmap what this process has freed.
    fn unshare_freed(&self, bond: &Arc<Bond>, shared: &mut Shared) -> Result<(), CallFailure> {
        let is_freed =
            |_: &usize, (region, _): &mut (Weak<Region>, u32)| region.strong_count() == 0;
        let freed: Vec<_> = shared.regions.extract_if(.., is_freed).collect();
        for (_, (_, map)) in freed {
            self.call_on_life_line(bond, shared, &Call::Unshare { map }, None)?;
        }
        Ok(())
    }

    fn call_on_life_line(
        &self,
        bond: &Arc<Bond>,
        shared: &mut Shared,
        call: &Call<'_>,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> Result<Answer, CallFailure> {
        if shared.is_over {
            return Err(CallFailure::refused(ErrorCode::RpcFail, "an earlier call has no answer"));
        }
        converse(&bond.life_line, call, descriptor).inspect_err(|_| {
            shared.is_over = true;
            self.part(bond);
        })
    }

    /// Has the next call look for the process anew.
    pub(super) fn part(&self, bond: &Arc<Bond>) {
        let mut held = self.lock();
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, bond)) {
            *held = None;
        }
    }

    /// Leaves the host process, when the calls under way have ended.
    pub(super) fn leave(&self) {
        *self.lock() = None;
    }

    /// Keeps the sockets of the parent process open without using them.
    pub(super) fn forget(&self) {
        if let Ok(mut bond) = self.bond.try_lock() {
            std::mem::forget(bond.take());
        }
    }

    fn take_line(&self, bond: &Arc<Bond>) -> Result<UnixStream, CallFailure> {
        let lines = bond.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |lines: &mut Pool| lines.idle.is_empty() && lines.open >= MAX_LINES;
        let waited = bond.returned.wait_while(lines, full);
        let mut lines = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(idle) = lines.idle.pop() {
            return Ok(idle);
        }
        lines.open += 1;
        drop(lines);
        self.connect(Some(bond.guest)).map(|(stream, ..)| stream).map_err(|failure| {
            bond.give_back(None);
            self.part(bond);
            // Whatever it says: it is another process by now, or has ended this guest.
            CallFailure::refused(ErrorCode::RpcFail, failure.code())
        })
    }

    /// A connection on which the handshake is done, with what the host said.
    fn connect(&self, guest: Option<u128>) -> Result<(UnixStream, u128, String), CallFailure> {
        let failed = |error: std::io::Error| {
            let name = socket_name(self.port);
            CallFailure::refused(ErrorCode::RpcFail, format!("nobody serves @{name}: {error}"))
        };
        let stream = open(self.port).map_err(failed)?;
        // Any user can take the name of the socket first, to be handed the token and the memory.
        check_user(peer_of(stream.as_fd()).map_err(failed)?.uid)
            .map_err(|message| CallFailure::refused(ErrorCode::IllegalClient, message))?;
        let hello = Call::Hello { version: PROTOCOL_VERSION, token: &self.auth_token, guest };
        send(&stream, &hello.encode(), None)?;
        let mut body = Vec::new();
        let received = receive(&stream, MAX_HELLO_BYTES, &mut body)?;
        let answer = Answer::decode(received.kind, &body).map_err(LineError::from)?;
        match answer {
            Answer::Welcome { guest, hostname } => Ok((stream, guest, hostname)),
            Answer::Refused { code, message } => Err(CallFailure::refused(code, message)),
            _ => Err(CallFailure::refused(ErrorCode::RpcFail, "it is not welcomed")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Bond>>> {
        self.bond.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bond {
    /// Whether the host is still there, as far as can be told without waiting.
    fn holds(&self) -> bool {
        match self.shared.try_lock() {
            // An answer that is on its way to whoever talks there now is no end.
            Err(TryLockError::WouldBlock) => true,
            Ok(_) | Err(TryLockError::Poisoned(_)) => is_open(&self.life_line),
        }
    }

    /// A connection is free, or gone.
    fn give_back(&self, stream: Option<UnixStream>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        match stream {
            Some(stream) => lines.idle.push(stream),
            None => lines.open -= 1,
        }
        drop(lines);
        self.returned.notify_one();
    }
}

fn open(port: u16) -> std::io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    socket.connect(&SockAddr::unix(format!("\0{}", socket_name(port)))?)?;
    Ok(socket.into())
}

/// One call and its answer, on a connection that nobody else uses meanwhile.
fn converse(
    stream: &UnixStream,
    call: &Call<'_>,
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<Answer, CallFailure> {
    send(stream, &call.encode(), descriptor)?;
    let mut body = Vec::new();
    let received = receive(stream, MAX_BODY_BYTES, &mut body)?;
    match Answer::decode(received.kind, &body).map_err(LineError::from)? {
        Answer::Refused { code, message } => Err(CallFailure::refused(code, message)),
        answer => Ok(answer),
    }
}
