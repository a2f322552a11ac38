use std::sync::Arc;

use super::known_peers::Near;
use super::neighbour::Neighbour;
use crate::carrier::Fate;

/// The operations of one call at one node of this host.
pub(super) struct Visit<T> {
    pub(super) neighbour: Arc<Neighbour>,
    /// Positions of its operations, each with the result of `prepare`.
    pub(super) ops: Vec<(usize, T)>,
}

/// Opens the operations again that are not over, for other carriers. Returns whether there are any.
pub(super) fn reopen<T>(fates: &mut [Fate], visits: &[Visit<T>]) -> bool {
    let mut any = false;
    for &(position, _) in visits.iter().flat_map(|visit| &visit.ops) {
        if !fates[position].is_over() {
            fates[position] = Fate::Open;
            any = true;
        }
    }
    any
}

impl Near {
    /// Groups operations, given by their positions and peers, by the nodes of this host. Leaves out those of other
    /// hosts, and those for which `prepare` returns `None`.
    pub(super) fn visits<'a, T>(
        &self,
        ops: impl Iterator<Item = (usize, &'a Arc<str>)> + Clone,
        prepare: impl Fn(usize, &Neighbour) -> Option<T>,
    ) -> Vec<Visit<T>> {
        if ops.clone().nth(1).is_some() {
            self.measure_all(ops.clone().map(|(_, endpoint)| endpoint));
        }
        let mut visits: Vec<Visit<T>> = Vec::new();
        let mut last: Option<(&Arc<str>, Option<usize>)> = None;
        for (position, endpoint) in ops {
            let known = last.filter(|(last, _)| Arc::ptr_eq(last, endpoint));
            let (_, at) = known.unwrap_or_else(|| {
                let neighbour = self.neighbour(endpoint);
                (endpoint, neighbour.map(|neighbour| visit_to(&mut visits, neighbour)))
            });
            last = Some((endpoint, at));
            let Some(visit) = at.map(|at| &mut visits[at]) else { continue };
            let prepared = prepare(position, &visit.neighbour);
            visit.ops.extend(prepared.map(|prepared| (position, prepared)));
        }
        visits
    }
}

/// The index of the visit to this node, which is added if there is none.
fn visit_to<T>(visits: &mut Vec<Visit<T>>, neighbour: Arc<Neighbour>) -> usize {
    let known = visits.iter().rposition(|visit| Arc::ptr_eq(&visit.neighbour, &neighbour));
    known.unwrap_or_else(|| {
        visits.push(Visit { neighbour, ops: Vec::new() });
        visits.len() - 1
    })
}
