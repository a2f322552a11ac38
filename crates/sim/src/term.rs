use crate::world::World;

impl World {
    /// What a master has counted is added up, before another takes its place and at the end.
    pub(crate) fn end_term(&mut self, number: usize) {
        let counters = self.masters[number].meta.stats().counters;
        let counts = [
            ("evicted objects", counters.evicted_keys),
            ("objects lost with their segments", counters.lost_keys),
            ("puts given up by masters", counters.puts_discarded),
            ("replicas repaired", counters.repaired_replicas),
            ("objects offloaded", counters.offloaded_objects),
            ("offloads that failed", counters.offloads_failed),
            ("objects promoted", counters.promoted_objects),
            ("replicas moved by drains", counters.drain_moved),
            ("replicas released by drains", counters.drain_released),
            ("extra replicas made", counters.extra_replicas_made),
            ("extra replicas evicted", counters.extra_replicas_evicted),
        ];
        for (name, count) in counts {
            self.desk.meet(name, count);
        }
    }
}
