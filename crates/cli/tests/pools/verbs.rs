//! Nodes with the protocol `rdma`, over a double of libibverbs in each process.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use mooncake_client::{
    Buffer, GetTarget, HttpAddress, PutSource, RdmaConfig, ReplicateConfig, SliceList, Store,
    StoreConfig,
};
use mooncake_device::testing::{DeviceMemory, use_driver};
use mooncake_device_double::control as gpu;
use mooncake_testing::{Master, Program, http_get};
use mooncake_transfer::VerbsOptions;

use crate::start::{CLIENT, MASTER, config};

const MOONCAKE: &str = env!("CARGO_BIN_EXE_mooncake");

/// The double, which is built into the folder of the test programs.
fn library() -> String {
    let test = std::env::current_exe().expect("it is known");
    let path: PathBuf = test.with_file_name("libmooncake_verbs_double.so");
    path.display().to_string()
}

fn node(master: &Master, variables: &[(&str, &str)]) -> Program {
    let follows = format!("--master_server_address={}", master.rpc);
    let args =
        ["--host=127.0.0.1", "--port=0", "--global_segment_size=32MB", "--protocol=rdma", &follows];
    Program::start_with_variables(CLIENT, &args, variables)
}

/// Puts objects of several lengths and gets them.
fn use_pool(store: &Store) {
    for (key, len) in [("short", 100), ("long", 200_000), ("longer", 9 << 20)] {
        let bytes: Vec<u8> = (0..len).map(|at: usize| (at / 7 + len) as u8).collect();
        let buffer = Buffer::from_vec(bytes.clone());
        let source = PutSource::new(key, SliceList::from(buffer.raw()));
        let put = store.put(&[source], &ReplicateConfig::default()).remove(0);
        put.expect("there is room");
        let read = store.get(&[key]).remove(0).expect("it is there");
        assert!(read.into_vec() == bytes, "{key}");
    }
}

#[test]
fn objects_go_to_another_process_and_back_by_queue_pairs() {
    let (master, library) = (Master::start(MASTER, &[]), library());
    // The node has two NICs, and the store one.
    let variables = [
        ("MC_IBVERBS_PATH", library.as_str()),
        ("MOONCAKE_TRANSPORTS", "fabric"),
        ("MOONCAKE_VERBS_DOUBLE", "2"),
    ];
    let node = node(&master, &variables);
    node.line("the storage node is ready");
    let nic = VerbsOptions { library: Some(library.clone()), ..VerbsOptions::default() };
    let config = StoreConfig {
        transports: "fabric".parse().expect("it is a way"),
        rdma: Some(RdmaConfig { nic, or_fabric: false }),
        http: Some(HttpAddress { host: "127.0.0.1".to_owned(), port: 0 }),
        ..config(&master.rpc)
    };
    let store = Store::open(config).expect("the master serves");
    use_pool(&store);
    assert!(store.is_one_sided());
    let address = store.http_address().expect("it was asked for").to_string();
    let metrics = http_get(&address, "/metrics");
    assert!(metrics.contains("mooncake_client_nic_up{nic=\"double0\"} 1\n"), "{metrics}");
    let read = "mooncake_client_nic_read_bytes{nic=\"double0\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(read)).expect("it has one");
    assert!(line.parse::<u64>().is_ok_and(|bytes| bytes > 9 << 20), "{line}");
    drop(store);
    let args =
        ["doctor", "--protocol=rdma", "--master", &master.rpc, "--master-http", &master.admin];
    let output = Command::new(MOONCAKE).args(args).envs(variables).output();
    let text = String::from_utf8_lossy(&output.expect("the program exists").stdout).into_owned();
    let port = "\nlibibverbs\n  double0     port 1: RoCE, up, 200 Gb/s, packets of 1024 bytes\n";
    let way = "  way         fabric\n";
    assert!(text.contains(way) && text.contains("libibverbs on double0,double1, 10."), "{text}");
    assert!(text.contains(port) && text.contains("(RoCE v2), which is used\n"), "{text}");
}

