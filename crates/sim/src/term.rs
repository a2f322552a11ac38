use crate::world::World;

impl World {
    /// Adds a master's counters to the tally. Called before another process takes its place, and at the end of the
    /// run.
    pub(crate) fn end_term(&mut self, number: usize) {
        let counters = self.masters[number].meta.stats().counters;
        let counts = [
            ("evicted objects", counters.evicted_keys),
            ("objects lost with their segments", counters.lost_keys),
            ("puts given up by masters", counters.puts_discarded),
            ("replicas repaired", counters.repairs.made),
            ("objects offloaded", counters.offloads.made),
            ("offloads that failed", counters.offloads.failed),
            ("objects promoted", counters.promotions.made),
            ("replicas moved by drains", counters.drain_moved),
            ("replicas released by drains", counters.drain_released),
            ("extra replicas made", counters.replications.made),
            ("extra replicas evicted", counters.extra_replicas_evicted),
        ];
        for (name, count) in counts {
            self.run_state.meet(name, count);
        }
    }
}
