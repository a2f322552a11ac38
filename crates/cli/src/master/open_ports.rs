//! Warns of ports that other hosts reach without a secret.

use std::io;
use std::net::SocketAddr;

use mooncake_master::Master;
use tracing::warn;

use super::MasterFlags;

/// Names in one line each port that is open to other hosts and that no token protects, with what can be done there.
pub(super) fn warn(flags: &MasterFlags, master: &Master) {
    if flags.rpc.insecure.0 {
        return;
    }
    let open = open(flags, master);
    let hint = match flags.rpc.auth_token.is_empty() {
        true => "no --auth_token and no --auth_token_file",
        false => "no token protects these ports",
    };
    if !open.is_empty() {
        warn!("{hint}: every host that reaches {}", open.join("; every host that reaches "));
    }
}

fn open(flags: &MasterFlags, master: &Master) -> Vec<String> {
    let has_token = !flags.rpc.auth_token.is_empty();
    let mut open = Vec::new();
    let mut look = |is_protected: bool, address: io::Result<Option<SocketAddr>>, what: &str| {
        if let Ok(Some(address)) = address
            && !is_protected
            && !address.ip().is_loopback()
        {
            open.push(what.replace("{}", &address.to_string()));
        }
    };
    look(has_token, master.rpc_addr(), "the RPC port {} may use the store");
    look(
        has_token,
        master.admin_addr(),
        "the admin HTTP port {} may remove all objects (--metrics_host gives another address)",
    );
    look(
        !flags.metadata.http_metadata_server_token.is_empty(),
        master.metadata_addr(),
        "the metadata server {} may change what it holds (--http_metadata_server_host gives another address)",
    );
    for address in master.kv_event_addrs() {
        look(has_token, address.map(Some), "the KV event port {} may learn which keys are stored");
    }
    open
}
