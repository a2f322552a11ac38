//! `mooncake doctor`: how bytes travel between this host, each segment of a pool and its GPUs, and why; how fast its
//! disks and object store are; and what libfabric and libibverbs find. Enter at [`main`].

mod args;
mod devices;
mod fabric;
mod tiers;
mod verbs;

use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

use mooncake_client::{FoundLeader, OpenError, StoreConfig, find_leader, open_fabric_device};
use mooncake_fabric::{DeviceOptions, VerbsOptions};
use mooncake_http::admin;
use mooncake_transfer::{Paths, TcpConfig, Way};
use mooncake_types::{ByteSize, ClientId};

use crate::exit::{self, complain, say};
use crate::master_http;
use crate::segment_list::{self, ListedSegment};
use args::DoctorArgs;

/// Most segments that are examined.
const MOST_EXAMINED: usize = 4096;

/// The flags of the program.
pub(crate) fn command() -> clap::Command {
    <DoctorArgs as clap::CommandFactory>::command()
}

/// Runs the program with `args`, which lack its name. The status is 0 if the leader and all nodes answer and all disks
/// work, 1 if not, and 2 for wrong arguments.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let mut args: DoctorArgs = match exit::parse("mooncake doctor", args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    if !args.given.is_empty() {
        args.pool.master = Some(args.given.join(","));
    }
    let examined = examine(&args);
    let fabric = DeviceOptions::from_variables(|name| std::env::var(name).ok());
    say(format_args!("{}", fabric::describe(&fabric)));
    let nics = VerbsOptions::from_variables(|name| std::env::var(name).ok());
    match &nics {
        Ok(options) => say(format_args!("{}", verbs::describe(options))),
        Err(error) => say(format_args!("\nno NIC of libibverbs can be used: {error}\n")),
    }
    say(format_args!("{}", devices::describe(nics.as_ref().ok())));
    match examined {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            complain(format_args!("mooncake doctor: {reason}\n"));
            ExitCode::FAILURE
        }
    }
}

/// Prints the findings. True if all nodes could be reached, and all disks and object stores work.
fn examine(args: &DoctorArgs) -> Result<bool, String> {
    let mut config = StoreConfig::from_env().map_err(|error| error.to_string())?;
    if args.protocol == "rdma" {
        let with = config.for_rdma(&args.device_names, |name| std::env::var(name).ok());
        config = with.map_err(|error| error.to_string())?;
    }
    if let Some(cluster_id) = &args.pool.cluster_id {
        config.cluster_id.clone_from(cluster_id);
    }
    config.master = args.pool.master();
    config.auth_token = args.token.token().map_err(|error| error.to_string())?.into();
    let FoundLeader { address: leader, shared_directory } =
        find_leader(&config).map_err(|error| explain(&error, &config.master))?;
    let tcp = TcpConfig {
        cluster_id: config.cluster_id.clone(),
        auth_token: config.auth_token.clone(),
        // Nothing is recorded under this id, since the program only greets nodes and reads.
        client: ClientId(u128::from(std::process::id())),
        transfer_timeout: config.transfer_timeout,
        ..TcpConfig::default()
    };
    // Without a device, what the libraries find is told at the end.
    let is_wanted = config.transports.prefers(Way::Fabric);
    let device = is_wanted.then(|| open_fabric_device(&config).ok());
    let paths = Paths::new(None, tcp, config.transports.clone()).with_fabric(device.flatten());
    let mut listed = list(args, &leader)?;
    // The bytes of a disk travel by its node, which is examined as the owner of its memory segment.
    listed.retain(ListedSegment::is_memory);
    listed.truncate(MOST_EXAMINED);
    say(format_args!(
        "master {}: {} segments\nthis process: user {}, transports {}\n",
        leader,
        listed.len(),
        mooncake_memory::own_uid(),
        config.transports
    ));
    if !mooncake_memory::copies_are_checked() {
        say(format_args!("warning: {}\n", mooncake_memory::UNCHECKED));
    }
    let mut all_reached = true;
    for segment in &listed {
        let (text, reached) = describe(&paths, segment);
        say(format_args!("\n{text}"));
        all_reached &= reached;
    }
    let (text, are_well) =
        tiers::describe(&config.offload, shared_directory.as_ref(), &config.cluster_id);
    say(format_args!("{text}"));
    Ok(all_reached && are_well)
}

/// The segments, as the first admin server that lists them says.
fn list(args: &DoctorArgs, leader: &str) -> Result<Vec<ListedSegment>, String> {
    let (servers, hint) = match args.pool.named_admin() {
        Some(text) => (master_http::addresses(&text, args.pool.cluster_id.as_deref())?, ""),
        None => (vec![admin::beside(leader)], "; --master-http names another place"),
    };
    let mut reasons = Vec::new();
    for server in &servers {
        match segment_list::list(server) {
            Ok(listed) => return Ok(listed),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(reasons.join("; ") + hint)
}

/// Why no leader was found. For a single address, with a hint to name all masters.
fn explain(error: &OpenError, master: &str) -> String {
    let is_one = !master.contains([',', ';']) && !master.contains("://");
    let hint = match error {
        OpenError::NoLeader { .. } if is_one => {
            "; of several masters name all with commas between them, or what knows the leader, like etcd://HOST:PORT"
        }
        _ => "",
    };
    format!("{error}{hint}")
}

fn describe(paths: &Paths, segment: &ListedSegment) -> (String, bool) {
    let endpoint: Arc<str> = segment.endpoint.as_str().into();
    let found = paths.examine(&endpoint, segment.id);
    let size = ByteSize(segment.len_bytes);
    let mut text =
        format!("segment {} of {} ({size}) at {}\n", segment.id, segment.name, segment.endpoint);
    if !segment.domains.is_empty() {
        let _ = writeln!(text, "  domains     {}", segment.domains.join(", "));
    }
    let way = found.way.map_or("none", |way| way.name());
    let _ = writeln!(text, "  way         {way}\n  because     {}", found.why);
    let _ = match found.round_trip {
        Some(time) => writeln!(text, "  round trip  {:.1} us", time.as_secs_f64() * 1e6),
        None => writeln!(text, "  round trip  no answer"),
    };
    (text, found.round_trip.is_some() && found.way.is_some())
}
