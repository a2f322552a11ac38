//! The state of the simulated NIC.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::net::Ipv6Addr;
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::abi::Wc;
use crate::control::{FakeGid, FakeNic, Peermem};

pub(crate) const SUCCESS: u32 = 0;
pub(crate) const LOCAL_PROTECTION: u32 = 4;
pub(crate) const FLUSHED: u32 = 5;
pub(crate) const REMOTE_ACCESS: u32 = 10;
pub(crate) const RETRIES_EXCEEDED: u32 = 12;

pub(crate) const REMOTE_WRITE: u32 = 1 << 1;
pub(crate) const REMOTE_READ: u32 = 1 << 2;
pub(crate) const LOCAL_WRITE: u32 = 1;

/// A request that was posted.
pub(crate) struct Work {
    pub(crate) wr_id: u64,
    pub(crate) is_write: bool,
    pub(crate) is_signaled: bool,
    /// Bytes that travel in the request itself.
    pub(crate) inline: Option<Vec<u8>>,
    pub(crate) local: u64,
    pub(crate) lkey: u32,
    pub(crate) len: u64,
    pub(crate) remote: u64,
    pub(crate) rkey: u32,
}

#[derive(Clone)]
pub(crate) struct Nic {
    pub(crate) name: &'static str,
    pub(crate) is_active: bool,
    pub(crate) is_ethernet: bool,
    pub(crate) gids: Vec<FakeGid>,
}

/// A NIC that a process has opened.
pub(crate) struct ContextState {
    pub(crate) nic: Nic,
    /// Objects that belong to it.
    pub(crate) users: usize,
    /// Where events are written to.
    pub(crate) events: i32,
}

#[derive(Clone, Copy)]
pub(crate) struct MrState {
    pub(crate) pd: usize,
    pub(crate) address: u64,
    pub(crate) len: u64,
    pub(crate) access: u32,
    /// Where this process has the bytes: at the same address, or where a file with them is mapped.
    pub(crate) bytes: usize,
    /// The mapping of such a file: address and length.
    pub(crate) mapping: Option<(usize, usize)>,
}

pub(crate) struct CqState {
    pub(crate) entries: VecDeque<(Wc, u32)>,
    pub(crate) room: usize,
    pub(crate) is_armed: bool,
    /// The channel's descriptor for events, and this queue's own address, which is the event.
    pub(crate) event: Option<(i32, usize)>,
    pub(crate) unacknowledged: u32,
    pub(crate) users: usize,
}

pub(crate) struct QpState {
    pub(crate) pd: usize,
    pub(crate) cq: usize,
    pub(crate) nic: Nic,
    pub(crate) access: u32,
    /// Of the library: 1 after the first change, then 2, 3, and 6 if it is broken.
    pub(crate) state: u32,
    pub(crate) max_requests: u32,
    pub(crate) max_pieces: u32,
    pub(crate) max_inline: u32,
    /// Places of the queue that are taken: until the completion of it, or of a later one, was polled.
    pub(crate) taken: u32,
    /// Since the last that was to complete visibly.
    pub(crate) silent: u32,
    pub(crate) peer: Option<Peer>,
    pub(crate) worker: Option<Sender<Work>>,
    pub(crate) stream: Option<UnixStream>,
}

/// Whom a queue pair is connected with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The process, if it can be reached.
    pub(crate) process: Option<u32>,
    /// Which NIC of the process.
    pub(crate) nic: u8,
    pub(crate) number: u32,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) posts: u64,
    pub(crate) requests: u64,
    pub(crate) signals: u64,
    pub(crate) lost_pieces: u64,
}

#[derive(Default)]
pub(crate) struct NicState {
    pub(crate) nics: Vec<Nic>,
    pub(crate) contexts: BTreeMap<usize, ContextState>,
    /// NICs whose requests fail, whatever their ports say.
    pub(crate) cut: BTreeSet<&'static str>,
    /// NICs whose ports go down after so many further requests.
    pub(crate) failing: BTreeMap<&'static str, u64>,
    /// What each NIC has carried out for requests of this process: requests, and bytes.
    pub(crate) carried: BTreeMap<&'static str, (u64, u64)>,
    /// Most bytes that may be registered, if that is limited.
    pub(crate) lockable: Option<u64>,
    /// Whether dmabufs are refused.
    pub(crate) lacks_dmabuf: bool,
    pub(crate) peermem: Option<Peermem>,
    pub(crate) pds: BTreeMap<usize, usize>,
    /// By key.
    pub(crate) mrs: BTreeMap<u32, MrState>,
    /// The variants of the keys of each place of the table, and places that are free.
    pub(crate) variants: Vec<u8>,
    pub(crate) free_keys: Vec<usize>,
    pub(crate) channels: BTreeMap<usize, usize>,
    pub(crate) cqs: BTreeMap<usize, CqState>,
    /// By number.
    pub(crate) qps: BTreeMap<u32, QpState>,
    pub(crate) next_number: u32,
    pub(crate) counts: Counts,
    pub(crate) fault: Option<(u64, u32)>,
    pub(crate) last_route: (bool, u16, u32, u8),
}

