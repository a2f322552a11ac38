//! Which NICs, and which of their ports, are used.

use super::abi::{Context, DeviceAttr};
use super::call::Owned;
use super::error::VerbsError;
use super::list::{open_all, ports_of};
use super::load::{VerbsLibrary, library};
use super::options::VerbsOptions;
use super::ports::{VerbsNic, VerbsPort};
use crate::keys::MAX_NICS;
use crate::position::Position;

/// A NIC that fits, and its port that does.
pub(super) struct FoundNic {
    pub(super) context: Owned<Context>,
    pub(super) library: &'static VerbsLibrary,
    pub(super) attributes: DeviceAttr,
    pub(super) name: String,
    pub(super) port: VerbsPort,
}

impl VerbsOptions {
    /// Lists all NICs that these options let be used.
    ///
    /// # Errors
    /// The library cannot be used, a call of it failed, or it finds no NIC.
    pub fn nics(&self) -> Result<Vec<VerbsNic>, VerbsError> {
        let library = library(self.library.as_deref())?;
        let mut nics = Vec::new();
        for opened in open_all(library, &self.devices)? {
            let (name, context) = opened?;
            let (_, ports) = ports_of(library, &context)?;
            let numa_node = Position::of_nic(&self.sysfs, &name).node();
            nics.push(VerbsNic { name, ports, numa_node });
        }
        Ok(nics)
    }

    /// Opens the NICs with a port and a GID that fit, at most [`MAX_NICS`]: those with the same kind of link as the first
    /// of them.
    pub(super) fn find(&self) -> Result<Vec<FoundNic>, VerbsError> {
        let library = library(self.library.as_deref())?;
        let (mut found, mut reasons): (Vec<FoundNic>, Vec<String>) = (Vec::new(), Vec::new());
        for opened in open_all(library, &self.devices)? {
            let (name, context) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    reasons.push(error.to_string());
                    continue;
                }
            };
            let (attributes, ports) = match ports_of(library, &context) {
                Ok(listed) => listed,
                Err(error) => {
                    reasons.push(format!("{name}: {error}"));
                    continue;
                }
            };
            match self.choose(ports) {
                Ok(port) => found.push(FoundNic { context, library, attributes, name, port }),
                Err(reason) => reasons.push(format!("{name}: {reason}")),
            }
        }
        if found.is_empty() {
            return Err(VerbsError::NoneFits { reasons });
        }
        let ports: Vec<&VerbsPort> = found.iter().map(|nic| &nic.port).collect();
        let mut are_shared = self.are_shared(&ports).into_iter();
        found.retain(|_| are_shared.next() == Some(true));
        found.truncate(MAX_NICS);
        Ok(found)
    }

    /// Which NICs transfers are shared among, by their ports. What was named is used, however slow it is.
    fn are_shared(&self, ports: &[&VerbsPort]) -> Vec<bool> {
        let fastest = ports.iter().map(|port| port.bits_per_second).max().unwrap_or(0);
        let is_fast =
            |port: &VerbsPort| !self.devices.is_empty() || port.bits_per_second >= fastest / 2;
        let is_alike = |port: &&VerbsPort| port.is_ethernet == ports[0].is_ethernet;
        ports.iter().map(|port| is_alike(port) && is_fast(port)).collect()
    }

    /// The port to use of a NIC; the error says why there is none.
    pub(super) fn choose(&self, ports: Vec<VerbsPort>) -> Result<VerbsPort, String> {
        let mut reasons = Vec::new();
        for port in ports {
            let number = port.number;
            if self.port.is_some_and(|wanted| wanted != number) {
                continue;
            }
            if !port.is_active {
                reasons.push(format!("port {number} is down"));
                continue;
            }
            match port.choose_gid(self.gid_index, None) {
                Ok(_) => return Ok(port),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(match (reasons.is_empty(), self.port) {
            (false, _) => reasons.join(", "),
            (true, Some(port)) => format!("it has no port {port} (MC_IB_PORT)"),
            (true, None) => "it has no port".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::gid::{GidKind, PortGid};

    fn port(number: u8, is_active: bool) -> VerbsPort {
        let gid = |index, kind, address: &str| {
            let address = address.parse().unwrap();
            PortGid { index, kind, address, interface: 2 }
        };
        VerbsPort {
            number,
            is_active,
            is_ethernet: true,
            lid: 0,
            mtu_bytes: 1024,
            bits_per_second: 0,
            gids: vec![
                gid(0, GidKind::RoceV1, "fe80::1"),
                gid(1, GidKind::RoceV2, "::ffff:10.0.0.7"),
            ],
            max_request_bytes: 1 << 30,
        }
    }

    #[test]
    fn the_first_active_port_is_used_unless_another_is_named() {
        let default = VerbsOptions::default();
        let check = |options: &VerbsOptions, ports, expected: Result<(u8, u32), &str>| {
            let found = options.choose(ports).map(|port| {
                let gid = port.choose_gid(options.gid_index, None).unwrap();
                (port.number, gid.index)
            });
            assert_eq!(found, expected.map_err(str::to_owned));
        };
        check(&default, vec![port(1, true), port(2, true)], Ok((1, 1)));
        check(&default, vec![port(1, false), port(2, true)], Ok((2, 1)));
        check(&default, vec![port(1, false)], Err("port 1 is down"));
        check(&default, vec![], Err("it has no port"));
        let second = VerbsOptions { port: Some(2), ..default.clone() };
        check(&second, vec![port(1, true), port(2, true)], Ok((2, 1)));
        check(&second, vec![port(1, true), port(2, false)], Err("port 2 is down"));
        check(&second, vec![port(1, true)], Err("it has no port 2 (MC_IB_PORT)"));
        let first_gid = VerbsOptions { gid_index: Some(0), ..default.clone() };
        check(&first_gid, vec![port(1, true)], Ok((1, 0)));
        let third = VerbsOptions { gid_index: Some(3), ..default };
        check(&third, vec![port(1, true)], Err("port 1 has no GID 3 (MC_GID_INDEX)"));
    }

    #[test]
    fn transfers_are_shared_among_nics_with_the_same_link_and_about_the_same_speed() {
        let nic = |gigabits: u64, is_ethernet| VerbsPort {
            bits_per_second: gigabits * 1_000_000_000,
            is_ethernet,
            ..port(1, true)
        };
        let ports = [nic(400, true), nic(25, true), nic(400, false), nic(200, true)];
        let ports: Vec<&VerbsPort> = ports.iter().collect();
        let (any, named) = (VerbsOptions::default(), VerbsOptions::default().with_devices("a"));
        assert_eq!(any.are_shared(&ports), [true, false, false, true]);
        assert_eq!(named.are_shared(&ports), [true, true, false, true]);
        assert_eq!(any.are_shared(&[&nic(0, false), &nic(0, false)]), [true, true]);
    }
}
