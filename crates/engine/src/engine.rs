use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mooncake_device::{copy_from_caller, copy_to_caller, device_region};
use mooncake_memory::{Buffer, Place, PlacedSlice, RawSlice, append_checked, copy_checked};
use mooncake_tls::{Tls, TlsError};
use mooncake_transfer::{DataServer, FarLender, ServerConfig, TcpConfig, TransferError};
use mooncake_types::ClientId;
use mooncake_types::limits::MAX_NAME_BYTES;

use crate::batches::{Batches, Work};
use crate::bind::bind;
use crate::fabric;
use crate::host::Host;
use crate::metadata::MetadataServer;
use crate::mover::{HeldTransfer, Mover, Route};
use crate::peers::Peers;
use crate::stream::StreamTransfers;
use crate::{
    BatchStatus, EngineConfig, MAX_PIECES, Metadata, MoveError, Note, Opcode, OpenError, Pages,
    PeerError, Piece, RegisterError, RemoteAccess, Ticket, UnregisterError,
};

/// The cluster id of all engines. It differs from those of pools, so engines and storage nodes refuse each other.
const CLUSTER: &str = "transfer-engine";

/// How long connecting to a peer may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A submitted transfer may take one more second for each of this many bytes.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 << 20;

/// Memory that this process has registered, and transfers between it and that of peers.
///
/// Many threads may use one engine at once. Dropping it waits for the transfers in flight, those of its peers
/// included, and up to the transfer timeout for those that wait for streams. After that the engine touches no memory of
/// the caller.
///
/// A process that was forked from the opener cannot use the engine: all its calls fail as on a closed engine. Dropping
/// it there changes nothing for the parent.
pub struct Engine {
    name: String,
    port: u16,
    timeout: Duration,
    /// The process that opened the engine. A forked child has its sockets, but none of its threads.
    process: u32,
    parts: Option<Parts>,
}

struct Parts {
    host: Arc<Host>,
    mover: Arc<Mover>,
    peers: Arc<Peers>,
    batches: Arc<Batches>,
    streams: StreamTransfers,
    server: DataServer,
    endpoint: String,
}

impl Engine {
    /// Opens an engine: listens on a free port, and publishes its address with the metadata server, if there is one.
    ///
    /// # Errors
    /// The setting that is wrong, with its value.
    pub fn open(config: EngineConfig) -> Result<Engine, OpenError> {
        check_name(&config.local_hostname)?;
        let metadata = match &config.metadata {
            Metadata::Handshake => None,
            Metadata::Http { url } => Some(MetadataServer::over_http(url, &config)?),
            Metadata::Values { address } => Some(MetadataServer::of_values(address, &config)?),
        };
        let address = metadata.as_ref().and_then(MetadataServer::address);
        let bound = bind(&config, address.as_deref())?;
        let system = |reason: String| OpenError::System { reason };
        let random = || getrandom::u64().map_err(|error| system(error.to_string()));
        let client = ClientId(u128::from(random()?) << 64 | u128::from(random()?));
        let host = Arc::new(Host::default());
        let tls = open_tls(&config)?;
        let fabric = fabric::open(&config)?;
        let lender = |(device, _): &_| {
            FarLender::open(device).map(Arc::new).map_err(|error| system(error.to_string()))
        };
        let server_config = ServerConfig {
            cluster_id: CLUSTER.to_owned(),
            auth_token: config.auth_token.clone(),
            busy_poll: config.busy_poll,
            tls: tls.clone(),
            local_socket: false,
            far: fabric.as_ref().map(lender).transpose()?,
            ..ServerConfig::default()
        };
        let server = DataServer::start(bound.listener, host.clone(), server_config)
            .map_err(|error| system(error.to_string()))?;
        let port = server.local_addr().port();
        let name = match &metadata {
            Some(metadata) => {
                publish(metadata, &config.local_hostname, &bound.endpoint, port)?;
                config.local_hostname.clone()
            }
            None => bound.endpoint.clone(),
        };
        let timeout = config.transfer_timeout;
        let mover = Arc::new(Mover::new(host.clone(), tcp_config(config, client, tls), fabric));
        let peers = Arc::new(Peers::new(name.clone(), bound.endpoint.clone(), metadata));
        let batches = Arc::new(Batches::default());
        let streams = StreamTransfers::default();
        let parts =
            Parts { host, mover, peers, batches, streams, server, endpoint: bound.endpoint };
        Ok(Engine { name, port, timeout, process: std::process::id(), parts: Some(parts) })
    }

