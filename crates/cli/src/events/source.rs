//! Where a pool publishes its events.

use mooncake_types::host_port::{join, split};
use serde::Deserialize;

use super::EventsArgs;
use crate::admin_masters::Masters;
use crate::objects::outcome::CommandError;

#[derive(Deserialize)]
struct KvEventStatus {
    enabled: bool,
    endpoint: Option<String>,
}

/// The address of the publisher, `host:port`: the one that is given, or that the leader names.
pub(super) fn endpoint(args: &EventsArgs, token: &str) -> Result<String, CommandError> {
    if let Some(endpoint) = &args.endpoint {
        return Ok(endpoint.clone());
    }
    let addresses = args.pool.admin_addresses().map_err(CommandError::failed)?;
    let mut masters = Masters::at(&addresses, token.to_owned());
    let status = masters.ask_leader::<KvEventStatus>("/kv_events/status");
    let (address, status) = status.map_err(|error| CommandError::failed(error.to_string()))?;
    match status {
        KvEventStatus { enabled: true, endpoint: Some(endpoint) } => {
            Ok(reached(&endpoint, &address))
        }
        _ => Err(CommandError::failed(format!(
            "the master at {address} publishes no events: start it with --enable_kv_events"
        ))),
    }
}

/// The endpoint as others reach it: one at all addresses is on the host of the admin server.
fn reached(endpoint: &str, admin: &str) -> String {
    let place = endpoint.strip_prefix("tcp://").unwrap_or(endpoint);
    match (split(place), split(admin)) {
        (Ok(("0.0.0.0" | "::", Some(port))), Ok((host, _))) => join(host, port),
        _ => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_at_all_addresses_is_sought_beside_the_admin_server() {
        for (endpoint, admin, expected) in [
            ("tcp://0.0.0.0:5557", "m1:9003", "m1:5557"),
            ("tcp://[::]:5557", "[fe80::1]:9003", "[fe80::1]:5557"),
            ("tcp://10.0.0.1:5557", "m1:9003", "10.0.0.1:5557"),
        ] {
            assert_eq!(reached(endpoint, admin), expected, "{endpoint}");
        }
    }
}
