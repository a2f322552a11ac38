//! Carries out the requests of the crate `object_store` with `ureq`, on the thread that waits for the answer.

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpResponse, HttpService,
};

/// Requests with a longer body get [`LONG_PATIENCE`].
const SMALL_BYTES: usize = 1 << 20;
/// Timeout of each phase of a request: resolving, connecting, sending the headers, and waiting for the answer.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Timeout of sending a long body and waiting for its answer, and of receiving any body.
const LONG_PATIENCE: Duration = Duration::from_secs(20);
/// Longest answer body: a pack that holds one large record.
const MAX_ANSWER_BYTES: u64 = 1 << 30;

/// Makes the HTTP clients of `object_store`.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .https_only(allows_http.as_deref() != Some("true"))
            .max_redirects(0)
            .timeout_resolve(Some(PATIENCE))
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_body(Some(LONG_PATIENCE))
            .build();
        Ok(HttpClient::new(Client { agent: agent.into() }))
    }
}

#[derive(Debug)]
struct Client {
    agent: ureq::Agent,
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let patience = if body.len() > SMALL_BYTES { LONG_PATIENCE } else { PATIENCE };
        let request = ureq::http::Request::from_parts(parts, body.as_ref());
        let request = self.agent.configure_request(request);
        let request = request
            .timeout_send_request(Some(PATIENCE))
            .timeout_send_body(Some(patience))
            .timeout_recv_response(Some(patience))
            .build();
        let (parts, mut body) = self.agent.run(request).map_err(to_http)?.into_parts();
        let body = body.with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(to_http)?;
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

/// Converts an error to the kind by which `object_store` decides whether to retry.
fn to_http(error: ureq::Error) -> HttpError {
    let kind = match &error {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            HttpErrorKind::Connect
        }
        ureq::Error::Io(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}