    /// The name by which peers find this engine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port that the engine listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    fn parts(&self) -> Option<&Parts> {
        self.parts.as_ref().filter(|_| std::process::id() == self.process)
    }

    /// Registers `memory`: peers may read it, and may write it if this process can. It must stay mapped until
    /// [`Engine::unregister`] has returned `Ok`, or the engine is dropped.
    ///
    /// # Errors
    /// If some of it is registered already, or is not mapped by this process.
    pub fn register(&self, memory: impl Into<PlacedSlice<'static>>) -> Result<(), RegisterError> {
        self.register_all(&[memory.into()], RemoteAccess::Allowed)
    }

    /// As [`Engine::register`], for several ranges, all or none, which peers may use or not. It reads the list of the
    /// process's mappings once for all of them.
    ///
    /// # Errors
    /// The error of the first range that cannot be registered.
    pub fn register_all(
        &self,
        memory: &[PlacedSlice<'static>],
        remote: RemoteAccess,
    ) -> Result<(), RegisterError> {
        let parts = self.parts().ok_or(RegisterError::Forked)?;
        parts.host.registry.register(memory, remote)?;
        for range in memory {
            match range.place() {
                Place::Host => parts.mover.know(parts.host.registry.region(range.addr() as u64)),
                Place::Device(ordinal) => {
                    parts.mover.know_device(device_region(ordinal, range.addr(), range.len()));
                }
            }
        }
        Ok(())
    }

    /// Unregisters the range that starts at `start`, and waits until no transfer uses it. After a second, peers that
    /// still write to it are disconnected. The wait ends after the transfer timeout.
    ///
    /// # Errors
    /// [`UnregisterError::Busy`] if a transfer still uses the range: it stays registered and must not be freed.
    /// [`UnregisterError::Unknown`] if no registered range starts there.
    pub fn unregister(&self, start: u64) -> Result<(), UnregisterError> {
        let parts = self.parts().ok_or(UnregisterError::Forked)?;
        parts.mover.forget(start);
        parts.host.registry.unregister(start, self.timeout)
    }

    /// Allocates zeroed memory, registers it, and returns its address.
    ///
    /// # Errors
    /// If the system lacks the memory, or there are too many registrations.
    pub fn allocate(&self, len: u64) -> Result<u64, RegisterError> {
        let parts = self.parts().ok_or(RegisterError::Forked)?;
        let start = parts.host.registry.allocate(len)?;
        parts.mover.know(parts.host.registry.region(start));
        Ok(start)
    }

    /// Frees memory from [`Engine::allocate`]. Waits for transfers as [`Engine::unregister`] does.
    ///
    /// # Errors
    /// As there. Also [`UnregisterError::Unknown`] if the range has another length.
    pub fn free(&self, start: u64, len: u64) -> Result<(), UnregisterError> {
        let parts = self.parts().ok_or(UnregisterError::Forked)?;
        parts.mover.forget(start);
        parts.host.registry.free(start, len, self.timeout)
    }

    /// Copies `bytes` to an address in registered memory of this process.
    ///
    /// # Errors
    /// If the address range is not registered, or cannot be written.
    pub fn fill(&self, start: u64, bytes: RawSlice) -> Result<(), MoveError> {
        let len = bytes.len() as u64;
        let refused = MoveError::NotRegistered { start, len, written: true };
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let held = parts.host.registry.hold(start, len, true).ok_or(refused)?;
        match held.host() {
            Some(memory) => copy_checked(bytes, memory).map_err(|error| bad_memory(&error)),
            None => {
                copy_to_caller(bytes, &held.placed().into()).map_err(|error| bad_memory(&error))
            }
        }
    }

    /// Copies `len` bytes out of registered memory of this process.
    ///
    /// # Errors
    /// If the address range is not registered, or cannot be read.
    pub fn peek(&self, start: u64, len: u64) -> Result<Vec<u8>, MoveError> {
        let refused = MoveError::NotRegistered { start, len, written: false };
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let held = parts.host.registry.hold(start, len, false).ok_or(refused)?;
        let Some(memory) = held.host() else {
            let no_memory = || bad_memory(&std::io::ErrorKind::OutOfMemory);
            let copy = Buffer::try_zeroed(held.placed().len()).ok_or_else(no_memory)?;
            copy_from_caller(&held.placed().into(), copy.raw())
                .map_err(|error| bad_memory(&error))?;
            return Ok(copy.into_vec());
        };
        let mut bytes = Vec::new();
        append_checked(&[memory], &mut bytes).map_err(|error| bad_memory(&error))?;
        Ok(bytes)
    }

    /// Moves the pieces between this process and the peer. Leaves the note with the peer once all bytes are there.
    ///
    /// # Errors
    /// The first failure of a piece, or that of the note. Other pieces may have been moved.
    pub fn transfer(
        &self,
        peer: &str,
        opcode: Opcode,
        pieces: &[Piece],
        note: Option<&Note>,
    ) -> Result<(), MoveError> {
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let route = parts.peers.find(&parts.mover, peer)?;
        let load = parts.mover.load(opcode, pieces)?;
        move_load(&parts.mover, &parts.peers, (peer, &route), &load)?;
        match note {
            Some(note) => parts.mover.send(&route, note),
            None => Ok(()),
        }
    }

    /// As [`Engine::transfer`] without a note, for each page and each field. The pieces go in batches of at most
    /// `max_batch_size`, one after the other; zero means that the engine chooses. The first failure ends the call.
    ///
    /// # Errors
    /// As there.
    pub fn transfer_pages(
        &self,
        peer: &str,
        opcode: Opcode,
        pages: &Pages,
        max_batch_size: usize,
    ) -> Result<(), MoveError> {
        let size = if max_batch_size == 0 { MAX_PIECES } else { max_batch_size.min(MAX_PIECES) };
        pages.batches(size).try_for_each(|pieces| self.transfer(peer, opcode, &pieces, None))
    }

    /// As [`Engine::transfer`], on a thread of the engine. Returns the transfer's number, which is not zero. The peer
    /// is looked up and the registrations are held before this returns.
    ///
    /// # Errors
    /// If the peer cannot be found, a piece is not in registered memory, or too many transfers are under way.
    pub fn submit(&self, peer: &str, opcode: Opcode, pieces: &[Piece]) -> Result<u64, MoveError> {
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let (patience, work) = self.work(parts, peer, opcode, pieces)?;
        parts.batches.submit(patience, work)
    }

    /// As [`Engine::submit`]. The ticket tells how the transfer ends, for as long as it exists.
    ///
    /// # Errors
    /// As there.
    pub fn start(&self, peer: &str, opcode: Opcode, pieces: &[Piece]) -> Result<Ticket, MoveError> {
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let (patience, work) = self.work(parts, peer, opcode, pieces)?;
        parts.batches.start(patience, work)
    }

    /// What a thread does for a transfer in the background, and how long it may wait for a thread.
    fn work(
        &self,
        parts: &Parts,
        peer: &str,
        opcode: Opcode,
        pieces: &[Piece],
    ) -> Result<(Duration, Work), MoveError> {
        let route = parts.peers.find(&parts.mover, peer)?;
        let load = parts.mover.load(opcode, pieces)?;
        let patience = self.patience(load.len_bytes);
        let (mover, peers) = (Arc::clone(&parts.mover), Arc::clone(&parts.peers));
        let peer = peer.to_owned();
        let work = move || move_load(&mover, &peers, (&peer, &route), &load);
        Ok((patience, Box::new(work)))
    }

    fn patience(&self, len_bytes: u64) -> Duration {
        self.timeout + Duration::from_secs(len_bytes / SLOWEST_BYTES_PER_SECOND)
    }

    /// As [`Engine::transfer`], in the order of a stream of a device: once the stream has done what was put on it
    /// before. What is put on it later waits until the bytes are in place. `stream` is the handle that the driver gave
    /// a live stream; zero is the default stream of the calling thread's device. Returns at once.
    ///
    /// A transfer that fails when its turn has come ends the process: no caller waits for it, and the stream would go on
    /// with wrong bytes.
    ///
    /// # Errors
    /// If the peer cannot be found, a piece is not in registered memory, the driver refuses the stream, or too many
    /// transfers wait for streams.
    pub fn transfer_on_stream(
        &self,
        peer: &str,
        opcode: Opcode,
        pieces: &[Piece],
        stream: usize,
    ) -> Result<(), MoveError> {
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let route = parts.peers.find(&parts.mover, peer)?;
        let load = parts.mover.load(opcode, pieces)?;
        let patience = self.patience(load.len_bytes);
        let (mover, peers) = (Arc::clone(&parts.mover), Arc::clone(&parts.peers));
        let (batches, peer) = (Arc::clone(&parts.batches), peer.to_owned());
        // On a thread of the engine, since the thread of the driver must not use a device, and the peer may be this
        // engine, with memory of one.
        let run = move |load: HeldTransfer| {
            let (mover, peers) = (Arc::clone(&mover), Arc::clone(&peers));
            let (peer, route) = (peer.clone(), route.clone());
            let work = move || move_load(&mover, &peers, (&peer, &route), &load);
            batches.start(patience, Box::new(work)).map(|ticket| ticket.wait(Duration::MAX))
        };
        parts.streams.put(stream, load, Arc::new(run))
    }

    /// The state of a submitted transfer. A transfer that has ended is forgotten once its end was reported.
    #[must_use]
    pub fn status(&self, number: u64) -> BatchStatus {
        self.parts().map_or(BatchStatus::Failed, |parts| parts.batches.status(number))
    }

    /// Waits until all these transfers have ended, and forgets them. True if all of them are done.
    #[must_use]
    pub fn wait(&self, numbers: &[u64]) -> bool {
        self.parts().is_some_and(|parts| parts.batches.wait(numbers))
    }

    /// The address of the peer's oldest registered range; zero if it has none.
    ///
    /// # Errors
    /// If the peer cannot be found, or does not answer as an engine.
    pub fn first_buffer(&self, peer: &str) -> Result<u64, PeerError> {
        let parts = self.parts().ok_or(PeerError::Forked)?;
        Ok(parts.peers.directory(&parts.mover, peer)?.address)
    }

    /// Checks that the peer answers as an engine.
    ///
    /// # Errors
    /// If the peer cannot be found, or does not answer as an engine.
    pub fn probe(&self, peer: &str) -> Result<(), PeerError> {
        self.first_buffer(peer).map(|_| ())
    }

    /// Takes the notes that peers have left since the last call, oldest first.
    #[must_use]
    pub fn take_notes(&self) -> Vec<Note> {
        self.parts().map_or_else(Vec::new, |parts| parts.host.take_notes())
    }
}

