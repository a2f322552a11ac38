use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_ha::{CampaignOutcome, Candidate, Coordinator, Leadership, MemoryStore, Options};
use mooncake_ops::CallError;
use mooncake_types::{ClientId, Epoch, ErrorCode, Request};
use mooncake_wire::{HEADER_LEN, Header, Hello, Refusal, Role, Welcome};

use super::super::{DialError, Dialer, call};
use super::Masters;
use crate::address::{HostPort, MasterEndpoint};

const LONG: Duration = Duration::from_secs(20);

/// A master that welcomes all clients under this epoch, or says that it is a standby. It answers no request.
fn master(epoch: Option<u64>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        // Kept open, so that no call ends by itself.
        let mut open: Vec<TcpStream> = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("somebody connects");
            let mut header = [0; HEADER_LEN];
            stream.read_exact(&mut header).expect("a hello comes first");
            let header = Header::decode(&header).expect("a client's header decodes");
            stream.read_exact(&mut vec![0; header.body_len as usize]).expect("all of it");
            let answer = answer(epoch, header.request_id);
            stream.write_all(&answer).expect("the client listens");
            open.push(stream);
        }
    });
    address
}

fn answer(epoch: Option<u64>, request_id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    match epoch {
        Some(epoch) => {
            let welcome = Welcome::new(Epoch(epoch));
            mooncake_wire::encode_welcome(&mut out, request_id, &welcome);
        }
        None => {
            let (code, message) = (ErrorCode::UnavailableInCurrentMode, "not I".to_owned());
            mooncake_wire::encode_refusal(&mut out, request_id, &Refusal { code, message });
        }
    }
    out
}

fn dialer(masters: Masters) -> Dialer {
    let hello = Hello::new(Role::Client, ClientId(1));
    let dialer = Dialer::new(Arc::new(masters), hello, Duration::ZERO);
    Dialer { attempt_timeout: LONG, call_timeout: LONG, ..dialer }
}

fn listed(addresses: &[SocketAddr]) -> Masters {
    let one = |at: &SocketAddr| {
        MasterEndpoint::Port(HostPort { host: at.ip().to_string(), port: at.port() })
    };
    Masters::listed(addresses.iter().map(one).collect())
}

fn coordinator(store: &MemoryStore) -> Coordinator {
    Coordinator::in_memory(store, &Options::new("test")).expect("good options")
}

fn lead(coordinator: &Coordinator, address: SocketAddr) -> Leadership {
    let candidate = Candidate { address: address.to_string() };
    match coordinator.campaign(&candidate, LONG).expect("it is reachable") {
        CampaignOutcome::Leads(leadership) => leadership,
        CampaignOutcome::Follows(leader) => panic!("{leader:?} leads"),
    }
}

fn epoch(dialer: &Dialer, address: usize) -> Result<Epoch, DialError> {
    dialer.dial(address, LONG).map(|(_, epoch)| epoch)
}

/// Dials, as after a broken connection, until the result is as wanted: there is a pause between two requests to the
/// coordinator.
fn soon(dialer: &Dialer, is: impl Fn(&Result<Epoch, DialError>) -> bool) {
    let begun = Instant::now();
    loop {
        dialer.masters.doubt();
        let dialed = epoch(dialer, 0);
        if is(&dialed) {
            return;
        }
        assert!(begun.elapsed() < LONG, "{dialed:?}");
    }
}

#[test]
fn a_master_that_stands_by_is_told_from_one_that_refuses() {
    let standby = master(None);
    let dialer = dialer(listed(&[standby, master(Some(5))]));
    let says = DialError::Standby { address: standby.to_string(), message: "not I".to_owned() };
    assert_eq!(epoch(&dialer, 0), Err(says));
    assert_eq!(epoch(&dialer, 1), Ok(Epoch(5)));
}

#[test]
fn the_leader_is_asked_for_when_the_one_that_is_known_does_not_answer() {
    let store = MemoryStore::default();
    let coordinator = coordinator(&store);
    let dialer = dialer(Masters::elected(coordinator.clone(), "memory".to_owned(), false));
    let nobody = |reason: &str| {
        Err(DialError::Unreachable { address: "memory".to_owned(), reason: reason.to_owned() })
    };
    assert_eq!(epoch(&dialer, 0), nobody("no master leads"));
    let first = lead(&coordinator, master(Some(1)));
    soon(&dialer, |epoch| epoch == &Ok(Epoch(1)));
    // While the leader answers, the coordinator is not needed.
    store.set_reachable(false);
    assert_eq!(epoch(&dialer, 0), Ok(Epoch(1)));
    store.set_reachable(true);
    first.resign().expect("it is reachable");
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port is free").local_addr();
    let second = lead(&coordinator, gone.expect("it was bound"));
    soon(&dialer, Result::is_err);
    second.resign().expect("it is reachable");
    let _third = lead(&coordinator, master(Some(3)));
    soon(&dialer, |epoch| epoch == &Ok(Epoch(3)));
}

