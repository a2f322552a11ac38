//! Dummies that break the protocol. The host closes their connections and serves the others.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use mooncake_client::{Chance, ErrorCode, Region};
use mooncake_testing::greet;
use mooncake_types::{ClientId, DummyObject, DummyReply, DummyRequest, Piece, limits};
use mooncake_wire::{
    HEADER_LEN, Header, Hello, Kind, PROTOCOL_VERSION, Role, decode_dummy_reply, decode_refusal,
    encode_dummy_reply, encode_dummy_request, encode_hello,
};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use crate::master::TOKEN;
use crate::rig::{content, eventually};
use crate::scene::{Scene, get, mappings, put, server_config};

/// A connection on which a test sends any frame.
struct Raw(UnixStream);

impl Raw {
    fn connect(port: u16) -> Self {
        let name = format!("mooncake_client_{port}.sock");
        let address = SocketAddr::from_abstract_name(name).expect("a name");
        let stream = UnixStream::connect_addr(&address).expect("it is served");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket has this option");
        Self(stream)
    }

    /// A connection after the handshake.
    fn welcomed(port: u16) -> Self {
        let mut raw = Self::connect(port);
        let (answer, _) = greet(&mut raw.0, &hello(PROTOCOL_VERSION, TOKEN)).expect("an answer");
        assert_eq!(answer.kind, Kind::Welcome);
        raw
    }

    /// The control connection of a dummy.
    fn attached(port: u16) -> Self {
        Self::attached_to(port, None).0
    }

    /// A connection of this attachment, or the control connection of a new one. Also returns the attachment's number.
    fn attached_to(port: u16, attachment: Option<u128>) -> (Self, u128) {
        let mut raw = Self::welcomed(port);
        raw.say(&attach(attachment));
        match raw.reply() {
            DummyReply::Attached { attachment, .. } => (raw, attachment),
            other => panic!("{other:?}"),
        }
    }

    fn say(&mut self, frame: &[u8]) {
        // The host may have closed the connection already.
        let _ = self.0.write_all(frame);
    }

    fn say_with(&self, frame: &[u8], descriptor: BorrowedFd<'_>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let sent = sendmsg(&self.0, &[IoSlice::new(frame)], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(frame.len()));
    }

    /// Kind and body of the next frame, or `None` when the connection has ended.
    fn hear(&mut self) -> Option<(Kind, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.0.read_exact(&mut header).ok()?;
        let header = Header::decode(&header).expect("a host's header decodes");
        let mut body = vec![0; header.body_len as usize];
        self.0.read_exact(&mut body).ok()?;
        Some((header.kind, body))
    }

    fn reply(&mut self) -> DummyReply {
        let (kind, body) = self.hear().expect("an answer");
        assert_eq!(kind, Kind::DummyReply);
        decode_dummy_reply(body.into()).expect("a host's reply decodes")
    }

    /// Whether the host closes the connection, at once or after a challenge or a refusal.
    fn is_cut_off(&mut self) -> bool {
        match self.hear() {
            Some((Kind::Challenge, _)) => self.is_cut_off(),
            None => true,
            Some((kind, _)) => kind == Kind::Refusal && self.hear().is_none(),
        }
    }

    /// Shares memory. Returns the code of the answer.
    fn share(&mut self, memory: BorrowedFd<'_>, len: u64) -> i32 {
        self.say_with(&request(&DummyRequest::ShareMemory { len }), memory);
        match self.reply() {
            DummyReply::MemoryShared { .. } => 0,
            DummyReply::Refused(code) => code.number(),
            other => panic!("{other:?}"),
        }
    }

    /// How many bytes have arrived and were not read.
    fn unread(&self) -> usize {
        let mut bytes = vec![0; 1 << 20];
        recv(&self.0, &mut bytes[..], RecvFlags::PEEK | RecvFlags::DONTWAIT).map_or(0, |it| it.0)
    }
}

/// A frame of any kind, known or not, with any body.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = b"KM".to_vec();
    frame.extend([kind, 0]);
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend([0; 8]);
    frame.extend(body);
    frame
}

fn request(request: &DummyRequest<'_>) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_dummy_request(&mut frame, 7, request);
    frame
}

fn attach(attachment: Option<u128>) -> Vec<u8> {
    request(&DummyRequest::Attach { attachment })
}

fn hello(protocol_version: u32, token: &str) -> Hello {
    let auth_token = token.to_owned();
    Hello {
        protocol_version,
        auth_token: auth_token.into(),
        ..Hello::new(Role::Client, ClientId::default())
    }
}

