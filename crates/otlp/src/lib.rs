//! Sends the spans of calls to an OpenTelemetry collector, by OTLP over HTTP with JSON: `POST /v1/traces`.
//!
//! Enter at [`Exporter`]. It loses spans rather than to make a call wait: a bounded queue, a thread, one attempt.

#![forbid(unsafe_code)]

mod endpoint;
mod exporter;
mod json;
mod queue;

pub use endpoint::{Endpoint, EndpointError};
pub use exporter::Exporter;
