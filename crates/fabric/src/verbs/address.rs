//! Ends of connections, as peers tell them to each other.

use std::net::{IpAddr, Ipv6Addr};

use super::abi::{IBV_LINK_LAYER_ETHERNET, IBV_MTU_256, IBV_MTU_4096};
use crate::address::Address;
use crate::keys::MAX_NICS;

/// Format of these addresses: a number that libfabric does not use.
pub(crate) const FORMAT: u32 = 0x7662_0001;

/// Length of an end.
const BYTES: usize = 30;

/// Most ends of a connection.
pub(crate) const MAX_ENDS: usize = 16;

/// One end of a connection, or a port, which has the number 0. An address is that of all ends of a connection, or of all
/// NICs of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndAddress {
    /// Number of the queue pair.
    pub(crate) number: u32,
    /// Number of the first packet that it sends.
    pub(crate) first_packet: u32,
    pub(crate) lid: u16,
    /// Longest packet, as a number of the library.
    pub(crate) mtu: u8,
    pub(crate) link_layer: u8,
    /// Most reads that it serves at once.
    pub(crate) reads: u8,
    pub(crate) gid: [u8; 16],
    /// Which NIC of its device it is at: the place of the NIC's keys.
    pub(crate) nic: u8,
}

impl EndAddress {
    /// The address that these make up.
    pub(crate) fn to_address(ends: &[EndAddress]) -> Address {
        let mut bytes = Vec::with_capacity(ends.len() * BYTES);
        for end in ends {
            bytes.extend(end.number.to_be_bytes());
            bytes.extend(end.first_packet.to_be_bytes());
            bytes.extend(end.lid.to_be_bytes());
            bytes.extend([end.mtu, end.link_layer, end.reads]);
            bytes.extend(end.gid);
            bytes.push(end.nic);
        }
        Address { format: FORMAT, bytes }
    }

    /// The ends in these bytes, if they are some. They may be wrong in any way.
    pub(crate) fn all_of_bytes(bytes: &[u8]) -> Option<Vec<EndAddress>> {
        let (ends, rest) = bytes.as_chunks::<BYTES>();
        let is_whole = rest.is_empty() && (1..=MAX_ENDS).contains(&ends.len());
        is_whole.then(|| ends.iter().map(EndAddress::of_bytes).collect())?
    }

    fn of_bytes(bytes: &[u8; BYTES]) -> Option<EndAddress> {
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let address = EndAddress {
            number: word(0),
            first_packet: word(4),
            lid: u16::from_be_bytes([bytes[8], bytes[9]]),
            mtu: bytes[10],
            link_layer: bytes[11],
            reads: bytes[12],
            gid: std::array::from_fn(|at| bytes[13 + at]),
            nic: bytes[29],
        };
        let has_24_bits = address.number | address.first_packet < 1 << 24;
        let is_mtu = (IBV_MTU_256..=IBV_MTU_4096).contains(&u32::from(address.mtu));
        let is_nic = usize::from(address.nic) < MAX_NICS;
        (has_24_bits && is_mtu && is_nic && address.reads > 0).then_some(address)
    }

    /// Whether one of the ends is one that a port like those of `own` can be connected with, and none is of another link.
    pub(crate) fn is_reached_from(bytes: &[u8], own: &[u8]) -> bool {
        let both = EndAddress::all_of_bytes(bytes).zip(EndAddress::all_of_bytes(own));
        both.is_some_and(|(ends, own)| {
            let is_alike = |end: &EndAddress| end.link_layer == own[0].link_layer;
            ends.iter().all(is_alike) && ends.iter().any(|end| end.number != 0)
        })
    }

    pub(crate) fn is_ethernet(&self) -> bool {
        self.link_layer == IBV_LINK_LAYER_ETHERNET
    }

    /// The address for people.
    pub(crate) fn text(bytes: &[u8]) -> Option<String> {
        let ends = EndAddress::all_of_bytes(bytes)?;
        let end = ends.iter().find(|end| end.number != 0).unwrap_or(&ends[0]);
        let gid = match Ipv6Addr::from(end.gid).to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => address.to_string(),
        };
        let lid = if end.lid == 0 { String::new() } else { format!(" lid {}", end.lid) };
        let number = match end.number {
            0 => String::new(),
            number => format!(" queue pair {number}"),
        };
        let others = match ends.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        Some(format!("{gid}{lid}{number}{others}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    const END: EndAddress = EndAddress {
        number: 0x1234,
        first_packet: 0xabcdef,
        lid: 7,
        mtu: 5,
        link_layer: 1,
        reads: 16,
        gid: [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        nic: 3,
    };

    fn address(end: EndAddress) -> Address {
        EndAddress::to_address(&[end])
    }

    #[test]
    fn ends_are_what_their_bytes_say_and_are_shown_to_people() {
        assert_eq!(EndAddress::all_of_bytes(&address(END).bytes), Some(vec![END]));
        assert_eq!(address(END).to_string(), "fe80::1 lid 7 queue pair 4660");
        let port = EndAddress { number: 0, lid: 0, link_layer: 2, ..END };
        assert_eq!(address(port).to_string(), "fe80::1");
        assert_eq!(Address::from_bytes(&address(END).to_bytes()), Ok(address(END)));
        let several = vec![EndAddress { number: 0, ..END }, END, EndAddress { nic: 0, ..END }];
        let all = EndAddress::to_address(&several);
        assert_eq!(all.to_string(), "fe80::1 lid 7 queue pair 4660 and 2 more");
        assert_eq!(EndAddress::all_of_bytes(&all.bytes), Some(several));
        let most = EndAddress::to_address(&[END; MAX_ENDS]);
        assert_eq!(Address::from_bytes(&most.to_bytes()), Ok(most));
    }

    #[test]
    fn an_end_that_no_queue_pair_can_be_connected_with_does_not_fit() {
        let own = address(EndAddress { number: 0, ..END });
        let check = |end: EndAddress, fits| {
            assert_eq!(address(end).fits(&own), fits, "{end:?}");
            let all = EndAddress::to_address(&[END, end]);
            let is_absent = end.number == 0;
            assert_eq!(all.fits(&own), fits || is_absent, "{end:?} beside one that fits");
        };
        check(END, true);
        check(EndAddress { number: 0, ..END }, false);
        check(EndAddress { number: 1 << 24, ..END }, false);
        check(EndAddress { first_packet: 1 << 24, ..END }, false);
        check(EndAddress { mtu: 0, ..END }, false);
        check(EndAddress { mtu: 6, ..END }, false);
        check(EndAddress { reads: 0, ..END }, false);
        check(EndAddress { link_layer: 2, ..END }, false);
        check(EndAddress { nic: 8, ..END }, false);
        let bytes = address(END).bytes;
        let too_many = EndAddress::to_address(&[END; MAX_ENDS + 1]).bytes;
        for wrong in [&bytes[1..], &[bytes.as_slice(), &[0]].concat(), &[], &too_many] {
            assert!(!Address { format: FORMAT, bytes: wrong.to_vec() }.fits(&own));
        }
        assert!(!Address { format: 2, bytes }.fits(&own));
    }
}
