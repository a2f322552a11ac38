//! The command line of `mooncake doctor`.

use clap::Parser;

use crate::auth_token::TokenFlags;

/// Say which way this host would take to each segment of a pool, and why.
///
/// Between processes of one host and one user the memory of a node is mapped and copied directly (shm); where it
/// cannot be mapped, the kernel copies it (process_vm); all other bytes travel by tcp. For each segment that the master
/// knows, this asks its node where it runs, connects as a client would, and prints the way, the reason, and how long an
/// empty question takes. For each GPU of this host it prints how its memory is copied to segments, and how fast: it is the one
/// program that loads the CUDA driver by itself, and takes 64 MiB of each GPU for a moment. Run it as the user, and in the container, of the engine that is too slow.
///
/// Of the disk and the object store that MOONCAKE_OFFLOAD_* and MOONCAKE_OBJECT_STORE_URL name for nodes, and of the directory that
/// hosts share, it prints the room, the way of bytes and the speed. It writes up to 64 MiB to each for that, and removes them.
///
/// MOONCAKE_TRANSPORTS and MC_STORE_CLUSTER_ID count as they do for a client. The exit status is 1 if
/// the master or a node cannot be reached, or a disk or object store cannot be used.
#[derive(Debug, Parser)]
#[command(name = "mooncake doctor", max_term_width = 110)]
pub(super) struct DoctorArgs {
    /// The address where clients and nodes reach the master. Several masters, of which one leads, with commas or semicolons
    /// between them; or the coordinator that knows the leader: etcd://HOST:PORT;HOST:PORT, redis://, k8s:// or file://.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50051")]
    pub(super) master: String,
    /// The admin HTTP server of the leader, which lists the segments [default: the leader's host, port 9003].
    #[arg(long, value_name = "HOST:PORT", alias = "master_http")]
    pub(super) master_http: Option<String>,
    /// The cluster id of the pool [default: that of clients].
    #[arg(long, value_name = "ID", alias = "cluster_id")]
    pub(super) cluster_id: Option<String>,
    #[command(flatten)]
    pub(super) token: TokenFlags,
}
