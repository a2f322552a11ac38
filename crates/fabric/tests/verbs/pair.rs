//! Two ends that are joined, over the double in this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mooncake_fabric::testing::{pretend_node, use_verbs};
use mooncake_fabric::{
    Access, Direction, Domain, Exposed, Initiator, Limits, Part, Peer, RemoteMemory, Target,
    TransferError, VerbsOptions,
};
use mooncake_memory::{HeldSlice, Region};
use mooncake_verbs_double::control;

pub(crate) const LEN: usize = 300_000;

/// The double is one for all tests of a process.
pub(crate) fn double() -> MutexGuard<'static, ()> {
    static USED: Mutex<()> = Mutex::new(());
    let guard = USED.lock().unwrap_or_else(PoisonError::into_inner);
    use_verbs(mooncake_verbs_double::symbol);
    control::set_nics(&[control::usual_nic()]);
    control::limit_registrations(None);
    pretend_node(None);
    guard
}

pub(crate) fn filled(len: usize, fill: u8) -> HeldSlice {
    let memory = HeldSlice::whole(Arc::new(Region::anonymous(len as u64).expect("room")));
    memory.raw().write_from(&vec![fill; len]);
    memory
}

pub(crate) fn memory(fill: u8) -> HeldSlice {
    filled(LEN, fill)
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

/// Polls until something holds.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = soon();
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Two sides that are joined.
pub(crate) struct Pair {
    // Peers go before their endpoint.
    pub(crate) peer: Peer,
    pub(crate) initiator: Initiator,
    pub(crate) target: Target,
    pub(crate) domain: Arc<Domain>,
}

impl Pair {
    /// Requests of at most 5,000 bytes, pieces of at most 200,000.
    pub(crate) fn open(options: &VerbsOptions) -> Result<Pair, String> {
        let limits = Limits { piece_bytes: 200_000, request_bytes: 5_000, requests: 16 };
        let domain = Domain::open_verbs(options, limits).map_err(|error| error.to_string())?;
        Pair::of(domain)
    }

    /// Both sides on the same NICs.
    pub(crate) fn of(domain: Arc<Domain>) -> Result<Pair, String> {
        let other = Arc::clone(&domain);
        Pair::between(domain, &other)
    }

    pub(crate) fn between(domain: Arc<Domain>, other: &Arc<Domain>) -> Result<Pair, String> {
        let target = Target::open(other).map_err(|error| error.to_string())?;
        let initiator = Initiator::open(&domain).map_err(|error| error.to_string())?;
        let peer = join(&initiator, &target)?;
        Ok(Pair { peer, initiator, target, domain })
    }

    pub(crate) fn expose(&self, fill: u8, access: Access) -> Exposed {
        self.target.expose(memory(fill), access).expect("there are keys")
    }

    pub(crate) fn transfer(
        &self,
        direction: Direction,
        local: &HeldSlice,
        remote: &RemoteMemory,
    ) -> Result<(), TransferError> {
        let part = Part { local: local.clone().into(), remote, offset: 0 };
        self.peer.submit(direction, &[part])?.wait(soon())
    }
}

pub(crate) fn join(initiator: &Initiator, target: &Target) -> Result<Peer, String> {
    let end = initiator.prepare(target.address(), None).map_err(|error| error.to_string())?;
    let address = target.admit(end.address(), None).map_err(|error| error.to_string())?;
    end.join(&address).map_err(|error| error.to_string())
}
