//! The faults of a run: what is done to which hosts, and when.

use std::collections::BTreeSet;

use mooncake_types::Chance;
use rustix::process::Signal;

use crate::cluster::{CLIENT_TTL_S, Cluster, TTL_S};
use crate::monotonic::{SECOND_NS, now_ns};
use crate::net::HostIsolation;

const MS_NS: u64 = 1_000_000;

/// A fault that was done to hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: &'static str,
    pub(crate) hosts: Vec<String>,
    pub(crate) began_ns: u64,
    /// [`u64::MAX`] while the fault lasts.
    pub(crate) ended_ns: u64,
}

impl Fault {
    /// Whether one of its hosts has one of these kinds.
    pub(crate) fn touches(&self, kinds: &[char]) -> bool {
        self.hosts.iter().any(|host| host.starts_with(kinds))
    }
}

/// What a fault does to each of its hosts until it is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The process is killed, and then started again.
    Kill,
    /// Whichever of the hosts leads is killed, soon after it began to lead, at calls of [`FaultInjector::go_on`]. Those
    /// that were killed before are started again.
    KillLeaders,
    Pause,
    /// The process is paused and resumed in turns, at each call of [`FaultInjector::go_on`].
    Stutter,
    /// The host is cut off from the network.
    Unplug,
    /// Packets from it to hosts of these kinds are lost.
    Mute(&'static [char]),
    /// Packets to it from hosts of these kinds are lost.
    Deafen(&'static [char]),
    /// Packets from it are delayed.
    Delay,
}

/// The hosts that a fault chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Leader,
    Standby,
    Any(char),
    All(char),
}

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kind: &'static str,
    target: Target,
    action: Action,
    /// The shortest and the longest duration, in milliseconds.
    hold_ms: [u64; 2],
}

const fn plan(kind: &'static str, target: Target, action: Action, hold_ms: [u64; 2]) -> Plan {
    Plan { kind, target, action, hold_ms }
}

const LONG_MS: [u64; 2] = [1000 * (CLIENT_TTL_S + 4), 1000 * (CLIENT_TTL_S + 10)];
const BEYOND_LEASE_MS: [u64; 2] = [1000 * TTL_S + 500, 1000 * TTL_S + 6000];

const PLANS: &[Plan] = &[
    plan("leader killed", Target::Leader, Action::Kill, [200, 6000]),
    plan("leader killed", Target::Leader, Action::Kill, [200, 6000]),
    plan("leaders killed in recovery", Target::All('m'), Action::KillLeaders, [8000, 20_000]),
    plan("leader paused", Target::Leader, Action::Pause, BEYOND_LEASE_MS),
    plan("leader unplugged", Target::Leader, Action::Unplug, BEYOND_LEASE_MS),
    plan("leader cannot reach etcd", Target::Leader, Action::Mute(&['e']), BEYOND_LEASE_MS),
    plan("leader cannot hear etcd", Target::Leader, Action::Deafen(&['e']), BEYOND_LEASE_MS),
    plan(
        "leader cannot hear nodes and clients",
        Target::Leader,
        Action::Deafen(&['n', 'c']),
        [500, 5000],
    ),
    plan("leader stutters", Target::Leader, Action::Stutter, [2000, 6000]),
    plan("standby killed", Target::Standby, Action::Kill, [200, 6000]),
    plan("all masters killed", Target::All('m'), Action::Kill, [100, 4000]),
    plan("all masters unplugged", Target::All('m'), Action::Unplug, [1000, 8000]),
    plan("all masters paused", Target::All('m'), Action::Pause, [500, 8000]),
    plan("etcd member killed", Target::Any('e'), Action::Kill, [200, 6000]),
    plan("etcd member paused", Target::Any('e'), Action::Pause, [1000, 6000]),
    plan("etcd member unplugged", Target::Any('e'), Action::Unplug, [1000, 6000]),
    plan("etcd killed", Target::All('e'), Action::Kill, [500, 8000]),
    plan("node killed", Target::Any('n'), Action::Kill, [100, 3000]),
    plan("node killed", Target::Any('n'), Action::Kill, [100, 3000]),
    plan("node paused", Target::Any('n'), Action::Pause, [300, 4000]),
    plan("node paused for long", Target::Any('n'), Action::Pause, LONG_MS),
    plan("node unplugged", Target::Any('n'), Action::Unplug, [300, 4000]),
    plan("node unplugged for long", Target::Any('n'), Action::Unplug, LONG_MS),
    plan("node cannot reach masters", Target::Any('n'), Action::Mute(&['m']), [1000, 8000]),
    plan("node cannot hear masters", Target::Any('n'), Action::Deafen(&['m']), [1000, 8000]),
    plan("node cannot hear clients", Target::Any('n'), Action::Deafen(&['c']), [1000, 5000]),
    plan("node stutters", Target::Any('n'), Action::Stutter, [2000, 6000]),
    plan("client killed", Target::Any('c'), Action::Kill, [50, 500]),
    plan("client paused", Target::Any('c'), Action::Pause, [1000, 12_000]),
    plan("client unplugged", Target::Any('c'), Action::Unplug, [500, 6000]),
    plan("client cannot reach nodes", Target::Any('c'), Action::Mute(&['n']), [500, 5000]),
    plan("client cannot hear masters", Target::Any('c'), Action::Deafen(&['m']), [500, 5000]),
    plan("packets late", Target::Any('m'), Action::Delay, [2000, 6000]),
    plan("packets late", Target::Any('n'), Action::Delay, [2000, 6000]),
];