fn hello_frame(protocol_version: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_hello(&mut frame, 0, &hello(protocol_version, TOKEN));
    frame
}

/// A get of one key into one piece of shared memory.
fn get_of(map: u32, offset: u64, len: u64) -> Vec<u8> {
    let pieces = vec![Piece { map, offset, len }];
    request(&DummyRequest::Get { objects: vec![DummyObject { key: "key", pieces }] })
}

fn memory(len: u64, seals: Option<SealFlags>) -> OwnedFd {
    let memory = memfd_create("hostile", MemfdFlags::ALLOW_SEALING).expect("a descriptor");
    ftruncate(&memory, len).expect("it is ours");
    if let Some(seals) = seals {
        fcntl_add_seals(&memory, seals).expect("it may be sealed");
    }
    memory
}

/// Checks that other dummies are served and that the hostile one is detached.
fn all_is_well(scene: &Scene, what: &str) {
    let dummy = scene.dummy();
    assert_eq!(put(&dummy, what, 1000), Ok(()), "{what}");
    assert_eq!(get(&dummy, what), Ok(content(what, 1000)), "{what}");
    drop(dummy);
    eventually(what, || scene.server.attached() == 0);
}

#[test]
fn who_does_not_show_what_it_must_is_refused() {
    let scene = Scene::new(1 << 20);
    let garbage = [0x5a; 40];
    for (what, bytes) in [
        ("no frame", garbage.to_vec()),
        ("another version", hello_frame(PROTOCOL_VERSION + 1)),
        ("no proof", [hello_frame(PROTOCOL_VERSION), request(&DummyRequest::Health)].concat()),
        ("no hello", request(&DummyRequest::Health)),
        ("an endless hello", frame(Kind::Hello as u8, &vec![0; 17_000])),
    ] {
        let mut raw = Raw::connect(scene.port);
        raw.say(&bytes);
        assert!(raw.is_cut_off(), "{what}");
        all_is_well(&scene, what);
    }
    let mut raw = Raw::connect(scene.port);
    let guess = hello(PROTOCOL_VERSION, "guess");
    assert_eq!(greet(&mut raw.0, &guess).expect("an answer").0.kind, Kind::Refusal);
    assert!(raw.is_cut_off(), "a wrong token");
    for (what, bytes) in [
        ("an unknown attachment", attach(Some(5))),
        ("a call before it is attached", request(&DummyRequest::Health)),
        ("a second hello", hello_frame(PROTOCOL_VERSION)),
    ] {
        let mut raw = Raw::welcomed(scene.port);
        raw.say(&bytes);
        assert!(raw.is_cut_off(), "{what}");
        all_is_well(&scene, what);
    }
}

#[test]
fn who_says_nothing_is_not_waited_for_for_ever() {
    let scene = Scene::new(1 << 20);
    let mut raw = Raw::connect(scene.port);
    let begun = Instant::now();
    assert!(raw.is_cut_off());
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    all_is_well(&scene, "silence");
}

#[test]
fn calls_that_make_no_sense_cut_their_caller_off() {
    let scene = Scene::new(1 << 20);
    let of_dummy = |body: &[u8]| frame(Kind::DummyRequest as u8, body);
    let mut answer = Vec::new();
    encode_dummy_reply(&mut answer, 7, &DummyReply::Health(true));
    let keys = vec![""; limits::MAX_BATCH_KEYS + 1];
    let mut endless = of_dummy(&[]);
    endless[4..8].fill(0xff);
    for (what, bytes) in [
        ("an unknown kind", frame(77, &[])),
        ("no call", of_dummy(&[])),
        ("an answer", answer),
        ("a second hello", hello_frame(PROTOCOL_VERSION)),
        ("a second attachment", attach(None)),
        ("memory that was not shared", get_of(5, 0, 1)),
        ("a place behind the end", get_of(0, 4096, 1)),
        ("a place that wraps around", get_of(0, u64::MAX, 2)),
        ("too many bytes", get_of(0, 0, 4097)),
        ("a share without memory", request(&DummyRequest::ShareMemory { len: 4096 })),
        ("too many keys", request(&DummyRequest::exist(keys))),
        ("bytes behind the call", of_dummy(&[4 << 3 | 2, 0, 0])),
        ("a key that is no text", of_dummy(&[8 << 3 | 2, 3, 1 << 3 | 2, 1, 0xff])),
        ("an endless frame", endless),
        ("no frame", vec![7; 64]),
        ("two calls at once", request(&DummyRequest::Health).repeat(2)),
    ] {
        let mut raw = Raw::attached(scene.port);
        assert_eq!(raw.share(memory(4096, Some(SealFlags::SHRINK)).as_fd(), 4096), 0);
        raw.say(&bytes);
        assert!(raw.is_cut_off(), "{what}");
        all_is_well(&scene, what);
    }
    let mut raw = Raw::attached(scene.port);
    let unasked = memory(4096, Some(SealFlags::SHRINK));
    raw.say_with(&request(&DummyRequest::Health), unasked.as_fd());
    assert!(raw.is_cut_off(), "memory with a call that takes none");
    all_is_well(&scene, "memory with a call that takes none");
}

