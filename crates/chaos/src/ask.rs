use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the server may take to answer. It may be unreachable.
const PATIENCE: Duration = Duration::from_millis(500);

/// Prints the body of an HTTP server's answer.
///
/// # Errors
/// If the server does not answer soon.
pub(crate) fn main(address: &str, path: &str) -> Result<(), String> {
    let place: SocketAddr = address.parse().map_err(|_| format!("{address} is no address"))?;
    let answer = ask(place, path).map_err(|error| format!("{address}: {error}"))?;
    print!("{}", answer.split_once("\r\n\r\n").map_or("", |(_, body)| body));
    Ok(())
}

fn ask(place: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&place, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
