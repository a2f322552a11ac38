use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mooncake_device::{copy_from_caller, copy_to_caller};
use mooncake_memory::{Buffer, PlacedSlice, RawSlice, append_checked, copy_checked};
use mooncake_transfer::{DataServer, ServerConfig, TcpConfig, TransferError};
use mooncake_types::ClientId;
use mooncake_types::limits::MAX_NAME_BYTES;

use crate::batches::Batches;
use crate::bind::bind;
use crate::host::Host;
use crate::metadata::MetadataServer;
use crate::mover::{Load, Mover, Route};
use crate::peers::Peers;
use crate::{
    BatchStatus, EngineConfig, Metadata, MoveError, Note, Opcode, OpenError, PeerError, Piece,
    RegisterError, UnregisterError,
};

/// What engines call their cluster when they shake hands: the storage nodes of a pool refuse them, and they those.
const CLUSTER: &str = "transfer-engine";

/// How long connecting to a peer may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes that a transfer may take another second for, beyond its timeout.
const SLOWEST_BYTES_PER_SECOND: u64 = 16 << 20;

/// Registered memory of this process, and the way to that of others.
///
/// Many threads may use one engine at once. Dropping it waits for the transfers that are under way, its own and those
/// of its peers; after that no memory of the caller's is touched any more.
///
/// A process forked from the one that opened the engine cannot use it: to it the engine is closed, and dropping it there
/// changes nothing for the parent.
pub struct Engine {
    name: String,
    port: u16,
    timeout: Duration,
    /// The process that opened the engine. One that was forked from it has its sockets and none of its threads.
    process: u32,
    parts: Option<Parts>,
}

struct Parts {
    host: Arc<Host>,
    mover: Arc<Mover>,
    peers: Arc<Peers>,
    batches: Batches,
    server: DataServer,
    endpoint: String,
}

impl Engine {
    /// Listens on a free port, and publishes where if there is a metadata server.
    ///
    /// # Errors
    /// What is wrong, by name and value.
    pub fn open(config: EngineConfig) -> Result<Engine, OpenError> {
        check_name(&config.local_hostname)?;
        let metadata = match &config.metadata {
            Metadata::Handshake => None,
            Metadata::Http { url } => Some(MetadataServer::new(url, &config)?),
        };
        let address = metadata.as_ref().and_then(MetadataServer::address);
        let bound = bind(&config, address.as_deref())?;
        let system = |reason: String| OpenError::System { reason };
        let random = || getrandom::u64().map_err(|error| system(error.to_string()));
        let client = ClientId(u128::from(random()?) << 64 | u128::from(random()?));
        let host = Arc::new(Host::default());
        let server_config = ServerConfig {
            cluster_id: CLUSTER.to_owned(),
            auth_token: config.auth_token.clone(),
            busy_poll: config.busy_poll,
            local_socket: false,
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
        let mover = Arc::new(Mover::new(host.clone(), tcp_config(config, client)));
        let peers = Arc::new(Peers::new(name.clone(), bound.endpoint.clone(), metadata));
        let batches = Batches::default();
        let parts = Parts { host, mover, peers, batches, server, endpoint: bound.endpoint };
        Ok(Engine { name, port, timeout, process: std::process::id(), parts: Some(parts) })
    }

    /// What peers call this engine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port that it serves.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    fn parts(&self) -> Option<&Parts> {
        self.parts.as_ref().filter(|_| std::process::id() == self.process)
    }

    /// Lets peers read `memory`, and write to it where the process itself may. It must stay mapped until
    /// [`Engine::unregister`] has returned `Ok`, or the engine is dropped.
    ///
    /// # Errors
    /// If some of it is registered already, or is no memory of this process.
    pub fn register(&self, memory: impl Into<PlacedSlice>) -> Result<(), RegisterError> {
        self.register_all(&[memory.into()])
    }

    /// As [`Engine::register`], of several ranges, all of them or none. The system's list of this process's memory is
    /// read once for all of them.
    ///
    /// # Errors
    /// Those of the first that cannot be registered.
    pub fn register_all(&self, memory: &[PlacedSlice]) -> Result<(), RegisterError> {
        let parts = self.parts().ok_or(RegisterError::Forked)?;
        parts.host.registry.register(memory)
    }

    /// Takes back the registration of the range that starts at `start`, and waits until no transfer uses it: as long as a
    /// transfer may take, and peers that write to it are cut off before.
    ///
    /// # Errors
    /// [`UnregisterError::Busy`]: it is still registered and must not be freed. [`UnregisterError::Unknown`] if no
    /// registered range starts there.
    pub fn unregister(&self, start: u64) -> Result<(), UnregisterError> {
        let parts = self.parts().ok_or(UnregisterError::Forked)?;
        parts.host.registry.unregister(start, self.timeout)
    }

    /// Memory of the engine's own, zeroed and registered: its address.
    ///
    /// # Errors
    /// If the system has not as much, or there are too many registrations.
    pub fn allocate(&self, len: u64) -> Result<u64, RegisterError> {
        let parts = self.parts().ok_or(RegisterError::Forked)?;
        parts.host.registry.allocate(len)
    }

    /// Gives back memory from [`Engine::allocate`], as [`Engine::unregister`] does.
    ///
    /// # Errors
    /// As there; also [`UnregisterError::Unknown`] if it has another length.
    pub fn free(&self, start: u64, len: u64) -> Result<(), UnregisterError> {
        let parts = self.parts().ok_or(UnregisterError::Forked)?;
        parts.host.registry.free(start, len, self.timeout)
    }

