//! NICs and their ports, as libibverbs describes them.

use std::net::IpAddr;

use super::abi::*;
use super::gid::{PortGid, best};

/// A NIC, as libibverbs lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsNic {
    /// Its name, for example `mlx5_0`.
    pub name: String,
    /// Its ports.
    pub ports: Vec<VerbsPort>,
    /// The NUMA node that it is next to, if the system tells.
    pub numa_node: Option<u32>,
}

/// A port of a NIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbsPort {
    /// Its number, from 1 on.
    pub number: u8,
    /// Whether it can be used.
    pub is_active: bool,
    /// Whether its link is Ethernet, and not InfiniBand.
    pub is_ethernet: bool,
    /// Its address in an InfiniBand subnet; zero if it has none.
    pub lid: u16,
    /// Most bytes of a packet that it sends now.
    pub mtu_bytes: u32,
    /// Speed of the link; 0 if it is not known.
    pub bits_per_second: u64,
    /// Its GIDs.
    pub gids: Vec<PortGid>,
    /// Most bytes of a request.
    pub max_request_bytes: u32,
}

impl VerbsPort {
    /// The GID that is used if none is demanded, and nothing is known about the peer.
    #[must_use]
    pub fn best_gid(&self) -> Option<PortGid> {
        best(&self.gids, None)
    }

    /// The GID to use for a peer that is known by this address of the host; the error says why there is none.
    pub(super) fn choose_gid(
        &self,
        index: Option<u8>,
        via: Option<IpAddr>,
    ) -> Result<PortGid, String> {
        let VerbsPort { number, gids, .. } = self;
        match index {
            None => best(gids, via).ok_or_else(|| format!("port {number} has no GID")),
            Some(index) => {
                let found = gids.iter().find(|gid| gid.index == u32::from(index)).copied();
                found.ok_or_else(|| format!("port {number} has no GID {index} (MC_GID_INDEX)"))
            }
        }
    }

    pub(super) fn of_attributes(number: u8, port: &PortAttr) -> VerbsPort {
        VerbsPort {
            number,
            is_active: port.state == IBV_PORT_ACTIVE,
            is_ethernet: port.link_layer == IBV_LINK_LAYER_ETHERNET,
            lid: port.lid,
            mtu_bytes: mtu_bytes(port.active_mtu),
            bits_per_second: speed(port.active_width, port.active_speed),
            gids: Vec::new(),
            max_request_bytes: port.max_msg_sz,
        }
    }
}

/// The library's number for packets of so many bytes, a power of two.
pub(super) fn mtu_number(bytes: u32) -> u8 {
    let number = bytes.max(256).ilog2() - 7;
    number.clamp(IBV_MTU_256, IBV_MTU_4096) as u8
}

fn mtu_bytes(number: u32) -> u32 {
    128 << number.clamp(IBV_MTU_256, IBV_MTU_4096)
}

/// The speed of a link of so many lanes, both as bits of the library.
fn speed(width: u8, speed: u8) -> u64 {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    let megabits = match speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    };
    lanes * megabits * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_library_stand_for_packets_and_speeds() {
        for (number, bytes) in [(1, 256), (2, 512), (3, 1024), (4, 2048), (5, 4096)] {
            assert_eq!((mtu_bytes(number), u32::from(mtu_number(bytes))), (bytes, number));
        }
        assert_eq!((mtu_number(9000), mtu_number(0)), (5, 1));
        assert_eq!(
            [speed(2, 32), speed(2, 128), speed(1, 1)],
            [100_000_000_000, 400_000_000_000, 2_500_000_000]
        );
        assert_eq!(speed(2, 0), 0);
    }
}