/// Whether writes may land.
#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) is_closed: bool,
    /// The first piece passes.
    pub(crate) has_let_one: bool,
    pub(crate) waiting: usize,
}

static STATE: LazyLock<Mutex<NicState>> = LazyLock::new(|| {
    let nics = match std::env::var("MOONCAKE_VERBS_DOUBLE").as_deref() {
        Ok("none") => Vec::new(),
        Ok("down") => vec![Nic { is_active: false, ..Nic::usual(0) }],
        Ok("2") => vec![Nic::usual(0), Nic::usual(1)],
        _ => vec![Nic::usual(0)],
    };
    Mutex::new(NicState { nics, next_number: 0x100, ..NicState::default() })
});
static GATE: LazyLock<Mutex<Gate>> = LazyLock::new(Mutex::default);
static CHANGED: Condvar = Condvar::new();

pub(crate) fn state() -> MutexGuard<'static, NicState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn gate() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn changed() {
    CHANGED.notify_all();
}

/// Waits until writes may land.
pub(crate) fn pass_gate() {
    let mut gate = gate();
    if gate.is_closed && !mem::replace(&mut gate.has_let_one, true) {
        return;
    }
    gate.waiting += 1;
    while gate.is_closed {
        gate = CHANGED.wait(gate).unwrap_or_else(PoisonError::into_inner);
    }
    gate.waiting -= 1;
}

/// The networks of the NICs begin with this number.
const FIRST_NETWORK: u8 = 10;

/// The names of the NICs that there can be.
pub(crate) const NAMES: [&str; 8] =
    ["double0", "double1", "double2", "double3", "double4", "double5", "double6", "double7"];

/// The address by which processes find a NIC of this one: `10.x.y.z` with the process's number in it for the first, and so
/// on.
pub(crate) fn own_gid(nic: u8) -> Ipv6Addr {
    let [_, high, middle, low] = process::id().to_be_bytes();
    std::net::Ipv4Addr::new(FIRST_NETWORK + nic, high, middle, low).to_ipv6_mapped()
}

/// The process with this GID, and its NIC, if it is one that is reached.
pub(crate) fn process_of(gid: Ipv6Addr) -> Option<(u32, u8)> {
    let [network, high, middle, low] = gid.to_ipv4_mapped()?.octets();
    let nic = network.checked_sub(FIRST_NETWORK).filter(|&nic| usize::from(nic) < NAMES.len())?;
    Some((u32::from_be_bytes([0, high, middle, low]), nic))
}

/// The LID of this process.
pub(crate) fn own_lid() -> u16 {
    (process::id() % 0xbfff + 1) as u16
}

impl Nic {
    /// A NIC on Ethernet with the GIDs that such a one has.
    pub(crate) fn usual(nic: u8) -> Nic {
        let (local, routable) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), own_gid(nic));
        let gid = |(kind, address)| FakeGid { kind, address, interface: 2 + u32::from(nic) };
        let gids = [(1, local), (2, local), (1, routable), (2, routable)].map(gid).to_vec();
        Nic { name: NAMES[usize::from(nic)], is_active: true, is_ethernet: true, gids }
    }
}

impl From<FakeNic> for Nic {
    fn from(FakeNic { name, is_active, is_ethernet, gids }: FakeNic) -> Nic {
        Nic { name, is_active, is_ethernet, gids }
    }
}

impl From<Nic> for FakeNic {
    fn from(Nic { name, is_active, is_ethernet, gids }: Nic) -> FakeNic {
        FakeNic { name, is_active, is_ethernet, gids }
    }
}

impl NicState {
    /// A key for a new registration. Places of the table are used again, with the next of 256 variants.
    pub(crate) fn new_key(&mut self) -> u32 {
        let at = self.free_keys.pop().unwrap_or_else(|| {
            self.variants.push(0x40);
            self.variants.len() - 1
        });
        self.variants[at] = self.variants[at].wrapping_add(1);
        (at as u32 + 1) << 8 | u32::from(self.variants[at])
    }