/// A fault that has not been undone.
#[derive(Debug)]
struct Active {
    plan: Plan,
    hosts: Vec<String>,
    /// Its index in [`FaultInjector::done`].
    number: usize,
    until_ns: u64,
    is_stopped: bool,
}

/// Begins and ends faults, as a seed determines.
#[derive(Debug)]
pub(crate) struct FaultInjector {
    chance: Chance,
    plans: Vec<Plan>,
    active: Vec<Active>,
    pub(crate) done: Vec<Fault>,
    next_ns: u64,
    began_ns: u64,
}

impl FaultInjector {
    /// Faults whose names contain one of the words in `only`, or all kinds if it is empty. They begin after `calm_ns`.
    ///
    /// # Errors
    /// If no kind matches: the text lists all kinds.
    pub(crate) fn new(seed: u64, only: &[String], calm_ns: u64) -> Result<FaultInjector, String> {
        let is_wanted =
            |plan: &&Plan| only.is_empty() || only.iter().any(|of| plan.kind.contains(of));
        let plans: Vec<Plan> = PLANS.iter().filter(is_wanted).copied().collect();
        if plans.is_empty() {
            let kinds: BTreeSet<&str> = PLANS.iter().map(|plan| plan.kind).collect();
            return Err(format!("no faults are called like that; these are: {kinds:?}"));
        }
        let now = now_ns();
        let chance = Chance::new(seed);
        let (next_ns, active, done) = (now + calm_ns, Vec::new(), Vec::new());
        Ok(FaultInjector { chance, plans, active, done, next_ns, began_ns: now })
    }

    fn between(&mut self, [least, most]: [u64; 2]) -> u64 {
        least + self.chance.below(most - least + 1)
    }

    /// Begins and ends the faults that are due. Call it every few hundredths of a second.
    pub(crate) fn go_on(&mut self, cluster: &mut Cluster) -> Result<(), String> {
        let now = now_ns();
        for at in (0..self.active.len()).rev() {
            if self.active[at].until_ns <= now {
                let active = self.active.remove(at);
                self.undo(active, cluster)?;
            }
        }
        for active in &mut self.active {
            match active.plan.action {
                Action::Stutter => {
                    active.is_stopped = !active.is_stopped;
                    let signal = if active.is_stopped { Signal::STOP } else { Signal::CONT };
                    active.hosts.iter().for_each(|host| cluster.signal(host, signal));
                }
                Action::KillLeaders if self.chance.below(3) == 0 => {
                    start_again(&active.hosts, cluster)?;
                    cluster.leader().iter().for_each(|leader| cluster.kill(leader));
                }
                _ => {}
            }
        }
        if now >= self.next_ns {
            // Every fourth time, the next fault begins while this one lasts.
            let is_alone = self.chance.below(4) > 0;
            let calm_ms = if is_alone { [2000, 8000] } else { [0, 500] };
            let started_ns = self
                .begin(cluster)?
                .map_or(now, |until_ns| if is_alone { until_ns } else { now_ns() });
            self.next_ns = started_ns + self.between(calm_ms) * MS_NS;
        }
        Ok(())
    }

