//! Memory of a device: addresses that the processor cannot access, and bytes in a memory file.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, symlink};
use std::sync::{Arc, Mutex};

use mooncake_fabric::testing::{calls_made, fail, fail_none};
use mooncake_fabric::{
    Access, DeviceKnownBy, DeviceRefusal, Direction, Domain, Limits, NicTrial, Part, RegisterError,
    TransferError, VerbsOptions,
};
use mooncake_memory::{DeviceAccess, DeviceRegion, Dmabuf, HeldMemory};
use mooncake_verbs_double::control;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::pair::{LEN, Pair, double, memory, soon};

/// The memory begins in the midst of a page, of its dmabuf too.
const WITHIN: usize = 300;

/// The GPU of a test: one page-aligned reservation of addresses, and its bytes.
#[derive(Debug)]
struct Gpu {
    start: usize,
    bytes: OwnedFd,
    refuses: Option<&'static str>,
    pci_address: Option<String>,
}

impl Gpu {
    fn new() -> Gpu {
        let len = LEN + 2 * 4096;
        let bytes = memfd_create(c"gpu", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&bytes, len as u64).unwrap();
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE)
        };
        Gpu { start: start.unwrap().addr(), bytes, refuses: None, pci_address: None }
    }

    fn file(&self) -> fs::File {
        self.bytes.try_clone().unwrap().into()
    }

    fn region(self) -> Arc<DeviceRegion> {
        let at = self.start + WITHIN;
        Arc::new(DeviceRegion::new(3, at, LEN, Box::new(self)))
    }
}

impl DeviceAccess for Gpu {
    fn admit_cards(&self) -> Result<(), String> {
        Ok(())
    }

    fn dmabuf(&self) -> Result<Dmabuf, String> {
        match self.refuses {
            Some(reason) => Err(reason.to_owned()),
            None => {
                let descriptor = self.bytes.try_clone().map_err(|error| error.to_string())?;
                Ok(Dmabuf { descriptor, offset: WITHIN as u64 })
            }
        }
    }

    fn settle(&self) -> Result<(), String> {
        Ok(())
    }

    fn pci_address(&self) -> Option<String> {
        self.pci_address.clone()
    }
}

fn whole(region: &Arc<DeviceRegion>) -> HeldMemory {
    HeldMemory::Device(region.hold(region.address(), LEN).unwrap())
}

/// Nothing is as a test before this one has left it.
fn usual() {
    control::take_dmabufs(true);
    control::set_peermem(None);
}

/// Reads from and writes to a peer, and compares all bytes with those in the file.
fn moves(pair: &Pair, region: &Arc<DeviceRegion>, file: &fs::File) {
    let exposed = pair.expose(7, Access::ReadWrite);
    let transfer = |direction, local: HeldMemory| {
        let part = Part { local, remote: exposed.remote(), offset: 0 };
        pair.peer.submit(direction, &[part])?.wait(soon())
    };
    transfer(Direction::Read, whole(region)).unwrap();
    let mut found = vec![0; LEN + 2];
    file.read_exact_at(&mut found, WITHIN as u64 - 1).unwrap();
    assert_eq!((found[0], found[LEN + 1]), (0, 0), "nothing was written around it");
    assert_eq!(found[1..=LEN], [7; LEN]);
    file.write_all_at(&[9; LEN], WITHIN as u64).unwrap();
    transfer(Direction::Write, whole(region)).unwrap();
    assert_eq!(exposed.memory().raw().to_vec(), [9; LEN]);
    // The processor cannot put these bytes into the request, however few they are.
    file.write_all_at(&[5; 64], WITHIN as u64).unwrap();
    let few = HeldMemory::Device(region.hold(region.address(), 64).unwrap());
    transfer(Direction::Write, few).unwrap();
    assert_eq!(exposed.memory().sub(0, 65).raw().to_vec(), [[5; 64].as_slice(), &[9]].concat());
}

fn made(call: &str) -> usize {
    calls_made().get(call).copied().unwrap_or_default()
}

#[test]
fn memory_of_a_device_is_registered_by_dmabuf_once_and_until_its_region_goes() {
    let _double = double();
    usual();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let gpu = Gpu::new();
    let (file, region) = (gpu.file(), gpu.region());
    let (before, objects) = (made("ibv_reg_dmabuf_mr"), control::objects()[1]);
    moves(&pair, &region, &file);
    moves(&pair, &region, &file);
    // Two pieces of at most 200,000 bytes.
    assert_eq!((made("ibv_reg_dmabuf_mr") - before, control::objects()[1] - objects), (2, 2));
    let found = pair.domain.try_device(&region);
    let known_by = Ok(DeviceKnownBy::Dmabuf);
    assert_eq!(found, [NicTrial { nic: "double0".to_owned(), known_by }]);
    drop(region);
    assert_eq!(control::objects()[1], objects);
}

/// The GPU that nvidia-peermem knows: its first address, and its file.
static KNOWN: Mutex<Option<(u64, OwnedFd)>> = Mutex::new(None);

fn peermem(address: u64, _: usize) -> Option<(OwnedFd, u64)> {
    let known = KNOWN.lock().unwrap();
    let (start, file) = known.as_ref()?;
    Some((file.try_clone().ok()?, address - start))
}