#[test]
fn who_waits_for_a_master_of_the_past_is_let_go_when_a_newer_one_is_met() {
    let dialer = dialer(listed(&[master(Some(1)), master(Some(2)), master(Some(1))]));
    let connection = |address| dialer.dial(address, LONG).expect("it welcomes").0;
    let (mut old, mut new) = (connection(0), connection(1));
    let begun = Instant::now();
    let answer = call(&mut old, &Request::exist(vec!["key"]));
    let error = answer.map_err(|failure| failure.error);
    assert!(matches!(error, Err(CallError::Unreachable { .. })), "{error:?}");
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    assert!(!old.is_quiet());
    // A connection to an older master ends no other.
    let _older = connection(2);
    assert!(new.is_quiet());
    new.set_timeout(Duration::from_millis(50)).expect("a socket");
    let waiting = call(&mut new, &Request::exist(vec!["key"]));
    let error = waiting.map_err(|failure| failure.error);
    assert!(matches!(error, Err(CallError::TimedOut { .. })), "{error:?}");
}

#[test]
fn another_leader_is_found_in_a_list_and_by_the_coordinator() {
    let in_list = dialer(listed(&[master(Some(5)), master(None), master(Some(7))]));
    assert!(in_list.finds_another(Epoch(5)) && !in_list.finds_another(Epoch(7)));

    let store = MemoryStore::default();
    let coordinator = coordinator(&store);
    let elected = dialer(Masters::elected(coordinator.clone(), "memory".to_owned(), false));
    let first = lead(&coordinator, master(Some(1)));
    assert!(!elected.finds_another(first.epoch()));
    store.set_reachable(false);
    assert!(!elected.finds_another(first.epoch()), "nobody says so");
    store.set_reachable(true);
    first.resign().expect("it is reachable");
    assert!(!elected.finds_another(first.epoch()), "nobody leads");
    let _second = lead(&coordinator, master(Some(2)));
    assert!(elected.finds_another(first.epoch()));
    assert_eq!(epoch(&elected, 0), Ok(Epoch(2)));
}

#[test]
fn who_waits_for_a_silent_leader_leaves_it_when_another_leads() {
    const EVERY: Duration = Duration::from_millis(20);
    let ask = |others: &[SocketAddr], timeout: Duration| {
        let dialer = dialer(listed(&[&[master(Some(5))], others].concat()));
        let (mut connection, epoch) = dialer.dial(0, LONG).expect("it welcomes");
        connection.set_timeout(timeout).expect("a socket");
        connection.set_wait_check(EVERY, move || !dialer.finds_another(epoch)).expect("a socket");
        let begun = Instant::now();
        let reply = call(&mut connection, &Request::exist(vec!["key"]));
        (reply.map_err(|failure| failure.error), begun.elapsed())
    };
    let (reply, took) = ask(&[master(None), master(Some(6))], LONG);
    assert!(reply.is_err() && took < LONG / 4, "{reply:?} after {took:?}");
    let timeout = EVERY * 5;
    let (reply, took) = ask(&[master(None), master(Some(4))], timeout);
    assert!(matches!(reply, Err(CallError::TimedOut { .. })), "{reply:?}");
    assert!((timeout..LONG / 4).contains(&took), "{took:?}");
}

/// A node that obeyed this master would refuse all others from then on.
#[test]
fn a_master_whose_epoch_is_from_nowhere_is_not_obeyed() {
    let (wild, good) = (master(Some((1 << 61) + 1)), master(Some(9)));
    let dialer = dialer(listed(&[wild, good]));
    assert_eq!(epoch(&dialer, 1), Ok(Epoch(9)));
    let refused = epoch(&dialer, 0).expect_err("it is from nowhere");
    assert!(matches!(refused, DialError::Incredible { .. }), "{refused}");
    assert!(refused.to_string().contains("restart this process"), "{refused}");
    assert_eq!(epoch(&dialer, 1), Ok(Epoch(9)), "the other one is");
}

/// An older release may have written this epoch into the record: the cluster continues from it.
#[test]
fn the_first_epoch_that_a_process_is_told_is_believed() {
    let wild = master(Some((1 << 61) + 1));
    assert_eq!(epoch(&dialer(listed(&[wild])), 0), Ok(Epoch((1 << 61) + 1)));
}
