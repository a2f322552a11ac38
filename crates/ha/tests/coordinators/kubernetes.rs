use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use mooncake_ha::{
    AddressError, Change, Coordinator, CoordinatorError, Ended, KubernetesAccess, Options, Pod,
    connect,
};
use mooncake_types::SegmentId;
use serde_json::{Value, json};

use crate::leases::{Leases, serve};
use crate::server::free_port;
use crate::stub::{LossyWay, drips, floods, listen, says};
use crate::world::{CLUSTER, TTL, TestFolder, World, candidate, ended, follow, lead, options};

/// An API server on a port of this host.
struct Api {
    leases: Arc<Mutex<Leases>>,
    port: u16,
    scheme: &'static str,
    token: Option<std::path::PathBuf>,
    certificate: Option<std::path::PathBuf>,
    ttl: Duration,
}

impl Api {
    fn new() -> Self {
        let leases = Arc::<Mutex<Leases>>::default();
        let own = Arc::clone(&leases);
        let port = listen(move |stream| serve(&own, stream));
        Self { leases, port, scheme: "http", token: None, certificate: None, ttl: TTL }
    }

    fn lock(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().expect("no panic")
    }

    fn options(&self, cluster_id: &str) -> Options {
        let access = KubernetesAccess {
            url: format!("{}://127.0.0.1:{}", self.scheme, self.port),
            token_path: self.token.clone(),
            certificate_path: self.certificate.clone(),
        };
        Options { kubernetes: Some(access), ttl: self.ttl, ..options(cluster_id) }
    }

    /// Changes the Lease object as another client would.
    fn change(&self, act: impl FnOnce(&mut Value)) {
        let mut leases = self.lock();
        let mut object =
            leases.objects.get(CLUSTER).cloned().unwrap_or_else(
                || json!({"kind": "Lease", "metadata": {"name": CLUSTER}, "spec": {}}),
            );
        act(&mut object);
        let (status, _) = leases.store(CLUSTER, object, 200);
        assert_eq!(status, 200);
    }
}

impl World for Api {
    fn connect_to(&self, cluster_id: &str) -> Coordinator {
        // Each cluster has its own Lease object.
        let address = format!("k8s://kv/{cluster_id}");
        connect(&address, &self.options(cluster_id)).expect("an address")
    }

    fn spoil_leader(&self, bytes: &[u8]) {
        self.change(|object| {
            object["spec"]["holderIdentity"] = "someone".into();
            object["metadata"]["annotations"]["mooncake.io/leader"] =
                String::from_utf8_lossy(bytes).into();
        });
    }

    fn spoil_record(&self, bytes: &[u8]) {
        self.change(|object| {
            object["metadata"]["annotations"]["mooncake.io/membership"] =
                String::from_utf8_lossy(bytes).into();
        });
    }

    fn reach(&self) -> (String, Options) {
        (format!("k8s://kv/{CLUSTER}"), self.options(CLUSTER))
    }
}

crate::contract!(Api::new());
crate::contract_of_processes!(Api::new());

fn is_unavailable<T: std::fmt::Debug>(result: &Result<T, CoordinatorError>) -> bool {
    matches!(result, Err(CoordinatorError::Unavailable { .. }))
}

fn join(id: u128) -> [Change; 1] {
    [Change::Join(SegmentId(id))]
}

#[test]
fn others_may_write_into_the_object() {
    let api = Api::new();
    let leadership = lead(&api.connect(), "a", Duration::ZERO);
    for id in 1..4 {
        api.change(|object| object["metadata"]["labels"]["seen"] = id.to_string().into());
        leadership.apply(&join(id)).expect("it leads");
        api.change(|object| object["metadata"]["labels"]["seen"] = "again".into());
        leadership.renew().expect("it leads");
    }
    assert_eq!(leadership.record().members().len(), 3);
    assert_eq!(api.lock().objects[CLUSTER]["metadata"]["labels"]["seen"], "again");
}

