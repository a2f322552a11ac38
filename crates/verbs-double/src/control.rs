//! The controls of the double, for tests.

use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;

use crate::state::{Counts, Nic, changed, gate, state};

/// A NIC that the host has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeNic {
    /// Its name.
    pub name: &'static str,
    /// Whether its only port is active.
    pub is_active: bool,
    /// Whether its link is Ethernet, and not InfiniBand.
    pub is_ethernet: bool,
    /// Its GIDs.
    pub gids: Vec<FakeGid>,
}

/// A GID of a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FakeGid {
    /// 0: InfiniBand, 1: RoCE v1, 2: RoCE v2.
    pub kind: u32,
    /// The address.
    pub address: Ipv6Addr,
    /// Number of its interface.
    pub interface: u32,
}

/// The NIC that there is by default: its last GID is the one by which other processes find this one.
#[must_use]
pub fn usual_nic() -> FakeNic {
    Nic::usual(0).into()
}

/// So many NICs: `double0`, `double1` and so on, up to eight. Each has a network of its own.
#[must_use]
pub fn usual_nics(count: u8) -> Vec<FakeNic> {
    (0..count).map(|nic| Nic::usual(nic).into()).collect()
}

/// Gives the host these NICs, which all work. Those that are open stay as they are.
pub fn set_nics(nics: &[FakeNic]) {
    let mut state = state();
    state.nics = nics.iter().cloned().map(Nic::from).collect();
    state.cut.clear();
    state.failing.clear();
}

/// Makes a NIC's port go up or down. Whoever has it open is told.
pub fn set_port(name: &str, is_active: bool) {
    state().set_port(name, is_active);
}

/// Makes all requests by a NIC fail from now on, or work again. Nobody is told.
pub fn cut(name: &'static str, is_cut: bool) {
    let mut state = state();
    match is_cut {
        true => drop(state.cut.insert(name)),
        false => drop(state.cut.remove(name)),
    }
}

/// Makes a NIC's port go down once it has carried out so many further requests of this process.
pub fn fail_nic_after(name: &'static str, requests: u64) {
    state().failing.insert(name, requests);
}

/// What a NIC has carried out for requests of this process: requests, and their bytes.
#[must_use]
pub fn carried(name: &str) -> (u64, u64) {
    state().carried.get(name).copied().unwrap_or_default()
}

/// Most bytes that may be registered from now on, by all NICs together; `None`: any number.
pub fn limit_registrations(bytes: Option<u64>) {
    state().lockable = bytes;
}

/// Makes NICs take dmabufs, or refuse them as they do where their driver knows none.
pub fn take_dmabufs(takes: bool) {
    state().lacks_dmabuf = !takes;
}

/// What nvidia-peermem tells of memory of a device, by address and length: a file with these bytes, and where they begin in
/// it.
pub type Peermem = fn(u64, usize) -> Option<(OwnedFd, u64)>;

/// Gives the kernel nvidia-peermem, or takes it away.
pub fn set_peermem(peermem: Option<Peermem>) {
    state().peermem = peermem;
}

/// From now on one more piece of a write lands. All others wait for [`let_writes_land`].
pub fn hold_writes() {
    let mut gate = gate();
    (gate.is_closed, gate.has_let_one) = (true, false);
}

/// Lets writes land that are held.
pub fn let_writes_land() {
    gate().is_closed = false;
    changed();
}

/// How many pieces of different queue pairs are held now.
#[must_use]
pub fn held_writes() -> usize {
    gate().waiting
}

/// How often [`crate::api`] was called to post, how many requests were posted, and how many of these were to complete
/// visibly.
#[must_use]
pub fn posted() -> (u64, u64, u64) {
    let Counts { posts, requests, signals, .. } = state().counts;
    (posts, requests, signals)
}

/// How many pieces of writes did not land, since key or queue pair had gone.
#[must_use]
pub fn lost_pieces() -> u64 {
    state().counts.lost_pieces
}

/// How many objects there are: domains, registrations, queues, queue pairs.
#[must_use]
pub fn objects() -> [usize; 4] {
    let state = state();
    [state.pds.len(), state.mrs.len(), state.cqs.len(), state.qps.len()]
}

/// Makes one request fail with this status, after `before` further ones.
pub fn fail_request(before: u64, status: u32) {
    state().fault = Some((before, status));
}

/// What the last queue pair was connected with: whether by GID, by LID, its packets, its traffic class.
#[must_use]
pub fn last_route() -> (bool, u16, u32, u8) {
    state().last_route
}
