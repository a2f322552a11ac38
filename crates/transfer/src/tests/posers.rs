//! Processes that pose as a node: at the port of one that died, or at an address that a mount names.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use mooncake_types::{Epoch, ErrorCode};
use mooncake_wire::{Welcome, encode_challenge, encode_welcome};

use super::raw_peer::{FakeNode, object_at, read_frame};
use super::rig::{TOKEN, tcp, write_all};
use crate::TransferError;

/// Answers each frame of the handshake in turn, and notes all that it hears.
fn pose(answers: Vec<Vec<u8>>) -> (FakeNode, Arc<Mutex<Vec<u8>>>) {
    let heard = Arc::<Mutex<Vec<u8>>>::default();
    let ears = Arc::clone(&heard);
    let node = FakeNode::without_handshake(move |mut stream: TcpStream| {
        for answer in &answers {
            let (_, body) = read_frame(&mut stream)?;
            ears.lock().unwrap().extend(body);
            stream.write_all(answer)?;
        }
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest)?;
        ears.lock().unwrap().extend(rest);
        Ok(())
    });
    (node, heard)
}

fn welcome(id: u64, mac: Option<[u8; 32]>) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_welcome(&mut frame, id, &Welcome { mac, ..Welcome::new(Epoch(7)) });
    frame
}

fn challenge() -> Vec<u8> {
    let mut frame = Vec::new();
    encode_challenge(&mut frame, 1, &[7; 16]);
    frame
}

#[test]
fn a_process_that_poses_as_a_node_learns_no_token_and_gets_no_bytes() {
    for answers in [
        vec![welcome(1, None)],
        vec![welcome(1, Some([0; 32]))],
        vec![challenge(), welcome(2, None)],
        vec![challenge(), welcome(2, Some([0; 32]))],
    ] {
        let (node, heard) = pose(answers);
        let object = object_at(&node, 1000);
        let refused = Err(TransferError::Refused(ErrorCode::IllegalClient));
        assert_eq!(write_all(&tcp(), std::slice::from_ref(&object)), [refused]);
        let heard = heard.lock().unwrap();
        let has = |part: &[u8]| heard.windows(part.len()).any(|bytes| bytes == part);
        assert!(!heard.is_empty() && !has(TOKEN.as_bytes()) && !has(&object.bytes()[..100]));
    }
}
