//! Tests over real sockets on loopback, and in one process.

mod contract;
mod departures;
pub(crate) mod devices;
mod disks;
mod doors;
mod far;
mod far_devices;
mod far_in_place;
mod keepalive;
mod lanes;
mod near;
mod near_attacks;
mod near_processes;
mod nics;
mod overlap;
mod parts;
mod peers_that_fail;
mod posers;
mod raw_peer;
pub(crate) mod rig;
mod seals;
mod server_under_attack;
mod silence;
mod verify;
mod view_attacks;
mod views;
mod writers_that_meet;
