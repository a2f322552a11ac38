//! Dummies that do what they should not. Each is cut off, and others are served on.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use mooncake_client::{ErrorCode, Region};
use mooncake_types::Chance;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::master::TOKEN;
use crate::rig::{content, eventually};
use crate::scene::{Scene, get, mappings, put};

/// Of the protocol.
const VERSION: u32 = 2;
const SHARE: u8 = 2;
const PUT: u8 = 5;
const GET: u8 = 6;
const REFUSED: u8 = 129;
const SHARED: u8 = 130;

/// A connection on which anything can be said.
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
        raw.say(1, &hello(VERSION, TOKEN, None));
        assert_eq!(raw.hear().expect("an answer").0, 128);
        raw
    }

    fn say(&mut self, kind: u8, body: &[u8]) {
        // It may have been cut off already.
        let _ = self.0.write_all(&frame(kind, body));
    }

    fn say_with(&self, kind: u8, body: &[u8], descriptor: BorrowedFd<'_>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let frame = frame(kind, body);
        let sent = sendmsg(&self.0, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent, Ok(frame.len()));
    }

    /// Kind and body of the next frame; `None` at the end.
    fn hear(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 12];
        self.0.read_exact(&mut head).ok()?;
        let len = u32::from_le_bytes(head[8..].try_into().expect("four bytes")) as usize;
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).ok()?;
        Some((head[4], body))
    }

    /// Whether it was told off, or not even that, and then cut off.
    fn is_cut_off(&mut self) -> bool {
        match self.hear() {
            None => true,
            Some((kind, _)) => kind == REFUSED && self.hear().is_none(),
        }
    }

    /// Shares memory; the code of the answer.
    fn share(&mut self, memory: BorrowedFd<'_>, len: u64) -> i32 {
        self.say_with(SHARE, &len.to_le_bytes(), memory);
        let (kind, body) = self.hear().expect("an answer");
        assert_eq!(kind, SHARED);
        i32::from_le_bytes(body[..4].try_into().expect("four bytes"))
    }
}

fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = b"MKDU".to_vec();
    frame.extend([kind, 0, 0, 0]);
    frame.extend((body.len() as u32).to_le_bytes());
    frame.extend(body);
    frame
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn hello(version: u32, token: &str, guest: Option<u128>) -> Vec<u8> {
    let mut body = version.to_le_bytes().to_vec();
    body.extend(text(token));
    body.push(guest.is_some().into());
    body.extend(guest.into_iter().flat_map(u128::to_le_bytes));
    body
}

/// A get of one key into one piece.
fn get_of(map: u32, offset: u64, len: u64) -> Vec<u8> {
    let mut body = 1_u32.to_le_bytes().to_vec();
    body.extend(text("key"));
    body.extend(text(""));
    body.extend(1_u32.to_le_bytes());
    body.extend(map.to_le_bytes());
    body.extend(offset.to_le_bytes());
    body.extend(len.to_le_bytes());
    body
}

fn memory(len: u64, seals: Option<SealFlags>) -> OwnedFd {
    let memory = memfd_create("hostile", MemfdFlags::ALLOW_SEALING).expect("a descriptor");
    ftruncate(&memory, len).expect("it is ours");
    if let Some(seals) = seals {
        fcntl_add_seals(&memory, seals).expect("it may be sealed");
    }
    memory
}

/// Others are served as ever, and the hostile one is gone.
fn all_is_well(scene: &Scene, what: &str) {
    let dummy = scene.dummy();
    assert_eq!(put(&dummy, what, 1000), Ok(()), "{what}");
    assert_eq!(get(&dummy, what), Ok(content(what, 1000)), "{what}");
    drop(dummy);
    eventually(what, || scene.server.guests() == 0);
}

