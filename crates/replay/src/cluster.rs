//! A cluster of one master and some storage nodes, as child processes on free ports of this host.

mod disk;

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use mooncake_http::admin;

use self::disk::DiskFolder;
use crate::process::{Process, SpawnError};
use crate::stop::Stop;

/// How long the master and the nodes may take to start.
const START_DEADLINE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
/// The cluster id of the cluster. Clients of other clusters are refused, whatever the environment says.
pub(crate) const CLUSTER_ID: &str = "replay";
/// How often the cluster is started before an error counts. Another process may take a free port before the child
/// binds it.
const START_ATTEMPTS: u32 = 3;

/// The size and the programs of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The folder of `mooncake`, `mooncake_master` and `mooncake_client`.
    pub(crate) programs: PathBuf,
    /// How many storage nodes to start.
    pub(crate) nodes: usize,
    /// Memory that each node lends, in bytes.
    pub(crate) segment_bytes: u64,
    /// How long a lease lasts, in milliseconds.
    pub(crate) lease_ms: u64,
    /// The folder in which nodes lend disks, if they do.
    pub(crate) disk: Option<PathBuf>,
}

/// A running cluster. Dropping it stops all processes.
pub(crate) struct Cluster {
    // Fields are dropped in this order, so that nodes can unmount from a running master.
    nodes: Vec<Process>,
    master: Process,
    ports: Ports,
    disk: Option<DiskFolder>,
}

/// Why a cluster does not run, or ended.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("no free port on this host: {reason}")]
    NoFreePort { reason: String },
    #[error("no disk can be lent in {}: {reason}", folder.display())]
    NoDisk { folder: PathBuf, reason: String },
    #[error("{name} ended ({status}); its last output:\n{output}")]
    Ended { name: String, status: ExitStatus, output: String },
    #[error("{what} within {} s; last output of {name}:\n{output}", START_DEADLINE.as_secs())]
    TooLate { what: String, name: String, output: String },
    #[error("stopped while the cluster was starting")]
    Stopped,
}

#[derive(Clone, Copy)]
struct Ports {
    rpc: u16,
    admin: u16,
}

