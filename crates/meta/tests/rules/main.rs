//! The rules of the state machine, one per test.

mod absent_disk;
mod clear;
mod disks;
mod drain;
mod drain_changes;
mod drain_marks;
mod drain_release;
mod evict;
mod failure_domains;
mod group;
mod key_events;
mod late_disk;
mod leased_tombstones;
mod losses;
#[cfg(debug_assertions)]
mod mutations;
mod object_stores;
mod offload;
mod place;
mod predecessors;
mod prefix_len;
mod promotion;
mod put;
mod recovery;
mod recovery_behind;
mod recovery_inventory;
mod recovery_replacing;
mod recovery_reporting;
mod repair;
mod replicate;
mod reserved;
mod retract;
mod review;
mod room;
mod scan;
mod segments;
mod shadow;
mod shared_disks;
mod sight;
mod sink;
mod strategy;
mod suspension;
mod task;
mod tenants;
mod tiers;
mod tombstones;
#[cfg(debug_assertions)]
mod turn_records;
mod turns;
mod upsert;
#[path = "../world/mod.rs"]
mod world;

use mooncake_meta::Config;
use mooncake_types::{ReplicateConfig, SoftPin};
use world::{ALICE, World};

const KIB: u64 = 1024;

/// Segments of equal length, `node-1:12345` and so on, that one client lends.
fn pool(segments: u128, len: u64) -> World {
    pool_with(segments, len, Config { eviction_high_watermark_ratio: 1.0, ..Config::default() })
}

fn pool_with(segments: u128, len: u64, config: Config) -> World {
    let mut world = World::new(config);
    for id in 1..=segments {
        world.mount(ALICE, id, len).expect("the segment is a new one");
    }
    world
}

fn soft(soft_pin: SoftPin) -> ReplicateConfig<'static> {
    ReplicateConfig { soft_pin, ..ReplicateConfig::default() }
}
