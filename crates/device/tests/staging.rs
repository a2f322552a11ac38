//! Staging memory near a device's NUMA node, with a test double of the driver. The test needs its own process, because
//! the node of a device is read once.

use std::io;

use mooncake_device::testing::{pretend_several_nodes, use_driver};
use mooncake_device::{Staging, StagingBuffer, devices};
use mooncake_device_double::{control, symbol};
use mooncake_memory::Region;

/// The memory policy at an address, and whether node 0 is in its set.
fn policy_of(address: *mut u8) -> io::Result<(i32, bool)> {
    const OF_ADDRESS: usize = 2;
    let (mut policy, mut nodes) = (-1_i32, [0_u64; 16]);
    // SAFETY: the call writes one number and at most the given number of bits.
    let result = unsafe {
        let (policy, nodes) = (&raw mut policy, nodes.as_mut_ptr());
        libc::syscall(libc::SYS_get_mempolicy, policy, nodes, 1024_usize, address, OF_ADDRESS)
    };
    if result == 0 { Ok((policy, nodes[0] & 1 == 1)) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn staging_memory_prefers_the_node_of_its_device() {
    pretend_several_nodes();
    use_driver(symbol);
    control::double_numa_node(0);
    assert_eq!(devices().expect("the double")[0].numa_node, Some(0));
    let near = Staging::of_device(0).expect("there is memory");
    control::double_numa_node(-1);
    assert_eq!(devices().expect("the double")[1].numa_node, None);
    let anywhere = Staging::of_device(1).expect("there is memory");
    let refused = Region::anonymous(1).expect("memory").prefer_numa_node(0).is_err();
    let found = [&near, &anywhere].map(|staging| {
        let memory = staging.memory(StagingBuffer::Back);
        memory.sub(0, 14).write_from(b"it can be used");
        policy_of(memory.as_ptr()).ok()
    });
    // Some containers may not choose a memory policy.
    if refused || found[1].is_none() {
        eprintln!("skipped: this process may not choose a memory policy");
    } else {
        assert_eq!(found[0], Some((libc::MPOL_PREFERRED, true)));
        assert_ne!(found[1].map(|(policy, _)| policy), Some(libc::MPOL_PREFERRED));
    }
    // Staging memory that was given back is reused only for devices of the same node.
    let address = near.memory(StagingBuffer::Front).as_ptr();
    drop(near);
    let second = Staging::of_device(1).expect("there is memory");
    assert_ne!(second.memory(StagingBuffer::Front).as_ptr(), address);
    let again = Staging::of_device(0).expect("there is memory");
    assert_eq!(again.memory(StagingBuffer::Front).as_ptr(), address);
}
