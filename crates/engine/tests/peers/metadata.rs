use mooncake_engine::{Engine, EngineConfig, Metadata, Opcode, PeerError};

use crate::metadata_server::MetadataServer;
use crate::rig::{address, config, memory, move_one, piece};

fn open(url: &str, name: &str) -> Engine {
    let metadata = Metadata::Http { url: url.to_owned() };
    let local_hostname = name.to_owned();
    Engine::open(EngineConfig { metadata, local_hostname, ..config() })
        .expect("it can be published")
}

#[test]
fn peers_are_found_by_their_names() {
    let (near, far) = (memory(100), memory(100));
    let server = MetadataServer::default();
    let url = server.start();
    let (here, there) = (open(&url, "127.0.0.1:12347"), open(&url, "127.0.0.1:12345"));
    here.register(near.raw()).expect("free");
    there.register(far.raw()).expect("free");
    assert_eq!(server.keys(), ["mooncake/ram/127.0.0.1:12345", "mooncake/ram/127.0.0.1:12347"]);
    let whole = piece(address(near), address(far), 100);
    for peer in ["127.0.0.1:12345", "127.0.0.1:12347"] {
        assert_eq!(here.probe(peer), Ok(()), "{peer}");
    }
    assert_eq!(move_one(&here, "127.0.0.1:12345", Opcode::Write, whole), Ok(()));
    assert_eq!(here.first_buffer("127.0.0.1:12347"), Ok(address(near)));
    drop(there);
    assert_eq!(server.keys(), ["mooncake/ram/127.0.0.1:12347"]);
    let gone = here.probe("127.0.0.1:12345");
    assert!(matches!(gone, Err(PeerError::Unknown { .. })), "{gone:?}");
}

#[test]
fn a_peer_that_came_back_elsewhere_is_found() {
    let (near, far) = (memory(100), memory(100));
    let server = MetadataServer::default();
    let url = server.start();
    let (here, there) = (open(&url, "here"), open(&url, "there"));
    here.register(near.raw()).expect("free");
    let whole = piece(address(near), address(far), 100);
    assert_eq!(here.probe("there"), Ok(()));
    let newer = open(&url, "there");
    newer.register(far.raw()).expect("free");
    drop(there);
    assert_eq!(server.keys().len(), 2, "the newer owner of the name keeps it");
    assert!(move_one(&here, "there", Opcode::Write, whole).is_err(), "it was remembered");
    assert_eq!(move_one(&here, "there", Opcode::Write, whole), Ok(()));
}

#[test]
fn records_that_are_of_no_use_are_refused() {
    let server = MetadataServer::default();
    let here = open(&server.start(), "here");
    server.put(
        "mooncake/ram/cxx",
        r#"{"name":"cxx","protocol":"tcp","tcp_data_port":1,"buffers":[]}"#,
    );
    server.put("mooncake/ram/broken", "{");
    server.put("mooncake/ram/number", "17");
    for name in ["cxx", "broken", "number", "nobody", "a b&c=d/é"] {
        let result = here.probe(name);
        assert!(matches!(result, Err(PeerError::Unknown { .. })), "{name}: {result:?}");
        assert!(here.submit(name, Opcode::Read, &[]).is_err());
    }
    server.put(
        "mooncake/ram/portless",
        r#"{"name":"x","protocol":"tcp","tcp_data_port":1,"endpoint":"localhost"}"#,
    );
    assert!(matches!(here.probe("portless"), Err(PeerError::Name { .. })));
}

#[test]
fn clusters_that_share_a_server_are_kept_apart() {
    let server = MetadataServer::default();
    let metadata = Metadata::Http { url: server.start() };
    let of_cluster = |cluster: &str| {
        let (cluster_id, metadata) = (cluster.to_owned(), metadata.clone());
        Engine::open(EngineConfig { cluster_id, metadata, ..config() })
            .expect("it can be published")
    };
    let (_blue, red) = (of_cluster("blue"), of_cluster("red/"));
    assert_eq!(server.keys(), ["mooncake/blue/ram/127.0.0.1", "mooncake/red/ram/127.0.0.1"]);
    drop(red);
    assert_eq!(server.keys(), ["mooncake/blue/ram/127.0.0.1"]);
}

#[test]
fn a_metadata_server_with_a_token_is_told_it() {
    let server =
        MetadataServer { authorization: Some("Bearer secret"), ..MetadataServer::default() };
    let metadata = Metadata::Http { url: server.start() };
    let open = |token: &str| {
        let (metadata_token, metadata) = (token.to_owned(), metadata.clone());
        Engine::open(EngineConfig { metadata_token: metadata_token.into(), metadata, ..config() })
    };
    let error = open("guess").expect_err("it is the wrong token").to_string();
    assert!(error.contains("MC_METADATA_HTTP_TOKEN"), "{error}");
    assert_eq!(server.keys(), Vec::<String>::new());
    let engine = open("secret").expect("it is the right one");
    assert_eq!(server.keys().len(), 1);
    drop(engine);
    assert_eq!(server.keys(), Vec::<String>::new(), "it is withdrawn with the token, too");
}
