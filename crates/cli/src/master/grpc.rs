//! Serves gRPC on the master's port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mooncake_grpc::{Arrival, Gateway, GatewayConfig};
use mooncake_master::{Config, Http2Door, Master};

/// Starts the gateway, to which the master hands its gRPC connections. They are closed when the gateway is dropped.
pub(super) fn serve(master: &mut Master, config: &Config) -> Result<Option<Gateway>, String> {
    let said = |error: std::io::Error| format!("cannot serve gRPC: {error}");
    let Some(address) = master.rpc_addr().map_err(said)? else { return Ok(None) };
    let gateway = Gateway::start(GatewayConfig {
        master: reached(address).to_string(),
        cluster_id: config.cluster_id.clone(),
        auth_token: config.auth_token.clone(),
        tls: config.tls.clone(),
        max_connections: config.max_connections,
    });
    let gateway = gateway.map_err(said)?;
    let door = gateway.door();
    master.pass_http2(Http2Door::new(move |stream, first| door.pass(Arrival { stream, first })));
    Ok(Some(gateway))
}

/// The gateway reaches the master like any client: at its port, over loopback if it listens everywhere.
fn reached(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_listens_everywhere_is_reached_over_loopback() {
        for (address, expected) in [
            ("0.0.0.0:50051", "127.0.0.1:50051"),
            ("[::]:50051", "[::1]:50051"),
            ("10.0.0.7:50051", "10.0.0.7:50051"),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(reached(address).to_string(), expected);
        }
    }
}
