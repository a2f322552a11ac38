use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mooncake_memory::process_id;
use mooncake_types::{ErrorCode, Secret, limits};

use super::host_link::{Attachment, CallFailure, HostLink};
use super::stage::Stage;
use mooncake_client::{KnownMemory, MemPool, RegisteredBuffers};
use mooncake_types::host_port::split;

/// The error of calls on a closed dummy.
pub(super) const CLOSED: ErrorCode = ErrorCode::UnavailableInCurrentStatus;

/// Largest pool of a dummy, in bytes.
const MAX_POOL_BYTES: u64 = 1 << 46;

/// How to open a [`DummyStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DummyConfig {
    /// Shared memory for [`DummyStore::alloc_from_mem_pool`], in bytes.
    pub mem_pool_bytes: u64,
    /// Shared memory through which bytes of other memory pass, in bytes. Both lie in one pool.
    pub local_buffer_bytes: u64,
    /// The address of the `mooncake_client` of this host, `host:port`. Only the port is used: it names the socket.
    pub server_address: String,
    /// The secret of the cluster; empty if it has none.
    pub auth_token: Secret,
    /// How long one call may take. The host's own limits are shorter, so this only ends calls to a host process that
    /// is paused.
    pub call_timeout: Duration,
}

impl Default for DummyConfig {
    fn default() -> Self {
        Self {
            mem_pool_bytes: 0,
            local_buffer_bytes: 16 << 20,
            server_address: "127.0.0.1:50052".to_owned(),
            auth_token: Secret::default(),
            call_timeout: Duration::from_secs(300),
        }
    }
}

/// Why a [`DummyStore`] could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DummyError {
    /// The address of the host process is invalid.
    #[error("the server address {text:?} is not host:port: {reason}")]
    Address {
        /// The text that was given.
        text: String,
        /// Why it is invalid.
        reason: &'static str,
    },
    /// The token is longer than the protocol carries.
    #[error("the auth token has {len} bytes; at most {limit} are allowed", limit = limits::MAX_NAME_BYTES)]
    TokenTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// No pool can have this size.
    #[error("{bytes} bytes of shared memory are not possible: {reason}")]
    Pool {
        /// Both sizes together.
        bytes: u64,
        /// Why not, or the system's error.
        reason: String,
    },
    /// No process serves dummies there, or it refuses this one.
    #[error("the client at {server_address} does not serve this one: {message} [{code}]")]
    Refused {
        /// The address that was given.
        server_address: String,
        /// The reason, as a code.
        code: ErrorCode,
        /// The message of the host process or of the system.
        message: String,
    },
}

impl DummyError {
    /// The code that callers of the Python API get.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Address { .. } | Self::TokenTooLong { .. } | Self::Pool { .. } => {
                ErrorCode::InvalidParams
            }
            Self::Refused { code, .. } => *code,
        }
    }
}

/// A client of the pool that uses another process of this host, a `mooncake_client`.
///
/// Memory of [`DummyStore::alloc_from_mem_pool`] and of [`mooncake_memory::HostMemory`] is shared with that process,
/// and moves without a copy. Bytes of any other memory pass through the dummy's own pool. For threads and forks see
/// [`mooncake_client::Store`]. When the host process has ended, calls return [`ErrorCode::RpcFail`] until another one
/// serves. [`ErrorCode::RpcTimeout`] says that the host process did not answer: it may still touch shared memory that
/// the call named.
pub struct DummyStore {
    pub(super) link: HostLink,
    pub(super) pool: Option<MemPool>,
    hostname: String,
    buffers: RegisteredBuffers,
    process: u32,
    closed: AtomicBool,
}

impl DummyStore {
    /// Connects to the host process and shares the pool with it.
    ///
    /// # Errors
    /// [`DummyError`] says what is wrong.
    pub fn open(config: DummyConfig) -> Result<DummyStore, DummyError> {
        let port = port_of(&config.server_address)?;
        if config.auth_token.len() > limits::MAX_NAME_BYTES {
            return Err(DummyError::TokenTooLong { len: config.auth_token.len() });
        }
        let pool = map_pool(&config)?;
        let link = HostLink::new(port, config.auth_token, config.call_timeout);
        let refused = |failure: CallFailure| {
            let code = failure.code();
            let message = match failure {
                CallFailure::Refused { message, .. } => message,
                CallFailure::Unknown => "it does not answer".to_owned(),
            };
            DummyError::Refused { server_address: config.server_address.clone(), code, message }
        };
        let attachment = link.attachment().map_err(refused)?;
        if let Some(pool) = &pool {
            link.share(&attachment, pool.region()).map_err(refused)?;
        }
        Ok(Self {
            link,
            pool,
            hostname: attachment.hostname.clone(),
            buffers: RegisteredBuffers::default(),
            process: process_id(),
            closed: AtomicBool::new(false),
        })
    }

