//! Addresses of endpoints, as peers tell them to each other.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::abi::{FI_ADDR_STR, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use crate::verbs::{EndAddress, FORMAT};

/// Longest address, in bytes: that of 16 ends of libibverbs has 480.
pub const MAX_ADDRESS_BYTES: usize = 496;

/// An endpoint's address, and its format: a number of libfabric, or that of an end of libibverbs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address {
    pub(crate) format: u32,
    pub(crate) bytes: Vec<u8>,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&address_text(self.format, &self.bytes))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl Address {
    /// Whether an endpoint with addresses like `own` can use this one. The library reads an address by its format, also
    /// beyond its end.
    pub(crate) fn fits(&self, own: &Address) -> bool {
        if self.format != own.format || self.bytes.len() > MAX_ADDRESS_BYTES {
            return false;
        }
        match self.format {
            FORMAT => EndAddress::is_reached_from(&self.bytes, &own.bytes),
            FI_ADDR_STR => self.bytes.last() == Some(&0) && text_of(&self.bytes).is_some(),
            FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => {
                self.bytes.len() == own.bytes.len()
                    && socket_address(&self.bytes).is_some_and(|it| it.port() != 0)
            }
            _ => self.bytes.len() == own.bytes.len(),
        }
    }
}

/// An address for people: `10.0.0.1:1234`, the text of a name, or hexadecimal digits.
pub(crate) fn address_text(format: u32, bytes: &[u8]) -> String {
    let known = match format {
        FI_SOCKADDR | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => {
            socket_address(bytes).map(|address| address.to_string())
        }
        FI_ADDR_STR => text_of(bytes),
        FORMAT => EndAddress::text(bytes),
        _ => None,
    };
    known.unwrap_or_else(|| match bytes.is_empty() {
        true => "no address".to_owned(),
        false => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

/// The text before the first zero, if it is one.
fn text_of(bytes: &[u8]) -> Option<String> {
    let text = bytes.split(|&byte| byte == 0).next().filter(|text| !text.is_empty())?;
    String::from_utf8(text.to_vec()).ok()
}

/// The address in a `sockaddr_in` or `sockaddr_in6`.
fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    match family {
        libc::AF_INET if bytes.len() == size_of::<libc::sockaddr_in>() => {
            let ip: [u8; 4] = bytes[4..8].try_into().ok()?;
            Some(SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::from(ip), port)))
        }
        libc::AF_INET6 if bytes.len() == size_of::<libc::sockaddr_in6>() => {
            let ip: [u8; 16] = bytes[8..24].try_into().ok()?;
            let scope = u32::from_ne_bytes(bytes[24..28].try_into().ok()?);
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(port: u16) -> Vec<u8> {
        let mut bytes = u16::try_from(libc::AF_INET).unwrap().to_ne_bytes().to_vec();
        bytes.extend(port.to_be_bytes());
        bytes.extend([127, 0, 0, 1]);
        bytes.resize(16, 0);
        bytes
    }

    #[test]
    fn addresses_are_shown_as_people_write_them() {
        let check = |format, bytes: &[u8], expected: &str| {
            assert_eq!(address_text(format, bytes), expected);
        };
        check(FI_SOCKADDR_IN, &ipv4(4711), "127.0.0.1:4711");
        check(FI_SOCKADDR_IN, &ipv4(4711)[..15], "020012677f0000010000000000000000"[..30].as_ref());
        check(FI_ADDR_STR, b"fi_shm://77\0", "fi_shm://77");
        check(14, &[1, 0xab], "01ab");
        check(14, &[], "no address");
    }

    #[test]
    fn an_address_that_the_library_would_misread_does_not_fit() {
        let own = Address { format: FI_SOCKADDR_IN, bytes: ipv4(1) };
        let name = Address { format: FI_ADDR_STR, bytes: b"fi_shm://77\0".to_vec() };
        let efa = Address { format: 12, bytes: vec![7; 32] };
        let check = |own: &Address, format, bytes: &[u8], fits| {
            let address = Address { format, bytes: bytes.to_vec() };
            assert_eq!(address.fits(own), fits, "{address}");
        };
        check(&own, FI_SOCKADDR_IN, &ipv4(4711), true);
        check(&own, FI_SOCKADDR_IN, &ipv4(0), false);
        check(&own, FI_SOCKADDR_IN, &ipv4(4711)[..8], false);
        check(&own, FI_SOCKADDR_IN, &[0; 16], false);
        check(&own, FI_SOCKADDR_IN6, &ipv4(4711), false);
        check(&own, FI_SOCKADDR_IN, &[], false);
        check(&name, FI_ADDR_STR, b"fi_shm://8\0", true);
        check(&name, FI_ADDR_STR, b"fi_shm://8", false);
        check(&name, FI_ADDR_STR, b"\0", false);
        check(
            &name,
            FI_ADDR_STR,
            &[b"n".repeat(MAX_ADDRESS_BYTES), b"\0".to_vec()].concat(),
            false,
        );
        check(&efa, 12, &[9; 32], true);
        check(&efa, 12, &[9; 31], false);
    }
}