impl Cluster {
    /// Starts the plan's processes, and returns when they serve. The calling thread must live as long as the cluster
    /// ([`Process::spawn`]).
    pub(crate) fn start(plan: &Plan, stop: &Stop) -> Result<Cluster, ClusterError> {
        let mut attempt = 1;
        loop {
            match Self::start_once(plan, stop) {
                Err(ClusterError::Ended { output, .. })
                    if attempt < START_ATTEMPTS && names_a_taken_port(&output) =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// The RPC address of the master, `host:port`.
    pub(crate) fn master(&self) -> String {
        format!("127.0.0.1:{}", self.ports.rpc)
    }

    /// The address of the master's admin server, `host:port`.
    pub(crate) fn admin(&self) -> String {
        format!("127.0.0.1:{}", self.ports.admin)
    }

    /// An error with the last output of a process, if one has ended.
    pub(crate) fn check(&mut self) -> Result<(), ClusterError> {
        for process in self.nodes.iter_mut().chain([&mut self.master]) {
            if let Some(status) = process.ended() {
                process.stop();
                let (name, output) = (process.name().to_owned(), process.last_output());
                return Err(ClusterError::Ended { name, status, output });
            }
        }
        Ok(())
    }

    fn start_once(plan: &Plan, stop: &Stop) -> Result<Cluster, ClusterError> {
        let ports =
            free_ports().map_err(|error| ClusterError::NoFreePort { reason: error.to_string() })?;
        let launcher = plan.programs.join("mooncake");
        let spawn = |name: &str, program: &str, args: &[String]| {
            Process::spawn(name, &launcher, &plan.programs.join(program), args)
        };
        let disk = plan.disk.as_deref().map(|folder| {
            let failed = |error: io::Error| ClusterError::NoDisk {
                folder: folder.to_owned(),
                reason: error.to_string(),
            };
            DiskFolder::new(folder).map_err(failed)
        });
        let disk = disk.transpose()?;
        let master = spawn("mooncake_master", "mooncake_master", &master_args(plan, ports))?;
        let mut cluster = Cluster { nodes: Vec::new(), master, ports, disk };
        cluster
            .wait("the master did not serve", stop, |admin| admin::get(admin, "/health").is_ok())?;
        let mut args = node_args(plan, &cluster.master());
        if let Some(disk) = &cluster.disk {
            args.push("--enable_offload=true".to_owned());
            args.push(format!("--ssd_offload_path={}", disk.path().display()));
        }
        for number in 1..=plan.nodes {
            let name = format!("mooncake_client {number}");
            cluster.nodes.push(spawn(&name, "mooncake_client", &args)?);
        }
        let nodes = plan.nodes;
        cluster.wait(&format!("{nodes} nodes did not mount their segments"), stop, |admin| {
            admin::get(admin, "/get_all_segments").is_ok_and(|names| names.lines().count() >= nodes)
        })?;
        Ok(cluster)
    }

    fn wait(
        &mut self,
        failure: &str,
        stop: &Stop,
        ready: impl Fn(&str) -> bool,
    ) -> Result<(), ClusterError> {
        let deadline = Instant::now() + START_DEADLINE;
        while !ready(&self.admin()) {
            self.check()?;
            if stop.requested() {
                return Err(ClusterError::Stopped);
            }
            if Instant::now() >= deadline {
                let process = self.nodes.last().unwrap_or(&self.master);
                let (name, output) = (process.name().to_owned(), process.last_output());
                return Err(ClusterError::TooLate { what: failure.to_owned(), name, output });
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.ask_to_stop();
        }
        self.nodes.clear();
    }
}

/// The arguments of the master. It evicts only when a put finds no room, as the LRU cache in the report does.
fn master_args(plan: &Plan, ports: Ports) -> Vec<String> {
    let offloads = plan.disk.is_some();
    vec![
        "--rpc_address=127.0.0.1".to_owned(),
        format!("--rpc_port={}", ports.rpc),
        "--metrics_host=127.0.0.1".to_owned(),
        format!("--metrics_port={}", ports.admin),
        format!("--default_kv_lease_ttl={}", plan.lease_ms),
        "--eviction_high_watermark_ratio=1.0".to_owned(),
        format!("--cluster_id={CLUSTER_ID}"),
        "--auth_token=".to_owned(),
        "--state_dir=none".to_owned(),
        format!("--enable_offload={offloads}"),
        format!("--offload_on_evict={offloads}"),
    ]
}

/// The arguments of a node, which chooses a free port itself.
fn node_args(plan: &Plan, master: &str) -> Vec<String> {
    vec![
        "--host=127.0.0.1".to_owned(),
        format!("--master_server_address={master}"),
        format!("--global_segment_size={}", plan.segment_bytes),
        "--local_buffer_size=0".to_owned(),
        format!("--cluster_id={CLUSTER_ID}"),
        "--auth_token=".to_owned(),
    ]
}

/// Two ports that were free a moment ago.
fn free_ports() -> io::Result<Ports> {
    let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (rpc, admin) = (listen()?, listen()?);
    Ok(Ports { rpc: rpc.local_addr()?.port(), admin: admin.local_addr()?.port() })
}

fn names_a_taken_port(output: &str) -> bool {
    let output = output.to_ascii_lowercase();
    output.contains("in use") || output.contains("taken")
}

/// The folder of this executable, which also holds the other programs.
pub(crate) fn programs_folder() -> io::Result<PathBuf> {
    let executable = std::env::current_exe()?;
    Ok(executable.parent().unwrap_or(Path::new("/")).to_owned())
}

#[cfg(test)]
mod tests;
