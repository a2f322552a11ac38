//! Every request and every kind of frame at the RPC port, from outsiders and with each token, in the clear and over TLS.
//! The HTTP doors, gRPC and KV events are in `python/tests/test_doors.py`, data ports in `transfer` and `engine`.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::Duration;

use mooncake_connection::{Dialer, Fault, Roles};
use mooncake_master::Config;
use mooncake_testing::doors::{CALLERS, Secrets, Verdict, token_of, verdict_on};
use mooncake_tls::{Tls, TlsConfig};
use mooncake_types::{
    ChangesPage, CreateTask, Epoch, ErrorCode, InventoryPage, Medium, MountSegment, PutMode,
    PutStart, ReplicateConfig, Reply, Request, Scan, ScanAction, SegmentId, TaskId, TaskKind,
};
use mooncake_wire::{Hello, Kind, decode_reply, encode_request};

use crate::support::{CLUSTER, PATIENCE, Running, config, hello, start_with};

/// How long a frame without an answer is waited for.
const MOMENT: Duration = Duration::from_millis(100);

const MEMBERS: &[&str] = &["read", "write", "read,write", "all"];
const READERS: &[&str] = &["read", "read,write", "all"];
const WRITERS: &[&str] = &["write", "read,write", "all"];
/// Masters and nodes.
const LENDERS: &[&str] = &["all"];

/// Who gets an answer to a request. All others are denied.
fn answered(request: &Request<'_>) -> &'static [&'static str] {
    match request {
        Request::Ping { .. } | Request::Leave { .. } | Request::QueryTask { .. } => MEMBERS,
        Request::GetReplicaList { .. }
        | Request::RenewRoutes { .. }
        | Request::ExistKey { .. }
        | Request::PrefixLen { .. }
        | Request::Prefetch { .. }
        | Request::Scan(Scan { action: ScanAction::List, .. }) => READERS,
        Request::PutStart(_)
        | Request::PutEnd { .. }
        | Request::PutRevoke { .. }
        | Request::Remove { .. }
        | Request::Dropped { .. }
        | Request::Retract { .. }
        | Request::ClearReplicas { .. }
        | Request::CreateTask(_)
        | Request::Scan(Scan { action: ScanAction::Remove { .. }, .. }) => WRITERS,
        Request::MountSegment(_)
        | Request::UnmountSegment { .. }
        | Request::ReportInventory(_)
        | Request::ReportChanges(_)
        | Request::ReportLosses { .. }
        | Request::FetchDrops { .. }
        | Request::FetchTasks { .. }
        | Request::EndTask { .. }
        | Request::DrainSegments { .. }
        | Request::ListSegments { .. } => LENDERS,
    }
}

/// Requests of every kind. None of them changes what another is about.
fn requests() -> Vec<Request<'static>> {
    let [mut of_clients, of_nodes] = [of_clients(), of_nodes()];
    of_clients.extend(of_nodes);
    of_clients
}

fn of_clients() -> Vec<Request<'static>> {
    let (keys, puts) = (vec!["no-such-key"], vec![]);
    let scan = |action| {
        let tenant = Some("default");
        Request::Scan(Scan { tenant, pattern: None, action, cursor: 0, limit: 10 })
    };
    let (config, mode) = (ReplicateConfig::default(), PutMode::Insert);
    let (kind, targets) = (TaskKind::Copy, vec!["there"]);
    vec![
        Request::Ping { segments: vec![], unreachable: vec![], reads: None },
        Request::Leave { reads: None },
        Request::QueryTask { id: TaskId(1) },
        Request::GetReplicaList { keys: keys.clone() },
        Request::RenewRoutes { keys: keys.clone(), uses: vec![1] },
        Request::exist(keys.clone()),
        Request::prefix_len(keys.clone()),
        Request::Prefetch { keys: keys.clone() },
        scan(ScanAction::List),
        scan(ScanAction::Remove { force: true }),
        Request::PutStart(PutStart { puts, config, mode }),
        Request::PutEnd { puts: vec![] },
        Request::PutRevoke { puts: vec![] },
        Request::Remove { keys: keys.clone(), force: true },
        Request::Dropped { dropped: vec![] },
        Request::Retract { keys: vec![], ranges: vec![] },
        Request::ClearReplicas { keys, segment: "" },
        Request::CreateTask(CreateTask { key: "no-such-key", kind, source: "", targets }),
    ]
}

