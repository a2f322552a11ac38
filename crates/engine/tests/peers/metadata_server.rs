use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A metadata server: a map of keys to values, with one thread for each connection, until the process ends.
#[derive(Clone, Default)]
pub(crate) struct MetadataServer {
    pub(crate) values: Arc<Mutex<BTreeMap<String, String>>>,
    /// What the header `Authorization` must be, if anything.
    pub(crate) authorization: Option<&'static str>,
}

impl MetadataServer {
    /// Starts the server and returns its URL.
    pub(crate) fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address: SocketAddr = listener.local_addr().expect("bound");
        let server = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let server = server.clone();
                let stream = stream.expect("a connection");
                std::thread::spawn(move || while server.answer(&stream) {});
            }
        });
        format!("http://{address}/metadata")
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.values.lock().expect("no panic").keys().cloned().collect()
    }

    pub(crate) fn put(&self, key: &str, value: &str) {
        self.values.lock().expect("no panic").insert(key.to_owned(), value.to_owned());
    }

    fn answer(&self, stream: &TcpStream) -> bool {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        if !matches!(reader.read_line(&mut line), Ok(1..)) {
            return false;
        }
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let key = target.strip_prefix("/metadata?key=").map(decoded).expect("a key");
        let (mut len, mut authorization) = (0, None);
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).expect("a header");
            if header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                len = value.trim().parse().expect("a length");
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("authorization")
            {
                authorization = Some(value.trim().to_owned());
            }
        }
        let mut body = vec![0; len];
        reader.read_exact(&mut body).expect("a body");
        let is_admitted = self.authorization.is_none_or(|it| authorization.as_deref() == Some(it));
        let (status, reply) = match is_admitted {
            true => self.apply(method, key, String::from_utf8(body).expect("text")),
            false => ("401 Unauthorized", String::new()),
        };
        let reply = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{reply}", reply.len());
        let mut stream = stream;
        stream.write_all(reply.as_bytes()).is_ok()
    }

    fn apply(&self, method: &str, key: String, body: String) -> (&'static str, String) {
        let mut values = self.values.lock().expect("no panic");
        match method {
            "GET" => match values.get(&key) {
                Some(value) => ("200 OK", value.clone()),
                None => ("404 Not Found", "metadata not found".to_owned()),
            },
            "PUT" => {
                values.insert(key, body);
                ("200 OK", "metadata updated".to_owned())
            }
            _ => {
                values.remove(&key);
                ("200 OK", "metadata deleted".to_owned())
            }
        }
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped =
            (*first == b'%').then(|| std::str::from_utf8(&tail[..2]).expect("two digits"));
        bytes.push(escaped.map_or(*first, |digits| u8::from_str_radix(digits, 16).expect("hex")));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).expect("UTF-8")
}
