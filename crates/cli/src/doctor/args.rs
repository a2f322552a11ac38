//! The command line of `mooncake doctor`.

use clap::Parser;

use crate::auth_token::TokenFlags;
use crate::pool::PoolName;

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
/// It lists the devices that libfabric finds, which MC_LIBFABRIC_PATH and MOONCAKE_FABRIC_PROVIDER narrow down, and the
/// ports and GIDs of the NICs that libibverbs finds, which MC_MS_FILTERS and MC_GID_INDEX narrow down.
///
/// MOONCAKE_TRANSPORTS and MC_STORE_CLUSTER_ID apply as for a client. The exit status is 1 if the master or a node
/// cannot be reached, or if a disk or object store cannot be used.
#[derive(Debug, Parser)]
#[command(name = "mooncake doctor", max_term_width = 110)]
pub(super) struct DoctorArgs {
    /// The same as --master.
    #[arg(value_name = "HOST:PORT", conflicts_with = "master")]
    pub(super) given: Vec<String>,
    #[command(flatten)]
    pub(super) pool: PoolName,
    /// The protocol that clients ask for: tcp or rdma.
    #[arg(long, value_name = "NAME", default_value = "tcp")]
    pub(super) protocol: String,
    /// The NICs that rdma may use, with commas between them; all if it names none.
    #[arg(
        long,
        value_name = "NAMES",
        default_value = "",
        hide_default_value = true,
        alias = "device_names"
    )]
    pub(super) device_names: String,
    #[command(flatten)]
    pub(super) token: TokenFlags,
}
