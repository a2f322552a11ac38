use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// The body of an HTTP server's answer, whatever its status. `address` is `HOST:PORT`.
///
/// # Panics
/// If the server does not listen, or does not answer.
#[must_use]
pub fn http_get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    // With HTTP/1.0, the answer is not split into chunks, and ends with the connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the server answers");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

/// A port on loopback that was free a moment ago.
///
/// # Panics
/// If no port is free.
#[must_use]
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}
