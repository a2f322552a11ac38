//! What the commands say if the address of the pool is wrong.

use std::process::Command;
use std::time::{Duration, Instant};

use mooncake_testing::free_port;

use crate::pool::{Ended, Pool, fed, mooncake};

/// The commands that join a pool.
const COMMANDS: [&[&str]; 6] = [
    &["get", "a"],
    &["put", "a", "/etc/hostname"],
    &["ls"],
    &["stat", "a"],
    &["exists", "a"],
    &["rm", "a"],
];

fn hasty(mut command: Command) -> Ended {
    fed(
        {
            command.env("MC_RPC_CONNECT_TIMEOUT_MS", "200");
            command
        },
        b"",
    )
}

#[test]
fn no_master_at_the_address() {
    let nobody = format!("127.0.0.1:{}", free_port());
    for args in COMMANDS {
        let begun = Instant::now();
        let ended = hasty(mooncake(&[args, &["--master", &nobody]].concat()));
        let expected = format!("mooncake {}: no master answered at {nobody} within ", args[0]);
        assert_eq!(ended.fails(1, &expected).text(), "");
        assert!(begun.elapsed() < Duration::from_secs(5), "{args:?}");
    }
    hasty(mooncake(&["pin", "a", "--master-http", &nobody]))
        .fails(1, &format!("mooncake pin: cannot reach http://{nobody}/api/v1/soft_pin: "));
}

#[test]
fn an_address_that_is_none() {
    for (address, reason) in [
        ("nonsense", "the master \"nonsense\" is not an address"),
        ("127.0.0.1:70000", "the master \"127.0.0.1:70000\" is not an address"),
        ("local://", "local:// is a pool of one process, so this one would be empty"),
        ("local:///no/such/pool", "there is no pool at /no/such/pool: No such file"),
        ("local://pool", "the master \"local://pool\" is not an address: a folder must follow"),
        ("etcd://", "\"etcd://\" is no address of a coordinator: it names no endpoint"),
    ] {
        let ended = hasty(mooncake(&["ls", "--master", address]));
        assert_eq!(ended.status, Some(1), "{address}: {ended:?}");
        assert!(ended.error.contains(reason), "{address}: {ended:?}");
    }
    let local = mooncake(&["pin", "a", "--master", "local:///dev/shm"]);
    hasty(local).fails(1, "mooncake pin: the pool local:///dev/shm has no admin HTTP");
}

#[test]
fn the_port_of_admin_http_is_named_as_that() {
    let pool = Pool::start(&[]);
    let ended = hasty(mooncake(&["ls", "--master", &pool.master.admin]));
    let ended = ended.fails(1, "mooncake ls: ");
    assert!(ended.error.contains(&pool.master.admin), "{ended:?}");
}

#[test]
fn the_variable_names_the_pool_and_the_flag_overrides_it() {
    let pool = Pool::start(&[]);
    pool.run(&["ls"]).ok();
    let nobody = format!("127.0.0.1:{}", free_port());
    let mut command = mooncake(&["ls", "--master", &pool.master.rpc]);
    command.env("MOONCAKE_MASTER", &nobody);
    fed(command, b"").ok();
    let mut command = pool.command(&["ls"]);
    command.env("MOONCAKE_MASTER", &nobody);
    hasty(command).fails(1, &format!("mooncake ls: no master answered at {nobody}"));
    let listed = format!("{nobody},{}", pool.master.rpc);
    hasty(mooncake(&["ls", "--master", &listed])).ok();
    // `status` and `doctor` take the same names.
    let told = pool.run(&["status"]).ok();
    assert!(told.text().contains(&pool.master.rpc), "{told:?}");
    let told = pool.run(&["doctor"]);
    assert!(
        told.text().starts_with(&format!("master {}: 1 segments", pool.master.rpc)),
        "{told:?}"
    );
}

#[test]
fn a_misspelt_flag_or_command_names_the_nearest() {
    let run = |args: &[&str]| hasty(mooncake(args));
    run(&["gett"]).fails(2, "mooncake: there is no command 'gett'; did you mean get?\n");
    run(&["exist"]).fails(2, "mooncake: there is no command 'exist'; did you mean exists?\n");
    for (args, nearest) in [
        (["ls", "--lon"], "'--long'"),
        (["get", "--outptu"], "'--output'"),
        (["put", "--replcae"], "'--replace'"),
        (["rm", "--forec"], "'--force'"),
        (["ls", "--mster=x"], "'--master'"),
    ] {
        let ended = run(&args).fails(2, "error: unexpected argument");
        assert!(
            ended.error.contains(&format!("a similar argument exists: {nearest}")),
            "{ended:?}"
        );
    }
}

#[test]
fn the_version_names_the_commit_and_the_protocol() {
    let told = hasty(mooncake(&["--version"])).ok();
    let (version, protocol) =
        (mooncake_client::SOFTWARE_VERSION, mooncake_client::PROTOCOL_VERSION);
    let rest = told.text().strip_prefix(&format!("mooncake {version} (commit ")).expect("a commit");
    let (commit, rest) = rest.split_once(", ").expect("a protocol");
    assert_eq!(rest, format!("protocol {protocol})\n"));
    let is_hash =
        |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A build without git knows none.
    assert!(commit == "unknown" || is_hash(commit), "{commit}");
}
