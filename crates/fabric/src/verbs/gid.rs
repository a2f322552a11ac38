//! The choice of a GID: the address of a port by which peers find it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::abi::{IBV_GID_TYPE_IB, IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2};

/// The protocol of a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// RoCE version 1: not routable.
    RoceV1,
    /// RoCE version 2: over UDP.
    RoceV2,
    /// One that this version does not know.
    Unknown(u32),
}

impl GidKind {
    pub(crate) fn of_number(number: u32) -> GidKind {
        match number {
            IBV_GID_TYPE_IB => GidKind::InfiniBand,
            IBV_GID_TYPE_ROCE_V1 => GidKind::RoceV1,
            IBV_GID_TYPE_ROCE_V2 => GidKind::RoceV2,
            other => GidKind::Unknown(other),
        }
    }
}

/// A GID in the table of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortGid {
    /// Its number in the table.
    pub index: u32,
    /// Its protocol.
    pub kind: GidKind,
    /// The address.
    pub address: Ipv6Addr,
    /// Number of the interface that it belongs to; 0 if it belongs to none.
    pub interface: u32,
}

impl fmt::Display for PortGid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PortGid { index, kind, address, .. } = self;
        let kind = match kind {
            GidKind::InfiniBand => "InfiniBand".to_owned(),
            GidKind::RoceV1 => "RoCE v1".to_owned(),
            GidKind::RoceV2 => "RoCE v2".to_owned(),
            GidKind::Unknown(number) => format!("type {number}"),
        };
        write!(f, "{index}: {address} ({kind})")
    }
}

impl PortGid {
    /// How good it is; `None` if it cannot be used.
    fn rank(&self, interface: Option<u32>, via: Option<IpAddr>) -> Option<u32> {
        if self.address.is_unspecified() {
            return None;
        }
        let kind = match self.kind {
            GidKind::RoceV2 => 32,
            GidKind::InfiniBand | GidKind::RoceV1 => 16,
            GidKind::Unknown(_) => return None,
        };
        // An interface has a link-local GID in any case; the others were given to it.
        let address = self.address.to_canonical();
        let scope = match address {
            IpAddr::V4(address) if is_routable_v4(address) => 9,
            IpAddr::V6(address) if !address.is_unicast_link_local() && !address.is_loopback() => 8,
            _ => 0,
        };
        let is_of_interface = interface.is_some_and(|wanted| wanted == self.interface);
        let same = u32::from(is_of_interface) * 4 + u32::from(via == Some(address)) * 2;
        Some(kind + scope + same)
    }
}

fn is_routable_v4(address: Ipv4Addr) -> bool {
    !address.is_link_local() && !address.is_loopback() && !address.is_unspecified()
}

/// The best of a port's GIDs, the first of equals: RoCE v2 over v1, routable over link-local, of the interface with this
/// address, that address itself, IPv4 over IPv6.
pub(super) fn best(gids: &[PortGid], via: Option<IpAddr>) -> Option<PortGid> {
    let via = via.map(|address| address.to_canonical());
    let with_address = gids.iter().find(|gid| via == Some(gid.address.to_canonical()));
    let interface = with_address.map(|gid| gid.interface).filter(|&interface| interface != 0);
    let ranked = gids.iter().filter_map(|gid| Some((gid.rank(interface, via)?, gid)));
    ranked.rev().max_by_key(|(rank, _)| *rank).map(|(_, gid)| *gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gid_is_of_roce_v2_and_routable_where_there_is_one() {
        let check = |table: &[(GidKind, &str)], expected: Option<u32>| {
            let gids = table.iter().zip(0..).map(|(&(kind, address), index)| {
                let address = address.parse().unwrap();
                PortGid { index, kind, address, interface: 2 }
            });
            let found = best(&gids.collect::<Vec<_>>(), None);
            assert_eq!(found.map(|gid| gid.index), expected, "{table:?}");
        };
        use GidKind::{InfiniBand, RoceV1, RoceV2, Unknown};
        // The table of a usual RoCE port: each address twice.
        check(
            &[
                (RoceV1, "fe80::1"),
                (RoceV2, "fe80::1"),
                (RoceV1, "::ffff:10.0.0.7"),
                (RoceV2, "::ffff:10.0.0.7"),
                (RoceV2, "2001:db8::7"),
            ],
            Some(3),
        );
        check(&[(RoceV1, "fe80::1"), (RoceV2, "fe80::1"), (RoceV1, "::ffff:10.0.0.7")], Some(1));
        check(&[(RoceV2, "::ffff:169.254.1.1"), (RoceV2, "2001:db8::7")], Some(1));
        check(&[(RoceV2, "fd00::1"), (RoceV2, "fe80::1")], Some(0));
        check(&[(RoceV2, "::ffff:10.0.0.7"), (RoceV2, "::ffff:10.0.0.8")], Some(0));
        check(&[(InfiniBand, "fe80::1"), (InfiniBand, "fec0::1")], Some(1));
        check(&[(RoceV2, "::"), (Unknown(7), "fd00::1")], None);
        check(&[], None);
    }

    #[test]
    fn the_gid_is_of_the_interface_with_the_address_by_which_the_peer_is_known() {
        // A port with a VLAN: two interfaces, of which one has two addresses.
        let table = [
            (GidKind::RoceV2, "fe80::1", 2),
            (GidKind::RoceV2, "::ffff:10.0.0.7", 2),
            (GidKind::RoceV2, "fe80::1", 5),
            (GidKind::RoceV1, "::ffff:10.1.0.7", 5),
            (GidKind::RoceV2, "::ffff:10.1.0.7", 5),
            (GidKind::RoceV2, "::ffff:10.1.0.8", 5),
            (GidKind::RoceV2, "2001:db8::7", 5),
        ];
        let gids = table.iter().zip(0..).map(|(&(kind, address, interface), index)| {
            let address = address.parse().unwrap();
            PortGid { index, kind, address, interface }
        });
        let gids: Vec<PortGid> = gids.collect();
        let check = |via: Option<&str>, expected: u32| {
            let found = best(&gids, via.map(|address| address.parse().unwrap()));
            assert_eq!(found.map(|gid| gid.index), Some(expected), "{via:?}");
        };
        check(None, 1);
        check(Some("10.0.0.7"), 1);
        check(Some("10.1.0.7"), 4);
        check(Some("::ffff:10.1.0.8"), 5);
        check(Some("2001:db8::7"), 6);
        // A management network, which the port is not on.
        check(Some("192.0.2.1"), 1);
        // What is not routable is worse than another interface.
        check(Some("fe80::1"), 1);
    }
}
