//! The commands on a pool without a master on the network.

use mooncake_client::StoreConfig;
use mooncake_host_pool::{HostPool, HostPoolAddress};

use crate::pool::{fed, folder, mooncake};

#[test]
fn a_pool_of_this_host_is_read_and_written_by_its_folder() {
    let folder = folder("host-pool");
    let name = format!("local://{}", folder.display());
    let address = HostPoolAddress::parse(&name).expect("a path").expect("a pool of this host");
    let defaults = StoreConfig::from_variables(|_| None).expect("the defaults make sense");
    let pool = HostPool::open(&address, StoreConfig { segment_bytes: 64 << 20, ..defaults });
    let pool = pool.expect("a pool");
    let run =
        |args: &[&str], input: &[u8]| fed(mooncake(&[args, &["--master", &name]].concat()), input);
    run(&["put", "a"], b"value").ok();
    assert_eq!(run(&["get", "a"], b"").ok().text(), "value");
    assert_eq!(run(&["ls"], b"").ok().text(), "a\n");
    let told = run(&["stat", "a"], b"").ok();
    assert!(told.text().contains("replica 0  memory on "), "{told:?}");
    run(&["rm", "a", "--force"], b"").ok();
    run(&["exists", "a"], b"").fails(3, "");
    pool.close();
    std::fs::remove_dir_all(folder).expect("it is there");
}
