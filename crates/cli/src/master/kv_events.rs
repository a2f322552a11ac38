//! The flags of KV events.

use clap::Args;
use mooncake_master::KvEvents;

use crate::quantity::Switch;

/// See [`MasterFlags`](super::flags::MasterFlags).
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "KV events", rename_all = "snake_case")]
pub struct KvEventFlags {
    /// Publish over ZeroMQ which keys are stored where.
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true", value_name = "BOOL")]
    pub enable_kv_events: Switch,
    /// Address for subscribers, like tcp://0.0.0.0:5557 or tcp://*:5557.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ENDPOINT")]
    pub kv_events_bind_endpoint: String,
    /// Address for requests of missed events and of all keys; empty: none.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ENDPOINT")]
    pub kv_events_replay_endpoint: String,
    /// Name of this pool in each event.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub kv_events_backend_id: String,
    /// Also write the names of vLLM's own events into events.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub kv_events_emit_legacy_compat: Switch,
    /// Write keys into events. Otherwise events name only keys that are numbers.
    #[arg(long, num_args = 0..=1, default_value = "true", default_missing_value = "true", value_name = "BOOL")]
    pub kv_events_emit_object_key: Switch,
    /// Most events that wait to be published. If more come, the oldest are lost, and the numbers of batches have a
    /// gap.
    #[arg(long, default_value_t = 65_536, value_name = "COUNT")]
    pub kv_events_queue_capacity: usize,
}

impl KvEventFlags {
    /// The configuration of KV events, if they are enabled.
    ///
    /// # Errors
    /// The text names the flag and its value.
    pub(super) fn config(&self) -> Result<Option<KvEvents>, String> {
        if !self.enable_kv_events.0 {
            return Ok(None);
        }
        if self.kv_events_backend_id.is_empty() {
            return Err("--enable_kv_events needs --kv_events_backend_id".to_owned());
        }
        if self.kv_events_queue_capacity == 0 {
            return Err("--kv_events_queue_capacity=0: it must be at least 1".to_owned());
        }
        let replays = match self.kv_events_replay_endpoint.as_str() {
            "" => None,
            endpoint => Some(host_and_port("kv_events_replay_endpoint", endpoint)?),
        };
        Ok(Some(KvEvents {
            subscribers: host_and_port("kv_events_bind_endpoint", &self.kv_events_bind_endpoint)?,
            replays,
            backend_id: self.kv_events_backend_id.clone(),
            emit_legacy_compat: self.kv_events_emit_legacy_compat.0,
            emit_object_key: self.kv_events_emit_object_key.0,
            queue_capacity: self.kv_events_queue_capacity,
        }))
    }
}

/// The host and port of `tcp://HOST:PORT`. As in ZeroMQ, the host `*` is any address, and the port `*` is any free
/// port.
fn host_and_port(flag: &str, endpoint: &str) -> Result<(String, u16), String> {
    let wrong = || format!("--{flag}={endpoint}: it must be like tcp://0.0.0.0:5557");
    let (host, port) =
        endpoint.strip_prefix("tcp://").and_then(|rest| rest.rsplit_once(':')).ok_or_else(wrong)?;
    let port = if port == "*" { 0 } else { port.parse().map_err(|_| wrong())? };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match host {
        "" => Err(wrong()),
        "*" => Ok(("0.0.0.0".to_owned(), port)),
        host => Ok((host.to_owned(), port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_those_of_zeromq() {
        for (endpoint, host, port) in [
            ("tcp://*:5557", "0.0.0.0", 5557),
            ("tcp://127.0.0.1:*", "127.0.0.1", 0),
            ("tcp://[::1]:9", "::1", 9),
            ("tcp://localhost:1", "localhost", 1),
        ] {
            assert_eq!(host_and_port("x", endpoint), Ok((host.to_owned(), port)));
        }
        for wrong in
            ["", "5557", "ipc:///tmp/x", "tcp://:5557", "tcp://a", "tcp://a:b", "tcp://a:70000"]
        {
            let message = host_and_port("x", wrong).expect_err(wrong);
            assert!(message.starts_with(&format!("--x={wrong}: it must be like")), "{message}");
        }
    }
}
