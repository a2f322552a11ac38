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

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use axum::Router;
    use axum::routing::get;

    use crate::{Limits, Server};

    #[test]
    fn a_web_page_may_read_and_changes_nothing() {
        let router = Router::new().route("/", get(async || "read").post(async || "changed"));
        let listener = crate::listen("127.0.0.1", 0).expect("a free port");
        let server = Server::start("pages", listener, router, Limits::default(), None);
        let server = server.expect("a thread");
        let own = format!("Origin: http://{}\r\n", server.address());
        let ask = |method: &str, origin: &str| {
            let mut stream = TcpStream::connect(server.address()).expect("the port is open");
            let head =
                format!("{method} / HTTP/1.1\r\nHost: x\r\n{origin}Connection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).expect("the server reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("text");
            answer
        };
        assert!(ask("POST", "").ends_with("changed"));
        assert!(ask("GET", "Origin: http://evil.example\r\n").ends_with("read"));
        for origin in ["Origin: http://evil.example\r\n", "Origin: null\r\n", &own] {
            let answer = ask("POST", origin);
            assert!(answer.starts_with("HTTP/1.1 403"), "{origin}: {answer}");
            assert!(answer.contains("web pages change nothing here"), "{answer}");
        }
        server.stop();
    }
}
