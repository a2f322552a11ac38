use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use mooncake_client::SetAside;
use mooncake_connection::{
    Connection, Dialer, Fault, IdleConnections, LOCAL_MARK, Permits, TrustedUsers,
};
use mooncake_memory::Region;
use mooncake_types::{ClientId, DummyReply, DummyRequest, ErrorCode, Secret};
use mooncake_wire::{Hello, Kind, Role, decode_dummy_reply, encode_dummy_request};

use super::overdue_calls::OverdueCalls;
use super::socket_name::socket_name;

/// Timeout of connecting, of the handshake, and of each call on a control connection.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);

/// Most calls of one dummy at the same time; further ones wait until one has ended.
const MAX_CALLS: usize = 32;

/// Connects to the host process. An attachment lasts as long as that process; then there is a new one, to the next
/// process.
pub(super) struct HostLink {
    endpoint: String,
    dialer: Dialer,
    call_timeout: Duration,
    attachment: Mutex<Option<Arc<Attachment>>>,
    pub(super) overdue: OverdueCalls,
}

/// The attachment of this process to one host process.
pub(super) struct Attachment {
    id: u128,
    pub(super) hostname: String,
    calls: Permits,
    idle: IdleConnections,
    control: Mutex<Control>,
}

/// The connection whose end ends the attachment, and the regions that the host has mapped.
struct Control {
    /// `None` once a call on it got no answer.
    connection: Option<Connection>,
    /// By the address of the first byte, with the number that the host gave.
    regions: BTreeMap<usize, (Weak<Region>, u32)>,
}

/// Why a call got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// The host has ended, or refused the call. It does not touch the call's memory any more: a host ends no
    /// connection before the call on it has ended.
    Refused { code: ErrorCode, message: String },
    /// The host did not answer in time. It may still touch the call's memory.
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

    fn of(fault: impl Into<Fault>) -> Self {
        match fault.into() {
            Fault::TimedOut | Fault::Silent => Self::Unknown,
            Fault::Refused(refusal) => Self::refused(refusal.code, refusal.message),
            Fault::Stranger(stranger) => Self::refused(ErrorCode::IllegalClient, stranger),
            fault @ (Fault::Io(_) | Fault::Protocol(_)) => Self::refused(ErrorCode::RpcFail, fault),
        }
    }
}

impl HostLink {
    pub(super) fn new(port: u16, auth_token: Secret, call_timeout: Duration) -> Self {
        let hello = Hello { auth_token, ..Hello::new(Role::Client, ClientId::default()) };
        let dialer = Dialer { trusted: TrustedUsers::OwnOrRoot, ..Dialer::new(hello) };
        let endpoint = format!("{LOCAL_MARK}{}", socket_name(port));
        Self {
            endpoint,
            dialer,
            call_timeout,
            attachment: Mutex::default(),
            overdue: OverdueCalls::default(),
        }
    }

    /// The attachment to the present host process.
    pub(super) fn attachment(&self) -> Result<Arc<Attachment>, CallFailure> {
        let mut held = self.lock();
        if let Some(attachment) = held.as_ref().filter(|attachment| attachment.holds()) {
            return Ok(Arc::clone(attachment));
        }
        *held = None;
        let (connection, id, hostname) = self.attach(None)?;
        let control = Control { connection: Some(connection), regions: BTreeMap::new() };
        let attachment = Arc::new(Attachment {
            id,
            hostname,
            calls: Permits::new(MAX_CALLS),
            idle: IdleConnections::new(MAX_CALLS),
            control: Mutex::new(control),
        });
        *held = Some(Arc::clone(&attachment));
        Ok(attachment)
    }

    /// Makes a call and waits for its answer.
    pub(super) fn call(
        &self,
        attachment: &Arc<Attachment>,
        request: &DummyRequest<'_>,
    ) -> Result<DummyReply, CallFailure> {
        self.call_passing(attachment, request, Vec::new)
    }

    /// As [`HostLink::call`]. If the host does not answer in time, `set_aside` names the ranges of the pool that it may
    /// still touch.
    pub(super) fn call_passing(
        &self,
        attachment: &Arc<Attachment>,
        request: &DummyRequest<'_>,
        set_aside: impl FnOnce() -> Vec<SetAside>,
    ) -> Result<DummyReply, CallFailure> {
        let _permit = attachment.calls.take();
        let mut connection = match attachment.idle.take(true) {
            Some(connection) => connection,
            None => self.connect(attachment)?,
        };
        match ask(&mut connection, request, None) {
            Ok(reply) => {
                attachment.idle.give_back(connection);
                accepted(reply)
            }
            Err(failure) => {
                self.leave(attachment);
                let ranges = if failure == CallFailure::Unknown { set_aside() } else { Vec::new() };
                if !ranges.is_empty() {
                    self.overdue.keep(connection, ranges);
                }
                Err(failure)
            }
        }
    }

