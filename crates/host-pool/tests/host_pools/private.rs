use mooncake_client::{HttpAddress, OpenError, StoreConfig};
use mooncake_host_pool::HostPool;

use crate::rig::{address, config, get, put};

#[test]
fn a_process_has_a_pool_of_its_own() {
    let pool = HostPool::open(&address("local://"), config(16 << 20)).expect("it opens");
    put(&pool, "key", b"value");
    assert_eq!(get(&pool, "key").as_deref(), Some(&b"value"[..]));
    assert_eq!(pool.exist(&["key", "other"]), [Ok(true), Ok(false)]);
    assert_eq!(pool.remove(&["key"], true), [Ok(())]);
    assert_eq!(get(&pool, "key"), None);
    let other = HostPool::open(&address("local://"), config(16 << 20)).expect("it opens");
    put(&pool, "mine", b"1");
    assert_eq!(get(&other, "mine"), None, "no pool knows of another");
    pool.close();
    pool.close();
    assert!(pool.exist(&["mine"])[0].is_err());
}

#[test]
fn what_is_put_beyond_the_memory_takes_the_place_of_the_oldest() {
    let pool = HostPool::open(&address("local://"), config(16 << 20)).expect("it opens");
    let value = vec![7; 1 << 20];
    for number in 0..40 {
        put(&pool, &format!("k{number}"), &value);
    }
    assert_eq!(get(&pool, "k39").as_deref(), Some(&value[..]));
    assert_eq!(get(&pool, "k0"), None);
}

#[test]
fn a_port_is_refused_where_none_is_to_be_opened() {
    let http = Some(HttpAddress { host: "127.0.0.1".to_owned(), port: 0 });
    let wanted = StoreConfig { http, ..config(0) };
    let refused = HostPool::open(&address("local://"), wanted).expect_err("it would be a port");
    assert_eq!(refused, OpenError::HttpWithoutPort);
}
