//! The hosts of a run, and the programs on them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::broken;
use crate::net::{HostIsolation, Network};
use crate::process::{Folder, PATIENCE, Process};

/// How long a leader may be silent before another master replaces it, in seconds.
pub(crate) const TTL_S: u64 = 2;

/// How long a node may be silent before the master drops its segments, in seconds.
pub(crate) const CLIENT_TTL_S: u64 = 6;

/// How long a get protects an object, in seconds.
const LEASE_S: u64 = 3;

/// How long an unfinished put reserves its key, and its ranges, in seconds.
const PUT_S: [u64; 2] = [3, 6];

/// The host of the observer. No fault affects it.
pub(crate) const OBSERVER: &str = "o1";

/// The variables of processes that move bytes one-sided where the peer offers it: over the provider of libfabric that
/// needs no NIC.
const FABRIC: [(&str, &str); 2] =
    [("MOONCAKE_TRANSPORTS", "fabric,tcp"), ("MOONCAKE_FABRIC_PROVIDER", "tcp")];

/// Nodes, and every second client.
fn is_one_sided(host: &str) -> bool {
    let number = host.as_bytes()[1];
    host.starts_with('n') || (host.starts_with('c') && number.is_multiple_of(2))
}

/// A host of a run. The first letter of its name tells its program: master, etcd, node, client or observer.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) process: Option<Process>,
    /// How often its program was started.
    starts: u64,
}

/// All hosts of a run. Dropping it ends all processes, and removes the network.
#[derive(Debug)]
pub(crate) struct Cluster {
    // The order of fields is that of drops: processes end before the network.
    pub(crate) hosts: Vec<Host>,
    pub(crate) network: Network,
    /// The folder of segments and of etcd's files, which lives as long as the run.
    memory: Folder,
    /// The folder of logs and histories.
    pub(crate) folder: PathBuf,
    seed: u64,
    /// The rule that all processes break, if any.
    pub(crate) broken: Option<String>,
    /// Whether nodes and every second client move bytes one-sided.
    pub(crate) fabric: bool,
}

impl Cluster {
    /// Makes all hosts. No program runs there yet.
    pub(crate) fn new(kind: HostIsolation, folder: PathBuf, seed: u64) -> Result<Cluster, String> {
        let network = Network::new(kind)?;
        let memory = Folder::new("/dev/shm").or_else(|_| Folder::new("/tmp"))?;
        let mut cluster = Cluster {
            hosts: Vec::new(),
            network,
            memory,
            folder,
            seed,
            broken: None,
            fabric: false,
        };
        for (kind, count, first) in
            [('e', 3, 21), ('m', 3, 11), ('n', 4, 31), ('c', 6, 41), ('o', 1, 9)]
        {
            for number in 0..count {
                let name = format!("{kind}{}", number + 1);
                cluster.network.add_host(&name, first + number)?;
                let address = cluster.network.address(first + number);
                cluster.hosts.push(Host { name, address, process: None, starts: 0 });
            }
        }
        Ok(cluster)
    }

    /// Starts all programs, and waits until the pool works.
    pub(crate) fn start_all(&mut self) -> Result<(), String> {
        for kind in ['e', 'm', 'n', 'c'] {
            for name in self.names(kind) {
                self.start(&name)?;
            }
            for name in self.names(kind) {
                let word = match kind {
                    'e' => "ready to serve client requests",
                    'm' => "the master stands for election",
                    'n' => "the storage node is ready",
                    _ => continue,
                };
                let process = self.host_mut(&name).process.as_mut().expect("it was started");
                process.wait_for(word)?;
            }
            if kind == 'm' {
                self.wait_for_leader()?;
            }
        }
        Ok(())
    }

    /// The names of all hosts of a kind.
    pub(crate) fn names(&self, kind: char) -> Vec<String> {
        let names = self.hosts.iter().map(|host| &host.name);
        names.filter(|name| name.starts_with(kind)).cloned().collect()
    }

    pub(crate) fn host(&self, name: &str) -> &Host {
        self.hosts.iter().find(|host| host.name == name).expect("a host of the run")
    }

    pub(crate) fn host_mut(&mut self, name: &str) -> &mut Host {
        self.hosts.iter_mut().find(|host| host.name == name).expect("a host of the run")
    }

    /// The name of the host with this `address:port`.
    pub(crate) fn name_of(&self, endpoint: &str) -> String {
        let address = endpoint.rsplit_once(':').map_or(endpoint, |(address, _)| address);
        let found = self.hosts.iter().find(|host| host.address == address);
        found.map_or(endpoint.to_owned(), |host| host.name.clone())
    }

    /// The address of the coordinator.
    fn coordinator(&self) -> String {
        let members = self.hosts.iter().filter(|host| host.name.starts_with('e'));
        let members: Vec<String> = members.map(|host| format!("{}:2379", host.address)).collect();
        format!("etcd://{}", members.join(";"))
    }

    /// A command that runs a program on a host. The program ends with this process.
    fn command(&self, host: &str, what: &[&str]) -> Command {
        let own = std::env::current_exe().expect("this program has a path");
        let mut command = self.network.on(host, &own.display().to_string());
        command.arg("enter").args(what).env("MOONCAKE_TRANSPORTS", "tcp");
        command.env_remove("MOONCAKE_AUTH_TOKEN").env_remove("MC_STORE_CLUSTER_ID");
        command.env_remove("MOONCAKE_ADVERTISE_ADDRESS");
        command.envs(self.broken.iter().map(|rule| (broken::VARIABLE, rule)));
        if self.fabric && is_one_sided(host) {
            command.envs(FABRIC).env("FI_TCP_IFACE", self.network.interface());
        }
        command
    }

