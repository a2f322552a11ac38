//! Injection of faults, and when each of them ends.

use mooncake_types::{Version, limits};

use crate::ids::Site;
use crate::net::Event;
use crate::node::Node;
use crate::world::World;

impl World {
    /// Lets each fault of the scenario happen by its odds.
    pub(crate) fn inject(&mut self) {
        let faults = self.net.faults;
        let mut happens = |one_in: u64| self.net.happens(one_in);
        let (parts, node_dies, client_dies) = (
            happens(faults.partition_in),
            happens(faults.node_death_in),
            happens(faults.client_death_in),
        );
        let (pauses, master_dies) = (happens(faults.pause_in), happens(faults.master_death_in));
        let loses = happens(faults.loss_in);
        if loses {
            self.lose_bytes();
        }
        if parts {
            self.part();
        }
        if node_dies {
            let number = self.run_state.chance.below(self.scenario.nodes as u64) as usize;
            self.kill(Site::Member(number));
        }
        if client_dies {
            let number = self.run_state.chance.below(self.scenario.pure_clients as u64) as usize;
            self.kill(Site::Member(self.scenario.nodes + number));
        }
        if pauses {
            let site = self.any_site();
            self.pause(site);
        }
        if master_dies {
            let number = self.run_state.chance.below(self.masters.len() as u64) as usize;
            self.kill(Site::Master(number));
        }
    }

    /// A node finds that the bytes of one of its entries are lost.
    fn lose_bytes(&mut self) {
        let Self { run_state, hosts, scenario, net, paused, .. } = self;
        let number = run_state.chance.below(scenario.nodes as u64) as usize;
        let host = &mut hosts[number];
        let entries: Vec<(usize, u64, Version)> = host.losable(net).collect();
        let is_paused = paused.contains_key(&Site::Member(number));
        if !host.is_alive || is_paused || entries.is_empty() {
            return;
        }
        let (node, offset, grant) = entries[run_state.chance.place(entries.len())];
        let (key, version) = host.lose((node, offset, grant), net);
        run_state.promises.note_lost(key, version);
        run_state.fault("lost bytes");
        run_state.log.add(net.now_us, format_args!("node {number} lost {version} at {offset}"));
    }

    fn any_site(&mut self) -> Site {
        let masters = self.masters.len();
        match self.run_state.chance.below((masters + self.members.len()) as u64) as usize {
            number if number < masters => Site::Master(number),
            number => Site::Member(number - masters),
        }
    }

    /// A random time in microseconds, up to one of these lengths in milliseconds.
    fn some_time_us(&mut self, longest_ms: &[u64]) -> u64 {
        let chance = &mut self.run_state.chance;
        let longest_ms = longest_ms[chance.below(longest_ms.len() as u64) as usize];
        1 + chance.below(longest_ms * 1_000)
    }

    fn note(&mut self, name: &'static str, site: Site) {
        self.run_state.fault(name);
        self.run_state.log.add(self.net.now_us, format_args!("{name}: {site:?}"));
    }

    /// Cuts two sites off from each other for a while, or only one from the other.
    fn part(&mut self) {
        let (one, other) = (self.any_site(), self.any_site());
        if one == other {
            return;
        }
        self.note("parted", one);
        let time_us = self.some_time_us(&[20, 400, 2_500]);
        let both_ways = self.run_state.chance.below(2) == 0;
        for (from, to) in [(one, other), (other, one)].into_iter().take(1 + usize::from(both_ways))
        {
            self.run_state.log.add(self.net.now_us, format_args!("{from:?} cannot reach {to:?}"));
            self.net.block(from, to);
            self.net.after(time_us, Event::Heal { from, to });
        }
    }

    /// Kills a process. The network tells its peers, unless the whole host is cut off for a while as well.
    pub(crate) fn kill(&mut self, site: Site) {
        let is_alive = match site {
            Site::Master(number) => &mut self.masters[number].is_alive,
            Site::Member(number) => &mut self.hosts[number].is_alive,
        };
        if !std::mem::take(is_alive) {
            return;
        }
        self.note("died", site);
        let process = self.net.process_at(site);
        if let Site::Master(number) = site
            && !self.store.fences(process)
        {
            self.masters[number].lose_writes(&mut self.store, &mut self.run_state);
        }
        self.paused.remove(&site);
        let mut time_us = self.some_time_us(&[1, 300, 3_000]);
        if self.run_state.chance.below(4) == 0 {
            let away_us = self.some_time_us(&[100, 1_500]);
            time_us = time_us.max(away_us);
            let masters = (0..self.masters.len()).map(Site::Master);
            let others = (0..self.members.len()).map(Site::Member).chain(masters);
            for other in others.filter(|other| *other != site).collect::<Vec<_>>() {
                for (from, to) in [(site, other), (other, site)] {
                    self.net.block(from, to);
                    self.net.after(away_us, Event::Heal { from, to });
                }
            }
        }
        if let Site::Member(number) = site
            && self.hosts[number].nodes.iter().any(Node::is_named)
        {
            // The next process starts only when the promises of the dead one have ended.
            time_us = time_us.max(limits::PROMISE_MS * 1_000);
        }
        self.net.close_all(process);
        self.net.after(time_us, Event::Start { site });
    }

    /// Pauses a process, possibly for longer than its peers wait for it.
    fn pause(&mut self, site: Site) {
        if self.paused.contains_key(&site) {
            return;
        }
        self.note("stood still", site);
        self.paused.insert(site, Vec::new());
        let time_us = self.some_time_us(&[5, 200, 1_500, 8_000]);
        self.net.after(time_us, Event::Resume { site });
    }
}
