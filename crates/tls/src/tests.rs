use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_memory::Private;
use mooncake_testing::certificates::{Authority, CertificateFiles};

use crate::{Protocol, Tls, TlsConfig, TlsError};

const PATIENCE: Duration = Duration::from_secs(20);

/// A folder that is removed at the end of a test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("mooncake-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(files: &CertificateFiles) -> TlsConfig {
    TlsConfig {
        cert: Some(files.cert.clone()),
        key: Some(files.key.clone()),
        ca: Some(files.ca.clone()),
        ..TlsConfig::default()
    }
}

fn member(authority: &Authority, folder: &Path, names: &[&str]) -> Tls {
    Tls::open(config(&authority.write(folder, names))).expect("certificates")
}

/// Serves one connection after the other: sends back what comes, until it ends.
fn echo(tls: Option<Tls>) -> u16 {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = port.local_addr().expect("bound").port();
    thread::spawn(move || {
        for stream in port.incoming() {
            let stream = Private::new(stream.expect("a connection"));
            let stream = match &tls {
                Some(tls) => tls.accept(stream, Protocol::FramesOrGrpc).expect("descriptors"),
                None => stream,
            };
            thread::spawn(move || {
                let mut room = vec![0; 100_000];
                while let Ok(count) = (&*stream).read(&mut room)
                    && count > 0
                    && (&*stream).write_all(&room[..count]).is_ok()
                {}
            });
        }
    });
    number
}

fn dial(tls: &Tls, port: u16, host: &str) -> std::io::Result<Private<TcpStream>> {
    let stream = Private::new(TcpStream::connect(("127.0.0.1", port))?);
    let stream = tls.connect(stream, host, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Whether the server sends back what it gets. With TLS 1.3 a client learns here that it was refused.
fn talks(stream: &Private<TcpStream>) -> std::io::Result<()> {
    (&**stream).write_all(b"hello")?;
    let mut back = [0; 5];
    (&**stream).read_exact(&mut back)?;
    assert_eq!(&back, b"hello");
    Ok(())
}

#[test]
fn bytes_come_whole_in_both_directions_and_so_does_the_end() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let tls = member(&authority, &folder.0, &["127.0.0.1", "localhost"]);
    let port = echo(Some(tls.clone()));
    let stream = dial(&tls, port, "127.0.0.1").expect("it is trusted");
    let sent: Vec<u8> = (0..5_000_000_u32).map(|at| (at ^ (at >> 7)) as u8).collect();
    let mut back = vec![0; sent.len()];
    thread::scope(|threads| {
        threads.spawn(|| {
            (&*stream).write_all(&sent).expect("it reads");
            stream.shutdown(Shutdown::Write).expect("it is open");
        });
        (&*stream).read_exact(&mut back).expect("it answers");
    });
    assert!(back == sent);
    assert_eq!((&*stream).read(&mut [0]).expect("an end"), 0);
}

/// As an HTTP server answers a request that it refuses: it closes the connection, and has not read the body.
#[test]
fn an_answer_comes_though_its_sender_reads_nothing_more() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let tls = member(&authority, &folder.0, &["127.0.0.1"]);
    let port = TcpListener::bind("127.0.0.1:0").expect("a port");
    let number = port.local_addr().expect("bound").port();
    let server = tls.clone();
    thread::spawn(move || {
        for stream in port.incoming() {
            let stream = Private::new(stream.expect("a connection"));
            let stream = server.accept(stream, Protocol::FramesOrGrpc).expect("descriptors");
            (&*stream).read_exact(&mut [0; 4]).expect("a head");
            (&*stream).write_all(&[7; 1000]).expect("it is open");
        }
    });
    for _ in 0..20 {
        let stream = dial(&tls, number, "127.0.0.1").expect("it is trusted");
        (&*stream).write_all(b"head").expect("it reads");
        // The server may have gone by now.
        while (&*stream).write_all(b"body").is_ok() && !is_readable(&stream) {}
        let mut answer = Vec::new();
        let _ = (&*stream).read_to_end(&mut answer);
        assert_eq!(answer, [7; 1000]);
    }
}

/// Whether an answer, or an end, has come.
fn is_readable(stream: &Private<TcpStream>) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).expect("a socket");
    peeked.is_ok()
}

#[test]
fn who_bears_another_name_or_another_authoritys_certificate_is_not_talked_to() {
    let (folder, strange_folder) = (Folder::new(), Folder::new());
    let authority = Authority::new();
    let tls = member(&authority, &folder.0, &["node-1.example"]);
    let port = echo(Some(tls.clone()));
    talks(&dial(&tls, port, "node-1.example").expect("its name")).expect("it answers");
    let error = dial(&tls, port, "127.0.0.1").expect_err("another name").to_string();
    assert!(error.contains("not valid for name"), "{error}");

    let stranger = member(&Authority::new(), &strange_folder.0, &["node-1.example"]);
    let error = dial(&stranger, port, "node-1.example").expect_err("a stranger").to_string();
    // Which of its checks fails first depends on the names of the two authorities.
    assert!(error.contains("invalid peer certificate") && error.contains("tls_ca"), "{error}");
}