#[test]
fn a_frame_that_never_ends_and_answers_that_are_never_read_harm_nobody() {
    let scene = Scene::new(1 << 20);
    let mut half = Raw::attached(scene.port);
    half.say(&frame(Kind::DummyRequest as u8, &[0; 1000])[..500]);
    let mut deaf = Raw::attached(scene.port);
    let exist = request(&DummyRequest::exist(vec!["key"; limits::MAX_BATCH_KEYS]));
    // Sends call after call, until the host's answers fill the socket.
    loop {
        let before = deaf.unread();
        deaf.say(&exist);
        let begun = Instant::now();
        while deaf.unread() == before && begun.elapsed() < Duration::from_secs(2) {
            std::thread::yield_now();
        }
        if deaf.unread() == before {
            break;
        }
    }
    let dummy = scene.dummy();
    assert_eq!(put(&dummy, "key", 1000), Ok(()));
    assert_eq!(get(&dummy, "key"), Ok(content("key", 1000)));
    drop((half, deaf, dummy));
    eventually("all are gone", || scene.server.attached() == 0);
}

#[test]
fn memory_that_could_be_taken_away_is_not_taken() {
    let scene = Scene::new(1 << 20);
    let before = mappings(std::process::id());
    let mut raw = Raw::attached(scene.port);
    let refused = ErrorCode::InvalidParams.number();
    let shrink = Some(SealFlags::SHRINK);
    let file = std::fs::File::open("/proc/self/exe").expect("a test is a program");
    let pipe = std::io::pipe().expect("a pipe").0;
    let huge = memfd_create("huge", MemfdFlags::HUGETLB | MemfdFlags::ALLOW_SEALING);
    for (what, shared) in [
        ("a memory file that may shrink", raw.share(memory(4096, None).as_fd(), 4096)),
        ("sealed otherwise", raw.share(memory(4096, Some(SealFlags::GROW)).as_fd(), 4096)),
        ("a shorter one", raw.share(memory(4095, shrink).as_fd(), 4096)),
        ("an empty one", raw.share(memory(0, shrink).as_fd(), 4096)),
        ("no bytes", raw.share(memory(4096, shrink).as_fd(), 0)),
        ("a file", raw.share(file.as_fd(), 4096)),
        ("a pipe", raw.share(pipe.as_fd(), 4096)),
        ("a socket", raw.share(scene_socket().as_fd(), 4096)),
        ("large pages", huge.map_or(refused, |huge| raw.share(huge.as_fd(), 4096))),
    ] {
        assert_eq!(shared, refused, "{what}");
    }
    let endless = raw.share(memory(4096, shrink).as_fd(), u64::MAX);
    assert_eq!(endless, ErrorCode::NoAvailableHandle.number());
    assert_eq!(mappings(std::process::id()), before);

    let good = memory(4096, shrink);
    assert_eq!(raw.share(good.as_fd(), 4096), 0);
    assert!(ftruncate(&good, 100).is_err(), "it cannot be cut short behind the host's back");
    drop(raw);
    all_is_well(&scene, "memory");
}

fn scene_socket() -> UnixStream {
    UnixStream::pair().expect("a pair of sockets").0
}

#[test]
fn memory_is_given_back_when_its_dummy_is_cut_off() {
    let scene = Scene::new(1 << 20);
    let before = mappings(std::process::id());
    let mut raw = Raw::attached(scene.port);
    let region = Region::anonymous(4096).expect("a little memory");
    for _ in 0..10 {
        assert_eq!(raw.share(region.descriptor().expect("its own"), 4096), 0);
    }
    assert_eq!(mappings(std::process::id()), before + 11);
    raw.say(&frame(99, &[]));
    assert!(raw.is_cut_off());
    eventually("the memory is gone", || mappings(std::process::id()) == before + 1);
}

