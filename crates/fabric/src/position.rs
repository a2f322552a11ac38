//! Where devices lie in a host, as sysfs tells, and which NICs are nearest to memory.

use std::fs;
use std::path::Path;

/// Where a device or memory lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The bridges and switches of PCI from the host on, and the device itself; empty if they are not known.
    path: Vec<String>,
    /// The NUMA node, if it is known.
    node: Option<u32>,
}

/// How far a device is away, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// Behind the same switch of PCI.
    SameSwitch,
    SameNode,
    Far,
}

/// Devices behind one root port have so many steps of their paths in common: the host's bridge, and the port.
const STEPS_TO_SWITCH: usize = 2;

impl Position {
    /// A NIC of this name.
    #[must_use]
    pub fn of_nic(sysfs: &Path, name: &str) -> Position {
        Position::of_folder(&sysfs.join("class/infiniband").join(name).join("device"))
    }

    /// A device at this address of PCI, for example a GPU: `0000:3b:00.0`.
    #[must_use]
    pub fn of_pci(sysfs: &Path, address: &str) -> Position {
        let is_address = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
        if address.is_empty() || !address.bytes().all(is_address) {
            return Position::default();
        }
        let address = address.to_ascii_lowercase();
        Position::of_folder(&sysfs.join("bus/pci/devices").join(address))
    }

    /// Memory of a NUMA node.
    #[must_use]
    pub fn of_node(node: u32) -> Position {
        Position { path: Vec::new(), node: Some(node) }
    }

    /// The NUMA node, if it is known.
    #[must_use]
    pub fn node(&self) -> Option<u32> {
        self.node
    }

    /// The folder is a link into the tree of all devices: `/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0`.
    fn of_folder(folder: &Path) -> Position {
        let node = fs::read_to_string(folder.join("numa_node")).ok();
        // The kernel writes -1 if it does not know.
        let node = node.and_then(|node| node.trim().parse().ok());
        let real = fs::canonicalize(folder).unwrap_or_default();
        let steps = real.iter().map(|step| step.to_string_lossy().into_owned());
        let path = steps.skip_while(|step| !step.starts_with("pci")).collect();
        Position { path, node }
    }

    fn distance(&self, other: &Position) -> Distance {
        let both = self.path.iter().zip(&other.path);
        let common = both.take_while(|(one, other)| one == other).count();
        match common >= STEPS_TO_SWITCH {
            true => Distance::SameSwitch,
            false if self.node.is_some() && self.node == other.node => Distance::SameNode,
            false => Distance::Far,
        }
    }

    /// Which of these are nearest, by their places. None, if nothing is known that makes any near.
    #[must_use]
    pub fn nearest<'p>(&self, others: impl IntoIterator<Item = &'p Position>) -> Vec<usize> {
        let distances: Vec<Distance> =
            others.into_iter().map(|other| self.distance(other)).collect();
        let least = distances.iter().min().copied().filter(|&least| least < Distance::Far);
        let all = distances.iter().enumerate();
        all.filter(|(_, distance)| Some(**distance) == least).map(|(at, _)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A tree with these devices: folder, name of the NIC if it is one, PCI path, node.
    fn tree(devices: &[(Option<&str>, &str, &str)]) -> PathBuf {
        let name = format!("mooncake-sysfs-{}-{}", std::process::id(), devices.len());
        let sysfs = std::env::temp_dir().join(name);
        for (nic, path, node) in devices {
            let folder = sysfs.join("devices").join(path);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("numa_node"), format!("{node}\n")).unwrap();
            let (all, address) = (sysfs.join("bus/pci/devices"), folder.file_name().unwrap());
            fs::create_dir_all(&all).unwrap();
            symlink(&folder, all.join(address)).unwrap();
            if let Some(nic) = nic {
                let class = sysfs.join("class/infiniband").join(nic);
                fs::create_dir_all(&class).unwrap();
                symlink(&folder, class.join("device")).unwrap();
            }
        }
        sysfs
    }

    #[test]
    fn the_nearest_nics_share_a_switch_then_a_node() {
        let sysfs = tree(&[
            (Some("mlx5_0"), "pci0000:16/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", "0"),
            (None, "pci0000:16/0000:16:00.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", "0"),
            (Some("mlx5_1"), "pci0000:32/0000:32:00.0/0000:33:00.0", "0"),
            (Some("mlx5_2"), "pci0000:97/0000:97:00.0/0000:98:00.0", "1"),
            (None, "pci0000:97/0000:97:01.0/0000:99:00.0", "1"),
            (None, "pci0000:aa/0000:aa:01.0/0000:ab:00.0", "-1"),
        ]);
        let nics = ["mlx5_0", "mlx5_1", "mlx5_2"].map(|name| Position::of_nic(&sysfs, name));
        let check = |place: Position, expected: &[usize]| {
            assert_eq!(place.nearest(&nics), expected, "{place:?}");
        };
        check(Position::of_pci(&sysfs, "0000:1A:00.0"), &[0]);
        check(Position::of_pci(&sysfs, "0000:99:00.0"), &[2]);
        check(Position::of_pci(&sysfs, "0000:ab:00.0"), &[]);
        check(Position::of_pci(&sysfs, "../0000:1a:00.0"), &[]);
        check(Position::of_node(0), &[0, 1]);
        check(Position::of_node(1), &[2]);
        check(Position::of_node(2), &[]);
        check(Position::default(), &[]);
        fs::remove_dir_all(&sysfs).unwrap();
        assert_eq!(Position::of_nic(&sysfs, "mlx5_0"), Position::default());
    }
}
