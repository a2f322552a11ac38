//! Leaders and nodes that answer correctly, wrongly, or not at all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use mooncake_types::{
    Epoch, ErrorCode, Follow, FollowPage, InventoryEntry, ListedSegment, Medium, Reply, Seal,
    SegmentAddress, SegmentId, SegmentPage, Version,
};
use mooncake_wire::{
    HEADER_LEN, Header, Kind, Refusal, Welcome, decode_follow, encode_follow_reply, encode_refusal,
    encode_reply, encode_welcome,
};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::pool::FollowedPool;
use super::{Followed, Following, segment};
use crate::leadership::{Leader, Role, RoleStatus};

const SEGMENT: SegmentId = SegmentId(7);
const PATIENCE: Duration = Duration::from_secs(20);

/// The reaction of a server to a frame: an answer, or silence from then on.
type Script = Box<dyn FnMut(Header, &[u8]) -> Option<Vec<u8>> + Send>;

/// A server that admits every peer, and then follows its script, for one connection after the other.
fn serve(mut script: Script) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("it is whole");
            while let Some((header, body)) = read_frame(&mut stream) {
                let answer = match header.kind {
                    Kind::Hello => Some(welcome(header.request_id)),
                    _ => script(header, &body),
                };
                let Some(answer) = answer else { break };
                if stream.write_all(&answer).is_err() {
                    break;
                }
            }
            // Kept open: a peer that waits for an answer keeps waiting.
            silent.push(stream);
        }
    });
    address
}

fn read_frame(stream: &mut TcpStream) -> Option<(Header, Vec<u8>)> {
    let mut head = [0; HEADER_LEN];
    stream.read_exact(&mut head).ok()?;
    let header = Header::decode(&head).expect("a standby sends frames");
    let mut body = vec![0; header.body_len as usize];
    stream.read_exact(&mut body).ok()?;
    Some((header, body))
}

fn welcome(request_id: u64) -> Vec<u8> {
    let welcome = Welcome::new(Epoch(1));
    let mut out = Vec::new();
    encode_welcome(&mut out, request_id, &welcome);
    out
}

fn entry(key: &str, offset: u64) -> InventoryEntry<'_> {
    let version = Version { epoch: Epoch(1), counter: 1 };
    InventoryEntry {
        offset,
        len: 10,
        key,
        version,
        grant: version,
        object_len: 10,
        ..InventoryEntry::default()
    }
}

/// All entries, as a node sends them at first.
fn listing(id: u64, keys: &[&str]) -> Vec<u8> {
    let entries = keys.iter().zip(0..).map(|(key, at)| entry(key, at * 10)).collect();
    told(id, &FollowPage { entries, cursor: 5, ..FollowPage::default() })
}

fn nothing_changed(id: u64) -> Vec<u8> {
    told(id, &FollowPage { cursor: 5, ..FollowPage::default() })
}

fn told(id: u64, page: &FollowPage<'_>) -> Vec<u8> {
    told_of(SEGMENT, id, Ok(page))
}

fn told_of(segment: SegmentId, id: u64, answer: Result<&FollowPage<'_>, ErrorCode>) -> Vec<u8> {
    let mut out = Vec::new();
    encode_follow_reply(&mut out, id, (segment, answer));
    out
}

fn listed(endpoint: &str) -> ListedSegment {
    let address = SegmentAddress {
        id: SEGMENT,
        name: "name".into(),
        endpoint: endpoint.into(),
        medium: Medium::Memory,
    };
    ListedSegment { address, len: 100, seal: Seal::NONE }
}

fn run<T>(what: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = runtime.expect("the system has threads");
    runtime.block_on(async { timeout(PATIENCE, what).await.expect("it comes in time") })
}

/// Follows a segment of this node until the known state `is_right`.
async fn until(node: &str, is_right: impl FnMut(&Followed) -> bool) -> Followed {
    let (publish, mut seen) = watch::channel(Followed::default());
    let pool = Rc::new(FollowedPool::new(Rc::new(publish)));
    assert_eq!(pool.list(&[listed(node)], 9), [SEGMENT]);
    spawn_local(segment::follow(Rc::default(), Rc::clone(&pool), SEGMENT));
    *seen.wait_for(is_right).await.expect("it follows")
}

const fn knows(entries: usize) -> Followed {
    Followed { segments: 1, known: 1, entries, is_warm: true }
}

