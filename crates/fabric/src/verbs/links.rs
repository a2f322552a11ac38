//! The connections of a port with all its peers, and what becomes of them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::abi::*;
use super::call::status_error;
use super::end::{Chain, ChainBuffer};
use super::events::Nics;
use super::link::Link;
use super::nic::Nic;
use super::queue::Ended;
use crate::call::CallError;
use crate::port::{Completion, Outcome};

/// The connections of a port.
#[derive(Default)]
pub(super) struct Links {
    pub(super) links: BTreeMap<u64, Link>,
    /// The lanes, by NIC and number of their queue pairs.
    pub(super) numbers: BTreeMap<(usize, u32), (u64, usize)>,
    pub(super) next_link: u64,
    pub(super) next_wr_id: u64,
    /// How many requests are in flight at each NIC.
    pub(super) in_flight: Vec<usize>,
    /// Up to which change of NICs the ends are known to be fresh.
    pub(super) changes: u64,
    /// What has ended and was not taken yet.
    pub(super) completions: Vec<Completion>,
    pub(super) ended: Vec<Ended>,
    pub(super) buffer: ChainBuffer,
}

/// Whether another way may carry out what one did not, after this status of a request. Otherwise the request is wrong, or
/// what it asks for is not there.
fn is_of_way(status: u32) -> bool {
    matches!(
        status,
        IBV_WC_LOC_QP_OP_ERR
            | IBV_WC_WR_FLUSH_ERR
            | IBV_WC_RETRY_EXC_ERR
            | IBV_WC_RNR_RETRY_EXC_ERR
            | IBV_WC_FATAL_ERR
            | IBV_WC_RESP_TIMEOUT_ERR
            | IBV_WC_GENERAL_ERR
    )
}

impl Links {
    /// Destroys an end, and ends all that it had in flight: it is lost, if another lane can carry it out. What has failed for
    /// another reason than the lane, which is the first chain, fails.
    pub(super) fn break_lane(
        &mut self,
        (number, at): (u64, usize),
        (error, is_of_way): (&CallError, bool),
        nics: &[Nic],
    ) {
        let Some(link) = self.links.get_mut(&number) else { return };
        let Some(end) = link.break_lane(at, error) else { return };
        let way = link.lanes[at].way;
        let has_others = link.open_lanes().next().is_some();
        self.numbers.remove(&(way.nic, end.number()));
        for (index, Chain { place, requests, .. }) in end.destroy().into_iter().enumerate() {
            self.in_flight[way.nic] -= requests;
            nics[way.nic].counts.lost_requests.fetch_add(requests as u64, Ordering::Relaxed);
            let outcome = match has_others && (is_of_way || index > 0) {
                true => Outcome::Lost(error.clone()),
                false => Outcome::Failed(error.clone()),
            };
            self.completions.push(Completion { context: place, outcome });
        }
    }

    /// Notes a completion. Those of queue pairs that were destroyed are left out.
    pub(super) fn end(&mut self, nic: usize, ended: &Ended, nics: &[Nic]) {
        let Some(&(number, at)) = self.numbers.get(&(nic, ended.number)) else { return };
        if ended.status != IBV_WC_SUCCESS {
            let error = status_error(nics[nic].library, ended.status);
            let is_of_way = is_of_way(ended.status);
            if self.links.get(&number).is_some_and(|link| link.open_lanes().nth(1).is_some()) {
                tracing::debug!(nic = %nics[nic].name, %error, "a way to a peer has broken");
            }
            return self.break_lane((number, at), (&error, is_of_way), nics);
        }
        let Some(end) = self.links.get_mut(&number).and_then(|link| link.end(at)) else { return };
        for Chain { place, requests, .. } in end.ended(ended.wr_id) {
            self.in_flight[nic] -= requests;
            self.completions.push(Completion { context: place, outcome: Outcome::Done });
        }
    }

    /// Breaks the lanes whose NICs have failed, if any NIC has changed.
    pub(super) fn notice(&mut self, nics: &Nics) {
        let changes = nics.changes();
        if self.changes != changes {
            self.changes = changes;
            self.leave_failed(&nics.list);
        }
    }

    fn leave_failed(&mut self, nics: &[Nic]) {
        let failed = self.links.iter().flat_map(|(&number, link)| {
            let lanes = link.open_lanes().filter(|(_, way, end)| !end.is_fresh(&nics[way.nic]));
            lanes.map(move |(at, way, _)| ((number, at), way.nic))
        });
        let failed: Vec<((u64, usize), usize)> = failed.collect();
        for (lane, nic) in failed {
            self.break_lane(lane, (&nics[nic].down_error(), true), nics);
        }
    }
}
