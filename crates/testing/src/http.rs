use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The body of what an HTTP server answers, whatever the status; `address` is `HOST:PORT`.
///
/// # Panics
/// There is no such server, or it does not answer.
#[must_use]
pub fn http_get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    // The answer to a request of the older version comes in one piece.
    let request = format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

/// A port of loopback that was free a moment ago.
///
/// # Panics
/// None is.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