    /// Copies `bytes` to an address within registered memory of this process.
    ///
    /// # Errors
    /// If that is not registered, or cannot be written.
    pub fn fill(&self, start: u64, bytes: RawSlice) -> Result<(), MoveError> {
        let len = bytes.len() as u64;
        let refused = MoveError::NotRegistered { start, len, written: true };
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let held = parts.host.registry.hold(start, len, true).ok_or(refused)?;
        match held.bytes.host() {
            Some(memory) => copy_checked(bytes, memory).map_err(|error| bad_memory(&error)),
            None => copy_to_caller(bytes, &held.bytes.into()).map_err(|error| bad_memory(&error)),
        }
    }

    /// A copy of `len` bytes of registered memory of this process.
    ///
    /// # Errors
    /// If that is not registered, or cannot be read.
    pub fn peek(&self, start: u64, len: u64) -> Result<Vec<u8>, MoveError> {
        let refused = MoveError::NotRegistered { start, len, written: false };
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let held = parts.host.registry.hold(start, len, false).ok_or(refused)?;
        let Some(memory) = held.bytes.host() else {
            let no_memory = || bad_memory(&std::io::ErrorKind::OutOfMemory);
            let copy = Buffer::try_zeroed(held.bytes.len()).ok_or_else(no_memory)?;
            copy_from_caller(&held.bytes.into(), copy.raw()).map_err(|error| bad_memory(&error))?;
            return Ok(copy.into_vec());
        };
        let mut bytes = Vec::new();
        append_checked(&[memory], &mut bytes).map_err(|error| bad_memory(&error))?;
        Ok(bytes)
    }

    /// Moves the pieces between this process and the peer, and leaves the note there when all are in place.
    ///
    /// # Errors
    /// Why the first piece, or the note, was not moved; others may have been.
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

    /// As [`Engine::transfer`], by a thread of the engine. Gives the transfer's number, which is not zero. The peer is
    /// looked up, and the memory held, before this returns.
    ///
    /// # Errors
    /// If the peer cannot be found, a piece is not registered here, or too many transfers are under way.
    pub fn submit(&self, peer: &str, opcode: Opcode, pieces: &[Piece]) -> Result<u64, MoveError> {
        let parts = self.parts().ok_or(MoveError::Closed)?;
        let route = parts.peers.find(&parts.mover, peer)?;
        let load = parts.mover.load(opcode, pieces)?;
        let patience =
            self.timeout + Duration::from_secs(load.len_bytes / SLOWEST_BYTES_PER_SECOND);
        let (mover, peers) = (Arc::clone(&parts.mover), Arc::clone(&parts.peers));
        let peer = peer.to_owned();
        let work = move || move_load(&mover, &peers, (&peer, &route), &load);
        parts.batches.submit(patience, Box::new(work))
    }

    /// How a submitted transfer is getting on. Its number is forgotten when its end has been told.
    #[must_use]
    pub fn status(&self, number: u64) -> BatchStatus {
        self.parts().map_or(BatchStatus::Failed, |parts| parts.batches.status(number))
    }

    /// Waits until all these transfers have ended, and forgets their numbers; says whether all are done.
    #[must_use]
    pub fn wait(&self, numbers: &[u64]) -> bool {
        self.parts().is_some_and(|parts| parts.batches.wait(numbers))
    }

    /// Address of the range that the peer registered first, of those that it has; zero if it has none.
    ///
    /// # Errors
    /// If the peer cannot be found, or does not answer as an engine.
    pub fn first_buffer(&self, peer: &str) -> Result<u64, PeerError> {
        let parts = self.parts().ok_or(PeerError::Forked)?;
        Ok(parts.peers.directory(&parts.mover, peer)?.address)
    }

    /// Asks the peer whether it is there.
    ///
    /// # Errors
    /// If it cannot be found, or does not answer as an engine.
    pub fn probe(&self, peer: &str) -> Result<(), PeerError> {
        self.first_buffer(peer).map(|_| ())
    }

    /// The notes that peers have left since the last time, oldest first.
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

fn tcp_config(config: EngineConfig, client: ClientId) -> TcpConfig {
    TcpConfig {
        cluster_id: CLUSTER.to_owned(),
        auth_token: config.auth_token,
        client,
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
    load: &Load,
) -> Result<(), MoveError> {
    mover.run(route, load).inspect_err(|error| peers.note_failure(peer, error))?;
    Ok(())
}

fn bad_memory(error: &impl ToString) -> MoveError {
    MoveError::Transfer(TransferError::BadMemory { reason: error.to_string() })
}

impl Parts {
    fn close(&self, name: &str) {
        if let Some(metadata) = &self.peers.server
            && let Err(reason) = metadata.withdraw(name, &self.endpoint)
        {
            tracing::warn!(reason, "the metadata server was not told that an engine leaves");
        }
        self.batches.close();
        self.server.stop();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Some(parts) = self.parts.take() else { return };
        if std::process::id() == self.process {
            parts.close(&self.name);
        } else {
            // Its threads are the parent's, and so are its sockets: there is nothing to wait for, or to say goodbye on.
            std::mem::forget(parts);
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("name", &self.name).finish_non_exhaustive()
    }
}