#[test]
fn a_standby_is_warm_when_it_knows_what_the_nodes_hold() {
    let node = serve(Box::new(|header, body| {
        let id = header.request_id;
        let (a, b) = (entry("a", 0), entry("b", 10));
        let page = FollowPage { cursor: 5, ..FollowPage::default() };
        let page = match decode_follow(body).expect("it is sound") {
            Follow { since: None, .. } => FollowPage { entries: vec![a], next: Some(10), ..page },
            Follow { from: Some(10), since: Some(5), .. } => {
                FollowPage { entries: vec![b], ..page }
            }
            Follow { from: None, since: Some(5), .. } => {
                FollowPage { gone: vec![0], cursor: 6, more: true, ..page }
            }
            Follow { from: None, since: Some(6), .. } => FollowPage { cursor: 6, ..page },
            other => panic!("{other:?}"),
        };
        Some(told(id, &page))
    }));
    let leader = serve(Box::new(move |header, _| {
        let page =
            SegmentPage { segments: vec![listed(&node)], next: None, put_obstacle: String::new() };
        let mut out = Vec::new();
        encode_reply(&mut out, header.request_id, &Reply::Segments(page));
        Some(out)
    }));
    let leader = Leader { address: leader, epoch: Epoch(1) };
    let status = RoleStatus { role: Role::Standby, leader: Some(leader), ..RoleStatus::default() };
    let known = run(async {
        let (publish, mut seen) = watch::channel(Followed::default());
        let (_standing, status) = watch::channel(status);
        let following = Following::start(&Rc::default(), status, Rc::new(publish));
        let warm = *seen.wait_for(|it| it.is_warm).await.expect("it follows");
        assert_eq!(warm, knows(1));
        let known = following.end();
        assert_eq!(*seen.borrow(), Followed::default());
        known
    });
    let known: Vec<_> = known.iter().map(|(id, it)| (*id, it.entries(), it.since())).collect();
    assert_eq!(known, [(SEGMENT, 1, Some(6))]);
}

/// Each node begins correctly, answers the second question wrongly, and is correct from then on.
#[test]
fn a_node_that_makes_no_sense_is_followed_anew() {
    let frame =
        |kind, body_len| Header { kind, flags: 0, body_len, request_id: 3 }.encode().to_vec();
    let overlong = FollowPage { entries: vec![entry("k", 95)], cursor: 6, ..FollowPage::default() };
    let back = FollowPage { cursor: 4, ..FollowPage::default() };
    let cases = [
        ("random bytes", vec![0xC5; 3000]),
        ("a frame of another kind", frame(Kind::DropReply, 0)),
        ("a body that is none", [frame(Kind::FollowReply, 9), vec![0xFF; 9]].concat()),
        ("an answer to something else", nothing_changed(99)),
        ("another segment", told_of(SegmentId(8), 3, Ok(&FollowPage::default()))),
        ("past the end of the segment", told(3, &overlong)),
        ("a cursor that goes back", told(3, &back)),
        ("too much has changed", told_of(SEGMENT, 3, Err(ErrorCode::InvalidVersion))),
    ];
    for (what, wrong) in cases {
        let mut asked = 0;
        let node = serve(Box::new(move |header, body| {
            asked += 1;
            let follow = decode_follow(body).expect("it is sound");
            let is_anew = (follow.since, follow.from) == (None, None);
            assert_eq!(is_anew, matches!(asked, 1 | 3), "question {asked}: {follow:?}");
            Some(match asked {
                1 => listing(header.request_id, &["a"]),
                2 => wrong.clone(),
                3 => listing(header.request_id, &["b", "c", "d"]),
                _ => nothing_changed(header.request_id),
            })
        }));
        let known = run(until(&node, |it| it.is_warm));
        assert_eq!(known, knows(3), "{what}");
    }
}

#[test]
fn a_node_that_says_nothing_for_a_while_is_asked_again_for_what_changed() {
    let mut asked = 0;
    let node = serve(Box::new(move |header, body| {
        asked += 1;
        let follow = decode_follow(body).expect("it is sound");
        assert_eq!(follow.since, (asked > 1).then_some(5));
        match asked {
            1 => Some(listing(header.request_id, &["a"])),
            2 => None,
            _ => Some(nothing_changed(header.request_id)),
        }
    }));
    assert_eq!(run(until(&node, |it| it.is_warm)), knows(1));
}

#[test]
fn a_segment_that_its_node_does_not_have_any_more_is_forgotten() {
    let mut asked = 0;
    let node = serve(Box::new(move |header, _| {
        asked += 1;
        let id = header.request_id;
        Some(match asked {
            1 => listing(id, &["a"]),
            2 => nothing_changed(id),
            _ => told_of(SEGMENT, id, Err(ErrorCode::SegmentNotFound)),
        })
    }));
    let mut was_warm = false;
    let gone = run(until(&node, move |it| {
        was_warm |= it.is_warm;
        was_warm && !it.is_warm
    }));
    assert_eq!(gone, Followed { segments: 1, known: 0, entries: 0, is_warm: false });
}

#[test]
fn whoever_refuses_costs_nothing_but_warmth() {
    let refuses: fn(Header, &[u8]) -> Option<Vec<u8>> = |header, _| {
        let mut out = Vec::new();
        let message = "I do not know how".to_owned();
        let refusal = Refusal { code: ErrorCode::InvalidParams, message };
        encode_refusal(&mut out, header.request_id, &refusal);
        Some(out)
    };
    let leader = Leader { address: serve(Box::new(refuses)), epoch: Epoch(1) };
    let status = RoleStatus { role: Role::Standby, leader: Some(leader), ..RoleStatus::default() };
    run(async {
        let (publish, seen) = watch::channel(Followed::default());
        let (_standing, status) = watch::channel(status);
        let following = Following::start(&Rc::default(), status, Rc::new(publish));
        let node = serve(Box::new(refuses));
        let nothing = timeout(Duration::from_millis(300), until(&node, |it| it.is_warm)).await;
        assert!(nothing.is_err(), "{nothing:?}");
        assert_eq!(*seen.borrow(), Followed::default());
        assert_eq!(following.end().len(), 0);
    });
}
