//! A client of masters' admin HTTP servers, for the programs of this project.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use mooncake_memory::Private;
use mooncake_tls::{Tls, TlsConfig};

/// Most bytes of an answer that are read.
const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The default of the master's flag `--metrics_port`.
const DEFAULT_PORT: u16 = 9003;
/// Longest wait for a connection, or for the next bytes of an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time in which a whole answer comes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A request to an admin server.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdminRequest<'a> {
    /// The HTTP method, like `GET` or `POST`.
    pub method: &'a str,
    /// The path, with its query if there is one.
    pub path: &'a str,
    /// A JSON text; empty if there is no body.
    pub body: &'a str,
    /// The token of the pool; if empty, that of the environment, if it has one.
    pub auth_token: &'a str,
}

/// Why a request to an admin server failed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The server does not answer.
    #[error("cannot reach http://{address}{path}: {reason}")]
    Unreachable {
        /// The address of the server, `host:port`.
        address: String,
        /// The path of the request.
        path: String,
        /// The system's error message.
        reason: String,
    },
    /// The status is not 200, or there is none.
    #[error("http://{address}{path} answered {status:?}")]
    Refused {
        /// The address of the server, `host:port`.
        address: String,
        /// The path of the request.
        path: String,
        /// The first line of the answer.
        status: String,
    },
}

/// The default address of a master's admin server. Of several masters, that of the first.
#[must_use]
pub fn beside(master: &str) -> String {
    let first = master.split([',', ';']).next().unwrap_or(master).trim();
    let first = first.strip_prefix("http://").unwrap_or(first);
    let host = first.rsplit_once(':').map_or(first, |(host, _)| host);
    format!("{host}:{DEFAULT_PORT}")
}

/// Sends `GET path` to `address` (`host:port`), and returns the body of the answer.
///
/// # Errors
/// If the server cannot be reached, or its status is not 200.
pub fn get(address: &str, path: &str) -> Result<String, AdminError> {
    let (head, body) =
        fetch(address, &AdminRequest { method: "GET", path, ..AdminRequest::default() })?;
    if status_of(&head) == Some(200) {
        Ok(body)
    } else {
        let status = head.lines().next().unwrap_or_default().to_owned();
        Err(AdminError::Refused { address: address.to_owned(), path: path.to_owned(), status })
    }
}

/// Sends a request, and returns the status and the body of the answer.
///
/// # Errors
/// If the server cannot be reached, or its answer has no status.
pub fn call(address: &str, asked: &AdminRequest<'_>) -> Result<(u16, String), AdminError> {
    let (head, body) = fetch(address, asked)?;
    match status_of(&head) {
        Some(status) => Ok((status, body)),
        None => {
            let status = head.lines().next().unwrap_or_default().to_owned();
            let (address, path) = (address.to_owned(), asked.path.to_owned());
            Err(AdminError::Refused { address, path, status })
        }
    }
}

fn status_of(head: &str) -> Option<u16> {
    head.lines().next()?.split(' ').nth(1)?.parse().ok()
}

/// The sum of all samples of a metric in a Prometheus text. The metric may have the suffix `_total`. `None` if there
/// are no samples.
#[must_use]
pub fn metric(text: &str, name: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let found = series.split('{').next()?;
        let same = found == name || found.strip_suffix("_total") == Some(name);
        if same { value.parse::<f64>().ok() } else { None }
    });
    values.map(|value| value as u64).fold(None, |sum, value| Some(sum.unwrap_or(0) + value))
}

/// Sends a request, and returns the head and the body of the answer.
fn fetch(address: &str, asked: &AdminRequest<'_>) -> Result<(String, String), AdminError> {
    let answer = exchange(address, asked).map_err(|error| AdminError::Unreachable {
        address: address.to_owned(),
        path: asked.path.to_owned(),
        reason: error.to_string(),
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    Ok((head.to_owned(), body.to_owned()))
}

/// Uses HTTP/1.0, where the end of the connection ends the body.
fn exchange(address: &str, asked: &AdminRequest<'_>) -> io::Result<String> {
    let socket = address
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))?;
    let token = match asked.auth_token {
        "" => token_of_environment()?,
        given => given.to_owned(),
    };
    let text = text_of(address, &AdminRequest { auth_token: &token, ..*asked })?;
    let told = |error: io::Error| if is_late(&error) { silent() } else { error };
    let stream = TcpStream::connect_timeout(&socket, TIMEOUT).map_err(told)?;
    let stream = secured(Private::new(stream), address)?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    (&*stream).write_all(text.as_bytes()).map_err(told)?;
    let answer = read_answer(&stream, Instant::now() + ANSWER_TIMEOUT)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The token that members of the pool read from the environment; empty if there is none.
fn token_of_environment() -> io::Result<String> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    match (variable("MOONCAKE_AUTH_TOKEN"), variable("MOONCAKE_AUTH_TOKEN_FILE")) {
        (token, _) if !token.is_empty() => Ok(token),
        (_, file) if file.is_empty() => Ok(String::new()),
        (_, file) => match std::fs::read_to_string(&file) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) => Err(io::Error::new(error.kind(), format!("{file}: {error}"))),
        },
    }
}