#[test]
fn without_a_dmabuf_its_address_is_registered_if_the_kernel_has_peermem() {
    let _double = double();
    usual();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    for (takes, refuses, reason) in [
        (false, None, "libibverbs's ibv_reg_dmabuf_mr failed: Operation not supported (error 95)"),
        (true, Some("its driver has none"), "its driver has none"),
    ] {
        control::take_dmabufs(takes);
        let gpu = Gpu { refuses, ..Gpu::new() };
        *KNOWN.lock().unwrap() = Some((gpu.start as u64, gpu.bytes.try_clone().unwrap()));
        control::set_peermem(Some(peermem));
        let (file, region) = (gpu.file(), gpu.region());
        moves(&pair, &region, &file);
        let known_by = Ok(DeviceKnownBy::Peermem { not_dmabuf: reason.to_owned() });
        let trial = NicTrial { nic: "double0".to_owned(), known_by };
        assert_eq!(pair.domain.try_device(&region), [trial]);

        control::set_peermem(None);
        let region = Gpu { refuses, ..Gpu::new() }.region();
        let error = pair.domain.register(&whole(&region)).unwrap_err();
        let RegisterError::Device { ordinal: 3, refusal, .. } = &error else { panic!("{error}") };
        let DeviceRefusal::Nic { dmabuf, peermem } = refusal else { panic!("{refusal}") };
        assert_eq!((dmabuf.as_str(), peermem.number), (reason, libc::EFAULT));
        let text = error.to_string();
        assert!(text.contains("by dmabuf: ") && text.contains("nvidia-peermem: "), "{text}");
        let exposed = pair.expose(7, Access::Read);
        let part = Part { local: whole(&region), remote: exposed.remote(), offset: 0 };
        let submitted = pair.peer.submit(Direction::Read, &[part]).err();
        assert_eq!(submitted, Some(TransferError::Register(error)));
    }
    usual();
}

#[test]
fn a_nic_that_refuses_it_is_left_out_and_the_nearest_to_the_gpu_is_taken() {
    let _double = double();
    usual();
    control::set_nics(&control::usual_nics(2));
    let sysfs = std::env::temp_dir().join(format!("mooncake-gpu-sysfs-{}", std::process::id()));
    for (at, (nic, path)) in [
        (Some("double0"), "pci0000:16/0000:16:00.0/0000:17:00.0"),
        (Some("double1"), "pci0000:97/0000:97:00.0/0000:98:00.0"),
        (None, "pci0000:97/0000:97:00.0/0000:99:00.0"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = sysfs.join("devices").join(path);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("numa_node"), format!("{at}\n")).unwrap();
        let all = sysfs.join("bus/pci/devices");
        fs::create_dir_all(&all).unwrap();
        symlink(&folder, all.join(folder.file_name().unwrap())).unwrap();
        if let Some(nic) = nic {
            let class = sysfs.join("class/infiniband").join(nic);
            fs::create_dir_all(&class).unwrap();
            symlink(&folder, class.join("device")).unwrap();
        }
    }
    let options = VerbsOptions { sysfs: sysfs.clone(), ..VerbsOptions::default() };
    let domain = Domain::open_verbs(&options, Limits::default()).unwrap();
    let pair = Pair::of(domain).unwrap();
    let carried = || ["double0", "double1"].map(|nic| control::carried(nic).1);
    let move_by = |place: Option<&str>| {
        let gpu = Gpu { pci_address: place.map(str::to_owned), ..Gpu::new() };
        let (file, region, before) = (gpu.file(), gpu.region(), carried());
        moves(&pair, &region, &file);
        let after = carried();
        [after[0] > before[0], after[1] > before[1]]
    };
    assert_eq!(move_by(Some("0000:99:00.0")), [false, true]);
    fail("ibv_reg_dmabuf_mr", 1, libc::ENOMEM);
    assert_eq!(move_by(Some("0000:99:00.0")), [true, false], "the nearest does not know it");
    assert!(fail_none());
    fs::remove_dir_all(&sysfs).unwrap();
}

#[test]
fn a_forked_child_registers_nothing_and_takes_nothing_back() {
    let _double = double();
    usual();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let gpu = Gpu::new();
    let (file, region, other) = (gpu.file(), gpu.region(), Gpu::new().region());
    moves(&pair, &region, &file);
    // SAFETY: the child only uses what it has a copy of, and ends without running what its parent has set up.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_told = pair.domain.register(&whole(&other)) == Err(RegisterError::Forked);
        drop((region, other, pair));
        // SAFETY: it ends this process alone.
        unsafe { libc::_exit(i32::from(!is_told)) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's, and there is room for its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "it was told");
    moves(&pair, &region, &file);
}

#[test]
fn local_memory_of_the_host_is_registered_ahead_of_its_first_transfer() {
    let _double = double();
    let pair = Pair::open(&VerbsOptions::default()).unwrap();
    let (local, exposed) = (memory(0), pair.expose(7, Access::Read));
    pair.domain.register(&local.clone().into()).unwrap();
    let before = made("ibv_reg_mr");
    pair.transfer(Direction::Read, &local, exposed.remote()).unwrap();
    assert_eq!((made("ibv_reg_mr"), local.raw().to_vec()), (before, vec![7; LEN]));
}
