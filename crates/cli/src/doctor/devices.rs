//! The GPUs of this host, and how their bytes are copied to segments.

use std::fmt::Write;

use mooncake_device::{
    CopyError, DeviceDescription, DeviceProbe, DeviceWay, PieceCopyMethod, devices, load_driver,
    probe, try_with_region,
};
use mooncake_fabric::{DeviceKnownBy, Domain, Limits, NicTrial, VerbsOptions};
use mooncake_types::ByteSize;
use rustix::process::{Resource, getrlimit};

/// Describes all GPUs, and how NICs reach their memory. A host without GPUs gets one line.
pub(super) fn describe(nics: Option<&VerbsOptions>) -> String {
    if let Err(error) = load_driver() {
        return format!("\nno GPU can be used here: {error}\n");
    }
    match devices() {
        Ok(devices) if devices.is_empty() => {
            "\nno GPU can be used here: the CUDA driver finds none\n".to_owned()
        }
        Ok(devices) => {
            // What libibverbs finds is told above.
            let nics = nics.and_then(|nics| Domain::open_verbs(nics, Limits::default()).ok());
            let one = |device: DeviceDescription| {
                let found = probe(device.ordinal);
                let mut text = describe_one(&device, &found);
                if let Some(nics) = &nics {
                    let tried = try_with_region(device.ordinal, |memory| nics.try_device(memory));
                    tried.unwrap_or_default().iter().for_each(|nic| text += &nic_line(nic));
                }
                text
            };
            devices.into_iter().map(one).collect()
        }
        Err(error) => format!("\nno GPU can be used here: {error}\n"),
    }
}

fn describe_one(device: &DeviceDescription, found: &Result<DeviceProbe, CopyError>) -> String {
    let DeviceDescription { ordinal, name, bytes, driver_version, numa_node, .. } = device;
    let (size, major, minor) =
        (ByteSize(*bytes), driver_version / 1000, driver_version % 1000 / 10);
    let node = numa_node.map_or(String::new(), |node| format!(", NUMA node {node}"));
    let mut text =
        format!("\nGPU {ordinal}: {name} ({size}), driver of CUDA {major}.{minor}{node}\n");
    let (way, reason) = match found {
        Err(error) => ("none", error.to_string()),
        Ok(DeviceProbe { way: DeviceWay::OneCopy, .. }) => {
            let reason = "the driver locks their memory";
            (
                "one copy to and from segments that are mapped here, staged elsewhere",
                reason.to_owned(),
            )
        }
        Ok(DeviceProbe { way: DeviceWay::Staged { reason }, .. }) => {
            ("staged", format!("the memory of segments cannot be locked: {reason}{}", memlock()))
        }
    };
    let _ = writeln!(text, "  way         {way}\n  because     {reason}");
    let Ok(DeviceProbe { pieces, speed, .. }) = found else { return text };
    let pieces = match pieces {
        PieceCopyMethod::Kernel => "a kernel for all",
        PieceCopyMethod::Batch => "one call for all (cuMemcpyBatchAsync)",
        PieceCopyMethod::Each => "a call for each",
    };
    let _ = writeln!(text, "  pieces      {pieces}");
    let _ = match speed {
        Ok(speed) => {
            let (from, to) = (speed.to_host / 1e9, speed.to_device / 1e9);
            writeln!(text, "  speed       {from:.1} GB/s from it, {to:.1} GB/s to it")
        }
        Err(error) => writeln!(text, "  speed       not measured: {error}"),
    };
    text
}

/// How a NIC reads and writes the memory of a GPU, and why.
fn nic_line(NicTrial { nic, known_by }: &NicTrial) -> String {
    let how = match known_by {
        Ok(DeviceKnownBy::Dmabuf) => "by dmabuf".to_owned(),
        Ok(DeviceKnownBy::Peermem { not_dmabuf }) => {
            format!("by nvidia-peermem; not by dmabuf: {not_dmabuf}")
        }
        Err(refusal) => format!("staged; {refusal}"),
    };
    format!("  {nic:<12}{how}\n")
}

/// The limit of locked memory of this process. Some drivers count their page-locks against it.
fn memlock() -> String {
    match getrlimit(Resource::Memlock).current {
        Some(bytes) => format!("; memlock of this process is {}", ByteSize(bytes)),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mooncake_device::DeviceSpeed;
    use mooncake_fabric::DeviceRefusal;

    #[test]
    fn each_nic_has_a_line_that_says_how_it_reaches_the_memory_and_why() {
        let line = |known_by| nic_line(&NicTrial { nic: "mlx5_0".to_owned(), known_by });
        assert_eq!(line(Ok(DeviceKnownBy::Dmabuf)), "  mlx5_0      by dmabuf\n");
        let not_dmabuf = "the driver gives none".to_owned();
        assert_eq!(
            line(Ok(DeviceKnownBy::Peermem { not_dmabuf })),
            "  mlx5_0      by nvidia-peermem; not by dmabuf: the driver gives none\n"
        );
        let reason = "the GPU is old".to_owned();
        let refused = line(Err(DeviceRefusal::Driver { reason }));
        assert_eq!(refused, "  mlx5_0      staged; the GPU is old\n");
    }

    #[test]
    fn a_gpu_is_described_by_its_way_the_reason_and_its_speed() {
        let device = DeviceDescription {
            ordinal: 1,
            name: "Name".to_owned(),
            bytes: 8 << 30,
            driver_version: 12_080,
            numa_node: Some(1),
            bus_address: "0000:3B:00.0".to_owned(),
        };
        let speed = DeviceSpeed { to_host: 25.04e9, to_device: 9e8 };
        let pieces = PieceCopyMethod::Kernel;
        let found = DeviceProbe { way: DeviceWay::OneCopy, pieces, speed: Ok(speed) };
        let expected = "\nGPU 1: Name (8 GB), driver of CUDA 12.8, NUMA node 1
  way         one copy to and from segments that are mapped here, staged elsewhere
  because     the driver locks their memory
  pieces      a kernel for all
  speed       25.0 GB/s from it, 0.9 GB/s to it\n";
        assert_eq!(describe_one(&device, &Ok(found)), expected);
        let way = DeviceWay::Staged { reason: "no pages".to_owned() };
        let pieces = PieceCopyMethod::Batch;
        let found = DeviceProbe { way, pieces, speed: Err(CopyError::NoDriver) };
        let text = describe_one(&device, &Ok(found));
        assert!(text.contains("\n  way         staged\n  because     the memory of segments cannot be locked: no pages"));
        assert!(text.contains("\n  pieces      one call for all (cuMemcpyBatchAsync)\n  speed       not measured: "), "{text}");
        let text = describe_one(&device, &Err(CopyError::NoDriver));
        assert!(text.contains("\n  way         none\n") && !text.contains("speed"), "{text}");
    }
}
