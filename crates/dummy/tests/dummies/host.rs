//! Hosts that belong to another user, or that answer late.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use mooncake_client::{ErrorCode, HostMemory, PutSource, ReplicateConfig, SliceList};
use mooncake_dummy::{DummyError, DummyStore};
use mooncake_testing::admit;
use mooncake_types::{DummyReply, DummyRequest, Epoch};
use mooncake_wire::{HEADER_LEN, Header, Welcome, decode_dummy_request, encode_dummy_reply};

use crate::master::TOKEN;
use crate::rig::eventually;
use crate::scene::{POOL, config, put, turn};

/// Listens on the socket of an unused port.
fn listen() -> (UnixListener, u16) {
    let first = 10_000 + std::process::id() as u16 % 10_000;
    let bind = |port| {
        let name = SocketAddr::from_abstract_name(format!("mooncake_client_{port}.sock"));
        UnixListener::bind_addr(&name.expect("a name")).ok().map(|listener| (listener, port))
    };
    (first..).find_map(bind).expect("a name is free")
}

fn receive(stream: &mut UnixStream) -> Option<(Header, Vec<u8>)> {
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).ok()?;
    let header = Header::decode(&header).expect("a dummy's header decodes");
    let mut body = vec![0; header.body_len as usize];
    stream.read_exact(&mut body).ok()?;
    Some((header, body))
}

fn welcome(stream: &mut UnixStream) {
    admit(stream, ("", TOKEN), &Welcome::new(Epoch(0))).expect("a dummy knows the token");
}

fn reply(id: u64, reply: &DummyReply) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_dummy_reply(&mut frame, id, reply);
    frame
}

/// Answers each call to share memory only after the next one has arrived. Reports every call to the channel.
fn lag(mut stream: UnixStream, calls: &Sender<&'static str>) {
    let mut shares = Vec::new();
    welcome(&mut stream);
    // The test may have ended.
    let _ = calls.send("hello");
    while let Some((header, body)) = receive(&mut stream) {
        let id = header.request_id;
        let message = decode_dummy_request(body.into()).expect("a dummy's request decodes");
        let (call, answer) = match message.request().expect("a dummy's request makes sense") {
            DummyRequest::Attach { .. } => {
                let hostname = "h".to_owned();
                ("attach", reply(id, &DummyReply::Attached { attachment: 7, hostname }))
            }
            DummyRequest::ShareMemory { .. } => {
                shares.push(id);
                let late = shares.iter().rev().nth(1);
                let late = late.map(|&id| reply(id, &DummyReply::MemoryShared { map: 0 }));
                ("share", late.unwrap_or_default())
            }
            _ => ("another", Vec::new()),
        };
        // The test may have ended.
        let _ = calls.send(call);
        let _ = stream.write_all(&answer);
    }
}

/// The late answer names the memory of the first object, so the second object would get its bytes.
#[test]
fn an_answer_that_comes_late_is_not_taken_for_that_of_the_next_call() {
    let (listener, port) = listen();
    let (calls, called) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let calls = calls.clone();
            std::thread::spawn(move || lag(stream, &calls));
        }
    });
    let mut config = config(port);
    config.local_buffer_bytes = 0;
    config.call_timeout = Duration::from_secs(5);
    let dummy = DummyStore::open(config).expect("it is welcomed");
    let memory = HostMemory::of_process();
    let addresses = [memory.alloc(4096), memory.alloc(4096)].map(|it| it.expect("a page"));
    let regions = addresses.map(|address| memory.find(address, 4096).expect("it is there").0);
    let item = |key, at: usize| PutSource::new(key, SliceList::from(regions[at].whole()));
    let items = [item("one", 0), item("two", 1)];
    let results = dummy.put(&items, &ReplicateConfig::default());
    assert_eq!(results, [Err(ErrorCode::RpcTimeout), Err(ErrorCode::RpcFail)]);
    assert_eq!(called.try_iter().collect::<Vec<_>>(), ["hello", "attach", "share"]);
    assert!(addresses.into_iter().all(|address| memory.free(address)));
}

/// Answers all calls at once, but a put only when it is let go.
fn answer_puts_late(mut stream: UnixStream, let_go: &AtomicBool) {
    welcome(&mut stream);
    while let Some((header, body)) = receive(&mut stream) {
        let message = decode_dummy_request(body.into()).expect("a dummy's request decodes");
        let answer = match message.request().expect("a dummy's request makes sense") {
            DummyRequest::Attach { .. } => {
                DummyReply::Attached { attachment: 7, hostname: "h".to_owned() }
            }
            DummyRequest::ShareMemory { .. } => DummyReply::MemoryShared { map: 0 },
            _ => {
                while !let_go.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                DummyReply::Statuses(vec![Ok(())])
            }
        };
        let answer = reply(header.request_id, &answer);
        // The dummy may have left.
        let _ = stream.write_all(&answer);
    }
}

/// Until the host answers, it may read or write the memory of the call.
#[test]
fn the_memory_of_a_call_that_timed_out_comes_back_when_the_host_answers() {
    let (listener, port) = listen();
    let let_go = Arc::new(AtomicBool::new(false));
    let of_host = Arc::clone(&let_go);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let let_go = Arc::clone(&of_host);
            std::thread::spawn(move || answer_puts_late(stream, &let_go));
        }
    });
    let mut config = config(port);
    config.call_timeout = Duration::from_millis(300);
    let dummy = DummyStore::open(config).expect("it is welcomed");
    let all = POOL as usize;
    assert_eq!(put(&dummy, "one", all), Err(ErrorCode::RpcTimeout));
    assert_eq!(put(&dummy, "two", all), Err(ErrorCode::InvalidParams), "the host has the memory");
    assert_eq!(dummy.alloc_from_mem_pool(POOL), None);
    let_go.store(true, Ordering::SeqCst);
    eventually("the memory is back", || put(&dummy, "three", all) == Ok(()));
}

#[test]
#[ignore = "started as a process of another user by the next test"]
fn serve_as_another_user() {
    let (listener, port) = listen();
    println!("PORT={port}");
    let mut said = Vec::new();
    if let Ok((mut stream, _)) = listener.accept() {
        // Reads what arrives before the connection ends.
        let _ = stream.read_to_end(&mut said);
    }
    println!("SAID={}", said.len());
}

/// Only root can start a process of another user. Without root, the test checks nothing.
#[test]
fn a_host_of_another_user_is_told_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let _turn = turn();
    // The other user may not have access to the folder of the test program.
    let name = format!("mooncake-other-host-{}", std::process::id());
    let copy = std::env::temp_dir().join(name);
    std::fs::copy(std::env::current_exe().expect("a test is a program"), &copy).expect("room");
    let mut host = Command::new(&copy)
        .args(["--exact", "host::serve_as_another_user", "--ignored", "--nocapture"])
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines =
        BufReader::new(host.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut after = |word: &str| {
        let found = lines.find_map(|line| Some(line.split_once(word)?.1.to_owned()));
        found.expect("it says so")
    };
    let port = after("PORT=").parse().expect("a port");
    let refused = DummyStore::open(config(port)).expect_err("it is another user's");
    let message = "memory is shared between processes of one user only: \
                   this side is user 0, the other 65534";
    let message = message.to_owned();
    let server_address = format!("127.0.0.1:{port}");
    let code = ErrorCode::IllegalClient;
    assert_eq!(refused, DummyError::Refused { server_address, code, message });
    assert_eq!(after("SAID="), "0", "neither the token nor memory was handed over");
    host.wait().expect("it has ended");
    std::fs::remove_file(&copy).expect("it is there");
}
