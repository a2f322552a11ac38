//! Memory of GPUs that NICs read and write themselves, with the doubles of both libraries.

use std::sync::Arc;

use mooncake_device::device_region;
use mooncake_device::testing::DeviceMemory;
use mooncake_device_double::control as gpu;
use mooncake_fabric::testing::calls_made;
use mooncake_memory::{Buffer, PlacedSlice, SliceList};
use mooncake_testing::logged;
use mooncake_verbs_double::control as nic;

use super::devices::turn;
use super::far::Net;
use super::rig::{
    EPOCH, Node, Object, all_ok, read_all, server_config, tcp_config, version, write_all,
};
use crate::testing::first_mismatch;
use crate::{
    FarLender, HotCache, HotCacheConfig, Paths, ServerConfig, TcpConfig, TransferError, Transport,
};

const MIB: u64 = 1 << 20;

/// Doubles that can do all.
fn usual() {
    nic::take_dmabufs(true);
    nic::set_peermem(None);
}

/// How many copies the driver has made.
fn copies() -> u64 {
    ["execute", "cuMemcpyHtoD", "cuMemcpyDtoH"].iter().map(|call| gpu::calls(call)).sum()
}

fn registrations() -> usize {
    calls_made().get("ibv_reg_dmabuf_mr").copied().unwrap_or_default()
}

/// A buffer that an application has registered. It begins in the midst of a page.
struct Registered<'p> {
    memory: DeviceMemory,
    paths: &'p Paths,
}

const WITHIN: usize = 512;

impl<'p> Registered<'p> {
    fn with(paths: &'p Paths, bytes: &[u8]) -> Registered<'p> {
        let memory = DeviceMemory::with(0, &[&[0; WITHIN], bytes].concat());
        let start = memory.address() as usize + WITHIN;
        paths.know_device(device_region(0, start, bytes.len()));
        Registered { memory, paths }
    }

    fn start(&self) -> usize {
        self.memory.address() as usize + WITHIN
    }

    fn list(&self, len: usize) -> SliceList<'_> {
        self.memory.slice(WITHIN, len).into()
    }

    fn is(&self, object: &Object) -> bool {
        let bytes = &self.memory.to_vec()[WITHIN..];
        first_mismatch(&bytes[..object.len as usize], &object.key, object.version, 0).is_none()
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.paths.forget(self.start());
    }
}

/// Writes an object from memory of a device, and reads it to other such memory. Returns how many copies the driver made
/// meanwhile.
fn write_and_read(paths: &Paths, object: &Object) -> u64 {
    let len = object.len as usize;
    let source = Registered::with(paths, &object.bytes());
    let target = Registered::with(paths, &vec![0; len]);
    let before = copies();
    assert_eq!(paths.write(EPOCH, &[object.write_op(source.list(len))]), all_ok(1));
    assert_eq!(paths.read(&[object.read_op(0, target.list(len))]), all_ok(1));
    let made = copies() - before;
    assert!(target.is(object), "{object:?}");
    made
}

#[test]
fn nics_move_memory_of_gpus_without_a_copy_by_dmabuf_or_by_peermem() {
    let _turn = turn();
    usual();
    let (node, paths) = (Net::Verbs.lender(1, 32 * MIB), Net::Verbs.far_by("fabric,tcp"));
    for (counter, by_dmabuf) in [(1, true), (2, false)] {
        nic::take_dmabufs(by_dmabuf);
        nic::set_peermem((!by_dmabuf).then_some(gpu::peermem));
        for len in [64 << 10, 9 * MIB + 5] {
            let object = Object::at(&node, 0, len, counter * 10 + len / MIB);
            assert_eq!(write_and_read(&paths, &object), 0, "{len} bytes");
            assert_eq!(read_all(&paths, std::slice::from_ref(&object)), all_ok(1));
        }
    }
    assert_eq!(node.host.reads(), 0, "no message carried bytes");
    usual();
}