#[test]
fn a_host_whose_port_is_down_uses_tcp_and_says_why() {
    let (master, library) = (Master::start(MASTER, &[]), library());
    let variables = [
        ("MC_IBVERBS_PATH", library.as_str()),
        ("MOONCAKE_VERBS_DOUBLE", "down"),
        ("MOONCAKE_TRANSPORTS", "fabric,tcp"),
    ];
    let node = node(&master, &variables);
    let line = node.line("protocol 'rdma': there is no NIC of libibverbs");
    assert!(line.contains("double0: port 1 is down"), "{line}");
    node.line("the storage node is ready");
    let tcp =
        StoreConfig { transports: "tcp".parse().expect("it is a way"), ..config(&master.rpc) };
    use_pool(&Store::open(tcp).expect("the master serves"));
}

#[test]
fn memory_of_a_gpu_goes_to_another_process_and_back_without_a_copy() {
    const LEN: usize = 9 << 20;
    let (master, library) = (Master::start(MASTER, &[]), library());
    let variables = [("MC_IBVERBS_PATH", library.as_str()), ("MOONCAKE_TRANSPORTS", "fabric,tcp")];
    let node = node(&master, &variables);
    node.line("the storage node is ready");
    let nic = VerbsOptions { library: Some(library.clone()), ..VerbsOptions::default() };
    let config = StoreConfig {
        transports: "fabric,tcp".parse().expect("they are ways"),
        rdma: Some(RdmaConfig { nic, or_fabric: false }),
        ..config(&master.rpc)
    };
    use_driver(mooncake_device_double::symbol);
    let store = Store::open(config).expect("the master serves");
    let bytes: Vec<u8> = (0..LEN).map(|at| (at / 7) as u8).collect();
    let (source, target) = (DeviceMemory::with(0, &bytes), DeviceMemory::new(1, LEN));
    let copies = || gpu::calls("execute");
    let use_pool = |key| {
        let before = copies();
        let put = store.put(&[PutSource::new(key, source.list())], &ReplicateConfig::default());
        assert!(put[0].is_ok(), "{put:?}");
        let got = store.get_into(&[GetTarget { key, dst: target.list() }]);
        assert_eq!(got, [Ok(LEN as u64)]);
        let made = copies() - before;
        assert!(target.to_vec() == bytes, "{key}");
        made
    };
    let starts = [&source, &target].map(|memory| memory.address() as usize);
    for start in starts {
        assert_eq!(store.register(start, LEN), Ok(()));
    }
    assert_eq!(use_pool("registered"), 0);
    for start in starts {
        assert_eq!(store.unregister(start), Ok(()));
    }
    assert!(use_pool("not registered") > 0);
}

#[test]
fn a_doctor_says_how_each_nic_reaches_the_memory_of_each_gpu_and_why() {
    let test = std::env::current_exe().expect("it is known");
    let folder = std::env::temp_dir().join(format!("mooncake-doctor-gpu-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is room");
    let driver = test.with_file_name("libmooncake_device_double.so");
    symlink(driver, folder.join("libcuda.so.1")).expect("there is room");
    let variables = [
        ("MC_IBVERBS_PATH", library()),
        ("LD_LIBRARY_PATH", folder.display().to_string()),
        // Of the first GPU. No kernel here has nvidia-peermem.
        ("DOUBLE_FAIL", "cuMemGetHandleForAddressRange=801".to_owned()),
    ];
    let master = "--master=127.0.0.1:1";
    let output = Command::new(MOONCAKE).args(["doctor", master]).envs(variables).output();
    let text = String::from_utf8_lossy(&output.expect("the program exists").stdout).into_owned();
    std::fs::remove_dir_all(&folder).expect("it was made");
    let gpus: Vec<&str> = text.split("\nGPU ").skip(1).collect();
    let [first, second] = gpus[..] else { panic!("{text}") };
    let staged = "\n  double0     staged; by dmabuf: cuMemGetHandleForAddressRange of the CUDA driver failed: \
                  CUDA_ERROR_OF_THE_DOUBLE (801); by the kernel module nvidia-peermem: libibverbs's ibv_reg_mr failed: \
                  Bad address (error 14)\n";
    assert!(first.starts_with("0: ") && first.contains(staged), "{text}");
    assert!(second.starts_with("1: ") && second.contains("\n  double0     by dmabuf\n"), "{text}");
}
