//! The span of the application in which it calls the store.

use mooncake_calls::{Caller, are_traced, set_caller};
use mooncake_types::TraceParent;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Set in the flags of a trace that is recorded.
const SAMPLED: u8 = 1;

/// If calls are traced, notes the current span of the package `opentelemetry` as the caller of this thread's calls.
pub(crate) fn note() {
    if are_traced() {
        // A package that is not OpenTelemetry's, whatever it does, gives no span.
        let caller = Python::attach(|py| current_span(py).ok().flatten());
        set_caller(caller.unwrap_or_default());
    }
}

/// `None` if there is no span, or the application has not imported the package.
fn current_span(py: Python<'_>) -> PyResult<Option<Caller>> {
    let modules = py.import("sys")?.getattr("modules")?.cast_into::<PyDict>()?;
    let Some(package) = modules.get_item("opentelemetry.trace")? else { return Ok(None) };
    let context = package.call_method0("get_current_span")?.call_method0("get_span_context")?;
    let ids = (context.getattr("trace_id")?.extract()?, context.getattr("span_id")?.extract()?);
    let flags: u8 = context.getattr("trace_flags")?.extract()?;
    Ok(TraceParent::new(ids.0, ids.1).map(|parent| match flags & SAMPLED {
        0 => Caller::NotRecorded,
        _ => Caller::Traced(parent),
    }))
}
