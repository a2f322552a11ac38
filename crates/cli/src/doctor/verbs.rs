//! The NICs that libibverbs finds on this host.

use std::fmt::Write;

use mooncake_fabric::{VerbsNic, VerbsOptions, VerbsPort};

/// Describes each port of each NIC, with its GIDs. A host without such NICs gets one line.
pub(super) fn describe(options: &VerbsOptions) -> String {
    match options.nics() {
        Ok(nics) => table(options, &nics),
        Err(error) => format!("\nno NIC of libibverbs can be used here: {error}\n"),
    }
}

fn table(options: &VerbsOptions, nics: &[VerbsNic]) -> String {
    let mut text = String::from("\nlibibverbs\n");
    for nic in nics {
        for port in &nic.ports {
            let node = nic.numa_node.map_or(String::new(), |node| format!(", NUMA node {node}"));
            let _ = writeln!(text, "  {:<12}{}{node}", nic.name, port_line(port));
            for gid in &port.gids {
                let is_used = match options.gid_index {
                    Some(index) => gid.index == u32::from(index),
                    None => Some(*gid) == port.best_gid(),
                };
                let mark = if is_used { ", which is used" } else { "" };
                let _ = writeln!(text, "  {:<12}GID {gid}{mark}", "");
            }
        }
    }
    text
}

fn port_line(port: &VerbsPort) -> String {
    let VerbsPort { number, is_active, is_ethernet, lid, mtu_bytes, bits_per_second, .. } = port;
    let mut text = format!("port {number}: {}", if *is_ethernet { "RoCE" } else { "InfiniBand" });
    text += if *is_active { ", up" } else { ", down" };
    if *bits_per_second > 0 {
        let _ = write!(text, ", {} Gb/s", *bits_per_second as f64 / 1e9);
    }
    let _ = write!(text, ", packets of {mtu_bytes} bytes");
    if *lid != 0 {
        let _ = write!(text, ", LID {lid}");
    }
    text
}

#[cfg(test)]
mod tests {
    use mooncake_fabric::{GidKind, PortGid};

    use super::*;

    #[test]
    fn each_port_has_a_line_and_its_gids_below() {
        let gid = |index, kind, address: &str| PortGid {
            index,
            kind,
            address: address.parse().expect("it is one"),
            interface: 2,
        };
        let port = VerbsPort {
            number: 1,
            is_active: true,
            is_ethernet: true,
            lid: 0,
            mtu_bytes: 1024,
            bits_per_second: 200_000_000_000,
            gids: vec![
                gid(0, GidKind::RoceV1, "fe80::1"),
                gid(3, GidKind::RoceV2, "::ffff:10.0.0.7"),
            ],
            max_request_bytes: 1 << 30,
        };
        let down = VerbsPort {
            is_active: false,
            is_ethernet: false,
            lid: 5,
            bits_per_second: 0,
            gids: Vec::new(),
            ..port.clone()
        };
        let nics = [
            VerbsNic { name: "mlx5_0".to_owned(), ports: vec![port], numa_node: Some(1) },
            VerbsNic { name: "mlx5_1".to_owned(), ports: vec![down], numa_node: None },
        ];
        let expected = "\nlibibverbs\n  \
                        mlx5_0      port 1: RoCE, up, 200 Gb/s, packets of 1024 bytes, NUMA node 1\n              \
                        GID 0: fe80::1 (RoCE v1)\n              \
                        GID 3: ::ffff:10.0.0.7 (RoCE v2), which is used\n  \
                        mlx5_1      port 1: InfiniBand, down, packets of 1024 bytes, LID 5\n";
        assert_eq!(table(&VerbsOptions::default(), &nics), expected);
    }

    #[test]
    fn a_library_that_is_not_there_is_one_line() {
        let library = Some("/nowhere/libibverbs.so".to_owned());
        let text = describe(&VerbsOptions { library, ..VerbsOptions::default() });
        let begin = "\nno NIC of libibverbs can be used here: libibverbs cannot be loaded";
        assert!(text.starts_with(begin), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