#[test]
fn the_object_reads_as_other_programs_expect() {
    let api = Api::new();
    lead(&api.connect(), "a", Duration::ZERO).resign().expect("it leads");
    let _leadership = lead(&api.connect(), "b", Duration::ZERO);
    let object = api.lock().objects[CLUSTER].clone();
    let spec = &object["spec"];
    assert_eq!(object["apiVersion"], "coordination.k8s.io/v1");
    assert_eq!(spec["holderIdentity"], "b:50051");
    assert_eq!((&spec["leaseDurationSeconds"], &spec["leaseTransitions"]), (&json!(1), &json!(2)));
    for time in ["acquireTime", "renewTime"] {
        let text = spec[time].as_str().expect("a time");
        assert!(text.starts_with("20") && text.ends_with('Z') && text.len() == 27, "{text}");
    }
}

#[test]
fn an_object_that_was_removed_ends_the_leadership() {
    let api = Api::new();
    let leadership = lead(&api.connect(), "a", Duration::ZERO);
    api.lock().objects.clear();
    assert_eq!(ended(&leadership), Ended::Deposed);
}

#[test]
fn a_record_that_is_too_large_is_refused_and_changes_nothing() {
    let api = Api { ttl: TTL * 30, ..Api::new() };
    let leadership = lead(&api.connect(), "a", Duration::ZERO);
    let many: Vec<Change> = (0..8000).map(|id| Change::Join(SegmentId(id << 64))).collect();
    let refused = leadership.apply(&many);
    assert!(matches!(refused, Err(CoordinatorError::Full { .. })), "{refused:?}");
    leadership.apply(&many[..6500]).expect("it fits");
    leadership.resign().expect("it leads");
    assert_eq!(lead(&api.connect(), "b", Duration::ZERO).record().members().len(), 6500);
}

#[test]
fn an_answer_that_was_lost_does_not_lose_what_was_done() {
    let api = Api::new();
    let way = LossyWay::to(api.port);
    let lossy = Api { port: way.port, leases: Arc::clone(&api.leases), ..Api::new() };
    // Of the two requests, the second elects the leader; its answer is lost, and a third request finds that out.
    way.lose_after(1);
    let leadership = lead(&lossy.connect(), "a", Duration::ZERO);
    assert!(way.has_lost());
    for id in 1..4 {
        way.lose_after(0);
        let unknown = leadership.apply(&join(id));
        assert!(is_unavailable(&unknown) && way.has_lost(), "{unknown:?}");
        leadership.renew().expect("it leads");
        leadership.apply(&join(id)).expect("it leads");
    }
    leadership.resign().expect("it leads");
    assert_eq!(lead(&api.connect(), "b", Duration::ZERO).record().members().len(), 3);
}

#[test]
fn what_an_operator_has_to_do_is_said() {
    let api = Api::new();
    api.lock().authorization = Some("Bearer right".to_owned());
    let refused = api.connect().leader().expect_err("no token").to_string();
    assert!(refused.contains("401") && refused.contains("get, create and update"), "{refused}");

    let nowhere = connect("k8s://kv/a", &options(CLUSTER)).map(|_| ());
    assert!(matches!(nowhere, Err(AddressError::Kubernetes { .. })), "{nowhere:?}");
}

#[test]
fn a_token_that_was_replaced_is_used() {
    let folder = TestFolder::new();
    let path = folder.0.join("token");
    fs::write(&path, "first\n").expect("a file");
    let api = Api { token: Some(path.clone()), ..Api::new() };
    api.lock().authorization = Some("Bearer first".to_owned());
    let leadership = lead(&api.connect(), "a", Duration::ZERO);
    api.lock().authorization = Some("Bearer second".to_owned());
    assert!(is_unavailable(&leadership.renew()));
    fs::write(&path, "second").expect("a file");
    leadership.renew().expect("it leads");
    fs::remove_file(&path).expect("a file");
    let refused = leadership.renew().expect_err("no token").to_string();
    assert!(refused.contains(path.to_str().expect("plain")), "{refused}");
}

