//! Finds the NUMA node of the host that is nearest to a device.

use std::fs;
use std::path::Path;
#[cfg(feature = "testing")]
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::Driver;

const SYSTEM: &str = "/sys";

/// The nearest NUMA node of a device, according to the driver, or else to the kernel by the device's PCI address.
pub(crate) fn node_next_to(driver: &Driver, ordinal: u32) -> Option<u32> {
    if let Some(node) = driver.host_numa_node(ordinal).ok().and_then(|node| node.try_into().ok()) {
        return Some(node);
    }
    node_of_address(Path::new(SYSTEM), &driver.bus_address(ordinal).ok()?)
}

/// The NUMA node of a PCI address such as `0000:3B:00.0`. The kernel writes -1 if it does not know.
fn node_of_address(system: &Path, address: &str) -> Option<u32> {
    let is_address = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    if address.is_empty() || !address.bytes().all(is_address) {
        return None;
    }
    let file = system.join("bus/pci/devices").join(address.to_ascii_lowercase()).join("numa_node");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(feature = "testing")]
static PRETENDS_SEVERAL_NODES: AtomicBool = AtomicBool::new(false);

/// Pretends that this host has several NUMA nodes, for devices whose first use follows.
#[cfg(feature = "testing")]
pub fn pretend_several_nodes() {
    PRETENDS_SEVERAL_NODES.store(true, Ordering::Relaxed);
}

/// Whether this host has several NUMA nodes, so that placement matters.
pub(crate) fn has_several_nodes() -> bool {
    #[cfg(feature = "testing")]
    if PRETENDS_SEVERAL_NODES.load(Ordering::Relaxed) {
        return true;
    }
    mooncake_memory::numa_nodes() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_says_the_node_of_a_pci_address() {
        let system = std::env::temp_dir().join(format!("mooncake-numa-{}", std::process::id()));
        for (address, node) in [("0000:3b:00.0", "1\n"), ("0000:af:00.0", "-1\n")] {
            let folder = system.join("bus/pci/devices").join(address);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join("numa_node"), node).expect("a file");
        }
        let found = ["0000:3B:00.0", "0000:AF:00.0", "0000:00:00.0", "", "../0000:3b:00.0"]
            .map(|address| node_of_address(&system, address));
        fs::remove_dir_all(&system).expect("it was made");
        assert_eq!(found, [Some(1), None, None, None, None]);
    }
}
