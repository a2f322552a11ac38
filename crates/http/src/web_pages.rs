//! Requests that web pages make. A browser sends some of them to any address that its user can reach, without asking, so
//! pages change nothing here: none of this project's does either.

use axum::extract::Request;
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Refuses a request that may change something and that a page has made: browsers name the page's origin in it.
pub(crate) async fn refuse_changes(request: Request, next: Next) -> Response {
    let only_reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if !only_reads && request.headers().contains_key(header::ORIGIN) {
        let reason = "web pages change nothing here: the request has the header Origin\n";
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    next.run(request).await
}
