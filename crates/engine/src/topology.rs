use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use mooncake_transfer::Position;

/// Most entries that are read of a system directory.
const MAX_ENTRIES: usize = 1024;

/// The NUMA nodes and the GPUs, each with its near and its far RDMA devices, as JSON:
/// `{"cpu:0": [["mlx5_0"], ["mlx5_1"]]}`. Near ones are behind the same switch of PCI, or otherwise on the same NUMA node.
/// `filter` lists device names, separated by commas; if it is empty, all devices count.
#[must_use]
pub fn local_topology(filter: &str) -> String {
    // Without a driver that works, there are no GPUs.
    let gpus = mooncake_device::devices().unwrap_or_default();
    let gpus = gpus.into_iter().map(|gpu| (gpu.ordinal, gpu.bus_address));
    topology_of(Path::new("/sys"), filter, gpus)
}

fn topology_of(
    system: &Path,
    filter: &str,
    gpus: impl IntoIterator<Item = (u32, String)>,
) -> String {
    let wanted: Vec<&str> = filter.split(',').filter(|name| !name.is_empty()).collect();
    let mut nics = names(&system.join("class/infiniband"));
    nics.retain(|name| wanted.is_empty() || wanted.contains(&name.as_str()));
    let positions: Vec<Position> = nics.iter().map(|name| Position::of_nic(system, name)).collect();
    let lists = |place: &Position| -> [Vec<String>; 2] {
        let near = place.nearest(&positions);
        let numbered = nics.iter().cloned().enumerate();
        let (near, far): (Vec<_>, Vec<_>) = numbered.partition(|(at, _)| near.contains(at));
        [near, far].map(|list| list.into_iter().map(|(_, name)| name).collect())
    };
    let mut memory = BTreeMap::new();
    for name in names(&system.join("devices/system/node")) {
        let number = name.strip_prefix("node").and_then(|node| node.parse::<u32>().ok());
        if let Some(node) = number {
            memory.insert(format!("cpu:{node}"), lists(&Position::of_node(node)));
        }
    }
    for (ordinal, address) in gpus {
        memory.insert(format!("cuda:{ordinal}"), lists(&Position::of_pci(system, &address)));
    }
    serde_json::to_string_pretty(&memory).unwrap_or_else(|_| "{}".to_owned())
}

/// The names in a directory, sorted; empty if the directory does not exist.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().take(MAX_ENTRIES);
    let name = |entry: fs::DirEntry| entry.file_name().into_string().ok();
    let mut names: Vec<String> = entries.filter_map(|entry| name(entry.ok()?)).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_near_to_their_own_node_and_to_its_gpus() {
        let random = getrandom::u64().expect("the system has random numbers");
        let system = std::env::temp_dir().join(format!("mooncake-topology-{random:x}"));
        for (device, node) in [("mlx5_0", "0"), ("mlx5_1", "1"), ("odd", "-1")] {
            let directory = system.join("class/infiniband").join(device).join("device");
            fs::create_dir_all(&directory).expect("a directory");
            fs::write(directory.join("numa_node"), format!("{node}\n")).expect("a file");
        }
        for node in ["node0", "node1", "online"] {
            fs::create_dir_all(system.join("devices/system/node").join(node)).expect("a directory");
        }
        let parsed = |filter| -> serde_json::Value {
            let gpus = [(0, "0000:1A:00.0".to_owned()), (1, String::new())];
            serde_json::from_str(&topology_of(&system, filter, gpus)).expect("JSON")
        };
        let gpu = system.join("bus/pci/devices/0000:1a:00.0");
        fs::create_dir_all(&gpu).expect("a directory");
        fs::write(gpu.join("numa_node"), "1\n").expect("a file");
        let all = serde_json::json!({
            "cpu:0": [["mlx5_0"], ["mlx5_1", "odd"]],
            "cpu:1": [["mlx5_1"], ["mlx5_0", "odd"]],
            "cuda:0": [["mlx5_1"], ["mlx5_0", "odd"]],
            "cuda:1": [[], ["mlx5_0", "mlx5_1", "odd"]],
        });
        let one = serde_json::json!({
            "cpu:0": [[], ["mlx5_1"]],
            "cpu:1": [["mlx5_1"], []],
            "cuda:0": [["mlx5_1"], []],
            "cuda:1": [[], ["mlx5_1"]],
        });
        assert_eq!((parsed(""), parsed("mlx5_1,none")), (all, one));
        fs::remove_dir_all(&system).expect("the test's own directory");
        assert_eq!(topology_of(&system, "", []), "{}");
    }
}