fn of_nodes() -> Vec<Request<'static>> {
    let segment = SegmentId(5);
    let (page, last) = (0, true);
    vec![
        Request::MountSegment(MountSegment {
            id: segment,
            name: "node",
            endpoint: "127.0.0.1:1",
            len: 1 << 20,
            seen_epoch: Epoch(0),
            is_empty: true,
            run: 1,
            medium: Medium::Memory,
            domains: &[],
            seal_key: None,
        }),
        Request::ReportInventory(InventoryPage { segment, last, ..InventoryPage::default() }),
        Request::ReportChanges(ChangesPage { segment, page, last, entries: vec![], gone: vec![] }),
        Request::ReportLosses { keys: vec![], ranges: vec![] },
        Request::FetchDrops { dropped: vec![], limit: 1 },
        Request::FetchTasks { limit: 1, wait_ms: 0 },
        Request::EndTask { id: TaskId(1), outcome: Ok(()) },
        Request::DrainSegments { segments: vec![] },
        Request::ListSegments { from: 0, limit: 1 },
        Request::UnmountSegment { id: segment, grace_ms: 0, failure: "" },
    ]
}

/// A master with a token, roles, and perhaps certificates.
struct Guarded {
    master: Running,
    tls: Option<Tls>,
    _secrets: Secrets,
}

impl Guarded {
    fn start(is_encrypted: bool) -> Self {
        let secrets =
            Secrets::write(&format!("doors-{is_encrypted}-{:?}", std::thread::current().id()));
        let files = secrets.certificates.clone();
        let of = TlsConfig {
            cert: Some(files.cert),
            key: Some(files.key),
            ca: Some(files.ca),
            verify_clients: true,
            ..TlsConfig::default()
        };
        let tls = is_encrypted.then(|| Tls::open(of).expect("they are right"));
        let master = start_with(Config {
            auth_token: token_of("all").into(),
            roles: Some(Roles::open(&secrets.roles).expect("it is right")),
            tls: tls.clone(),
            ..config()
        });
        Self { master, tls, _secrets: secrets }
    }

    fn dialer(&self, hello: Hello) -> Dialer {
        Dialer { tls: self.tls.clone(), ..Dialer::new(hello) }
    }

    /// Sends a request with a token, on a connection of its own.
    fn ask(&self, token: &str, request: &Request<'_>) -> Result<Reply, Fault> {
        let hello = Hello { auth_token: token.into(), ..hello(7) };
        let endpoint = self.master.rpc.to_string();
        let (mut connection, _) = self.dialer(hello).dial(&endpoint, PATIENCE)?;
        let encode = |out: &mut Vec<u8>, id| encode_request(out, id, request);
        let body = connection.call(encode, Kind::Reply);
        let body = body.unwrap_or_else(|fault| panic!("{request:?}: {fault:?}")).into_bytes();
        Ok(decode_reply(body).expect("a reply"))
    }

    /// What the master makes of a frame: the first one, or after the greeting of a member with the pool's secret.
    fn verdict(&self, kind: Kind, is_member: bool) -> Verdict {
        let dialer = self.dialer(Hello { auth_token: token_of("all").into(), ..hello(7) });
        let mut connection =
            dialer.connect(&self.master.rpc.to_string(), PATIENCE).expect("it listens");
        if is_member {
            dialer.greet(&mut connection).expect("a member is welcome");
        }
        let mut stream = TcpStream::try_clone(connection.stream()).expect("descriptors are left");
        stream.set_read_timeout(Some(MOMENT)).expect("a socket");
        verdict_on(&mut stream, kind).expect("frames come back")
    }
}