fn check_name(name: &str) -> Result<(), OpenError> {
    if name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let start: String = name.chars().take(40).collect();
    Err(OpenError::Address { text: format!("{start}..."), reason: "it is too long".to_owned() })
}

fn publish(
    metadata: &MetadataServer,
    name: &str,
    endpoint: &str,
    port: u16,
) -> Result<(), OpenError> {
    let refuse = |reason| OpenError::Metadata { text: format!("{metadata}"), reason };
    metadata.publish(name, endpoint, port).map_err(refuse)
}

/// Reads the certificates, if there are any. Every engine serves its peers.
fn open_tls(config: &EngineConfig) -> Result<Option<Tls>, TlsError> {
    let tls = Tls::of(&config.tls)?;
    tls.as_ref().map_or(Ok(()), Tls::check_serving)?;
    Ok(tls)
}

fn tcp_config(config: EngineConfig, client: ClientId, tls: Option<Tls>) -> TcpConfig {
    TcpConfig {
        cluster_id: CLUSTER.to_owned(),
        auth_token: config.auth_token,
        client,
        tls,
        lanes_per_peer: config.lanes_per_peer,
        connect_timeout: CONNECT_TIMEOUT,
        transfer_timeout: config.transfer_timeout,
        busy_poll: config.busy_poll,
        silence_timeout: config.transfer_timeout,
        ..TcpConfig::default()
    }
}

fn move_load(
    mover: &Mover,
    peers: &Peers,
    (peer, route): (&str, &Route),
    load: &HeldTransfer,
) -> Result<(), MoveError> {
    mover.run(route, load).inspect_err(|error| peers.note_failure(peer, error))?;
    Ok(())
}

fn bad_memory(error: &impl ToString) -> MoveError {
    MoveError::Transfer(TransferError::BadMemory { reason: error.to_string() })
}

impl Parts {
    fn close(&self, name: &str, timeout: Duration) {
        if let Some(metadata) = &self.peers.server
            && let Err(reason) = metadata.withdraw(name, &self.endpoint)
        {
            tracing::warn!(reason, "the metadata server was not told that an engine leaves");
        }
        self.streams.wait(timeout);
        self.batches.close();
        self.server.stop();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if std::process::id() == self.process {
            parts.close(&self.name, self.timeout);
        } else {
            // The threads and sockets belong to the parent process, so a child has nothing to close or wait for.
            std::mem::forget(parts);
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).finish_non_exhaustive()
    }
}
