//! What a standby answers to connections: it tells them which master leads.

use std::rc::Rc;

use mooncake_connection::AsyncInbox;
use mooncake_types::ErrorCode;
use mooncake_wire::Refusal;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::debug;

use crate::accept::{Listener, Peer, accept};
use crate::config::Config;
use crate::handshake::{self, Greeting, Rejected};
use crate::http2::Http2Door;
use crate::leadership::RoleStatus;
use crate::refuse::{self, refuse};

/// Refuses all connections, until it is dropped. A member of this cluster learns which master leads.
pub(crate) async fn turn_away(
    config: &Rc<Config>,
    listener: &Listener,
    (status, http2): (&watch::Receiver<RoleStatus>, Option<&Http2Door>),
) {
    let mut refused = JoinSet::new();
    loop {
        tokio::select! {
            (stream, peer) = accept(listener, config.tcp_no_delay) => {
                // Further ones are closed without a refusal.
                if refused.len() < config.max_connections {
                    let told = (status.clone(), http2.cloned());
                    refused.spawn_local(answer(Rc::clone(config), stream, peer, told));
                }
            }
            Some(ended) = refused.join_next() => drop(ended),
        }
    }
}

async fn answer(
    config: Rc<Config>,
    mut stream: TcpStream,
    peer: Peer,
    (status, http2): (watch::Receiver<RoleStatus>, Option<Http2Door>),
) {
    match handshake::greet(&config, &mut stream, &mut AsyncInbox::default()).await {
        Ok(Greeting { client, request_id, .. }) => {
            let message = status.borrow().refusal();
            debug!(%peer, %client, message, "refused");
            let refusal = Refusal { code: ErrorCode::UnavailableInCurrentMode, message };
            refuse(&mut stream, request_id, &refusal).await;
        }
        Err(Rejected::Gone) => {}
        Err(Rejected::Http2(first)) => match http2 {
            Some(door) => door.pass(stream, first),
            None => handshake::refuse_http(&mut stream, peer, config.metrics_port).await,
        },
        Err(Rejected::Http) => {
            handshake::refuse_http(&mut stream, peer, config.metrics_port).await;
        }
        Err(Rejected::Refused { request_id, refusal }) => {
            refuse::log(peer, refusal.code, &refusal.message);
            refuse(&mut stream, request_id, &refusal).await;
        }
    }
}