#[test]
fn one_name_for_all_servers_stands_in_for_the_hosts() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let files = authority.write(&folder.0, &["pool.example"]);
    let named = TlsConfig { server_name: Some("pool.example".into()), ..config(&files) };
    let port = echo(Some(Tls::open(config(&files)).expect("certificates")));
    let tls = Tls::open(named).expect("certificates");
    talks(&dial(&tls, port, "127.0.0.1").expect("the name of all")).expect("it answers");
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_wanted() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let files = authority.write(&folder.0, &["127.0.0.1"]);
    let strict = TlsConfig { verify_clients: true, ..config(&files) };
    let port = echo(Some(Tls::open(strict).expect("certificates")));
    let plain = TlsConfig { ca: Some(files.ca.clone()), ..TlsConfig::default() };
    let plain = Tls::open(plain).expect("an authority is enough to connect");
    let refused = dial(&plain, port, "127.0.0.1").and_then(|stream| talks(&stream));
    assert!(refused.is_err());
    let member = Tls::open(config(&files)).expect("certificates");
    talks(&dial(&member, port, "127.0.0.1").expect("it shows its own")).expect("it answers");
}

#[test]
fn a_peer_that_does_not_speak_tls_is_told_from_a_silent_one() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let tls = member(&authority, &folder.0, &["127.0.0.1"]);
    // It sends the client's own hello back.
    let error = dial(&tls, echo(None), "127.0.0.1").expect_err("no server of TLS").to_string();
    assert!(error.starts_with("TLS: "), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stream = TcpStream::connect(silent.local_addr().expect("bound")).expect("it listens");
    let error = tls.connect(Private::new(stream), "127.0.0.1", Duration::from_millis(50));
    assert_eq!(error.expect_err("no answer").kind(), std::io::ErrorKind::TimedOut);

    // A client without TLS sees its connection end.
    let plain = TcpStream::connect(("127.0.0.1", echo(Some(tls)))).expect("it listens");
    plain.set_read_timeout(Some(PATIENCE)).expect("a socket");
    (&plain).write_all(b"KM no handshake at all").expect("it reads");
    let mut told = Vec::new();
    let _ = (&plain).read_to_end(&mut told);
    assert!(told.len() < 10, "an alert at most: {told:?}");
}

#[test]
fn certificates_that_are_renewed_are_used_without_a_restart() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let tls = member(&authority, &folder.0, &["old.example"]);
    let port = echo(Some(tls.clone()));
    talks(&dial(&tls, port, "old.example").expect("its name")).expect("it answers");
    // A file that cannot be used changes nothing.
    std::fs::write(folder.0.join("cert.pem"), "no certificate").expect("a folder");
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(1500) {
        talks(&dial(&tls, port, "old.example").expect("its name")).expect("it answers");
    }
    let _ = authority.write(&folder.0, &["new.example"]);
    while dial(&tls, port, "new.example").is_err() {
        assert!(begun.elapsed() < PATIENCE, "the new certificate is not used");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let (folder, authority) = (Folder::new(), Authority::new());
    let files = authority.write(&folder.0, &["a.example"]);
    let whole = config(&files);
    let error = |config: TlsConfig| Tls::open(config).expect_err("wrong").to_string();
    let without_key = error(TlsConfig { key: None, ..whole.clone() });
    assert!(without_key.starts_with("tls_cert is given, and tls_key is not"), "{without_key}");
    let without_ca = error(TlsConfig { ca: None, ..whole.clone() });
    assert!(without_ca.starts_with("tls_cert is given, and tls_ca is not"), "{without_ca}");
    let missing = error(TlsConfig { ca: Some("/nowhere/ca.pem".into()), ..whole.clone() });
    assert!(missing.starts_with("tls_ca: /nowhere/ca.pem: it cannot be read"), "{missing}");
    let swapped =
        error(TlsConfig { cert: whole.key.clone(), key: whole.cert.clone(), ..whole.clone() });
    assert!(swapped.contains("no certificate"), "{swapped}");
    let (_, other) = authority.issue(&["a.example"]);
    std::fs::write(folder.0.join("other.pem"), other).expect("a folder");
    let foreign = error(TlsConfig { key: Some(folder.0.join("other.pem")), ..whole.clone() });
    assert!(foreign.starts_with("tls_cert: "), "{foreign}");
    let name = error(TlsConfig { server_name: Some("no name!".into()), ..whole });
    assert!(name.starts_with("tls_server_name="), "{name}");
    let verify = |value: &'static str| {
        TlsConfig::from_variables(move |name| {
            (name == "MOONCAKE_TLS_VERIFY_CLIENTS").then(|| value.to_owned())
        })
    };
    assert!(matches!(verify("maybe"), Err(TlsError::Switch { .. })));
    assert!(verify("1").expect("a switch").verify_clients);
    assert!(verify("").expect("unset").is_off());
}
