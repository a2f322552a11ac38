//! Whole frames: what is encoded comes back as it was, looks as it did, and anything else is refused without a panic.

mod body;
mod frame;
mod full;
mod golden;
mod hostile;
mod refused;
mod refused_dummy;
mod refused_recovery;
mod round_trip;
mod sample;
mod sample_dummy;
mod seed;
mod strategy;
mod strategy_dummy;
mod strategy_reply;
