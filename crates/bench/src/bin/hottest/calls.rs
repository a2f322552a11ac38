//! What calls of a client note about themselves.

use std::hint::black_box;
use std::time::Duration;

use mooncake_calls::{Side, Stage, Transfer, Watch, carried, frame_id, note, ran};

use crate::Row;
use crate::keys::BATCH;

pub(crate) const OPERATIONS: &[Row] = &[
    (
        "call_watched",
        "what a call with a look-up and a transfer notes, to be logged if it is slow; per call",
        BATCH,
        watched,
    ),
    ("call_unwatched", "the same where no call is slow; per call", BATCH, unwatched),
];

fn watched(rounds: usize) {
    calls(rounds, Watch::DEFAULT_SLOW);
}

fn unwatched(rounds: usize) {
    calls(rounds, Duration::ZERO);
}

fn calls(rounds: usize, slow: Duration) {
    let watch = Watch::new(Side::Client, slow);
    let took = black_box(Duration::from_micros(7));
    for number in 0..(rounds * BATCH) as u64 {
        let _call = watch.begin("get", 1);
        black_box(frame_id(number));
        note(Stage::Master, took);
        let transfer = Transfer::begin();
        carried(Stage::Tcp);
        transfer.end(took, 4096);
        ran(took);
    }
    black_box(watch.stages());
}
