use mooncake_otlp::Endpoint;

/// The collector that gets spans, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtelEndpoint(pub Option<Endpoint>);

/// Reads a flag; an empty one names no collector.
pub(crate) fn parse(text: &str) -> Result<OtelEndpoint, String> {
    if text.trim().is_empty() {
        return Ok(OtelEndpoint(None));
    }
    let wrong = |_| format!("it must be {}", Endpoint::WANTED);
    text.parse().map(|endpoint| OtelEndpoint(Some(endpoint))).map_err(wrong)
}
