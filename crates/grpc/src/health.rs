//! The health service: whether the master leads.

use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::gateway::GatewayConfig;
use crate::link::Link;

/// The services that it knows: all, and the master's.
const KNOWN: [&str; 2] = ["", "MasterService"];

pub(crate) struct MasterHealth {
    config: Arc<GatewayConfig>,
}

impl MasterHealth {
    pub(crate) fn server(config: Arc<GatewayConfig>) -> HealthServer<Self> {
        HealthServer::new(Self { config })
    }
}

#[tonic::async_trait]
impl Health for MasterHealth {
    /// Asks the master each time.
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if !KNOWN.contains(&&*service) {
            return Err(Status::not_found(format!("there is no service {service:?}")));
        }
        let status = match Link::probe(&self.config).await {
            Ok(()) => ServingStatus::Serving,
            Err(_) => ServingStatus::NotServing,
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
