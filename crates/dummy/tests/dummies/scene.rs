use std::io;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mooncake_client::{
    Buffer, ErrorCode, GetTarget, PutSource, RawSlice, ReplicateConfig, SliceList, Store,
};
use mooncake_dummy::{DummyConfig, DummyServer, DummyServerConfig, DummyStore};

use crate::master::{Master, TOKEN};
use crate::rig::{content, open};

/// The length in bytes of a dummy's pool in most tests.
pub(crate) const POOL: u64 = 1 << 20;

/// Tests that count the mappings of the process run in turn.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A master, a store that lends memory, and the store's server for dummies.
pub(crate) struct Scene {
    pub(crate) server: DummyServer,
    pub(crate) port: u16,
    pub(crate) store: Arc<Store>,
    pub(crate) master: Master,
    _turn: MutexGuard<'static, ()>,
}

impl Scene {
    pub(crate) fn new(segment_bytes: u64) -> Self {
        let turn = turn();
        let master = Master::start();
        let store = Arc::new(open(&master, segment_bytes));
        let (server, port) = serve(&store);
        Self { server, port, store, master, _turn: turn }
    }

    pub(crate) fn config(&self) -> DummyConfig {
        config(self.port)
    }

    pub(crate) fn dummy(&self) -> DummyStore {
        DummyStore::open(self.config()).expect("it is served")
    }
}

pub(crate) fn config(port: u16) -> DummyConfig {
    DummyConfig {
        mem_pool_bytes: 0,
        local_buffer_bytes: POOL,
        server_address: format!("127.0.0.1:{port}"),
        auth_token: TOKEN.into(),
        ..DummyConfig::default()
    }
}

pub(crate) fn server_config(port: u16) -> DummyServerConfig {
    DummyServerConfig { port, calls_at_once: 8, auth_token: TOKEN.into() }
}

/// Starts a server for dummies on an unused port number.
pub(crate) fn serve(store: &Arc<Store>) -> (DummyServer, u16) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (std::process::id() as u16 % 400) * 100 + step % 100;
        match DummyServer::start(Arc::clone(store), server_config(port)) {
            Ok(server) => return (server, port),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}"),
        }
    }
}

pub(crate) fn put(dummy: &DummyStore, key: &str, len: usize) -> Result<(), ErrorCode> {
    let bytes = Buffer::from_vec(content(key, len));
    put_from(dummy, key, bytes.raw())
}

pub(crate) fn put_from(dummy: &DummyStore, key: &str, src: RawSlice) -> Result<(), ErrorCode> {
    let config = ReplicateConfig::default();
    dummy.put(&[PutSource::new(key, SliceList::from(src))], &config).remove(0)
}

pub(crate) fn get(dummy: &DummyStore, key: &str) -> Result<Vec<u8>, ErrorCode> {
    dummy.get(&[key]).remove(0).map(Buffer::into_vec)
}

pub(crate) fn get_into(dummy: &DummyStore, key: &str, dst: RawSlice) -> Result<u64, ErrorCode> {
    dummy.get_into(&[GetTarget { key, dst: SliceList::from(dst) }]).remove(0)
}

/// How many mappings of shared memory a process has.
pub(crate) fn mappings(pid: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("the process runs");
    maps.lines().filter(|line| line.contains("memfd:mooncake-segment")).count()
}
