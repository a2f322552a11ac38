//! The cluster of a replay: one that was started for it, or a running one.

use mooncake_client::{Store, StoreConfig};
use mooncake_http::admin;
use mooncake_types::limits::MIN_SEGMENT_BYTES;
use mooncake_workload::Trace;

use crate::ReplayError;
use crate::args::ReplayArgs;
use crate::cluster::{self, CLUSTER_ID, Cluster, ClusterError, Plan};
use crate::stop::Stop;

use crate::output::complain;

const CAPACITY_METRIC: &str = "master_total_capacity_bytes";
const EVICTION_METRIC: &str = "master_evicted_key_count";

pub(crate) struct Target {
    /// `None` if the cluster was running before: it is not stopped.
    cluster: Option<Cluster>,
    admin: String,
    config: StoreConfig,
    /// How many storage nodes there are, if known.
    pub(crate) nodes: Option<usize>,
    /// Bytes of memory of the whole pool, if known.
    pub(crate) pool_bytes: Option<u64>,
}

impl Target {
    /// Starts a cluster, or uses the one of `--master`.
    pub(crate) fn reach(
        args: &ReplayArgs,
        trace: &Trace,
        stop: &Stop,
    ) -> Result<Target, ReplayError> {
        match &args.master {
            Some(master) => Ok(Self::running(args, master, StoreConfig::from_env()?)),
            None => Self::started(args, trace, stop),
        }
    }

    pub(crate) fn open_clients(&self, clients: u64) -> Result<Vec<Store>, ReplayError> {
        let open = |number| {
            Store::open(self.config.clone()).map_err(|reason| ReplayError::Open { number, reason })
        };
        (1..=clients).map(open).collect()
    }

    /// An error if a process of the started cluster has ended.
    pub(crate) fn check(&mut self) -> Result<(), ClusterError> {
        self.cluster.as_mut().map_or(Ok(()), Cluster::check)
    }

    /// How many blocks the master has evicted since its start; `None` if it does not answer.
    pub(crate) fn evicted_blocks(&self) -> Option<u64> {
        admin::metric(&admin::get(&self.admin, "/metrics").ok()?, EVICTION_METRIC)
    }

    /// Removes the blocks whose keys begin with `prefix`, if the cluster keeps running.
    pub(crate) fn clean(&self, prefix: &str) {
        if self.cluster.is_some() {
            return;
        }
        let removed =
            Store::open(self.config.clone()).map_err(|error| error.to_string()).and_then(|store| {
                store.remove_by_regex(&format!("^{prefix}"), true).map_err(|code| code.to_string())
            });
        if let Err(reason) = removed {
            complain(format_args!(
                "mooncake replay: objects with keys in {prefix} stay in the pool: {reason}\n"
            ));
        }
    }

    fn running(args: &ReplayArgs, master: &str, mut config: StoreConfig) -> Target {
        config = pure_client("0.0.0.0", master, config);
        if let Some(id) = &args.cluster_id {
            config.cluster_id.clone_from(id);
        }
        let admin = args.master_http.clone().unwrap_or_else(|| admin::beside(master));
        let capacity = || admin::metric(&admin::get(&admin, "/metrics").ok()?, CAPACITY_METRIC);
        let pool_bytes = args.pool_bytes.or_else(capacity);
        Target { cluster: None, admin, config, nodes: None, pool_bytes }
    }

    fn started(args: &ReplayArgs, trace: &Trace, stop: &Stop) -> Result<Target, ReplayError> {
        let node_bytes = (args.blocks_per_node(trace)? * args.block_bytes) as u64;
        let plan = Plan {
            programs: cluster::programs_folder().map_err(ReplayError::System)?,
            nodes: args.nodes as usize,
            segment_bytes: node_bytes.max(MIN_SEGMENT_BYTES),
            lease_ms: args.lease_ms,
            disk: args.disk.clone(),
        };
        let cluster = Cluster::start(&plan, stop)?;
        let defaults = StoreConfig { cluster_id: CLUSTER_ID.to_owned(), ..StoreConfig::default() };
        let config = pure_client("127.0.0.1", &cluster.master(), defaults);
        Ok(Target {
            admin: cluster.admin(),
            cluster: Some(cluster),
            config,
            nodes: Some(plan.nodes),
            pool_bytes: Some(plan.segment_bytes * args.nodes),
        })
    }
}

/// The configuration of a store that lends no memory and makes no copies.
fn pure_client(host: &str, master: &str, config: StoreConfig) -> StoreConfig {
    StoreConfig {
        local_hostname: host.to_owned(),
        master: master.to_owned(),
        segment_bytes: 0,
        local_buffer_bytes: 0,
        ..config
    }
}
