//! The command line of `mooncake doctor`.

use clap::Parser;

use crate::auth_token::TokenFlags;

/// Say how bytes travel between this host and each segment of a pool, and why.
///
/// Between processes of one host and one user, the memory of a node is mapped and copied directly (shm). Where it
/// cannot be mapped, the kernel copies it (process_vm). All other bytes travel by tcp. For each segment of the master,
/// this program connects to the node as a client does. It prints the way, the reason, and the time of an empty
/// request. For each GPU of this host it prints how memory is copied to segments, and how fast. It is the only program
/// that loads the CUDA driver itself, and it uses 64 MiB of each GPU for a moment. Run it as the user, and in the
/// container, of the engine that is too slow.
///
/// It also examines the disk and the object store that MOONCAKE_OFFLOAD_* and MOONCAKE_OBJECT_STORE_URL name, and the
/// directory that hosts share. For each it prints the room, the way of bytes and the speed. To measure the speed it
/// writes up to 64 MiB, and removes them.
///
/// It lists the devices that libfabric finds, which MC_LIBFABRIC_PATH and MOONCAKE_FABRIC_PROVIDER narrow down. Nothing
/// uses them yet.
///
/// MOONCAKE_TRANSPORTS and MC_STORE_CLUSTER_ID apply as for a client. The exit status is 1 if the master or a node
/// cannot be reached, or if a disk or object store cannot be used.
#[derive(Debug, Parser)]
#[command(name = "mooncake doctor", max_term_width = 110)]
pub(super) struct DoctorArgs {
    /// Address of the master for clients and nodes. Several masters are separated by commas or semicolons. Or the
    /// coordinator that knows the leader: etcd://HOST:PORT;HOST:PORT, redis://, k8s:// or file://.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    pub(super) master: String,
    /// The same as --master.
    #[arg(value_name = "HOST:PORT", conflicts_with = "master")]
    pub(super) given: Vec<String>,
    /// The admin HTTP server of the leader, which lists the segments; of several, the first that does [default: the
    /// leader's host, port 9003].
    #[arg(long, value_name = "HOST:PORT", alias = "master_http")]
    pub(super) master_http: Option<String>,
    /// Cluster id of the pool [default: that of clients].
    #[arg(long, value_name = "ID", alias = "cluster_id")]
    pub(super) cluster_id: Option<String>,
    #[command(flatten)]
    pub(super) token: TokenFlags,
}