/// The connection, encrypted if the environment names certificates, as it does for members of a pool with TLS.
fn secured(stream: Private<TcpStream>, address: &str) -> io::Result<Private<TcpStream>> {
    let variable = |name| std::env::var(name).ok();
    let config = TlsConfig::from_variables(variable).map_err(io::Error::other)?;
    let Some(tls) = Tls::of(&config).map_err(io::Error::other)? else { return Ok(stream) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    tls.connect(stream, host, TIMEOUT)
}

/// Whether a timeout of a socket has passed. The system says of it that a resource is unavailable.
fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn silent() -> io::Error {
    let reason =
        format!("it does not answer within {} s: it hangs, or its host does", TIMEOUT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, reason)
}

/// Reads all that the server sends until it closes the connection.
fn read_answer(stream: &TcpStream, deadline: Instant) -> io::Result<Vec<u8>> {
    let (mut answer, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the answer did not end in time"));
        }
        stream.set_read_timeout(Some(left.min(TIMEOUT)))?;
        match Read::read(&mut { stream }, &mut buffer) {
            Ok(0) => return Ok(answer),
            Ok(len) => answer.extend_from_slice(&buffer[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // It answers, and too slowly: the deadline ends that.
            Err(error) if is_late(&error) && !answer.is_empty() && left < TIMEOUT => {}
            Err(error) if is_late(&error) => return Err(silent()),
            Err(error) => return Err(error),
        }
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(io::Error::other("the answer is longer than 16 MiB"));
        }
    }
}

fn text_of(address: &str, asked: &AdminRequest<'_>) -> io::Result<String> {
    let AdminRequest { method, path, body, auth_token } = asked;
    let mut text = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\n");
    if auth_token.contains(char::is_control) {
        let reason = "the auth token holds a control character, which no HTTP header can";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    if !auth_token.is_empty() {
        text += &format!("Authorization: Bearer {auth_token}\r\n");
    }
    if !body.is_empty() {
        text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    Ok(format!("{text}\r\n{body}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn serve_once(answer: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 256];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn a_token_goes_with_the_request_if_there_is_one() {
        let asked = AdminRequest { method: "POST", path: "/a", body: "{}", auth_token: "secret" };
        let about = "Content-Type: application/json\r\nContent-Length: 2\r\n";
        for (auth_token, header) in [("", ""), ("secret", "Authorization: Bearer secret\r\n")] {
            let text = text_of("m:1", &AdminRequest { auth_token, ..asked }).unwrap();
            let head = "POST /a HTTP/1.0\r\nHost: m:1\r\n";
            assert_eq!(text, format!("{head}{header}{about}\r\n{{}}"));
        }
        assert!(text_of("m:1", &AdminRequest { auth_token: "a\r\nb: c", ..asked }).is_err());
    }

    #[test]
    fn the_admin_server_is_sought_on_the_masters_host() {
        let rows = [
            ("10.0.0.1:50051", "10.0.0.1:9003"),
            ("a:1,b:2", "a:9003"),
            ("http://a:1; b:2", "a:9003"),
            ("[::1]:50051", "[::1]:9003"),
            ("host", "host:9003"),
        ];
        for (master, expected) in rows {
            assert_eq!(beside(master), expected);
        }
    }

    #[test]
    fn the_body_of_a_good_answer_is_returned() {
        let address = serve_once("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok");
        assert_eq!(get(&address, "/health"), Ok("ok".to_owned()));
    }

    #[test]
    fn a_bad_status_is_an_error_that_names_it() {
        let address = serve_once("HTTP/1.1 503 Service Unavailable\r\n\r\n{}");
        let error = get(&address, "/health").unwrap_err();
        let status = "HTTP/1.1 503 Service Unavailable".to_owned();
        assert_eq!(error, AdminError::Refused { address, path: "/health".to_owned(), status });
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let address = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().to_string()
        };
        let error = get(&address, "/metrics").unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot reach http://{address}/metrics: ")), "{error}");
    }

    #[test]
    fn an_answer_that_never_ends_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let dripping = thread::spawn(move || {
            let (mut server, _) = listener.accept().unwrap();
            while server.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let stream = TcpStream::connect(address).unwrap();
        assert_eq!(stream.peek(&mut [0]).unwrap(), 1, "the answer begins");
        let deadline = Instant::now() + Duration::from_millis(50);
        let error = read_answer(&stream, deadline).unwrap_err();
        assert_eq!(error.to_string(), "the answer did not end in time");
        assert!(deadline.elapsed() < TIMEOUT);
        drop(stream);
        dripping.join().unwrap();
    }

    #[test]
    fn samples_of_a_metric_are_added_up() {
        let text = "# TYPE evicted counter\nevicted_total 41\nevicted_bytes 9\n\
                    used{segment=\"a\"} 1\nused{segment=\"b\"} 2.0\nbroken x\n# EOF\n";
        let rows = [("evicted", Some(41)), ("used", Some(3)), ("broken", None), ("absent", None)];
        for (name, expected) in rows {
            assert_eq!(metric(text, name), expected, "{name}");
        }
    }
}
