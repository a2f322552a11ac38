//! The health service: whether the master leads.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_core::Stream;
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::gateway::GatewayConfig;
use crate::link::Link;

/// The services that it knows: all, and the master's.
const KNOWN: [&str; 2] = ["", "MasterService"];

/// How long an answer holds. Anyone may ask.
const FRESH: Duration = Duration::from_secs(1);

pub(crate) struct MasterHealth {
    config: Arc<GatewayConfig>,
    /// Whether the master was welcoming, and when. One question at a time goes to it.
    last: Mutex<Option<(Instant, bool)>>,
}

impl MasterHealth {
    pub(crate) fn server(config: Arc<GatewayConfig>) -> HealthServer<Self> {
        HealthServer::new(Self { config, last: Mutex::default() })
    }

    async fn serves(&self) -> bool {
        let mut last = self.last.lock().await;
        if let Some((_, serves)) = last.filter(|(at, _)| at.elapsed() < FRESH) {
            return serves;
        }
        let serves = Link::probe(&self.config).await.is_ok();
        *last = Some((Instant::now(), serves));
        serves
    }
}

#[tonic::async_trait]
impl Health for MasterHealth {
    /// Asks the master, unless somebody did within the last second.
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if !KNOWN.contains(&&*service) {
            return Err(Status::not_found(format!("there is no service {service:?}")));
        }
        let status = match self.serves().await {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(
        &self,
        _request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("ask with Check"))
    }
}