    pub(crate) fn give_back_key(&mut self, key: u32) {
        self.free_keys.push((key >> 8) as usize - 1);
    }

    /// Whether a queue pair may reach memory by this key now.
    pub(crate) fn allows(
        &self,
        pd: usize,
        key: u32,
        (address, len): (u64, u64),
        access: u32,
    ) -> bool {
        let Some(mr) = self.mrs.get(&key) else { return false };
        let is_inside = address >= mr.address
            && address.checked_add(len).is_some_and(|end| end <= mr.address + mr.len);
        mr.pd == pd && is_inside && mr.access & access == access
    }

    /// Where this process has the byte of registered memory that requests call so.
    pub(crate) fn place(&self, key: u32, address: u64) -> usize {
        let mr = &self.mrs[&key];
        mr.bytes + (address - mr.address) as usize
    }

    /// Whether requests can go by a NIC now.
    pub(crate) fn is_up(&self, name: &str) -> bool {
        !self.cut.contains(name) && self.nics.iter().all(|nic| nic.name != name || nic.is_active)
    }

    /// Makes a port go up or down, which processes that have the NIC open are told.
    pub(crate) fn set_port(&mut self, name: &str, is_active: bool) {
        let (up, down) = (9, 10);
        let all = self.nics.iter_mut().filter(|nic| nic.name == name);
        all.for_each(|nic| nic.is_active = is_active);
        for context in self.contexts.values_mut().filter(|context| context.nic.name == name) {
            context.nic.is_active = is_active;
            crate::link::tell_event(context.events, if is_active { up } else { down });
        }
    }

    /// Notes that a NIC carries out a request of this process. Some such are a port's last.
    pub(crate) fn count_request(&mut self, name: &'static str, bytes: u64) {
        let carried = self.carried.entry(name).or_default();
        *carried = (carried.0 + 1, carried.1 + bytes);
        let Some(left) = self.failing.get_mut(name) else { return };
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => {
                self.failing.remove(name);
                self.set_port(name, false);
            }
        }
    }

    /// Whether the peer of a queue pair may reach memory through it now: success, or the status of its request.
    pub(crate) fn admits(
        &self,
        number: u32,
        from: Peer,
        key: u32,
        range: (u64, u64),
        access: u32,
    ) -> u32 {
        let Some(qp) = self.qps.get(&number).filter(|qp| self.is_up(qp.nic.name)) else {
            return RETRIES_EXCEEDED;
        };
        let is_peer =
            qp.peer.is_some_and(|peer| (peer.process, peer.number) == (from.process, from.number));
        // Only NICs on Ethernet have addresses of their own here.
        let is_here = !qp.nic.is_ethernet || qp.nic.name == NAMES[usize::from(from.nic)];
        if !is_peer || !is_here || !(2..=3).contains(&qp.state) {
            return RETRIES_EXCEEDED;
        }
        match qp.access & access == access && self.allows(qp.pd, key, range, access) {
            true => SUCCESS,
            false => REMOTE_ACCESS,
        }
    }

    /// Ends a request of a queue pair.
    pub(crate) fn complete(&mut self, number: u32, wr_id: u64, status: u32, is_signaled: bool) {
        let Some(qp) = self.qps.get_mut(&number) else { return };
        qp.silent += 1;
        if status != SUCCESS {
            qp.state = 6;
        }
        if !is_signaled && status == SUCCESS {
            return;
        }
        let covers = mem::take(&mut qp.silent);
        let Some(cq) = self.cqs.get_mut(&qp.cq) else { return };
        assert!(cq.entries.len() < cq.room, "a completion queue is overrun");
        let wc = Wc {
            wr_id,
            status,
            opcode: 0,
            vendor_err: 0,
            byte_len: 0,
            imm_data: 0,
            qp_num: number,
            src_qp: 0,
            wc_flags: 0,
            pkey_index: 0,
            slid: 0,
            sl: 0,
            dlid_path_bits: 0,
        };
        cq.entries.push_back((wc, covers));
        if let Some((descriptor, event)) = cq.event.filter(|_| cq.is_armed) {
            cq.is_armed = false;
            cq.unacknowledged += 1;
            crate::link::tell(descriptor, event);
        }
    }

    /// The status that a test wants of a request.
    pub(crate) fn wanted_failure(&mut self) -> Option<u32> {
        let (before, status) = self.fault?;
        self.fault = before.checked_sub(1).map(|before| (before, status));
        (before == 0).then_some(status)
    }
}
