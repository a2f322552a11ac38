//! A run, from its start to the verdict.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;

use crate::broken;
use crate::check::Evidence;
use crate::cluster::{CLIENT_TTL_S, Cluster};
use crate::fault::FaultInjector;
use crate::history::{self, Holders};
use crate::monotonic::{SECOND_NS, now_ns};
use crate::net::{HostIsolation, Network};
use crate::process::write;
use crate::report;

/// How long the run has no faults at first, so that there are objects to lose.
const CALM_NS: u64 = 3 * SECOND_NS;

/// Time between two calls of [`FaultInjector::go_on`].
const STEP: Duration = Duration::from_millis(50);

/// How long the run waits after the last fault. By then the masters know which nodes are gone and which are back.
const SETTLE: Duration = Duration::from_secs(CLIENT_TTL_S + 6);

/// How many violations are printed with the history of their key. All histories are written to files.
const PRINTED: usize = 3;

/// Most lines of one history that are printed.
const PRINTED_LINES: usize = 400;

/// The arguments of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// How long there are faults, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Selects the faults and their times [default: random]. Processes run freely in between, so no two runs are
    /// alike.
    #[arg(long)]
    seed: Option<u64>,
    /// Folder for logs and histories. It is removed at the end if there was no violation.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Keep the folder in any case.
    #[arg(long)]
    keep: bool,
    /// Use the loopback interface even if namespaces are available. The network then has no faults.
    #[arg(long)]
    loopback: bool,
    /// Only kinds of faults whose names contain these words, such as "node killed". May be repeated.
    #[arg(long, value_name = "WORDS")]
    only: Vec<String>,
    /// Break this rule in all processes, to check that the run detects it; `?` lists the rules.
    #[arg(long, value_name = "RULE", value_parser = broken::parse)]
    broken: Option<String>,
    /// Nodes and every second client move bytes one-sided, over the provider `tcp` of libfabric.
    #[arg(long)]
    fabric: bool,
}

/// Runs the cluster. True if there was no violation.
///
/// # Errors
/// If the run could not begin or finish.
pub(crate) fn main(args: &RunArgs) -> Result<bool, String> {
    let seed = args.seed.unwrap_or_else(|| now_ns() % 1_000_000);
    let folder = args.folder.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("mooncake-chaos-seed-{seed}-{}", std::process::id()))
    });
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    println!("SEED={seed} SECONDS={}, logs and histories in {}", args.seconds, folder.display());
    let is_well = drive(args, seed, &folder);
    if matches!(is_well, Ok(true)) && !args.keep {
        // A folder that remains does no harm.
        let _ = fs::remove_dir_all(&folder);
    }
    is_well
}

fn kind(args: &RunArgs) -> HostIsolation {
    if !args.loopback && Network::can_have_namespaces() {
        return HostIsolation::Namespaces;
    }
    println!(
        "WARNING: no network namespaces (root, CAP_NET_ADMIN or user namespaces are needed): all \
         hosts are loopback addresses, processes are killed and paused, but NO NETWORK IS BROKEN"
    );
    HostIsolation::Loopback
}

fn drive(args: &RunArgs, seed: u64, folder: &PathBuf) -> Result<bool, String> {
    let is_interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&is_interrupted));
        registered.map_err(|error| error.to_string())?;
    }
    let folder = fs::canonicalize(folder).map_err(|error| error.to_string())?;
    let mut cluster = Cluster::new(kind(args), folder, seed)?;
    cluster.broken.clone_from(&args.broken);
    cluster.fabric = args.fabric;
    if cluster.network.kind == HostIsolation::Namespaces && !cluster.network.delays {
        println!("this kernel has no netem: packets are not delayed, processes stutter instead");
    }
    cluster.start_all()?;
    let mut mischief = FaultInjector::new(seed, &args.only, CALM_NS)?;
    let end_ns = now_ns() + args.seconds * SECOND_NS;
    while now_ns() < end_ns {
        mischief.go_on(&mut cluster)?;
        if let Some(name) = cluster.ended() {
            return Err(format!("{name} has ended by itself; see its log"));
        }
        if is_interrupted.load(Ordering::Relaxed) {
            return Err("interrupted".to_owned());
        }
        std::thread::sleep(STEP);
    }
    mischief.end(&mut cluster)?;
    println!("the faults have ended");
    cluster.wait_for_leader()?;
    std::thread::sleep(SETTLE);
    cluster.stop_clients()?;
    let mut evidence = collect(&cluster, mischief)?;
    let keys = evidence.expected(now_ns()).into_iter();
    let keys = keys.map(|(key, needed)| format!("{key} {needed}\n")).collect::<String>();
    let path = cluster.folder.join("keys");
    write(&path, &keys)?;
    evidence.settled_ns = now_ns();
    cluster.read_everything(&path)?;
    let evidence =
        Evidence { settled_ns: evidence.settled_ns, ..collect_again(&cluster, evidence)? };
    conclude(&evidence, &cluster)
}

fn collect(cluster: &Cluster, mischief: FaultInjector) -> Result<Evidence, String> {
    let faults = mischief.done;
    let empty = Evidence { ops: Vec::new(), holders: Holders::new(), faults, settled_ns: u64::MAX };
    collect_again(cluster, empty)
}

/// Reads all histories of the run.
fn collect_again(cluster: &Cluster, evidence: Evidence) -> Result<Evidence, String> {
    let (mut ops, mut holders) = (Vec::new(), Holders::new());
    let files = fs::read_dir(&cluster.folder).map_err(|error| error.to_string())?;
    for path in files.flatten().map(|file| file.path()) {
        if path.extension().is_some_and(|of| of == "history") {
            let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
            history::read(&text, &mut ops, &mut holders)?;
        }
    }
    for hosts in holders.values_mut() {
        hosts.iter_mut().for_each(|host| *host = cluster.name_of(host));
    }
    Ok(Evidence { ops, holders, ..evidence })
}

/// Judges the run, prints the report, and writes the files that explain violations.
fn conclude(evidence: &Evidence, cluster: &Cluster) -> Result<bool, String> {
    let verdict = evidence.judge();
    let mut faults = String::new();
    for fault in &evidence.faults {
        faults.push_str(&format!(
            "{} to {} {} ({})\n",
            fault.began_ns,
            fault.ended_ns,
            fault.kind,
            fault.hosts.join(", ")
        ));
    }
    write(&cluster.folder.join("faults"), &faults)?;
    for (number, violation) in verdict.violations.iter().enumerate() {
        println!("\nVIOLATION of {}: {}", violation.key, violation.text);
        let history = evidence.history_of(&violation.key);
        write(&cluster.folder.join(format!("{}.violation", violation.key)), &history)?;
        if number < PRINTED {
            println!("its history:");
            let lines: Vec<&str> = history.lines().collect();
            let first = lines.len().saturating_sub(PRINTED_LINES);
            lines[first..].iter().for_each(|line| println!("  {line}"));
        }
    }
    if !verdict.violations.is_empty() {
        println!("\nthe faults, with the same clock:\n{faults}");
    }
    println!("{}", report::text(evidence, &verdict));
    Ok(verdict.violations.is_empty())
}
