//! The storage node of a pool, `mooncake_client`.

mod dummies;
mod flags;
mod waiting;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use mooncake_client::no_effect::protocol_warning;
use mooncake_client::{OffloadConfig, Store, StoreConfig};
use tracing::{info, warn};

pub use flags::{AcceptedFlags, ClientFlags, DummyFlags, HttpFlags, MasterAddressFlags, NodeFlags};

use crate::command_line::{self, Parsed, UsageError, Variable};
use crate::stop_signal::StopSignal;
use crate::tls_flags::TlsFlags;
use crate::{auth_token, config_file, exit, glog, logging, no_effect, open_files};

const NAME: &str = "mooncake_client";
const RDMA: &str = "rdma";

/// A node whose open files leave room for fewer connections warns of that.
const FEW_CONNECTIONS: u64 = 512;

/// Runs a storage node with these arguments (without the program's name) until SIGINT, SIGTERM or SIGHUP.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let variable = |flag, name| Variable { flag, value: std::env::var(name).ok() };
    let variables = [
        variable("cluster_id", "MC_STORE_CLUSTER_ID"),
        variable("auth_token", "MOONCAKE_AUTH_TOKEN"),
        variable("auth_token_file", "MOONCAKE_AUTH_TOKEN_FILE"),
        variable("auth_roles_file", "MOONCAKE_AUTH_ROLES_FILE"),
        variable("advertise_address", "MOONCAKE_ADVERTISE_ADDRESS"),
        variable("domain", "MOONCAKE_DOMAIN"),
        variable("tenant_id", "MOONCAKE_TENANT_ID"),
        variable("segment_path", "MOONCAKE_SEGMENT_PATH"),
        variable("segment_reset", "MOONCAKE_SEGMENT_RESET"),
        variable("verify_reads", "MOONCAKE_VERIFY_READS"),
        variable("enable_offload", "MOONCAKE_OFFLOAD_ENABLED"),
        variable("ssd_offload_path", "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH"),
        variable("ssd_offload_size", "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES"),
        variable("object_store_url", "MOONCAKE_OBJECT_STORE_URL"),
        variable("object_store_size", "MOONCAKE_OBJECT_STORE_SIZE_BYTES"),
        variable("drain_timeout_sec", "MOONCAKE_DRAIN_TIMEOUT_SEC"),
        variable("put_wait_ms", "MOONCAKE_PUT_WAIT_MS"),
        variable("slow_call_ms", "MOONCAKE_SLOW_CALL_MS"),
        variable("otel_endpoint", "MOONCAKE_OTEL_ENDPOINT"),
        variable("wait_for_master", "MOONCAKE_WAIT_FOR_MASTER"),
    ];
    let flags = match parse(args, &[&variables[..], &TlsFlags::variables()].concat()) {
        Ok(flags) => flags,
        Err(error) => return exit::usage(NAME, &error),
    };
    logging::start_of(NAME, flags.log_level, flags.log_format);
    let is_rdma = flags.node.protocol == RDMA;
    let mut without_effect = flags.without_effect.clone();
    without_effect.retain(|flag| !(is_rdma && flag == "--device_names"));
    no_effect::warn_of(&without_effect);
    config_file::warn_of(&flags.unknown_keys);
    if let Some(warning) = protocol_warning(&flags.node.protocol).filter(|_| !is_rdma) {
        warn!("{warning}");
    }
    open_files::allow_many(FEW_CONNECTIONS, "connections of other processes");
    match host(&flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => exit::failure(NAME, &reason),
    }
}

/// The flags of the program, without those that have no effect.
pub(crate) fn command() -> clap::Command {
    ClientFlags::command()
}

