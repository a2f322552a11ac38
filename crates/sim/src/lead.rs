//! Who leads: a master that holds the lease, or the only one.

use mooncake_meta::Meta;
use mooncake_types::Tick;

use crate::master::{Master, SUSPENSION_MS};
use crate::net::{Event, Process, Site};
use crate::store::LEASE_US;
use crate::world::{World, clock, config};

/// How often a master looks after its lease, or for one.
const LOOK_US: u64 = LEASE_US / 4;

impl World {
    /// A second master, which leads whenever the first does not. Both need leases from now on.
    pub(crate) fn add_standby(&mut self) {
        let first = self.masters[0].process;
        self.store.hold(first, 0);
        self.masters[0].prolong(0);
        self.processes += 1;
        let second = Process { site: Site::Master(1), incarnation: self.processes };
        self.net.settle(second);
        let clock = clock(&self.scenario, 0, &mut self.desk.chance);
        self.masters.push(Master::standby(second, clock));
        for process in [first, second] {
            self.net.after(LOOK_US, Event::Lead { process });
        }
    }

    /// A master prolongs its lease, or takes one that is over.
    pub(crate) fn lead_or_wait(&mut self, number: usize) {
        let (process, now_us) = (self.masters[number].process, self.net.now_us);
        self.net.after(LOOK_US, Event::Lead { process });
        // Now and then nobody can be asked about leases, or not by this one.
        if !self.desk.is_ending && self.is_cut_off(number) {
            return;
        }
        if self.masters[number].leads && self.store.fences(process) {
            // Another led since: what this one knows may be outdated, whoever leads now.
            return self.masters[number].step_down(&mut self.net);
        }
        if !self.store.hold(process, now_us) {
            return;
        }
        if !self.masters[number].leads {
            self.lead(number);
        }
        self.masters[number].prolong(now_us);
    }

    fn is_cut_off(&mut self, number: usize) -> bool {
        let (desk, now_us) = (&mut self.desk, self.net.now_us);
        let master = &mut self.masters[number];
        if self.net.faults.master_death_in > 0 && desk.chance.below(16) == 0 {
            master.cut_off_until_us = now_us + desk.chance.below(3 * LEASE_US);
            desk.fault("cut off from the coordinator");
        }
        now_us < master.cut_off_until_us || desk.chance.below(4) == 0
    }

    /// A master begins to lead.
    pub(crate) fn lead(&mut self, number: usize) {
        self.remember_survivors();
        let ahead = 1 + self.desk.chance.below(3);
        let (record, epoch) = self.store.lead(ahead);
        let text = format_args!("M{number} leads under {epoch} with {record:?}");
        self.desk.log.add(self.net.now_us, text);
        let standby = &self.masters[number];
        let (process, clock) = (standby.process, standby.clock());
        let now: Tick = clock.tick(self.net.now_us);
        let mut config = config(&self.scenario, &mut self.desk.chance);
        if self.masters.len() > 1 {
            config.suspension_ms = SUSPENSION_MS;
        }
        let mut meta = Meta::recover(config, epoch, now, &record);
        meta.remember(self.follower.lead());
        self.end_term(number);
        self.masters[number] = Master::new(process, clock, meta);
        self.masters[number].set_timer(&mut self.net);
        self.leader = number;
        self.desk.has_recovered = true;
        self.desk.fault("led");
    }
}
