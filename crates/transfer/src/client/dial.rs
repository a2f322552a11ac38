use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_connection::{Connection, Dialer, Fault};
use mooncake_types::{ErrorCode, LogLimiter};
use mooncake_wire::Welcome;

use super::lane::Lane;
use crate::TcpConfig;

/// Limits of the interval in which a waiting call checks its deadline and the silence of its lane.
const WAITS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(5)..=Duration::from_millis(250);

/// Connects and shakes hands.
pub(super) fn dial(
    endpoint: &Arc<str>,
    config: &TcpConfig,
    dialer: &Dialer,
) -> Result<Lane<'static>, Fault> {
    let (connection, welcome) = open(endpoint, config, dialer)?;
    let stream = connection.into_stream();
    let wait = config.transfer_timeout.min(config.silence_timeout) / 8;
    let wait = wait.clamp(*WAITS.start(), *WAITS.end());
    stream.set_read_timeout(Some(wait))?;
    stream.set_write_timeout(Some(wait))?;
    Ok(Lane::new(stream, Arc::clone(endpoint), welcome, config.busy_poll))
}

/// Connects to an address, or to a local socket if the endpoint names one, and shakes hands.
pub(crate) fn open(
    endpoint: &str,
    config: &TcpConfig,
    dialer: &Dialer,
) -> Result<(Connection, Welcome), Fault> {
    dialer.dial(endpoint, config.connect_timeout).inspect_err(|fault| {
        static REFUSED: LogLimiter<ErrorCode> = LogLimiter::new();
        if let Fault::Refused(refusal) = fault
            && let Some(further) = REFUSED.admit(refusal.code, Instant::now())
        {
            tracing::warn!(%refusal, further, "a node refused the connection");
        }
    })
}