/// Reads a command line, without the program's name.
///
/// # Errors
/// See [`UsageError`]. A flag that turns on a feature that this build lacks is an error.
pub fn parse(args: &[String], variables: &[Variable]) -> Result<ClientFlags, UsageError> {
    let command = glog::add_to(ClientFlags::command());
    let Parsed { matches, unknown_keys } = command_line::parse(command, args, variables)?;
    let mut flags = ClientFlags::from_arg_matches(&matches)
        .map_err(|error| UsageError::Value(error.to_string()))?;
    flags.check().map_err(UsageError::Value)?;
    flags.without_effect = no_effect::given(&matches);
    flags.unknown_keys = unknown_keys;
    let master = &mut flags.master;
    master.auth_token = auth_token::read(&master.auth_token, &master.auth_token_file)?.into();
    Ok(flags)
}

fn host(flags: &ClientFlags) -> Result<(), String> {
    let mut environment = StoreConfig::from_env().map_err(|error| error.to_string())?;
    if flags.node.protocol == RDMA {
        let devices = &flags.accepted.device_names;
        let with = environment.for_rdma(devices, |name| std::env::var(name).ok());
        environment = with.map_err(|error| error.to_string())?;
    }
    let offload = OffloadConfig {
        is_enabled: flags.node.enable_offload.0,
        path: PathBuf::from(&flags.node.ssd_offload_path),
        most_bytes: flags.node.ssd_offload_size.0,
        object_store_url: Some(flags.node.object_store_url.clone()).filter(|url| !url.is_empty()),
        object_store_bytes: flags.node.object_store_size.0,
        ..environment.offload.clone()
    };
    let config = StoreConfig {
        local_hostname: flags.node.host.clone(),
        advertise_address: Some(flags.node.advertise_address.clone()).filter(|it| !it.is_empty()),
        domains: flags.node.domain.clone(),
        master: flags.master.master_server_address.clone(),
        tenant: flags.dummies.tenant()?,
        segment_bytes: flags.node.global_segment_size.0,
        segment_path: Some(&flags.node.segment_path).filter(|it| !it.is_empty()).map(PathBuf::from),
        segment_reset: flags.node.segment_reset.0,
        verify_reads: flags.node.verify_reads.0,
        local_buffer_bytes: flags.node.local_buffer_size.0,
        http: flags.http.address(),
        cluster_id: flags.master.cluster_id.clone(),
        auth_token: flags.master.auth_token.clone(),
        roles_file: Some(&flags.master.auth_roles_file)
            .filter(|it| !it.is_empty())
            .map(PathBuf::from),
        tls: flags.tls.config(),
        put_wait: Duration::from_millis(flags.node.put_wait_ms.into()),
        slow_call: Duration::from_millis(flags.slow_call_ms.into()),
        otel_endpoint: flags.otel_endpoint.0.clone(),
        // On a signal, `host` decides whether to drain.
        drain_timeout: Duration::ZERO,
        preferred_port: flags.dummies.data_port(),
        wait_for_master: waiting::waits(flags.master.wait_for_master),
        offload,
        ..environment
    };
    let master = mooncake_types::without_password(&config.master);
    let starting = Arc::new(AtomicBool::new(true));
    let stop = StopSignal::catch_after_start(&starting);
    let mut stop = stop.map_err(|error| format!("cannot catch signals: {error}"))?;
    let store = Arc::new(Store::open(config).map_err(|error| error.to_string())?);
    starting.store(false, Ordering::SeqCst);
    let dummies = dummies::serve(&flags.dummies, &flags.master.auth_token, &store)?;
    if let Some(http_addr) = store.http_address() {
        info!(%http_addr, "the HTTP server of the storage node serves");
    }
    info!(
        address = store.hostname(),
        segment = %flags.node.global_segment_size,
        master,
        "the storage node is ready"
    );
    let signal = stop.wait();
    info!("stopping on {signal}");
    let again = stop.watch();
    let patience = Duration::from_secs(flags.node.drain_timeout_sec.into());
    // An operator who presses Ctrl-C wants the program to end at once. Other signals leave time to drain.
    if signal != "SIGINT" && !patience.is_zero() {
        // `hand_over` logs its outcome.
        let _ = store.hand_over(patience, || !again.has_come());
    }
    if let Some(dummies) = dummies {
        dummies.stop();
    }
    store.close();
    Ok(())
}
