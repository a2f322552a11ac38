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
use crate::leadership::RoleStatus;
use crate::refuse::{self, refuse, send_and_close};

/// Refuses all connections, until it is dropped. A member of this cluster learns which master leads.
pub(crate) async fn turn_away(
    config: &Rc<Config>,
    listener: &Listener,
    status: &watch::Receiver<RoleStatus>,
) {
    let mut refused = JoinSet::new();
    loop {
        tokio::select! {
            (stream, peer) = accept(listener, config.tcp_no_delay) => {
                // Further ones are closed without a refusal.
                if refused.len() < config.max_connections {
                    refused.spawn_local(answer(Rc::clone(config), stream, peer, status.clone()));
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
    status: watch::Receiver<RoleStatus>,
) {
    match handshake::greet(&config, &mut stream, &mut AsyncInbox::default()).await {
        Ok(Greeting { client, request_id }) => {
            let message = status.borrow().refusal();
            debug!(%peer, %client, message, "refused");
            let refusal = Refusal { code: ErrorCode::UnavailableInCurrentMode, message };
            refuse(&mut stream, request_id, &refusal).await;
        }
        Err(Rejected::Gone) => {}
        Err(Rejected::Http) => {
            refuse::log(peer, ErrorCode::RpcFail, "it speaks HTTP, and this is the RPC port");
            let answer = handshake::http_answer(config.metrics_port);
            send_and_close(&mut stream, answer.as_bytes()).await;
        }
        Err(Rejected::Refused { request_id, refusal }) => {
            refuse::log(peer, refusal.code, &refusal.message);
            refuse(&mut stream, request_id, &refusal).await;
        }
    }
}
