use std::io;
use std::time::Duration;

use mooncake_connection::{CallFault, CallProgress, Connection, Fault};
use mooncake_types::{Reply, Request};
use mooncake_wire::{Kind, decode_reply, encode_request};

use mooncake_ops::CallError;

/// Why a call failed, and how far it had come. The caller must drop the connection.
#[derive(Debug)]
pub(crate) struct CallFailure {
    pub(crate) error: CallError,
    pub(super) progress: CallProgress,
}

/// Sends a request to the master and waits for its reply.
pub(crate) fn call(
    connection: &mut Connection,
    request: &Request<'_>,
) -> Result<Reply, CallFailure> {
    call_meanwhile(connection, request, || ())
}

/// As [`call`]; runs `meanwhile` between sending and receiving, unless the request could not be sent.
pub(crate) fn call_meanwhile(
    connection: &mut Connection,
    request: &Request<'_>,
    meanwhile: impl FnOnce(),
) -> Result<Reply, CallFailure> {
    let timeout = connection.timeout();
    let encode = |out: &mut Vec<u8>, id| encode_request(out, id, request);
    let answer = connection.call_meanwhile(None, encode, Kind::Reply, meanwhile);
    let body = answer.map_err(|failure| CallFailure::of(failure, timeout))?.into_bytes();
    decode_reply(body).map_err(|error| CallFailure::of(Fault::from(error).into(), timeout))
}

/// As [`call`], but for at most `most`, if that is shorter than the connection's timeout.
pub(super) fn call_within(
    connection: &mut Connection,
    request: &Request<'_>,
    most: Duration,
) -> Result<Reply, CallFailure> {
    let usual = connection.timeout();
    if most >= usual {
        return call(connection, request);
    }
    let unusable = |error: io::Error| {
        let failure = CallFault { fault: error.into(), progress: CallProgress::NothingSent };
        CallFailure::of(failure, most)
    };
    // A socket accepts no timeout of zero.
    connection.set_timeout(most.max(Duration::from_millis(1))).map_err(unusable)?;
    let reply = call(connection, request)?;
    connection.set_timeout(usual).map_err(unusable)?;
    Ok(reply)
}

impl CallFailure {
    /// The failure of a call whose reply arrived, but is not credible.
    pub(super) fn after_reply(reason: String) -> Self {
        Self { error: CallError::Protocol { reason }, progress: CallProgress::Unknown }
    }

    fn of(CallFault { fault, progress }: CallFault, timeout: Duration) -> Self {
        let reason = fault.to_string();
        let error = match fault {
            Fault::TimedOut | Fault::Silent => {
                CallError::TimedOut { after_ms: timeout.as_millis() as u64 }
            }
            Fault::Protocol(_) | Fault::Refused(_) => CallError::Protocol { reason },
            Fault::Io(_) | Fault::Stranger(_) => CallError::Unreachable { reason },
        };
        Self { error, progress }
    }
}
