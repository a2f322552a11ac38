use std::io;
use std::sync::Arc;

use mooncake_client::Store;
use mooncake_dummy::{DummyServer, DummyServerConfig};
use tracing::info;

use super::DummyFlags;

/// The port that dummy clients try by default.
const DEFAULT_PORT: u16 = 50_052;

/// Serves dummy clients, if the flags ask for it. It is an error if the port of `--port` is taken. If the default port
/// is taken, nothing is served.
pub(super) fn serve(
    flags: &DummyFlags,
    auth_token: &str,
    store: &Arc<Store>,
) -> Result<Option<DummyServer>, String> {
    let port = flags.port.unwrap_or(DEFAULT_PORT);
    if port == 0 {
        return Ok(None);
    }
    let calls_at_once = usize::try_from(flags.threads).unwrap_or(usize::MAX);
    let config = DummyServerConfig { port, calls_at_once, auth_token: auth_token.into() };
    match DummyServer::start(Arc::clone(store), config) {
        Ok(server) => {
            info!("dummy clients are served on @mooncake_client_{port}.sock");
            Ok(Some(server))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && flags.port.is_none() => {
            info!(
                "dummy clients are not served: another process has @mooncake_client_{port}.sock; --port names another"
            );
            Ok(None)
        }
        Err(error) => Err(format!("--port={port}: @mooncake_client_{port}.sock: {error}")),
    }
}