#[test]
fn memory_that_no_nic_takes_is_staged_after_one_warning() {
    let _turn = turn();
    usual();
    let (node, paths) = (Net::Verbs.lender(1, 16 * MIB), Net::Verbs.far_by("fabric,tcp"));
    nic::take_dmabufs(false);
    let object = |counter| Object::at(&node, 0, MIB, counter);
    let memory = Registered::with(&paths, &object(1).bytes());
    let move_all = |counter| {
        let (object, before) = (object(counter), copies());
        assert_eq!(paths.write(EPOCH, &[object.write_op(memory.list(MIB as usize))]), all_ok(1));
        copies() - before
    };
    let said = logged(|| assert!(move_all(1) > 0));
    let staged = " WARN registered memory of the application is copied, since the device does not take it \
                  reason=by dmabuf: libibverbs's ibv_reg_dmabuf_mr \
                  failed: Operation not supported (error 95); by the kernel module nvidia-peermem: libibverbs's \
                  ibv_reg_mr failed: Bad address (error 14)\n";
    assert_eq!(said, staged);
    let again = || (move_all(2), write_and_read(&paths, &Object::at(&node, 2 * MIB, MIB, 2)));
    assert_eq!(logged(|| assert!(again().0 > 0)), "", "of other buffers neither");
    nic::take_dmabufs(true);
    assert!(move_all(3) > 0, "it is not known any more");
    drop(memory);
    assert_eq!(write_and_read(&paths, &object(4)), 0, "what is registered later is taken");
    // The driver gives no dmabuf.
    gpu::double_dmabuf(false);
    assert!(write_and_read(&paths, &object(5)) > 0);
}

#[test]
fn a_provider_of_libfabric_takes_no_memory_of_gpus() {
    let _turn = turn();
    let (node, paths) = (Net::Libfabric.lender(1, 16 * MIB), Net::Libfabric.far_by("fabric,tcp"));
    let object = Object::at(&node, 0, MIB, 1);
    let said = logged(|| assert!(write_and_read(&paths, &object) > 0));
    assert!(said.contains("only NICs of libibverbs take memory of GPUs"), "{said}");
}

#[test]
fn pieces_of_gpus_and_of_the_host_go_together_and_unregistered_ones_are_staged() {
    let _turn = turn();
    usual();
    let (node, paths) = (Net::Verbs.lender(1, 16 * MIB), Net::Verbs.far_by("fabric"));
    let object = Object::at(&node, 0, 200_064, 1);
    let bytes = object.bytes();
    let header = Buffer::from_vec(bytes[..64].to_vec());
    let body = Registered::with(&paths, &bytes[64..]);
    // A piece of 64 bytes would fit into a request, if the processor could read it.
    let all = || body.memory.slice(WITHIN, 200_000);
    let pieces: SliceList<'_> =
        [all().sub(0, 64), all().sub(0, 64), all().sub(64, 200_000 - 64)].into_iter().collect();
    let before = copies();
    let mixed = PlacedSlice::from(header.raw());
    let list: SliceList<'_> = [mixed, body.memory.slice(WITHIN, 200_000)].into_iter().collect();
    assert_eq!(paths.write(EPOCH, &[object.write_op(list)]), all_ok(1));
    assert!(copies() > before, "the header is not registered, so all of it is staged");
    assert_eq!(read_all(&paths, std::slice::from_ref(&object)), all_ok(1));
    let before = copies();
    let two = Object { len: 200_064, version: version(2), ..object.clone() };
    assert_eq!(paths.write(EPOCH, &[two.write_op(pieces)]), all_ok(1));
    assert_eq!(copies(), before);
    let found = Buffer::zeroed(200_064);
    assert_eq!(paths.read(&[two.read_op(0, found.raw().into())]), all_ok(1));
    assert_eq!(found.as_slice(), [&bytes[64..128], &bytes[64..]].concat());
}

#[test]
fn a_buffer_is_forgotten_by_the_nic_before_its_memory_is_freed() {
    let _turn = turn();
    usual();
    let (node, paths) = (Net::Verbs.lender(1, 16 * MIB), Net::Verbs.far_by("fabric"));
    let object = Object::at(&node, 0, MIB, 1);
    assert_eq!(write_all(&paths, std::slice::from_ref(&object)), all_ok(1));
    let (before, calls) = (nic::objects()[1], registrations());
    let target = Registered::with(&paths, &vec![0; MIB as usize]);
    for _ in 0..3 {
        assert_eq!(paths.read(&[object.read_op(0, target.list(MIB as usize))]), all_ok(1));
    }
    assert_eq!(
        (nic::objects()[1], registrations()),
        (before + 1, calls + 1),
        "it was registered once"
    );
    paths.forget(target.start());
    assert_eq!(nic::objects()[1], before);
    let copied = copies();
    assert_eq!(paths.read(&[object.read_op(0, target.list(MIB as usize))]), all_ok(1));
    assert!(copies() > copied && nic::objects()[1] == before);
}

