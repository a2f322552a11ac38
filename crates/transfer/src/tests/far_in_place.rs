//! Memory of callers that is registered is used in place: once registered with the device, and forgotten in time. The
//! tests count the library's calls, so each must have a process of its own, as nextest gives it.

use std::sync::Arc;

use mooncake_fabric::testing::{calls_made, fail, fail_none, open_objects, register_local_memory};
use mooncake_fabric::{DeviceOptions, Domain, Limits};
use mooncake_memory::Region;

use super::far::Net;
use super::rig::{EPOCH, Object, all_ok, read_all, tcp_config, write_all};
use crate::testing::first_mismatch;
use crate::{Paths, Transport};

const MIB: u64 = 1 << 20;

/// Paths by a device that wants to know the memory of this side, as NICs do.
fn paths() -> Paths {
    register_local_memory();
    let device = Some("lo".to_owned());
    let options = DeviceOptions { library: None, provider: Some("tcp".to_owned()), device };
    let domain = Domain::open(&options, Limits::default()).unwrap();
    Paths::new(None, tcp_config(), "fabric".parse().unwrap()).with_fabric(Some(domain))
}

fn shares_its_process() -> bool {
    std::env::var_os("NEXTEST").is_none()
}

fn registrations() -> usize {
    calls_made().get("fi_mr_reg").copied().unwrap_or_default()
}

/// Writes an object from the region, and reads it to there.
fn write_and_read(transport: &Paths, object: &Object, region: &Region) {
    let memory = region.slice(4096, object.len).unwrap();
    memory.write_from(&object.bytes());
    assert_eq!(transport.write(EPOCH, &[object.write_op(memory.into())]), all_ok(1));
    memory.write_from(&vec![0; object.len as usize]);
    assert_eq!(transport.read(&[object.read_op(0, memory.into())]), all_ok(1));
    assert_eq!(first_mismatch(&memory.to_vec(), &object.key, object.version, 0), None);
}

#[test]
fn known_memory_is_registered_once_and_other_memory_never() {
    if shares_its_process() {
        return;
    }
    let (node, transport) = (Net::Libfabric.lender(1, 16 * MIB), paths());
    let other = [Object::at(&node, 12 * MIB, 3 * MIB, 100)];
    assert_eq!(write_all(&transport, &other), all_ok(1));
    assert_eq!(read_all(&transport, &other), all_ok(1));
    let region = Arc::new(Region::anonymous(16 * MIB).unwrap());
    transport.know_region(Arc::clone(&region));
    // The node registers what peers write, once for each write.
    let (before, mut writes) = (registrations(), 0);
    for counter in 1..5 {
        let object = Object::at(&node, 0, 9 * MIB + counter, counter);
        write_and_read(&transport, &object, &region);
        writes += 1;
        assert_eq!(registrations() - before, 1 + writes);
    }
    assert_eq!(write_all(&transport, &other), all_ok(1));
    assert_eq!(read_all(&transport, &other), all_ok(1));
    assert_eq!(registrations() - before, 2 + writes);
}

#[test]
fn memory_is_forgotten_before_its_address_is_used_again() {
    if shares_its_process() {
        return;
    }
    let (node, transport) = (Net::Libfabric.lender(1, 16 * MIB), paths());
    let (mut addresses, mut open) = (Vec::new(), None);
    for counter in 1..10 {
        let region = Arc::new(Region::anonymous(2 * MIB).unwrap());
        let address = region.whole().as_ptr().addr();
        addresses.push(address);
        transport.know_region(Arc::clone(&region));
        write_and_read(&transport, &Object::at(&node, 0, MIB, counter), &region);
        transport.forget(address);
        assert_eq!(Arc::strong_count(&region), 1, "no transfer is under way");
        drop(region);
        assert_eq!(*open.get_or_insert(open_objects()), open_objects(), "it was given back");
    }
    addresses.sort_unstable();
    addresses.dedup();
    assert!(addresses.len() < 9, "the kernel uses addresses again");
}

#[test]
fn memory_that_the_device_does_not_take_is_copied() {
    if shares_its_process() {
        return;
    }
    let (node, transport) = (Net::Libfabric.lender(1, 16 * MIB), paths());
    let other = [Object::at(&node, 12 * MIB, 3 * MIB, 100)];
    assert_eq!(write_all(&transport, &other), all_ok(1));
    let region = Arc::new(Region::anonymous(2 * MIB).unwrap());
    transport.know_region(Arc::clone(&region));
    // The next registration is that of this memory; the node's, of the range that is written, follows.
    fail("fi_mr_reg", 0, 12);
    write_and_read(&transport, &Object::at(&node, 0, MIB, 1), &region);
    assert!(fail_none(), "it has failed");
    assert_eq!(Arc::strong_count(&region), 1, "it is not known any more");
}