    /// Begins a random fault, if it is possible now. Returns the moment at which it ends.
    fn begin(&mut self, cluster: &mut Cluster) -> Result<Option<u64>, String> {
        let plan = self.plans[self.chance.below(self.plans.len() as u64) as usize];
        let is_possible = match plan.action {
            Action::Kill | Action::KillLeaders | Action::Pause | Action::Stutter => true,
            Action::Delay => cluster.network.delays,
            _ => cluster.network.kind == HostIsolation::Namespaces,
        };
        if !is_possible || self.active.len() >= 2 {
            return Ok(None);
        }
        let hosts = self.hosts(plan.target, cluster);
        let is_busy = |host: &String| self.active.iter().any(|it| it.hosts.contains(host));
        if hosts.is_empty() || hosts.iter().any(is_busy) {
            return Ok(None);
        }
        let hold_ms = self.between(plan.hold_ms);
        let began_ns = now_ns();
        let seconds = (began_ns - self.began_ns) / SECOND_NS;
        println!("{seconds:>4} s  {} ({}) for {hold_ms} ms", plan.kind, hosts.join(", "));
        for host in &hosts {
            act(plan.action, host, cluster)?;
        }
        let (number, until_ns) = (self.done.len(), began_ns + hold_ms * MS_NS);
        self.done.push(Fault {
            kind: plan.kind,
            hosts: hosts.clone(),
            began_ns,
            ended_ns: u64::MAX,
        });
        self.active.push(Active { plan, hosts, number, until_ns, is_stopped: false });
        Ok(Some(until_ns))
    }

    fn hosts(&mut self, target: Target, cluster: &Cluster) -> Vec<String> {
        let mut any = |mut names: Vec<String>| match names.len() as u64 {
            0 => Vec::new(),
            count => vec![names.swap_remove(self.chance.below(count) as usize)],
        };
        match target {
            Target::Leader => cluster.leader().into_iter().collect(),
            Target::Standby => {
                let leader = cluster.leader();
                let mut names = cluster.names('m');
                names.retain(|name| Some(name) != leader.as_ref());
                any(names)
            }
            Target::Any(kind) => any(cluster.names(kind)),
            Target::All(kind) => cluster.names(kind),
        }
    }

    fn undo(&mut self, active: Active, cluster: &mut Cluster) -> Result<(), String> {
        match active.plan.action {
            Action::KillLeaders => start_again(&active.hosts, cluster)?,
            action => active.hosts.iter().try_for_each(|host| undo(action, host, cluster))?,
        }
        self.done[active.number].ended_ns = now_ns();
        Ok(())
    }

    /// Undoes all active faults.
    pub(crate) fn end(&mut self, cluster: &mut Cluster) -> Result<(), String> {
        for active in std::mem::take(&mut self.active) {
            self.undo(active, cluster)?;
        }
        Ok(())
    }
}

/// Starts those of these hosts that were killed.
fn start_again(hosts: &[String], cluster: &mut Cluster) -> Result<(), String> {
    let is_down = |host: &&String| cluster.host(host).process.is_none();
    let down: Vec<&String> = hosts.iter().filter(is_down).collect();
    down.into_iter().try_for_each(|host| cluster.start(host))
}

fn act(action: Action, host: &str, cluster: &mut Cluster) -> Result<(), String> {
    match action {
        Action::Kill => cluster.kill(host),
        Action::Pause => cluster.signal(host, Signal::STOP),
        Action::Stutter | Action::KillLeaders => {}
        Action::Unplug => cluster.network.unplug(host)?,
        Action::Mute(kinds) => {
            for (_, address) in peers(kinds, host, cluster) {
                cluster.network.cut(host, &address)?;
            }
        }
        Action::Deafen(kinds) => {
            let own = cluster.host(host).address.clone();
            for (peer, _) in peers(kinds, host, cluster) {
                cluster.network.cut(&peer, &own)?;
            }
        }
        Action::Delay => cluster.network.delay(host, 50)?,
    }
    Ok(())
}

fn undo(action: Action, host: &str, cluster: &mut Cluster) -> Result<(), String> {
    match action {
        Action::Kill | Action::KillLeaders => cluster.start(host)?,
        Action::Pause | Action::Stutter => cluster.signal(host, Signal::CONT),
        Action::Unplug => cluster.network.plug(host)?,
        Action::Mute(kinds) => {
            for (_, address) in peers(kinds, host, cluster) {
                cluster.network.mend(host, &address)?;
            }
        }
        Action::Deafen(kinds) => {
            let own = cluster.host(host).address.clone();
            for (peer, _) in peers(kinds, host, cluster) {
                cluster.network.mend(&peer, &own)?;
            }
        }
        Action::Delay => cluster.network.delay(host, 0)?,
    }
    Ok(())
}

/// The names and addresses of the other hosts of these kinds.
fn peers(kinds: &[char], host: &str, cluster: &Cluster) -> Vec<(String, String)> {
    let is_peer = |name: &str| name.starts_with(kinds) && name != host;
    let peers = cluster.hosts.iter().filter(|peer| is_peer(&peer.name));
    peers.map(|peer| (peer.name.clone(), peer.address.clone())).collect()
}
