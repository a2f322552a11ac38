//! Ends of connections, as peers tell them to each other.

use std::net::{IpAddr, Ipv6Addr};

use super::abi::{IBV_LINK_LAYER_ETHERNET, IBV_MTU_256, IBV_MTU_4096};
use crate::address::Address;

/// Format of these addresses: a number that libfabric does not use.
pub(crate) const FORMAT: u32 = 0x7662_0001;

/// Length of an address.
const BYTES: usize = 29;

/// One end of a connection, or a port, which has the number 0.
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
}

impl EndAddress {
    pub(crate) fn to_address(self) -> Address {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend(self.number.to_be_bytes());
        bytes.extend(self.first_packet.to_be_bytes());
        bytes.extend(self.lid.to_be_bytes());
        bytes.extend([self.mtu, self.link_layer, self.reads]);
        bytes.extend(self.gid);
        Address { format: FORMAT, bytes }
    }

    /// The address in these bytes, if it is one. They may be wrong in any way.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<EndAddress> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
        let address = EndAddress {
            number: word(0),
            first_packet: word(4),
            lid: u16::from_be_bytes([bytes[8], bytes[9]]),
            mtu: bytes[10],
            link_layer: bytes[11],
            reads: bytes[12],
            gid: std::array::from_fn(|at| bytes[13 + at]),
        };
        let has_24_bits = address.number | address.first_packet < 1 << 24;
        let is_mtu = (IBV_MTU_256..=IBV_MTU_4096).contains(&u32::from(address.mtu));
        (has_24_bits && is_mtu && address.reads > 0).then_some(address)
    }

    /// Whether it is an end that a port like `own` can be connected with.
    pub(crate) fn is_reached_from(bytes: &[u8], own: &[u8]) -> bool {
        let both = EndAddress::of_bytes(bytes).zip(EndAddress::of_bytes(own));
        both.is_some_and(|(peer, own)| peer.number != 0 && peer.link_layer == own.link_layer)
    }

    pub(crate) fn is_ethernet(&self) -> bool {
        self.link_layer == IBV_LINK_LAYER_ETHERNET
    }

    /// The address for people.
    pub(crate) fn text(bytes: &[u8]) -> Option<String> {
        let EndAddress { number, lid, gid, .. } = EndAddress::of_bytes(bytes)?;
        let gid = match Ipv6Addr::from(gid).to_canonical() {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => address.to_string(),
        };
        let lid = if lid == 0 { String::new() } else { format!(" lid {lid}") };
        let end = if number == 0 { String::new() } else { format!(" queue pair {number}") };
        Some(format!("{gid}{lid}{end}"))
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
    };

    #[test]
    fn an_end_is_what_its_bytes_say_and_is_shown_to_people() {
        let address = END.to_address();
        assert_eq!(EndAddress::of_bytes(&address.bytes), Some(END));
        assert_eq!(address.to_string(), "fe80::1 lid 7 queue pair 4660");
        let port = EndAddress { number: 0, lid: 0, link_layer: 2, ..END };
        assert_eq!(port.to_address().to_string(), "fe80::1");
        assert_eq!(Address::from_bytes(&address.to_bytes()), Ok(address));
    }

    #[test]
    fn an_end_that_no_queue_pair_can_be_connected_with_does_not_fit() {
        let own = EndAddress { number: 0, ..END }.to_address();
        let check = |end: EndAddress, fits| {
            assert_eq!(end.to_address().fits(&own), fits, "{end:?}");
        };
        check(END, true);
        check(EndAddress { number: 0, ..END }, false);
        check(EndAddress { number: 1 << 24, ..END }, false);
        check(EndAddress { first_packet: 1 << 24, ..END }, false);
        check(EndAddress { mtu: 0, ..END }, false);
        check(EndAddress { mtu: 6, ..END }, false);
        check(EndAddress { reads: 0, ..END }, false);
        check(EndAddress { link_layer: 2, ..END }, false);
        let bytes = END.to_address().bytes;
        for wrong in [&bytes[1..], &[bytes.as_slice(), &[0]].concat(), &[]] {
            assert!(!Address { format: FORMAT, bytes: wrong.to_vec() }.fits(&own));
        }
        assert!(!Address { format: 2, bytes }.fits(&own));
    }
}