#[test]
fn who_does_not_show_what_it_must_is_refused() {
    let scene = Scene::new(1 << 20);
    let garbage = [0x5a; 40];
    for (what, bytes) in [
        ("no frame", garbage.to_vec()),
        ("another version", frame(1, &hello(VERSION + 1, TOKEN, None))),
        ("no token", frame(1, &hello(VERSION, "", None))),
        ("a wrong token", frame(1, &hello(VERSION, "guess", None))),
        ("an unknown guest", frame(1, &hello(VERSION, TOKEN, Some(5)))),
        ("no hello", frame(4, &[])),
        ("an endless token", frame(1, &hello(VERSION, &"x".repeat(600), None))),
        ("an endless hello", frame(1, &vec![0; 5000])),
    ] {
        let mut raw = Raw::connect(scene.port);
        raw.0.write_all(&bytes).expect("there is room");
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
    let far = |map, offset, len| frame(GET, &get_of(map, offset, len));
    let many = [&[1], &u32::MAX.to_le_bytes()[..]].concat();
    for (what, bytes) in [
        ("an unknown call", frame(77, &[])),
        ("an answer", frame(131, &[0; 4])),
        ("a second hello", frame(1, &hello(VERSION, TOKEN, None))),
        ("memory that was not shared", far(5, 0, 1)),
        ("a place behind the end", far(0, 4096, 1)),
        ("a place that wraps around", far(0, u64::MAX, 2)),
        ("too many bytes", far(0, 0, 4097)),
        ("a share without memory", frame(SHARE, &4096_u64.to_le_bytes())),
        ("more keys than there are", frame(10, &many)),
        ("bytes behind the call", frame(4, &[0])),
        ("a key that is no text", frame(8, &[1, 0, 0, 0, 1, 0, 0, 0, 0xff])),
        ("an endless frame", [b"MKDU\x04\0\0\0", &u32::MAX.to_le_bytes()[..]].concat()),
        ("no frame", vec![7; 64]),
    ] {
        let mut raw = Raw::welcomed(scene.port);
        assert_eq!(raw.share(memory(4096, Some(SealFlags::SHRINK)).as_fd(), 4096), 0);
        raw.0.write_all(&bytes).expect("there is room");
        assert!(raw.is_cut_off(), "{what}");
        all_is_well(&scene, what);
    }
}

#[test]
fn a_frame_that_never_ends_and_answers_that_are_never_read_harm_nobody() {
    let scene = Scene::new(1 << 20);
    let mut half = Raw::welcomed(scene.port);
    half.0.write_all(&frame(PUT, &[0; 1000])[..500]).expect("there is room");
    let mut deaf = Raw::welcomed(scene.port);
    deaf.0.set_nonblocking(true).expect("a socket has this option");
    let keys = [&4096_u32.to_le_bytes()[..], &text("key").repeat(4096)].concat();
    while deaf.0.write_all(&frame(8, &keys)).is_ok() {}
    let dummy = scene.dummy();
    assert_eq!(put(&dummy, "key", 1000), Ok(()));
    assert_eq!(get(&dummy, "key"), Ok(content("key", 1000)));
    drop((half, deaf, dummy));
    eventually("all are gone", || scene.server.guests() == 0);
}

#[test]
fn memory_that_could_be_taken_away_is_not_taken() {
    let scene = Scene::new(1 << 20);
    let before = mappings(std::process::id());
    let mut raw = Raw::welcomed(scene.port);
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
    let mut raw = Raw::welcomed(scene.port);
    let region = Region::anonymous(4096).expect("a little memory");
    for _ in 0..10 {
        assert_eq!(raw.share(region.descriptor().expect("its own"), 4096), 0);
    }
    assert_eq!(mappings(std::process::id()), before + 11);
    raw.say(99, &[]);
    assert!(raw.is_cut_off());
    eventually("the memory is gone", || mappings(std::process::id()) == before + 1);
}

#[test]
fn random_bytes_end_in_a_refusal() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("SEED={seed}");
    let mut chance = Chance::new(seed);
    let scene = Scene::new(1 << 20);
    for _ in 0..200 {
        let mut raw = Raw::welcomed(scene.port);
        for _ in 0..5 {
            let kind = 1 + chance.below(14) as u8;
            let mut body = get_of(0, 0, 10);
            for _ in 0..chance.below(8) {
                let at = chance.below(body.len() as u64) as usize;
                body[at] = chance.below(256) as u8;
            }
            body.truncate(chance.below(body.len() as u64 + 1) as usize);
            raw.say(kind, &body);
        }
        let _ = raw.0.shutdown(std::net::Shutdown::Write);
        while raw.hear().is_some() {}
    }
    all_is_well(&scene, "random bytes");
}

const PORT: &str = "MOONCAKE_TEST_HOSTILE_PORT";

/// What a process of another user is told.
#[test]
#[ignore = "started as a process of another user by the next test"]
fn say_hello_as_another_user() {
    let port = std::env::var(PORT).expect("a parent").parse().expect("a port");
    let mut raw = Raw::connect(port);
    raw.say(1, &hello(VERSION, TOKEN, None));
    let (kind, body) = raw.hear().expect("an answer");
    let told = "this process is of user 0, the one on the other side of 65534";
    assert!(kind == REFUSED && String::from_utf8_lossy(&body).contains(told), "{kind} {body:?}");
    assert!(raw.hear().is_none());
}

/// Only root can be another user; there is nothing to be seen where the tests do not run as root.
#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scene = Scene::new(1 << 20);
    // The other user may not be allowed to where the program is.
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
