//! Shared by the tests of tiers: a node with memory and a disk, and a client that ends its tasks.

use mooncake_meta::Config;
use mooncake_types::{ClientId, Medium, ReplicateConfig, TaskOrder};

use crate::KIB;
use crate::world::{ALICE, World};

pub(crate) const LEN: u64 = 16 * KIB;
/// The bytes that an object of `LEN` takes on a disk.
pub(crate) const ON_DISK: u64 = Medium::Disk.reserved_len(LEN);

/// Alice lends memory (segment 1) for four objects, and a disk (2) for 64.
pub(crate) fn alone(config: Config) -> World {
    let mut world = World::new(Config { offload: true, ..config });
    world.mount(ALICE, 1, 4 * LEN).expect("it is new");
    world.mount_on(Medium::Disk, ALICE, 2, 64 * ON_DISK).expect("it is new");
    world
}

pub(crate) fn put_at(world: &mut World, key: &str, segment: u128) {
    let name = format!("node-{segment}:12345");
    let config = ReplicateConfig { preferred_segments: vec![&name], ..ReplicateConfig::default() };
    world.put_with(ALICE, key, LEN, config).expect("there is room");
}

/// Ends all tasks of a client with success, and returns them.
pub(crate) fn carry_out(world: &mut World, client: ClientId) -> Vec<TaskOrder> {
    let orders = world.fetch_tasks(client).orders;
    for order in &orders {
        assert_eq!(world.end_task(client, order.id, Ok(())), Ok(()));
    }
    world.timeouts();
    world.check();
    orders
}

/// The media of a key's replicas, in the order in which readers are told of them.
pub(crate) fn media(world: &mut World, key: &str) -> Vec<Medium> {
    let Ok(placed) = world.get(key) else { return Vec::new() };
    let medium = |at: u32| placed.segments[at as usize].medium;
    placed.what.placements.iter().map(|range| medium(range.segment)).collect()
}
