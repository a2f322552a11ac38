//! Spans in the JSON form of OTLP.

use mooncake_calls::{Fact, Side, Span};
use mooncake_wire::SOFTWARE_VERSION;
use serde_json::{Value, json};

/// The body of a request that brings these spans.
pub(crate) fn of_spans(spans: &[Span]) -> Value {
    let resources = [Side::Client, Side::Node, Side::Master].into_iter().filter_map(|side| {
        let spans: Vec<Value> = spans.iter().filter(|it| it.side == side).map(of_span).collect();
        (!spans.is_empty()).then(|| resource(side, spans))
    });
    json!({ "resourceSpans": resources.collect::<Vec<_>>() })
}

fn resource(side: Side, spans: Vec<Value>) -> Value {
    let attributes = [
        ("service.name", Fact::Text(service(side).to_owned())),
        ("service.version", Fact::Text(SOFTWARE_VERSION.to_owned())),
        ("process.pid", Fact::Number(std::process::id().into())),
    ];
    json!({
        "resource": { "attributes": attributes.iter().map(attribute).collect::<Vec<_>>() },
        "scopeSpans": [{ "scope": { "name": "mooncake" }, "spans": spans }],
    })
}

const fn service(side: Side) -> &'static str {
    match side {
        Side::Client => "mooncake-client",
        Side::Node => "mooncake-node",
        Side::Master => "mooncake-master",
    }
}

fn of_span(span: &Span) -> Value {
    // Internal, or of a server.
    let kind = if span.side == Side::Client { 1 } else { 2 };
    let kind = if span.is_stage { 1 } else { kind };
    json!({
        "traceId": format!("{:032x}", span.at.trace),
        "spanId": format!("{:016x}", span.at.span),
        "parentSpanId": span.parent.map_or_else(String::new, |parent| format!("{parent:016x}")),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.began_ns.to_string(),
        "endTimeUnixNano": span.ended_ns.to_string(),
        "attributes": span.facts.iter().map(attribute).collect::<Vec<_>>(),
    })
}

fn attribute((key, fact): &(&'static str, Fact)) -> Value {
    let value = match fact {
        // Numbers of 64 bits are texts in this form of JSON.
        Fact::Number(number) => json!({ "intValue": number.to_string() }),
        Fact::Text(text) => json!({ "stringValue": text }),
    };
    json!({ "key": key, "value": value })
}

#[cfg(test)]
mod tests {
    use mooncake_types::TraceParent;

    use super::*;

    #[test]
    fn spans_are_grouped_by_the_part_that_they_are_of() {
        let span = |side, is_stage| Span {
            at: TraceParent { trace: 0xA, span: 0xB },
            parent: Some(0xC),
            name: "put",
            side,
            is_stage,
            began_ns: 1,
            ended_ns: 2,
            facts: vec![("items", Fact::Number(3))],
        };
        let body = of_spans(&[
            span(Side::Client, false),
            span(Side::Master, false),
            span(Side::Client, true),
        ]);
        let resources = body["resourceSpans"].as_array().expect("a list");
        assert_eq!(resources.len(), 2);
        let spans = &resources[0]["scopeSpans"][0]["spans"];
        assert_eq!(spans.as_array().map(Vec::len), Some(2));
        let expected = json!({
            "traceId": "0000000000000000000000000000000a",
            "spanId": "000000000000000b",
            "parentSpanId": "000000000000000c",
            "name": "put",
            "kind": 1,
            "startTimeUnixNano": "1",
            "endTimeUnixNano": "2",
            "attributes": [{ "key": "items", "value": { "intValue": "3" } }],
        });
        assert_eq!(spans[0], expected);
        let of_master = &resources[1];
        let name = &of_master["resource"]["attributes"][0]["value"]["stringValue"];
        assert_eq!(*name, "mooncake-master");
        assert_eq!(of_master["scopeSpans"][0]["spans"][0]["kind"], 2);
    }
}