    /// Starts the program of a host, for the first time or again.
    pub(crate) fn start(&mut self, name: &str) -> Result<(), String> {
        let command = match name.as_bytes()[0] {
            b'e' => self.etcd(name),
            b'm' => self.master(name),
            b'n' => self.node(name),
            _ => self.client(name, &[]),
        };
        let process = Process::start(command, self.folder.join(format!("{name}.log")))?;
        let host = self.host_mut(name);
        (host.process, host.starts) = (Some(process), host.starts + 1);
        Ok(())
    }

    fn etcd(&self, name: &str) -> Command {
        let address = &self.host(name).address;
        let members = self.hosts.iter().filter(|host| host.name.starts_with('e'));
        let members = members.map(|host| format!("{}=http://{}:2380", host.name, host.address));
        let mut command = self.command(name, &["program", "etcd"]);
        command.arg(format!("--name={name}"));
        command.arg(format!("--data-dir={}", self.memory.0.join(name).display()));
        command.arg(format!("--initial-cluster={}", members.collect::<Vec<_>>().join(",")));
        for (flag, port) in [
            ("listen-client-urls", 2379),
            ("advertise-client-urls", 2379),
            ("listen-peer-urls", 2380),
            ("initial-advertise-peer-urls", 2380),
        ] {
            command.arg(format!("--{flag}=http://{address}:{port}"));
        }
        // etcd refuses to start on arm64 unless this is set.
        if cfg!(target_arch = "aarch64") {
            command.env("ETCD_UNSUPPORTED_ARCH", "arm64");
        }
        command
    }

    fn master(&self, name: &str) -> Command {
        let address = &self.host(name).address;
        let mut command = self.command(name, &["master", "--enable_ha", "--ha_backend_type=etcd"]);
        command.arg(format!("--ha_backend_connstring={}", self.coordinator()));
        command.arg(format!("--ha_lease_ttl_sec={TTL_S}"));
        command.arg(format!("--client_ttl={CLIENT_TTL_S}"));
        command.arg(format!("--default_kv_lease_ttl={LEASE_S}s"));
        // Short, so that ranges of paused writers are granted again before the writers resume.
        let [discard, release] = PUT_S.map(|seconds| seconds.to_string());
        command.arg(format!("--put_start_discard_timeout_sec={discard}"));
        command.arg(format!("--put_start_release_timeout_sec={release}"));
        command.args(["--rpc_port=50051", "--metrics_port=9003"]);
        command.args([format!("--rpc_address={address}"), format!("--metrics_host={address}")]);
        command
    }

    /// Nodes except `n4` keep complete objects over a kill, in a file.
    fn node(&self, name: &str) -> Command {
        let host = format!("--host={}:12400", self.host(name).address);
        let mut command =
            self.command(name, &["node", &host, "--port=0", "--global_segment_size=256MB"]);
        command.arg(format!("--master_server_address={}", self.coordinator()));
        if name != "n4" {
            let path = self.memory.0.join(format!("{name}.segment"));
            command.arg(format!("--segment_path={}", path.display()));
        }
        command
    }

    fn client(&self, name: &str, more: &[String]) -> Command {
        let Host { address, starts, .. } = self.host(name);
        let mut command = self.command(name, &["client", "--name", name]);
        command.args(["--host", address, "--master", &self.coordinator()]);
        command.args(["--start", &starts.to_string(), "--seed", &self.seed.to_string()]);
        command.arg("--history").arg(self.folder.join(format!("{name}.{starts}.history")));
        command.args(more);
        command
    }

    /// Lets the observer read the keys that a file lists.
    pub(crate) fn read_everything(&mut self, keys: &Path) -> Result<(), String> {
        let command = self.client(OBSERVER, &["--read".to_owned(), keys.display().to_string()]);
        let log = self.folder.join(format!("{OBSERVER}.log"));
        Process::start(command, log)?.wait_for_end(3 * PATIENCE)
    }

    /// The master that reports that it leads.
    pub(crate) fn leader(&self) -> Option<String> {
        let leads = |name: &String| {
            let address = format!("{}:9003", self.host(name).address);
            let own = std::env::current_exe().expect("this program has a path");
            let mut command = self.network.on(OBSERVER, &own.display().to_string());
            command.args(["ask", &address, "/role"]).stdin(Stdio::null()).stderr(Stdio::null());
            command.output().is_ok_and(|output| output.stdout.ends_with(b"leader"))
        };
        self.names('m').into_iter().find(leads)
    }

    pub(crate) fn wait_for_leader(&self) -> Result<String, String> {
        let begun = Instant::now();
        loop {
            if let Some(leader) = self.leader() {
                return Ok(leader);
            }
            if begun.elapsed() > PATIENCE {
                return Err("no master leads".to_owned());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        if let Some(process) = &self.host(name).process {
            process.signal(signal);
        }
    }

    pub(crate) fn kill(&mut self, name: &str) {
        if let Some(process) = self.host_mut(name).process.take() {
            process.kill();
        }
    }

    /// The host of a process that ended although no one killed it.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let has_ended = |host: &mut Host| host.process.as_mut().is_some_and(Process::has_ended);
        self.hosts.iter_mut().find_map(|host| has_ended(host).then(|| host.name.clone()))
    }

    /// Tells all clients to end, and waits for them.
    pub(crate) fn stop_clients(&mut self) -> Result<(), String> {
        for name in self.names('c') {
            let process = self.host_mut(&name).process.as_mut();
            drop(process.and_then(Process::hang_up));
        }
        for name in self.names('c') {
            if let Some(process) = self.host_mut(&name).process.take() {
                // A call may last as long as a request to the master, and be retried once.
                process.wait_for_end(2 * PATIENCE)?;
            }
        }
        Ok(())
    }
}
