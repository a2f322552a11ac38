//! The handshake of a dummy's connection: who it is, and whether it is let in.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use mooncake_connection::{CallFault, Challenge, Connection, Fault, TrustedUsers};
use mooncake_memory::peer_of;
use mooncake_types::{DummyReply, DummyRequest, Epoch, ErrorCode};
use mooncake_wire::{
    Expected, Kind, Mac, Refusal, Welcome, decode_dummy_request, decode_hello, decode_proof,
    encode_challenge, encode_dummy_reply, encode_welcome,
};

use super::attached_dummies::AttachedDummies;
use super::attached_dummy::AttachedDummy;
use super::open_connections::Registration;

/// How long a dummy may take to identify itself.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a dummy may take to send the rest of a frame, or to take an answer.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Most connections of one dummy.
const MAX_CONNECTIONS_OF_A_DUMMY: usize = 65;

/// Most dummies at a time.
const MAX_DUMMIES: usize = 128;

/// The handshake. Returns the dummy, and whether this is its control connection.
pub(super) fn welcome(
    dummies: &AttachedDummies,
    connection: &mut Connection,
    registration: &Registration<'_>,
) -> Result<(Arc<AttachedDummy>, bool), Refusal> {
    let socket = Arc::clone(connection.stream());
    let trusted = TrustedUsers::OwnOrRoot.check(socket.as_fd());
    trusted.map_err(|stranger| Refusal::new(ErrorCode::IllegalClient, stranger))?;
    let pid = peer_of(socket.as_fd()).ok().and_then(|peer| peer.pid);
    hello(dummies, connection).map_err(refusal_for)?;
    let (request_id, attachment) = attach_request(connection).map_err(refusal_for)?;
    let (dummy, is_control) = match attachment {
        None => (attach_new(dummies, pid)?, true),
        Some(id) => {
            let known = dummies.lock().get(&id).filter(|dummy| dummy.pid == pid).cloned();
            (known.ok_or_else(unknown_dummy)?, false)
        }
    };
    let welcomed = confirm(dummies, connection, registration, (request_id, &dummy));
    if welcomed.is_err() && is_control {
        dummies.detach(&dummy);
    }
    welcomed.map(|()| (dummy, is_control))
}

/// Tells a dummy that it is attached.
fn confirm(
    dummies: &AttachedDummies,
    connection: &mut Connection,
    registration: &Registration<'_>,
    (request_id, dummy): (u64, &AttachedDummy),
) -> Result<(), Refusal> {
    registration.belongs_to(dummy.id, MAX_CONNECTIONS_OF_A_DUMMY)?;
    // If the dummy was detached meanwhile, its connections were cut off, perhaps without this one. From here on, this
    // one is cut off with them.
    if !dummies.lock().contains_key(&dummy.id) {
        return Err(unknown_dummy());
    }
    let hostname = dummies.store.hostname().to_owned();
    let reply = DummyReply::Attached { attachment: dummy.id, hostname };
    let timeout_set = connection.set_timeout(FRAME_TIMEOUT).map_err(|e| Fault::Io(e).into());
    timeout_set
        .and_then(|()| connection.send(|out| encode_dummy_reply(out, request_id, &reply)))
        .map_err(refusal_for)
}

fn unknown_dummy() -> Refusal {
    Refusal::new(ErrorCode::ClientNotFound, "there is no such dummy client")
}

fn refusal_for(CallFault { fault, .. }: CallFault) -> Refusal {
    match fault {
        Fault::Refused(refusal) => refusal,
        Fault::Protocol(message) => Refusal::new(ErrorCode::InvalidParams, message),
        // The dummy has ended, or this server stops.
        fault => Refusal::new(ErrorCode::RpcFail, fault),
    }
}

/// The handshake that all connections of the pool begin with.
fn hello(dummies: &AttachedDummies, connection: &mut Connection) -> Result<(), CallFault> {
    let frame = connection.receive(&[Kind::Hello])?;
    let hello = decode_hello(&frame.body).map_err(Fault::from)?;
    let id = frame.header.request_id;
    // A dummy does not know the name of the cluster.
    let expected = Expected { cluster_id: "", auth_token: &dummies.auth_token, roles: &[] };
    let challenge = Challenge::draw(&hello, &expected).map_err(Fault::Refused)?;
    let (id, mac) = match challenge {
        Some(challenge) => prove(connection, (id, &challenge), &expected)?,
        None => (id, None),
    };
    let welcome = Welcome { mac, ..Welcome::new(Epoch::default()) };
    connection.send(|out| encode_welcome(out, id, &welcome))
}

/// Has the dummy prove that it knows the token. Returns the id of its answer, and how this side proves it.
fn prove(
    connection: &mut Connection,
    (id, challenge): (u64, &Challenge),
    expected: &Expected<'_>,
) -> Result<(u64, Option<Mac>), CallFault> {
    connection.send(|out| encode_challenge(out, id, challenge.nonce()))?;
    let frame = connection.receive(&[Kind::Proof])?;
    let proof = decode_proof(&frame.body).map_err(Fault::from)?;
    let admitted = challenge.check(&proof, expected).map_err(Fault::Refused)?;
    Ok((frame.header.request_id, admitted.mac))
}

/// Receives the first request. Returns its id, and the attachment that it names.
fn attach_request(connection: &mut Connection) -> Result<(u64, Option<u128>), CallFault> {
    let frame = connection.receive(&[Kind::DummyRequest])?;
    let id = frame.header.request_id;
    let message = decode_dummy_request(frame.body.into_bytes()).map_err(Fault::from)?;
    match message.request().map_err(Fault::from)? {
        DummyRequest::Attach { attachment } => Ok((id, attachment)),
        _ => Err(Fault::Protocol("the first request must be to attach".to_owned()).into()),
    }
}

fn attach_new(dummies: &AttachedDummies, pid: Option<i32>) -> Result<Arc<AttachedDummy>, Refusal> {
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| {
        Refusal::new(ErrorCode::InternalError, "the system gives no random numbers")
    })?;
    let dummy = Arc::new(AttachedDummy::new(u128::from_le_bytes(id), pid));
    let mut attached = dummies.lock();
    if attached.len() >= MAX_DUMMIES {
        return Err(Refusal::new(ErrorCode::NoAvailableHandle, "there are too many dummy clients"));
    }
    attached.insert(dummy.id, Arc::clone(&dummy));
    Ok(dummy)
}
