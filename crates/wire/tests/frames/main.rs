//! Whole frames: they decode to what was encoded, their bytes do not change, and invalid ones are refused without a
//! panic.

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
mod sample_sealed;
mod seed;
mod strategy;
mod strategy_dummy;
mod strategy_reply;
mod versions;