/// The host may still write to the dummy's memory. The dummy must not see the connection end before that, since it
/// would use the memory for its next call.
#[test]
fn a_call_is_answered_although_its_dummy_is_detached_meanwhile() {
    let scene = Scene::new(1 << 20);
    let dummy = scene.dummy();
    assert_eq!(put(&dummy, "key", 1000), Ok(()));
    let (mut control, attachment) = Raw::attached_to(scene.port, None);
    assert_eq!(control.share(memory(4096, Some(SealFlags::SHRINK)).as_fd(), 4096), 0);
    let (mut calls, _) = Raw::attached_to(scene.port, Some(attachment));
    let before = scene.master.lookups();
    scene.master.with_meta(|_| {
        calls.say(&get_of(0, 0, 4096));
        eventually("the host is at work", || scene.master.lookups() > before);
        drop(control);
        eventually("it is detached", || scene.server.attached() == 1);
    });
    assert_eq!(calls.reply(), DummyReply::Lengths(vec![Ok(1000)]));
    assert!(calls.hear().is_none(), "the connection ends after that");
}

/// The memory that such a call names is shared no longer, which is no fault of the dummy: it must not be told so.
#[test]
fn a_call_that_waits_while_its_dummy_is_detached_gets_no_answer() {
    let scene = Scene::new(1 << 20);
    let (mut control, attachment) = Raw::attached_to(scene.port, None);
    assert_eq!(control.share(memory(4096, Some(SealFlags::SHRINK)).as_fd(), 4096), 0);
    let most = server_config(scene.port).calls_at_once;
    let mut calls: Vec<Raw> =
        (0..=most).map(|_| Raw::attached_to(scene.port, Some(attachment)).0).collect();
    // Until this ends, no call ends, so at least one waits for its turn.
    scene.master.with_meta(|_| {
        calls.iter_mut().for_each(|call| call.say(&get_of(0, 0, 4096)));
        drop(control);
        eventually("it is detached", || scene.server.attached() == 0);
    });
    let heard: Vec<_> = calls.iter_mut().filter_map(Raw::hear).collect();
    assert!(heard.len() <= most, "{heard:?}");
    assert!(heard.iter().all(|(kind, _)| *kind == Kind::DummyReply), "{heard:?}");
}

#[test]
fn random_bytes_end_in_a_refusal() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("SEED={seed}");
    let mut chance = Chance::new(seed);
    let scene = Scene::new(1 << 20);
    for _ in 0..200 {
        let mut raw = Raw::attached(scene.port);
        for _ in 0..5 {
            let mut bytes = get_of(0, 0, 10);
            for _ in 0..chance.below(8) {
                let body = HEADER_LEN as u64..bytes.len() as u64;
                let at = body.start + chance.below(body.end - body.start);
                bytes[at as usize] = chance.below(256) as u8;
            }
            raw.say(&bytes);
            if raw.hear().is_none() {
                break;
            }
        }
        raw.say(&get_of(0, 0, 10)[..chance.below(40) as usize]);
        let _ = raw.0.shutdown(std::net::Shutdown::Write);
        while raw.hear().is_some() {}
    }
    all_is_well(&scene, "random bytes");
}

const PORT: &str = "MOONCAKE_TEST_HOSTILE_PORT";

/// Says hello from a process of another user, and checks the refusal.
#[test]
#[ignore = "started as a process of another user by the next test"]
fn say_hello_as_another_user() {
    let port = std::env::var(PORT).expect("a parent").parse().expect("a port");
    let mut raw = Raw::connect(port);
    raw.say(&hello_frame(PROTOCOL_VERSION));
    let (kind, body) = raw.hear().expect("an answer");
    let told = "between processes of one user only: this side is user 0, the other 65534";
    let refusal = decode_refusal(&body).expect("it says why");
    assert!(kind == Kind::Refusal && refusal.message.contains(told), "{refusal}");
    assert!(raw.hear().is_none());
}

/// Only root can start a process of another user. Without root, the test checks nothing.
#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can start a process of another user");
        return;
    }
    let scene = Scene::new(1 << 20);
    // The other user may not have access to the folder of the test program.
    let name = format!("mooncake-another-user-{}", std::process::id());
    let copy = std::env::temp_dir().join(name);
    std::fs::copy(std::env::current_exe().expect("a test is a program"), &copy).expect("room");
    let output = std::process::Command::new(&copy)
        .args(["--exact", "hostile::say_hello_as_another_user", "--ignored"])
        .env(PORT, scene.port.to_string())
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output();
    std::fs::remove_file(&copy).expect("it is there");
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    all_is_well(&scene, "another user");
}
