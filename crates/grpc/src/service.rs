//! The eight calls.

use std::fmt;
use std::sync::Arc;

use mooncake_ops::{
    CloseOp, CloseOutcome, Closing, ListOp, LocateOp, PutSession, RemoveOp, RemoveScanOp, StartOp,
};
use mooncake_types::{ErrorCode, PutEnd, PutItem, ReplicateConfig, SoftPin, Tenant};
use tokio::task::spawn_local;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::generated::master_service_server::MasterService;
use crate::generated::{
    GetReplicaListByRegexRequest, GetReplicaListByRegexResponse, GetReplicaListRequest,
    GetReplicaListResponse, MountSegmentRequest, MountSegmentResponse, PutEndRequest,
    PutEndResponse, PutStartRequest, PutStartResponse, RemoveByRegexRequest, RemoveByRegexResponse,
    RemoveRequest, RemoveResponse, UnmountSegmentRequest, UnmountSegmentResponse,
};
use crate::lent_segments::{mount, unmount};
use crate::link::Link;
use crate::replicas::{complete, granted, list};

/// Most objects that one answer describes.
const MAX_FOUND: usize = 65_536;

/// The name of the tenant in the metadata of a call, as in the REST service.
const TENANT: &str = "x-mooncake-tenant";

/// How long a put may take before the master may discard it. The master's own limit may be shorter.
const PUT_TTL_MS: u64 = 30_000;

pub(crate) struct MasterCalls;

type Answer<T> = Result<Response<T>, Status>;

/// Makes a call as the client of its connection, on a task of this thread. A caller that goes away does not end it. The
/// call names keys of the tenant.
async fn served<Q, A, F>(
    request: Request<Q>,
    call: impl FnOnce(Arc<Link>, Tenant, Q) -> F + Send + 'static,
) -> Answer<A>
where
    Q: Send + 'static,
    A: Send + 'static,
    F: Future<Output = A> + 'static,
{
    let link = request.extensions().get::<Arc<Link>>().cloned();
    let link = link.ok_or_else(|| Status::internal("the connection has no client"))?;
    let token = token(request.metadata())?.to_owned();
    let tenant = tenant(request.metadata())?;
    let request = request.into_inner();
    let task = spawn_local(async move {
        link.admit(&token).await?;
        Ok(Response::new(call(link, tenant, request).await))
    });
    task.await.unwrap_or_else(|_| Err(Status::internal("a panic ended the call")))
}

/// The token of `authorization: Bearer TOKEN`; empty without one.
fn token(metadata: &MetadataMap) -> Result<&str, Status> {
    let Some(value) = metadata.get("authorization") else { return Ok("") };
    let wrong = || Status::unauthenticated("authorization must be: Bearer TOKEN");
    let text = value.to_str().map_err(|_| wrong())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(wrong)?;
    if scheme.eq_ignore_ascii_case("bearer") { Ok(token.trim()) } else { Err(wrong()) }
}

/// The tenant that the metadata names; the default one if they name none.
fn tenant(metadata: &MetadataMap) -> Result<Tenant, Status> {
    let Some(value) = metadata.get(TENANT) else { return Ok(Tenant::default()) };
    let wrong = |reason: &dyn fmt::Display| Status::invalid_argument(format!("{TENANT}: {reason}"));
    let name = value.to_str().map_err(|_| wrong(&"the name is not ASCII"))?;
    Tenant::named(name).map_err(|error| wrong(&error))
}

fn number(result: Result<(), ErrorCode>) -> i32 {
    result.map_or_else(ErrorCode::number, |()| 0)
}

/// The result of a batch of one.
fn only<T>(results: Vec<Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
    results.into_iter().next().unwrap_or(Err(ErrorCode::InternalError))
}

#[tonic::async_trait]
impl MasterService for MasterCalls {
    async fn get_replica_list(
        &self,
        request: Request<GetReplicaListRequest>,
    ) -> Answer<GetReplicaListResponse> {
        served(request, |link, tenant, request| async move {
            let key = tenant.key(&request.key);
            let keys = [&*key];
            let (status_code, replica_list) = match only(link.drive(LocateOp::new(&keys)).await) {
                Ok(location) => (0, complete(&location)),
                Err(code) => (code.number(), Vec::new()),
            };
            GetReplicaListResponse { status_code, replica_list }
        })
        .await
    }

