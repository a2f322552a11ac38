use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use mooncake_engine::{Engine, EngineConfig, MoveError, Opcode, PeerError};
use mooncake_testing::doors::{Verdict, verdict_on};
use mooncake_testing::greet;
use mooncake_transfer::testing::MemoryHost;
use mooncake_transfer::{DataServer, ServerConfig};
use mooncake_types::{ClientId, ErrorCode, SegmentId};
use mooncake_wire::{Hello, Kind, Role};

use crate::rig::{address, config, engine, memory, move_one, piece, wait_until};

fn name_of(listener: &TcpListener) -> String {
    listener.local_addr().expect("it is bound").to_string()
}

fn is_silent(result: &Result<(), PeerError>) -> bool {
    matches!(result, Err(PeerError::Silent { .. }))
}

#[test]
fn whoever_is_no_engine_is_no_peer() {
    let engine = engine();
    let nonsense = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let name = name_of(&nonsense);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = nonsense.accept().expect("a connection");
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        });
        let result = engine.probe(&name);
        assert!(is_silent(&result), "{result:?}");
    });
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let name = name_of(&listener);
    let host = MemoryHost::with_segment(SegmentId(1), 4096);
    let node = DataServer::start(listener, host, ServerConfig::default()).expect("threads");
    let result = engine.probe(&name);
    assert!(is_silent(&result), "a storage node: {result:?}");
    assert!(engine.submit(&name, Opcode::Read, &[]).is_err());
    node.stop();
}

#[test]
fn a_peer_that_never_answers_is_given_up() {
    let engine = engine();
    let mute = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let result = engine.probe(&name_of(&mute));
    assert!(is_silent(&result), "{result:?}");
}

#[test]
fn a_peer_with_another_secret_is_refused() {
    let secret = |auth_token: &str| EngineConfig { auth_token: auth_token.into(), ..config() };
    let one = Engine::open(secret("one")).expect("a port is free");
    let other = Engine::open(secret("other")).expect("a port is free");
    let same = Engine::open(secret("one")).expect("a port is free");
    assert!(is_silent(&other.probe(one.name())));
    assert_eq!(same.probe(one.name()), Ok(()));
}

/// A connection to an engine, after the greeting with a token if there is one.
fn connect(engine: &Engine, token: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(engine.name()).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
    if let Some(token) = token {
        let (cluster_id, auth_token) = ("transfer-engine".to_owned(), token.into());
        let hello = Hello { cluster_id, auth_token, ..Hello::new(Role::Client, ClientId(9)) };
        let (header, _) = greet(&mut stream, &hello).expect("an answer");
        assert_eq!(header.kind, Kind::Welcome);
    }
    stream
}

/// Engines know no roles: the secret opens what their ports know, and without it nothing does.
#[test]
fn each_kind_of_frame_is_taken_from_those_alone_who_know_the_secret() {
    let config = EngineConfig { auth_token: "one".into(), ..config() };
    let engine = Engine::open(config).expect("a port is free");
    let taken = [Kind::Read, Kind::Write, Kind::Drop, Kind::Promise, Kind::Follow];
    for &kind in Kind::ALL {
        let first = verdict_on(&mut connect(&engine, None), kind).expect("frames come back");
        let code = ErrorCode::InvalidParams;
        let is_refused = matches!(&first, Verdict::Refused { code: it, .. } if *it == code);
        assert!(is_refused, "{kind:?} as the first frame: {first:?}");
        let later = verdict_on(&mut connect(&engine, Some("one")), kind).expect("frames come back");
        let is_unknown =
            matches!(&later, Verdict::Refused { message, .. } if message.contains("takes no"));
        assert_eq!(is_unknown, !taken.contains(&kind), "{kind:?}: {later:?}");
    }
}

#[test]
fn a_peer_that_goes_is_missed_and_found_again() {
    let (near, far) = (memory(100), memory(100));
    let here = engine();
    here.register(near.raw()).expect("free");
    let there = engine();
    there.register(far.raw()).expect("free");
    let name = there.name().to_owned();
    let whole = piece(address(near), address(far), 100);
    assert_eq!(move_one(&here, &name, Opcode::Write, whole), Ok(()));
    let port = there.port();
    drop(there);
    let gone = move_one(&here, &name, Opcode::Write, whole);
    assert!(matches!(gone, Err(MoveError::Transfer(_))), "{gone:?}");
    assert!(is_silent(&here.probe(&name)));
    let again = EngineConfig { ports: port..=port, ..config() };
    let there = Arc::new(Engine::open(again).expect("the port is free again"));
    there.register(far.raw()).expect("free");
    wait_until("it answers again", || here.probe(&name).is_ok());
    assert_eq!(move_one(&here, &name, Opcode::Write, whole), Ok(()));
}
