//! Keys, as operators see them.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Extract;
use mooncake_meta::KeyReport;
use mooncake_types::{ErrorCode, Located, Medium, Placement, SegmentAddress, Tenant, limits};
use serde::{Deserialize, Serialize};

use super::error::Failure;
use super::parameters::Parameters;
use super::state::AdminState;

/// One range of one replica, under the names that the C++ store gives its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Range {
    size_: u64,
    /// An offset into the segment.
    buffer_address_: u64,
    protocol_: &'static str,
    /// The segment's name.
    transport_endpoint_: String,
}

/// The ranges of an object in one medium.
fn ranges(located: &Located, segments: &[SegmentAddress], medium: Medium) -> Vec<Range> {
    let is_there = |it: &&Placement| segments[it.segment as usize].medium == medium;
    let range = |placement: &Placement| Range {
        size_: placement.len,
        buffer_address_: placement.offset,
        protocol_: "tcp",
        transport_endpoint_: segments[placement.segment as usize].name.to_string(),
    };
    located.placements.iter().filter(is_there).map(range).collect()
}

#[derive(Serialize)]
pub(super) struct QueriedKey {
    success: bool,
    data: Vec<Range>,
    object: ObjectFacts,
}

/// What the C++ master does not tell of an object.
#[derive(Serialize)]
struct ObjectFacts {
    version: String,
    len_bytes: u64,
    replicas: Vec<ReplicaFacts>,
    lease_ms: u64,
    idle_ms: u64,
    hard_pin: bool,
    soft_pin_ms: Option<u64>,
    group: Option<String>,
}

/// One replica: its number, its tier, and the segments of its ranges in the order of their bytes.
#[derive(Serialize)]
struct ReplicaFacts {
    number: u32,
    medium: &'static str,
    segments: Vec<String>,
}

impl ObjectFacts {
    fn of(report: &KeyReport) -> Self {
        let mut replicas: Vec<ReplicaFacts> = Vec::new();
        for placement in &report.located.placements {
            let segment = &report.segments[placement.segment as usize];
            let (number, medium) = (placement.replica, segment.medium.tier());
            match replicas.last_mut().filter(|last| last.number == number) {
                Some(last) => last.segments.push(segment.name.to_string()),
                None => {
                    let segments = vec![segment.name.to_string()];
                    replicas.push(ReplicaFacts { number, medium, segments });
                }
            }
        }
        Self {
            version: report.located.version.to_string(),
            len_bytes: report.located.len,
            replicas,
            lease_ms: report.lease_ms,
            idle_ms: report.idle_ms,
            hard_pin: report.hard_pin,
            soft_pin_ms: report.soft_pin_ms,
            group: report.group.clone(),
        }
    }
}

/// `GET /query_key?key=K`: where the object lies in memory. It grants no lease, and counts as no read.
pub(super) async fn query_key(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<QueriedKey>, Failure> {
    let key = parameters.tenant()?.key(parameters.required("key")?).into_owned();
    let look = move |owner: &mut crate::owner::Owner| peek(owner, &key);
    match state.asker.ask(look).await? {
        Ok(report) => Ok(Json(QueriedKey {
            success: true,
            data: ranges(&report.located, &report.segments, Medium::Memory),
            object: ObjectFacts::of(&report),
        })),
        Err(code) => Err(Failure::not_found(code, code.name())),
    }
}

/// What the master says about a complete object.
fn peek(owner: &crate::owner::Owner, key: &str) -> Result<KeyReport, ErrorCode> {
    match owner.meta.peek(key) {
        None => Err(ErrorCode::ObjectNotFound),
        Some(report) if !report.complete => Err(ErrorCode::ReplicaIsNotReady),
        Some(report) => Ok(report),
    }
}

#[derive(Serialize)]
pub(super) struct Batch {
    success: bool,
    data: BTreeMap<String, KeyReplicas>,
}

/// Where the replicas of one object lie, by medium.
#[derive(Default, Serialize)]
pub(super) struct KeyReplicas {
    ok: bool,
    error: Option<&'static str>,
    values: Vec<Range>,
    disk_values: Vec<Range>,
    local_disk_values: Vec<Range>,
    nof_values: Vec<Range>,
    object_store_values: Vec<Range>,
}

impl KeyReplicas {
    pub(super) fn of(located: &Located, segments: &[SegmentAddress]) -> KeyReplicas {
        let of = |medium| ranges(located, segments, medium);
        KeyReplicas {
            ok: true,
            values: of(Medium::Memory),
            disk_values: of(Medium::SharedDisk),
            local_disk_values: of(Medium::Disk),
            object_store_values: of(Medium::ObjectStore),
            ..KeyReplicas::default()
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a struct of texts and numbers is JSON")
    }

    fn error(code: ErrorCode) -> KeyReplicas {
        KeyReplicas { error: Some(code.name()), ..KeyReplicas::default() }
    }
}

/// `GET /batch_query_keys?keys=a,b`: where several objects lie. Keys with commas are written `?key=a&key=b`. It grants
/// no lease.
pub(super) async fn batch_query_keys(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<Json<Batch>, Failure> {
    let listed = parameters.optional("keys").into_iter().flat_map(|keys| keys.split(','));
    let keys = listed.chain(parameters.all("key")).map(str::to_owned).collect();
    locate_all(&state, parameters.tenant()?, keys).await
}

/// The body of `POST /batch_query_keys`.
#[derive(Debug, Deserialize)]
pub(super) struct AskedKeys {
    keys: Vec<String>,
    #[serde(default)]
    tenant_id: String,
}

/// `POST /batch_query_keys`: the same for the keys of a body like `{"keys": ["a", "b"]}`.
pub(super) async fn batch_query_listed_keys(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
    body: Bytes,
) -> Result<Json<Batch>, Failure> {
    let AskedKeys { keys, tenant_id } = serde_json::from_slice(&body)
        .map_err(|error| Failure::bad_request(format!("Invalid JSON body: {error}")))?;
    locate_all(&state, parameters.tenant_named(&tenant_id)?, keys).await
}

async fn locate_all(
    state: &AdminState,
    tenant: Tenant,
    keys: Vec<String>,
) -> Result<Json<Batch>, Failure> {
    if keys.is_empty() {
        let how = "No keys provided. Use ?keys=key1,key2,... or ?key=key1&key=key2&...";
        return Err(Failure::bad_request(how));
    }
    if keys.len() > limits::MAX_BATCH_KEYS {
        let max = limits::MAX_BATCH_KEYS;
        return Err(Failure::bad_request(format!("{} keys are more than {max}", keys.len())));
    }
    let look = move |owner: &mut crate::owner::Owner| {
        let answer = |key: String| {
            let answer = match peek(owner, &tenant.key(&key)) {
                Ok(report) => KeyReplicas::of(&report.located, &report.segments),
                Err(code) => KeyReplicas::error(code),
            };
            (key, answer)
        };
        keys.into_iter().map(answer).collect()
    };
    Ok(Json(Batch { success: true, data: state.asker.ask(look).await? }))
}