    async fn get_replica_list_by_regex(
        &self,
        request: Request<GetReplicaListByRegexRequest>,
    ) -> Answer<GetReplicaListByRegexResponse> {
        served(request, |link, tenant, request| async move {
            let walk = ListOp::new(Some(&request.key_regex)).of_tenant(tenant.name());
            let (status_code, found) = match link.drive(walk.at_most(MAX_FOUND)).await {
                Ok(found) => (0, found),
                Err(code) => (code.number(), Vec::new()),
            };
            let object_map = found.into_iter().map(|(key, location)| (key, list(&location)));
            let object_map = object_map.collect();
            GetReplicaListByRegexResponse { status_code, object_map }
        })
        .await
    }

    async fn put_start(&self, request: Request<PutStartRequest>) -> Answer<PutStartResponse> {
        served(request, |link, tenant, request| async move {
            let key = tenant.key(&request.key);
            let (status_code, replica_list) = match start(&link, &key, &request).await {
                Ok(put) => {
                    link.puts().insert(key.into_owned(), put.version());
                    (0, granted(&put.replicas()))
                }
                Err(code) => (code.number(), Vec::new()),
            };
            PutStartResponse { status_code, replica_list }
        })
        .await
    }

    async fn put_end(&self, request: Request<PutEndRequest>) -> Answer<PutEndResponse> {
        served(request, |link, tenant, request| async move {
            let status_code = number(end(&link, &tenant.key(&request.key)).await);
            PutEndResponse { status_code }
        })
        .await
    }

    async fn remove(&self, request: Request<RemoveRequest>) -> Answer<RemoveResponse> {
        served(request, |link, tenant, request| async move {
            let key = tenant.key(&request.key);
            let keys = [&*key];
            let status_code = number(only(link.drive(RemoveOp::new(&keys, false)).await));
            RemoveResponse { status_code }
        })
        .await
    }

    async fn remove_by_regex(
        &self,
        request: Request<RemoveByRegexRequest>,
    ) -> Answer<RemoveByRegexResponse> {
        served(request, |link, tenant, request| async move {
            let walk = RemoveScanOp::new(Some(&request.key_regex), false);
            let removed = link.drive(walk.of_tenant(tenant.name())).await;
            let status_code = number(removed.map(|_| ()));
            let removed_count = removed.ok().and_then(|count| i64::try_from(count).ok());
            RemoveByRegexResponse { status_code, removed_count }
        })
        .await
    }

    async fn mount_segment(
        &self,
        request: Request<MountSegmentRequest>,
    ) -> Answer<MountSegmentResponse> {
        served(request, |link, _, request| async move {
            let status_code = number(mount(&link, &request.segment_name, request.size).await);
            MountSegmentResponse { status_code }
        })
        .await
    }

    async fn unmount_segment(
        &self,
        request: Request<UnmountSegmentRequest>,
    ) -> Answer<UnmountSegmentResponse> {
        served(request, |link, _, request| async move {
            let status_code = number(unmount(&link, &request.segment_name).await);
            UnmountSegmentResponse { status_code }
        })
        .await
    }
}

/// Starts a put under a stored key.
async fn start(link: &Link, key: &str, request: &PutStartRequest) -> Result<PutSession, ErrorCode> {
    let len = u64::try_from(request.value_length).map_err(|_| ErrorCode::InvalidParams)?;
    let slices = &request.slice_lengths;
    let sum = slices.iter().try_fold(0, |sum: u64, &len| sum.checked_add(len));
    if !slices.is_empty() && sum != Some(len) {
        return Err(ErrorCode::InvalidParams);
    }
    let wanted = request.config.replica_num().max(1);
    let preferred = request.config.preferred_segment();
    let config = ReplicateConfig {
        replica_num: u32::try_from(wanted).map_err(|_| ErrorCode::InvalidParams)?,
        soft_pin: match request.config.with_soft_pin() {
            true => SoftPin::Sliding,
            false => SoftPin::default(),
        },
        preferred_segments: if preferred.is_empty() { Vec::new() } else { vec![preferred] },
        ..ReplicateConfig::default()
    };
    link.check_puts()?;
    let items = [PutItem::new(key, len)];
    only(link.drive(StartOp::new(&items, &config, PUT_TTL_MS)).await)
}

/// Ends a put under a stored key. It can be ended again while the outcome is not known.
async fn end(link: &Link, key: &str) -> Result<(), ErrorCode> {
    let version = link.puts().get(key).copied().ok_or(ErrorCode::ObjectNotFound)?;
    let put = PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
    let outcomes = link.drive(CloseOp::new(&[Closing::End(put)])).await;
    match outcomes.first() {
        Some(CloseOutcome::Settled(result)) => {
            link.puts().remove(key);
            *result
        }
        Some(CloseOutcome::Unknown(code)) => Err(*code),
        None => Err(ErrorCode::InternalError),
    }
}
