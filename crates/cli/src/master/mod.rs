//! The master, `mooncake_master`.

mod absent;
mod flags;
mod grpc;
mod kv_events;
mod leadership;
mod open_ports;
mod settings;
mod tenants;

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use mooncake_master::LeadershipConfig;
use tokio::sync::oneshot;
use tracing::{info, warn};

pub use flags::{
    AcceptedFlags, AdminFlags, AllocatorName, BackendName, DiskFlags, EvictionName,
    LeadershipFlags, MasterFlags, MetadataFlags, ObjectFlags, PoolFlags, RpcFlags, StrategyName,
    TaskFlags,
};

#[cfg(test)]
pub(crate) use self::absent::names as flags_of_absent_features;
pub use self::leadership::LeadershipEnvironment;
use crate::command_line::{self, Parsed, UsageError, Variable};
use crate::stop_signal::StopSignal;
use crate::tls_flags::TlsFlags;
use crate::{auth_token, config_file, exit, glog, logging, no_effect, open_files};

const NAME: &str = "mooncake_master";

/// Runs the master with these arguments (without the program's name) until SIGINT, SIGTERM or SIGHUP.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let variable = |flag, name| Variable { flag, value: std::env::var(name).ok() };
    let variables = [
        variable("auth_token", "MOONCAKE_AUTH_TOKEN"),
        variable("auth_token_file", "MOONCAKE_AUTH_TOKEN_FILE"),
        variable("insecure", "MOONCAKE_INSECURE"),
        variable("auth_roles_file", "MOONCAKE_AUTH_ROLES_FILE"),
        variable("busy_poll_us", "MOONCAKE_BUSY_POLL_US"),
        variable("slow_call_ms", "MOONCAKE_SLOW_CALL_MS"),
        variable("otel_endpoint", "MOONCAKE_OTEL_ENDPOINT"),
        variable("metadata_cluster_id", "MC_METADATA_CLUSTER_ID"),
        variable("http_metadata_server_token", "MC_METADATA_HTTP_TOKEN"),
        variable("pod_name", "POD_NAME"),
        variable("pod_namespace", "POD_NAMESPACE"),
    ];
    let flags = match parse(args, &[&variables[..], &TlsFlags::variables()].concat()) {
        Ok(flags) => flags,
        Err(error) => return exit::usage(NAME, &error),
    };
    logging::start_of(NAME, flags.log_level, flags.log_format);
    no_effect::warn_of(&flags.without_effect);
    config_file::warn_of(&flags.unknown_keys);
    let wanted_by = format!("--max_connections={}", flags.rpc.max_connections);
    // With TLS a connection has a socket to the peer and a pair of sockets to the threads that encrypt.
    let sockets = if flags.tls.config().is_off() { 1 } else { 3 };
    open_files::allow_many(flags.rpc.max_connections as u64 * sockets, &wanted_by);
    match serve(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => exit::failure(NAME, &reason),
    }
}

/// The flags of the program, without those that have no effect.
pub(crate) fn command() -> clap::Command {
    MasterFlags::command()
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// See [`UsageError`].
pub fn parse(args: &[String], variables: &[Variable]) -> Result<MasterFlags, UsageError> {
    let command = glog::add_to(absent::add_to(MasterFlags::command()));
    let Parsed { matches, unknown_keys } = command_line::parse(command, args, variables)?;
    let mut flags = MasterFlags::from_arg_matches(&matches)
        .map_err(|error| UsageError::Value(error.to_string()))?;
    let is_given = |flag: &str| matches.value_source(flag) != Some(ValueSource::DefaultValue);
    flags.metadata.enable_if_described(is_given);
    flags.leadership.check_intent(is_given).map_err(UsageError::Value)?;
    flags.check().map_err(UsageError::Value)?;
    flags.without_effect = no_effect::given(&matches);
    flags.unknown_keys = unknown_keys;
    flags.rpc.auth_token =
        auth_token::read(&flags.rpc.auth_token, &flags.rpc.auth_token_file)?.into();
    Ok(flags)
}

fn serve(flags: &MasterFlags) -> Result<(), String> {
    let mut stop = StopSignal::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let config = flags.settings(LeadershipEnvironment::look())?;
    if flags.leadership.forgets()
        && matches!(&config.leadership, LeadershipConfig::Alone { state_dir: None })
    {
        warn!(
            "neither XDG_STATE_HOME nor HOME is set: this master keeps no state file, and when it is started again it \
             does not know which nodes to wait for; give it a --state_dir, or --state_dir=none to have none"
        );
    }
    let bound = mooncake_master::Master::bind(config.clone());
    let mut master = bound.map_err(|error| error.to_string())?;
    let _gateway = grpc::serve(&mut master, &config)?;
    if config.pod.is_none() && !flags.leadership.pod_name.is_empty() {
        info!(
            "no pod is labelled: that needs --enable_ha, --pod_name and --pod_namespace, and Kubernetes around it"
        );
    }
    note_what_has_no_effect(flags);
    open_ports::warn(flags, &master);
    let (stopped, stopping) = oneshot::channel();
    std::thread::spawn(move || {
        let signal = stop.wait();
        info!("stopping on {signal}");
        // The send fails only if the master has ended by itself.
        let _ = stopped.send(());
    });
    let shutdown = async {
        // If the signal thread is gone, no stop will ever be requested.
        if stopping.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    master.serve(shutdown).map_err(|error| error.to_string())
}

fn note_what_has_no_effect(flags: &MasterFlags) {
    if let Some((strategy, instead)) = flags.pool.replaced_strategy() {
        warn!("--allocation_strategy={strategy} is taken for {instead} in this build");
    }
    if flags.disks.leaves_directory() {
        warn!(
            "--root_fs_dir has no effect with --enable_offload: objects go to the disks of their nodes, and to no \
             shared directory"
        );
    }
    let metadata = &flags.metadata;
    if metadata.enable_metadata_cleanup_on_timeout.0 && !metadata.enable_http_metadata_server.0 {
        warn!(
            "--enable_metadata_cleanup_on_timeout has no effect without --enable_http_metadata_server: only the \
             master's own metadata server is cleaned up"
        );
    }
}
