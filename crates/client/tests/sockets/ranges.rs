use mooncake_client::{Buffer, ErrorCode, Fragment};
use mooncake_meta::Meta;
use mooncake_types::Epoch;

use crate::master::{self, Master};
use crate::rig::{content, fragment, open, put, ranged};

/// A buffer of `len` bytes of 0xEE, to show which bytes a get writes.
fn untouched(len: usize) -> Buffer {
    Buffer::from_vec(vec![0xEE; len])
}

#[test]
fn fragments_come_from_where_they_lie_to_where_they_are_wanted() {
    let config = mooncake_meta::Config { stripe_threshold_bytes: 64 << 10, ..master::config() };
    let master = Master::start_at("127.0.0.1:0", Meta::new(config, Epoch(1)));
    let nodes = [open(&master, 4 << 20), open(&master, 4 << 20), open(&master, 4 << 20)];
    let client = open(&master, 0);
    for (key, len) in [("whole", 10_000), ("striped", 1_000_003)] {
        assert_eq!(put(&client, key, len, 1), Ok(()));
        let expected = content(key, len);
        for store in [&nodes[0], &nodes[2], &client] {
            let room = untouched(len);
            let cuts = [(0, 10), (10, 300), (5_000, 4_000), (len - 1, 1), (len / 2, 100)];
            let fragments = cuts.map(|(from, count)| fragment(&room, from, count));
            let got = store.get_ranges(&[ranged(key, &fragments)]);
            assert_eq!(got, vec![cuts.map(|(_, count)| Ok(count as u64)).to_vec()]);
            let mut filled = vec![0xEE; len];
            for (from, count) in cuts {
                filled[from..from + count].copy_from_slice(&expected[from..from + count]);
            }
            assert!(room.as_slice() == filled, "{key}");
        }
    }
}

#[test]
fn every_fragment_of_every_item_has_its_own_result() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let client = open(&master, 0);
    assert_eq!(put(&client, "a", 100, 1), Ok(()));
    let room = untouched(400);
    let at = |from: u64, place: usize, len: usize| Fragment {
        object_offset: from,
        slice: room.raw().sub(place, len).into(),
    };
    let results = client.get_ranges(&[
        ranged("a", &[at(90, 0, 10), at(90, 20, 11), at(u64::MAX, 40, 1), at(0, 60, 5)]),
        ranged("none", &[at(0, 100, 1), at(0, 101, 1)]),
        ranged("", &[at(0, 110, 1)]),
        ranged("a", &[]),
        ranged("a", &[at(100, 120, 0)]),
    ]);
    let past_the_end = Err(ErrorCode::InvalidParams);
    let expected = vec![
        vec![Ok(10), past_the_end, past_the_end, Ok(5)],
        vec![Err(ErrorCode::ObjectNotFound); 2],
        vec![Err(ErrorCode::InvalidKey)],
        vec![],
        vec![Ok(0)],
    ];
    assert_eq!(results, expected);
    let bytes = content("a", 100);
    let mut filled = vec![0xEE; 400];
    filled[..10].copy_from_slice(&bytes[90..]);
    filled[60..65].copy_from_slice(&bytes[..5]);
    assert_eq!(room.as_slice(), filled);
    client.close();
    let closed = client.get_ranges(&[ranged("a", &[at(0, 0, 1), at(1, 1, 1)])]);
    assert_eq!(closed, vec![vec![Err(ErrorCode::UnavailableInCurrentStatus); 2]]);
}

#[test]
fn thousands_of_fragments_are_one_call() {
    let master = Master::start();
    let _node = open(&master, 4 << 20);
    let client = open(&master, 0);
    let len = 100_000;
    assert_eq!(put(&client, "a", len, 1), Ok(()));
    let room = untouched(len);
    let fragments: Vec<Fragment> =
        (0..len / 20).map(|number| fragment(&room, number * 20, 10)).collect();
    let got = client.get_ranges(&[ranged("a", &fragments)]);
    assert_eq!(got, vec![vec![Ok(10); len / 20]]);
    let bytes = content("a", len);
    let expected = (0..len).map(|at| if at % 20 < 10 { bytes[at] } else { 0xEE });
    assert!(room.as_slice().iter().copied().eq(expected));
}
