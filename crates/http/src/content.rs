use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;

/// The limits of a request's body, attached to the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    pub(crate) time: Duration,
    pub(crate) bytes: usize,
}

/// The whole body of a request, within the server's limits. A body that is too long is answered with 413, one that
/// takes too long with 408, and one that breaks off with 400.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Content {
    type Rejection = Response;

    async fn from_request(request: Request, _: &S) -> Result<Self, Response> {
        let limits = request.extensions().get::<BodyLimits>().copied();
        let limits = limits.expect("a server gives every request the limits of its body");
        let read = timeout(limits.time, read(request.into_body(), limits.bytes)).await;
        let late = || (StatusCode::REQUEST_TIMEOUT, "the body took too long".to_owned());
        match read.unwrap_or_else(|_| Err(late())) {
            Ok(content) => Ok(Self(content.into())),
            Err(refusal) => Err(refusal.into_response()),
        }
    }
}

async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, (StatusCode, String)> {
    let too_long =
        || (StatusCode::PAYLOAD_TOO_LARGE, format!("the body is longer than {limit} bytes"));
    // Reads on beyond the limit, and discards the bytes. A client that is still sending would not see the answer.
    let patience = limit.saturating_mul(2);
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > patience {
        return Err(too_long());
    }
    let mut content = Vec::with_capacity(announced.min(limit));
    let mut len = 0usize;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| (StatusCode::BAD_REQUEST, error.to_string()))?;
        let Ok(part) = frame.into_data() else { continue };
        len = len.saturating_add(part.len());
        match len {
            len if len <= limit => content.extend_from_slice(&part),
            len if len <= patience => content.clear(),
            _ => return Err(too_long()),
        }
    }
    if len > limit { Err(too_long()) } else { Ok(content) }
}