/// An API server with TLS and a self-signed certificate.
fn api_with_tls(folder: &TestFolder) -> Api {
    let names = vec!["127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let path = folder.0.join("ca.crt");
    fs::write(&path, made.cert.pem()).expect("a file");
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .expect("a certificate and its key");
    let (config, leases) = (Arc::new(config), Arc::<Mutex<Leases>>::default());
    let own = Arc::clone(&leases);
    let port = listen(move |stream| {
        let connection = rustls::ServerConnection::new(Arc::clone(&config)).expect("a connection");
        serve(&own, rustls::StreamOwned::new(connection, stream));
    });
    Api { leases, port, scheme: "https", token: None, certificate: Some(path), ttl: TTL }
}

#[test]
fn a_server_is_believed_by_its_certificate() {
    let (folder, other) = (TestFolder::new(), TestFolder::new());
    let api = api_with_tls(&folder);
    lead(&api.connect(), "a", Duration::ZERO).resign().expect("it leads");

    let stranger = Api { certificate: api_with_tls(&other).certificate, ..api };
    let refused = stranger.connect().leader();
    assert!(is_unavailable(&refused), "{refused:?}");
    assert!(refused.expect_err("a stranger").to_string().contains("certificate"));
}

#[test]
fn certificates_that_cannot_be_read_are_named() {
    let folder = TestFolder::new();
    let path = folder.0.join("ca.crt");
    let api = Api { certificate: Some(path.clone()), ..Api::new() };
    for text in [None, Some(""), Some("garbage"), Some("-----BEGIN CERTIFICATE-----\n!\n")] {
        if let Some(text) = text {
            fs::write(&path, text).expect("a file");
        }
        match connect("k8s://kv/a", &api.options(CLUSTER)) {
            Err(AddressError::Kubernetes { reason }) => {
                assert!(reason.contains("ca.crt"), "{text:?}: {reason}");
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
}

#[test]
fn a_lease_of_another_length_is_respected() {
    let api = Api { ttl: TTL * 3, ..Api::new() };
    let began = Instant::now();
    let first = lead(&api.connect(), "a", Duration::ZERO);
    let impatient = Api { port: api.port, leases: Arc::clone(&api.leases), ..Api::new() };
    let second = follow(&impatient.connect(), "b", TTL * 5);
    assert!(began.elapsed() >= TTL * 3 && second.epoch() > first.epoch());
}

#[test]
fn odd_servers_are_errors_in_bounded_time() {
    let http = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let ports = [
        ("refuses", free_port()),
        ("is silent", says(b"")),
        ("talks garbage", says(b"garbage\r\n\r\n")),
        ("answers with garbage", says(&http("200 OK", "garbage"))),
        ("answers with something else", says(&http("200 OK", r#"{"kind":"Pod"}"#))),
        ("answers 500", says(&http("500 X", "no"))),
        ("sends elsewhere", says(b"HTTP/1.1 302 X\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n")),
        ("drips a body", drips(b"HTTP/1.1 200 OK\r\ncontent-length: 999999\r\n\r\n{ ")),
        ("floods a body", floods(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")),
    ];
    for (what, port) in ports {
        let coordinator = Api { port, ..Api::new() }.connect();
        let began = Instant::now();
        let seen = coordinator.leader();
        assert!(is_unavailable(&seen), "a server that {what}: {seen:?}");
        let campaign = coordinator.campaign(&candidate("a"), Duration::ZERO);
        assert!(is_unavailable(&campaign), "a server that {what}: {campaign:?}");
        assert!(began.elapsed() < TTL, "a server that {what}: {:?}", began.elapsed());
    }
}

#[test]
fn the_label_of_a_pod_comes_and_goes_and_other_labels_stay() {
    let api = Api::new();
    let access = api.options(CLUSTER).kubernetes.expect("an API server");
    let pod = |name: &str| Pod::new(&access, "kv", name).expect("names");
    let others = BTreeMap::from([("app".to_owned(), "mooncake".to_owned())]);
    api.lock().labels.insert("m-0".to_owned(), others.clone());
    pod("m-0").show_leader(true).expect("it may be patched");
    let role = api.lock().labels["m-0"].get("mooncake.io/store-role").cloned();
    assert_eq!(role.as_deref(), Some("leader"));
    for _ in 0..2 {
        pod("m-0").show_leader(false).expect("it may be patched");
        assert_eq!(api.lock().labels["m-0"], others);
    }
    let unknown = pod("m-1").show_leader(true);
    assert!(is_unavailable(&unknown), "{unknown:?}");
    api.lock().authorization = Some("Bearer secret".to_owned());
    let refused = pod("m-0").show_leader(true).expect_err("it has no token").to_string();
    assert!(refused.contains("the service account needs patch of pods"), "{refused}");
    for (namespace, name) in [("kv", ""), ("kv", "m/0"), ("K", "m-0")] {
        let wrong = Pod::new(&access, namespace, name);
        assert!(matches!(wrong, Err(AddressError::Kubernetes { .. })), "{wrong:?}");
    }
}
