//! The devices that libfabric finds on this host.

use std::collections::BTreeMap;
use std::fmt::Write;

use mooncake_fabric::{Device, DeviceOptions, Link, devices, library_version};

/// Describes the library, its providers and their devices. A host without libfabric gets one line.
pub(super) fn describe(options: &DeviceOptions) -> String {
    let found = library_version(options).map_err(|error| error.to_string());
    let listed = found.and_then(|version| {
        let devices = devices(options).map_err(|error| error.to_string())?;
        Ok(format!("\nlibfabric {version}\n{}", table(&devices)))
    });
    listed.unwrap_or_else(|error| format!("\nno fabric can be used here: {error}\n"))
}

/// A line for each provider, with its devices.
fn table(devices: &[Device]) -> String {
    let mut providers: Vec<&str> = Vec::new();
    let mut named: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for device in devices {
        let text = match &device.link {
            Some(link) => format!("{}{}", device.name, describe_link(link)),
            None => device.name.clone(),
        };
        let others = named.entry(&device.provider).or_default();
        if others.is_empty() {
            providers.push(&device.provider);
        }
        // A device is listed for each of its addresses.
        if !others.contains(&text) {
            others.push(text);
        }
    }
    let mut text = String::new();
    for provider in providers {
        let _ = writeln!(text, "  {provider:<12}{}", named[provider].join(", "));
    }
    text
}

/// What is known of a NIC, in parentheses.
fn describe_link(link: &Link) -> String {
    let Link { nic, bits_per_second, is_up, pci_address } = link;
    let speed = (*bits_per_second > 0).then(|| format!("{} Gb/s", *bits_per_second as f64 / 1e9));
    let state = is_up.map(|is_up| if is_up { "up" } else { "down" }.to_owned());
    let name = (!nic.is_empty()).then(|| nic.clone());
    let place = pci_address.as_ref().map(|address| format!("PCI {address}"));
    let known: Vec<String> = [name, place, speed, state].into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

#[cfg(test)]
mod tests {
    use mooncake_fabric::MrMode;

    use super::*;

    fn device(provider: &str, name: &str, link: Option<Link>) -> Device {
        let mr_mode = MrMode {
            local: false,
            virtual_addresses: false,
            allocated: false,
            provider_keys: false,
            of_endpoint: false,
        };
        Device {
            provider: provider.to_owned(),
            name: name.to_owned(),
            fabric: String::new(),
            address_format: 0,
            address: Vec::new(),
            mr_mode,
            key_bytes: 8,
            needs_progress: false,
            max_requests: 1,
            max_request_bytes: 1,
            link,
        }
    }

    #[test]
    fn a_provider_has_a_line_with_each_device_once() {
        let nic = Link {
            nic: "mlx5_0".to_owned(),
            bits_per_second: 400_000_000_000,
            is_up: Some(true),
            pci_address: Some("0000:1a:00.0".to_owned()),
        };
        let unknown =
            Link { nic: String::new(), bits_per_second: 0, is_up: None, pci_address: None };
        let found = [
            device("efa", "rdmap0", Some(nic)),
            device("tcp;ofi_rxm", "eth0", None),
            device("efa", "rdmap1", Some(unknown)),
            device("tcp;ofi_rxm", "lo", None),
            device("tcp;ofi_rxm", "eth0", None),
        ];
        let expected = "  efa         rdmap0 (mlx5_0, PCI 0000:1a:00.0, 400 Gb/s, up), rdmap1\n  \
                        tcp;ofi_rxm eth0, lo\n";
        assert_eq!(table(&found), expected);
    }

    #[test]
    fn a_library_that_is_not_there_is_one_line() {
        let library = Some("/nowhere/libfabric.so".to_owned());
        let text = describe(&DeviceOptions { library, ..DeviceOptions::default() });
        assert!(
            text.starts_with("\nno fabric can be used here: libfabric cannot be loaded"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 2, "{text}");
    }
}