    /// Leaves the host process, which then keeps nothing of this dummy. Calls under way end first. Closing twice does
    /// nothing.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // A forked process has nothing open, and must not wait for a lock that a thread of its parent held.
        if !self.is_forked() {
            self.link.close();
        }
    }

    /// The hostname of the host process when this was opened, `host:port`.
    #[must_use]
    pub fn hostname(&self) -> &str {
        &self.hostname
    }

    /// Whether bytes of memory that is not shared can be put and got: only a dummy with a pool allows that.
    #[must_use]
    pub fn allows_copies(&self) -> bool {
        self.pool.is_some()
    }

    /// The length of the pool, in bytes.
    #[must_use]
    pub fn local_buffer_bytes(&self) -> u64 {
        self.pool.as_ref().map_or(0, |pool| pool.region().len())
    }

    /// Hands out shared memory until [`DummyStore::free_to_mem_pool`] or the drop of this dummy, and returns its
    /// address. `None` if no free range has `len_bytes`, or the dummy is closed.
    #[must_use]
    pub fn alloc_from_mem_pool(&self, len_bytes: u64) -> Option<usize> {
        // A forked process shares the pool with its parent, which would hand out the same range.
        if self.is_closed() {
            return None;
        }
        let pool = self.pool.as_ref()?;
        self.link.overdue.end_answered(pool);
        pool.alloc(len_bytes)
    }

    /// Takes back the range that was handed out at this address. False if there is none.
    pub fn free_to_mem_pool(&self, address: usize) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.free(address))
    }

    /// Registers memory of the caller, as [`mooncake_client::Store::register`]. Shares it at once if possible.
    ///
    /// # Errors
    /// As there, and the codes of all calls if the host process does not take the memory.
    pub fn register(&self, ptr: usize, len: usize) -> Result<(), ErrorCode> {
        self.buffers()?.register(ptr, len)?;
        let shared = match mooncake_memory::HostMemory::of_process().find(ptr, len) {
            Some((region, _)) => self.attachment().and_then(|attachment| {
                self.link.share(&attachment, &region).map(|_| ()).map_err(|failure| failure.code())
            }),
            None => Ok(()),
        };
        shared.inspect_err(|_| {
            // Undo the registration that was made above.
            let _ = self.buffers.unregister(ptr);
        })
    }

    /// As [`mooncake_client::Store::unregister`].
    ///
    /// # Errors
    /// As there.
    pub fn unregister(&self, ptr: usize) -> Result<(), ErrorCode> {
        self.buffers()?.unregister(ptr)
    }

    /// As [`mooncake_client::Store::check_registered`].
    ///
    /// # Errors
    /// As there.
    pub fn check_registered(&self, ptr: usize, len: usize) -> Result<KnownMemory, ErrorCode> {
        self.buffers()?.check(ptr, len)
    }

    pub(super) fn attachment(&self) -> Result<Arc<Attachment>, ErrorCode> {
        if self.is_closed() {
            return Err(CLOSED);
        }
        self.link.attachment().map_err(|failure| {
            if let CallFailure::Refused { code, message } = &failure {
                tracing::debug!(%code, message, "the host process cannot be used");
            }
            failure.code()
        })
    }

    pub(super) fn stage<'a>(&'a self, attachment: &'a Arc<Attachment>) -> Stage<'a> {
        Stage { pool: self.pool.as_ref(), link: &self.link, attachment }
    }

    fn buffers(&self) -> Result<&RegisteredBuffers, ErrorCode> {
        // As in `Store`: a child must not wait for a lock that a thread of its parent held.
        if self.is_forked() { Err(CLOSED) } else { Ok(&self.buffers) }
    }

    fn is_closed(&self) -> bool {
        self.is_forked() || self.closed.load(Ordering::SeqCst)
    }

    fn is_forked(&self) -> bool {
        process_id() != self.process
    }
}

impl Drop for DummyStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for DummyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DummyStore").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

fn port_of(server_address: &str) -> Result<u16, DummyError> {
    let error = |reason| DummyError::Address { text: server_address.to_owned(), reason };
    let (_, port) = split(server_address).map_err(error)?;
    port.ok_or_else(|| error("it names no port"))
}

fn map_pool(config: &DummyConfig) -> Result<Option<MemPool>, DummyError> {
    let bytes = config.mem_pool_bytes.saturating_add(config.local_buffer_bytes);
    if bytes == 0 {
        return Ok(None);
    }
    let error = |reason: String| DummyError::Pool { bytes, reason };
    if bytes > MAX_POOL_BYTES {
        return Err(error(format!("at most {MAX_POOL_BYTES} are allowed")));
    }
    MemPool::map(bytes).map(Some).map_err(|reason| error(reason.to_string()))
}
