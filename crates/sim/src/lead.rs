//! Elections: the master that holds the lease leads. A single master always leads.

use mooncake_meta::Meta;
use mooncake_types::Tick;

use crate::ids::{Process, Site};
use crate::master::Master;
use crate::net::Event;
use crate::quotas;
use crate::world::{World, clock, config};

impl World {
    /// Adds a second master, which leads whenever the first does not. Both need leases from now on.
    pub(crate) fn add_standby(&mut self) {
        let first = self.masters[0].process;
        self.store.hold(first, 0);
        self.masters[0].prolong(0, &self.scenario);
        self.processes += 1;
        let second = Process { site: Site::Master(1), incarnation: self.processes };
        self.net.settle(second);
        let clock = clock(&self.scenario, 0, &mut self.run_state.chance);
        self.masters.push(Master::standby(second, clock));
        for process in [first, second] {
            self.net.after(self.look_us(), Event::Lead { process });
        }
    }

    /// Renews a master's lease, or takes the lease if it is free.
    pub(crate) fn lead_or_wait(&mut self, number: usize) {
        let (process, now_us) = (self.masters[number].process, self.net.now_us);
        self.net.after(self.look_us(), Event::Lead { process });
        // At times the coordinator cannot be reached, or not by this master.
        if !self.run_state.is_ending && self.is_cut_off(number) {
            return;
        }
        if self.masters[number].leads && self.store.fences(process) {
            // Another master led since, so this master's objects may be outdated.
            return self.masters[number].step_down(&mut self.net);
        }
        if !self.store.hold(process, now_us) {
            return;
        }
        if !self.masters[number].leads {
            self.lead(number);
        }
        self.masters[number].prolong(now_us, &self.scenario);
    }

    /// How often a master renews its lease, or tries to take it.
    fn look_us(&self) -> u64 {
        250 * self.scenario.leadership_ms
    }

    fn is_cut_off(&mut self, number: usize) -> bool {
        let now_us = self.net.now_us;
        if self.loses_coordinator(number) {
            let away_us = self.run_state.chance.below(1_000 * self.scenario.longest_away_ms);
            self.masters[number].cut_off_until_us = now_us + away_us;
            self.run_state.fault("cut off from the coordinator");
            let has_rivals = self.scenario.has_rivals;
            if self.masters[number].leads && (has_rivals || self.run_state.chance.below(2) == 0) {
                self.split(away_us);
            }
        }
        now_us < self.masters[number].cut_off_until_us || self.run_state.chance.below(4) == 0
    }

    fn loses_coordinator(&mut self, number: usize) -> bool {
        // With rivals, only the leader is cut off, and only when all masters reach the coordinator.
        let is_one_away = self.masters.iter().any(|it| self.net.now_us < it.cut_off_until_us);
        if self.scenario.has_rivals && (is_one_away || !self.masters[number].leads) {
            return false;
        }
        let looks = 1_000 * self.net.faults.away_every_ms / self.look_us();
        looks > 0 && self.run_state.chance.below(looks) == 0
    }

    /// For a while, each member loses one of the masters. For some members the connections break, for others they fall
    /// silent.
    fn split(&mut self, away_us: u64) {
        self.run_state.fault("split between masters");
        for number in 0..self.members.len() {
            let member = Site::Member(number);
            let lost =
                Site::Master(self.run_state.chance.below(self.masters.len() as u64) as usize);
            let is_told = self.run_state.chance.below(2) == 0;
            let text = format_args!("{member:?} has lost {lost:?}, told {is_told}");
            self.run_state.log.add(self.net.now_us, text);
            if is_told {
                self.net.reset_all(member, lost);
            } else {
                self.net.block(lost, member);
                self.net.after(away_us, Event::Heal { from: lost, to: member });
            }
            self.net.block(member, lost);
            self.net.after(away_us, Event::Heal { from: member, to: lost });
        }
    }

    /// Makes a master the leader: it recovers from the record, and from the shadows of the standby.
    pub(crate) fn lead(&mut self, number: usize) {
        self.remember_survivors();
        let ahead = 1 + self.run_state.chance.below(3);
        let (record, epoch) = self.store.lead(ahead);
        self.run_state.meet("leaders with a filter", u64::from(self.store.has_filter()));
        let text = format_args!("M{number} leads under {epoch} with {record:?}");
        self.run_state.log.add(self.net.now_us, text);
        let standby = &self.masters[number];
        let (process, clock) = (standby.process, standby.clock());
        let now: Tick = clock.tick(self.net.now_us);
        let config = config(&self.scenario, &mut self.run_state.chance);
        let mut meta = Meta::recover(config, epoch, now, &record);
        quotas::set(&self.scenario, &mut meta);
        meta.remember(self.follower.lead());
        self.end_term(number);
        self.masters[number] = Master::new(process, clock, meta);
        self.masters[number].set_timer(&mut self.net);
        self.leader = number;
        (self.run_state.has_recovered, self.run_state.newest_epoch) = (true, epoch);
        self.run_state.fault("led");
    }
}