    /// Shares a region with the host, unless that was done before. Returns the number by which pieces name it.
    pub(super) fn share(
        &self,
        attachment: &Arc<Attachment>,
        region: &Arc<Region>,
    ) -> Result<u32, CallFailure> {
        let address = region.whole().as_ptr().expose_provenance();
        let mut control = attachment.control.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, map)) = control.regions.get(&address)
            && known.ptr_eq(&Arc::downgrade(region))
        {
            return Ok(*map);
        }
        self.unshare_freed(attachment, &mut control)?;
        let Some(memory) = region.descriptor() else {
            let message = "memory without a descriptor cannot be shared";
            return Err(CallFailure::refused(ErrorCode::InvalidParams, message));
        };
        let request = DummyRequest::ShareMemory { len: region.len() };
        match self.call_on_control(attachment, &mut control, &request, Some(memory))? {
            DummyReply::MemoryShared { map } => {
                control.regions.insert(address, (Arc::downgrade(region), map));
                Ok(map)
            }
            _ => Err(CallFailure::refused(ErrorCode::RpcFail, "another answer than was asked for")),
        }
    }

    /// Has the host unmap the regions that this process has freed.
    fn unshare_freed(
        &self,
        attachment: &Arc<Attachment>,
        control: &mut Control,
    ) -> Result<(), CallFailure> {
        let is_freed =
            |_: &usize, (region, _): &mut (Weak<Region>, u32)| region.strong_count() == 0;
        let freed: Vec<_> = control.regions.extract_if(.., is_freed).collect();
        for (_, (_, map)) in freed {
            let request = DummyRequest::UnshareMemory { map };
            self.call_on_control(attachment, control, &request, None)?;
        }
        Ok(())
    }

    fn call_on_control(
        &self,
        attachment: &Arc<Attachment>,
        control: &mut Control,
        request: &DummyRequest<'_>,
        memory: Option<BorrowedFd<'_>>,
    ) -> Result<DummyReply, CallFailure> {
        let Some(connection) = &mut control.connection else {
            return Err(CallFailure::refused(ErrorCode::RpcFail, "an earlier call has no answer"));
        };
        let reply = ask(connection, request, memory).inspect_err(|_| {
            control.connection = None;
            self.leave(attachment);
        })?;
        accepted(reply)
    }

    /// Gives up an attachment: the next call attaches to the present host process.
    fn leave(&self, attachment: &Arc<Attachment>) {
        self.lock().take_if(|held| Arc::ptr_eq(held, attachment));
    }

    /// Leaves the host process once the calls under way have ended.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    /// Makes a further connection of an attachment.
    fn connect(&self, attachment: &Arc<Attachment>) -> Result<Connection, CallFailure> {
        let attached = self.attach(Some(attachment.id)).and_then(|(mut connection, ..)| {
            let failed = |error: std::io::Error| CallFailure::of(error);
            connection.set_timeout(self.call_timeout).map_err(failed)?;
            Ok(connection)
        });
        attached.map_err(|failure| {
            self.leave(attachment);
            // Whatever the failure says: the host process is another one by now, or has ended this attachment.
            CallFailure::refused(ErrorCode::RpcFail, failure.code())
        })
    }

    /// Makes an attached connection. Also returns the number of the attachment, and the hostname of the host process.
    fn attach(&self, attachment: Option<u128>) -> Result<(Connection, u128, String), CallFailure> {
        let connection = self.dialer.connect(&self.endpoint, CONTROL_TIMEOUT);
        let mut connection = connection.map_err(|fault| match fault {
            Fault::Io(error) => {
                let message = format!("nobody serves {}: {error}", self.endpoint);
                CallFailure::refused(ErrorCode::RpcFail, message)
            }
            fault => CallFailure::of(fault),
        })?;
        self.dialer.greet(&mut connection).map_err(CallFailure::of)?;
        let reply = ask(&mut connection, &DummyRequest::Attach { attachment }, None)?;
        match accepted(reply)? {
            DummyReply::Attached { attachment, hostname } => Ok((connection, attachment, hostname)),
            _ => Err(CallFailure::refused(ErrorCode::RpcFail, "it is not welcomed")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Attachment>>> {
        self.attachment.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attachment {
    /// Whether the host still has the attachment, as far as can be told without waiting.
    fn holds(&self) -> bool {
        let control = match self.control.try_lock() {
            // Another thread makes a call there, and its answer must not be taken for an end.
            Err(TryLockError::WouldBlock) => return true,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(control) => control,
        };
        control.connection.as_ref().is_some_and(Connection::is_quiet)
    }
}

/// Makes one call, and returns its answer. After a failure the caller must drop the connection.
fn ask(
    connection: &mut Connection,
    request: &DummyRequest<'_>,
    memory: Option<BorrowedFd<'_>>,
) -> Result<DummyReply, CallFailure> {
    let encode = |out: &mut Vec<u8>, id| encode_dummy_request(out, id, request);
    let answer = connection.call_meanwhile(memory, encode, Kind::DummyReply, || ());
    let body = answer.map_err(CallFailure::of)?.into_bytes();
    decode_dummy_reply(body).map_err(CallFailure::of)
}

/// The reply, unless the host refused the call as a whole.
fn accepted(reply: DummyReply) -> Result<DummyReply, CallFailure> {
    match reply {
        DummyReply::Refused(code) => Err(CallFailure::refused(code, "the host refuses the call")),
        reply => Ok(reply),
    }
}
