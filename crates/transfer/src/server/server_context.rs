use std::sync::Arc;

use mooncake_wire::LocalSocket;

use super::keepalive::Keepalives;
use super::overdue_pins::OverduePins;
use super::server_config::ServerConfig;
use crate::SegmentHost;

/// What all connections of a server share.
pub(super) struct ServerContext {
    pub(super) host: Arc<dyn SegmentHost>,
    pub(super) config: ServerConfig,
    /// The local socket that peers are told of, if there is one.
    pub(super) local_socket: Option<LocalSocket>,
    pub(super) keepalives: Arc<Keepalives>,
    pub(super) overdue: Arc<OverduePins>,
}