#[test]
fn each_request_is_answered_to_those_alone_who_may_send_it() {
    for is_encrypted in [false, true] {
        let guarded = Guarded::start(is_encrypted);
        for (caller, request) in
            CALLERS.iter().flat_map(|it| requests().into_iter().map(move |request| (it, request)))
        {
            let what = format!("{caller}: {request:?}, TLS: {is_encrypted}");
            match guarded.ask(&token_of(caller), &request) {
                Ok(reply) => {
                    let is_denied = reply == Reply::Refused(ErrorCode::PermissionDenied);
                    assert_eq!(!is_denied, answered(&request).contains(caller), "{what}");
                }
                Err(Fault::Refused(refusal)) => {
                    assert!(!MEMBERS.contains(caller), "{what}: {refusal:?}");
                    assert_eq!(refusal.code, ErrorCode::PermissionDenied, "{what}");
                }
                Err(fault) => panic!("{what}: {fault:?}"),
            }
        }
    }
}

#[test]
fn an_outsider_gets_no_further_than_the_greeting() {
    for is_encrypted in [false, true] {
        let guarded = Guarded::start(is_encrypted);
        let endpoint = guarded.master.rpc.to_string();
        let of = |cluster_id: &str, token: &str| Hello {
            cluster_id: cluster_id.to_owned(),
            auth_token: token.into(),
            ..hello(7)
        };
        for (hello, code) in [
            (of(CLUSTER, ""), ErrorCode::IllegalClient),
            (of(CLUSTER, "nonsense"), ErrorCode::IllegalClient),
            (of("another", &token_of("all")), ErrorCode::InvalidParams),
        ] {
            match guarded.dialer(hello.clone()).dial(&endpoint, PATIENCE) {
                Err(Fault::Refused(refusal)) => assert_eq!(refusal.code, code, "{hello:?}"),
                other => panic!("{hello:?}: {other:?}"),
            }
        }
        for &kind in Kind::ALL {
            let verdict = guarded.verdict(kind, false);
            let code = ErrorCode::InvalidParams;
            let is_refused = matches!(&verdict, Verdict::Refused { code: it, .. } if *it == code);
            assert!(is_refused, "{kind:?} as the first frame: {verdict:?}");
        }
    }
}

#[test]
fn no_other_kind_of_frame_is_taken_from_a_member() {
    let guarded = Guarded::start(false);
    for &kind in Kind::ALL {
        let Verdict::Refused { code: ErrorCode::InvalidParams, message } =
            guarded.verdict(kind, true)
        else {
            panic!("{kind:?} is taken");
        };
        // A request without a body is one that cannot be read.
        let is_request = kind == Kind::Request;
        assert_eq!(message.contains("is not for a master"), !is_request, "{kind:?}: {message}");
    }
}

/// The first word of a request, as Rust shows it.
fn name_of(request: &Request<'_>) -> String {
    let shown = format!("{request:?}");
    shown.split(|char: char| !char.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

#[test]
fn the_walk_meets_every_request_of_the_schema() {
    let schema = include_str!("../../../../proto/mooncake.proto");
    let (_, rest) = schema.split_once("\nmessage Request {").expect("the schema has requests");
    let (operations, _) = rest.split_once("\n}").expect("it ends");
    let operations = operations.lines().filter_map(|line| line.trim().split_once("Request "));
    let mut named: BTreeSet<String> = operations.map(|(name, _)| name.to_owned()).collect();
    assert!(named.len() > 20, "{named:?}");
    // On the wire it is a `GetReplicaList` with a column more.
    named.insert("RenewRoutes".to_owned());
    let met: BTreeSet<String> = requests().iter().map(name_of).collect();
    assert_eq!(met, named);
}