#[test]
fn a_gpu_that_does_not_see_the_writes_of_nics_by_itself_is_told_after_each_read() {
    let _turn = turn();
    usual();
    let (node, paths) = (Net::Verbs.lender(1, 16 * MIB), Net::Verbs.far_by("fabric"));
    let flushes = || gpu::calls("cuFlushGPUDirectRDMAWrites");
    let object = |counter| Object::at(&node, 0, MIB, counter);
    assert_eq!((write_and_read(&paths, &object(1)), flushes()), (0, 0));
    assert_eq!(gpu::calls("cuPointerSetAttribute"), 2, "copies of the application are synchronous");
    gpu::double_card_writes(0, true);
    assert_eq!((write_and_read(&paths, &object(2)), flushes()), (0, 1));

    let target = Registered::with(&paths, &vec![0; MIB as usize]);
    let read = || paths.read(&[object(2).read_op(0, target.list(MIB as usize))]);
    gpu::fail("cuFlushGPUDirectRDMAWrites", 0, 999);
    let failed = read();
    let is_told = matches!(&failed[..], [Err(TransferError::BadMemory { reason })]
        if reason.contains("cuFlushGPUDirectRDMAWrites"));
    assert!(is_told, "{failed:?}");
    assert_eq!((read(), target.is(&object(2))), (all_ok(1), true));

    gpu::double_card_writes(0, false);
    let said = logged(|| assert!(write_and_read(&paths, &object(3)) > 0));
    assert!(
        said.contains("the GPU cannot be told when a network card has written to it"),
        "{said}"
    );
}

/// The node offers both ways.
#[test]
fn memory_of_gpus_is_staged_for_nodes_of_the_same_host() {
    let _turn = turn();
    usual();
    let far = Some(Arc::new(FarLender::open(&Net::Verbs.device()).unwrap()));
    let node = Node::with_config(1, 16 * MIB, ServerConfig { far, ..server_config() });
    let paths = Net::Verbs.far_by("process_vm,fabric,tcp");
    let before = registrations();
    assert!(write_and_read(&paths, &Object::at(&node, 0, MIB, 1)) > 0);
    assert_eq!(registrations(), before);
}

#[test]
fn what_a_hot_cache_keeps_is_staged_and_other_reads_are_not() {
    let _turn = turn();
    usual();
    let node = Net::Verbs.lender(1, 16 * MIB);
    let folder = std::env::temp_dir().join(format!("mooncake-far-hot-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (longest_bytes, at) = (Some(MIB), Some(folder.clone()));
    let config =
        HotCacheConfig { bytes: 16 * MIB, longest_bytes, folder: at, ..HotCacheConfig::default() };
    let hot = Arc::new(HotCache::open(&config, tcp_config()).unwrap());
    let paths = Net::Verbs.far_by("fabric,tcp").with_hot_cache(Some(hot));
    let short = Object::at(&node, 0, MIB, 1);
    assert!(write_and_read(&paths, &short) > 0);
    assert_eq!(write_and_read(&paths, &Object::at(&node, 2 * MIB, 9 * MIB, 2)), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn reads_that_are_checked_are_staged_and_writes_are_not() {
    let _turn = turn();
    usual();
    let node = Net::Verbs.lender(1, 16 * MIB);
    let config = TcpConfig { verify_reads: true, ..tcp_config() };
    let paths = Paths::new(None, config, "fabric,tcp".parse().unwrap());
    let paths = paths.with_fabric(Some(Net::Verbs.device()));
    for (counter, len) in [(1, 100_000), (2, MIB), (3, 9 * MIB + 5)] {
        let object = Object::at(&node, 0, len, counter);
        let source = Registered::with(&paths, &object.bytes());
        let before = copies();
        let written = paths.write(EPOCH, &[object.write_op(source.list(len as usize))]);
        assert_eq!((written, copies()), (all_ok(1), before));
        assert!(write_and_read(&paths, &object) > 0, "{len} bytes");
    }
}
