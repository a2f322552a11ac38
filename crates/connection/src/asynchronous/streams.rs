//! The two inboxes cut any stream into the same frames.

use std::io;

use mooncake_wire::{HEADER_LEN, Header, Kind};
use proptest::prelude::*;
use tokio::io::{AsyncWriteExt, duplex};

use super::AsyncInbox;
use crate::Inbox;
use crate::codec::{Awaited, BadFrame};

const KINDS: [Kind; 3] = [Kind::Request, Kind::Read, Kind::Keepalive];

/// What came of a stream: its frames, and then why they ended. `None`: they ended with the stream.
type Outcome = (Vec<(Header, Vec<u8>)>, Option<BadFrame>);

/// Frames, most of which are awaited, and then any bytes.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![6 => 0..300_u32, 1 => 0..200_000_u32];
    let kind = prop_oneof![9 => prop::sample::select(&KINDS[..]), 1 => Just(Kind::Drop)];
    let frame = (kind, len, any::<u64>()).prop_map(|(kind, len, request_id)| {
        let body_len = len.min(kind.max_body_bytes());
        let header = Header { kind, flags: 0, body_len, request_id };
        let body = (0..body_len).map(|at| (u64::from(at) ^ request_id) as u8);
        header.encode().into_iter().chain(body).collect::<Vec<u8>>()
    });
    let rest = prop_oneof![Just(Vec::new()), prop::collection::vec(any::<u8>(), 0..40)];
    (prop::collection::vec(frame, 0..6), rest)
        .prop_map(|(frames, rest)| [frames.concat(), rest].concat())
}

fn by_thread(stream: &[u8], piece: usize, awaited: &Awaited<'_>) -> Outcome {
    let (mut inbox, mut rest, mut frames) = (Inbox::reading_ahead(piece), stream, Vec::new());
    loop {
        let receive = |room: &mut [u8]| {
            let count = room.len().min(piece).min(rest.len());
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            if count == 0 { Err(io::ErrorKind::UnexpectedEof) } else { Ok(count) }
        };
        match inbox.fill_frame(awaited, receive) {
            Err(_) => return (frames, None),
            Ok(Err(error)) => return (frames, Some(error)),
            Ok(Ok(header)) => {
                frames.push((header, inbox.take(header.frame_len())[HEADER_LEN..].to_vec()));
            }
        }
    }
}

async fn by_task(stream: Vec<u8>, piece: usize, awaited: &Awaited<'_>) -> Outcome {
    let (mut near, mut far) = duplex(piece);
    tokio::spawn(async move { far.write_all(&stream).await });
    let (mut inbox, mut frames) = (AsyncInbox::default(), Vec::new());
    loop {
        match inbox.next_frame(awaited) {
            Ok(Some((header, body))) => frames.push((header, body.to_vec())),
            Err(error) => return (frames, Some(error)),
            Ok(None) if inbox.fill(&mut near).await.expect("it is memory") == 0 => {
                return (frames, None);
            }
            Ok(None) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_thread_and_a_task_read_the_same_frames_however_they_are_cut(
        stream in streams(),
        piece in prop_oneof![1..50_usize, 1..100_000_usize],
        max_body in prop_oneof![Just(u32::MAX), Just(200)],
    ) {
        let awaited = Awaited { max_body, ..Awaited::any_of(&KINDS) };
        let expected = by_thread(&stream, stream.len().max(1), &awaited);
        prop_assert_eq!(&by_thread(&stream, piece, &awaited), &expected);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        prop_assert_eq!(runtime.block_on(by_task(stream, piece, &awaited)), expected);
    }
}
