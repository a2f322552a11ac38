use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Most entries that are read of a system directory.
const MAX_ENTRIES: usize = 1024;

/// The NUMA nodes, each with its near and its far RDMA devices, as JSON: `{"cpu:0": [["mlx5_0"], ["mlx5_1"]]}`.
/// `filter` lists device names, separated by commas; if it is empty, all devices count. This build uses no RDMA
/// device.
#[must_use]
pub fn local_topology(filter: &str) -> String {
    topology_of(Path::new("/sys"), filter)
}

fn topology_of(system: &Path, filter: &str) -> String {
    let wanted: Vec<&str> = filter.split(',').filter(|name| !name.is_empty()).collect();
    let devices: Vec<(String, Option<u32>)> = names(&system.join("class/infiniband"))
        .into_iter()
        .filter(|name| wanted.is_empty() || wanted.contains(&name.as_str()))
        .map(|name| {
            let file = system.join("class/infiniband").join(&name).join("device/numa_node");
            let node = fs::read_to_string(file).ok().and_then(|node| node.trim().parse().ok());
            (name, node)
        })
        .collect();
    let mut memory = BTreeMap::new();
    for name in names(&system.join("devices/system/node")) {
        let Some(node) = name.strip_prefix("node").and_then(|node| node.parse::<u32>().ok()) else {
            continue;
        };
        let (near, far): (Vec<_>, Vec<_>) = devices.iter().partition(|(_, at)| *at == Some(node));
        let names = |list: Vec<&(String, _)>| list.iter().map(|(name, _)| name.clone()).collect();
        let lists: [Vec<String>; 2] = [names(near), names(far)];
        memory.insert(format!("cpu:{node}"), lists);
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
    fn devices_are_near_to_their_own_node() {
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
            serde_json::from_str(&topology_of(&system, filter)).expect("JSON")
        };
        let all = serde_json::json!({
            "cpu:0": [["mlx5_0"], ["mlx5_1", "odd"]],
            "cpu:1": [["mlx5_1"], ["mlx5_0", "odd"]],
        });
        let one = serde_json::json!({"cpu:0": [[], ["mlx5_1"]], "cpu:1": [["mlx5_1"], []]});
        assert_eq!((parsed(""), parsed("mlx5_1,none")), (all, one));
        fs::remove_dir_all(&system).expect("the test's own directory");
        assert_eq!(topology_of(&system, ""), "{}");
    }
}
