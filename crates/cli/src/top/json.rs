//! The pool at one moment as a line of JSON.

use serde_json::{Map, Value, json};

use super::rates::{Growth, TIERS, WAYS};
use super::told::Told;

pub(super) fn line(told: &Told) -> Value {
    let growth = Growth::of_now(told);
    let rate = |field: &str| growth.map_or(Value::Null, |it| json!(it.per_second(field)));
    let rates = |of: &[(&str, &str)]| -> Map<String, Value> {
        of.iter().map(|(field, name)| ((*name).to_owned(), rate(field))).collect()
    };
    let segments = told.segments.iter().map(|it| {
        json!({"name": it.name, "medium": it.medium, "domains": it.domains, "state": it.state(), "used_bytes": it.used,
               "len_bytes": it.bytes, "in_sight": it.in_sight, "reachable": it.reachable})
    });
    let problems = told.now.problems.iter().map(|it| json!({"text": it.text, "remedy": it.remedy}));
    json!({
        "cluster": told.now.cluster, "leader": told.now.leader, "epoch": told.now.epoch, "state": told.now.state,
        "leads_ms": told.now.leads_ms, "clients": told.now.clients, "objects": told.latest("keys"),
        "memory_used_bytes": told.latest("memory_used"), "memory_len_bytes": told.latest("memory_bytes"),
        "hits_per_second": rate("hits"), "misses_per_second": rate("misses"),
        "hit_share": growth.and_then(|it| it.hit_share()),
        "read_bytes_per_second": rates(&WAYS), "tier_bytes_per_second": rates(&TIERS),
        "puts_per_second": rate("puts"), "put_bytes_per_second": rate("put_bytes"),
        "puts_refused_per_second": rate("refused"),
        "evictions_per_second": rate("evicted_keys"), "evicted_bytes_per_second": rate("evicted_bytes"),
        "requests_per_second": rate("requests"), "slow_requests_per_second": rate("slow"),
        "problems": problems.collect::<Vec<_>>(), "segments": segments.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::told::tests::grown;
    use super::*;

    #[test]
    fn a_line_has_rates_or_nothing_where_nothing_is_known() {
        let mut told =
            grown(&[("keys", 1), ("hits", 30), ("misses", 10), ("tcp_bytes", 900), ("slow", 5)]);
        let told_line = line(&told);
        assert_eq!((&told_line["objects"], &told_line["hit_share"]), (&json!(6), &json!(0.75)));
        assert_eq!(told_line["read_bytes_per_second"]["TCP"], 90.0);
        assert_eq!(told_line["slow_requests_per_second"], 0.5);
        let segment = json!({"name": "n", "medium": "disk", "domains": ["rack=1"], "state": "draining",
            "used_bytes": 40, "len_bytes": 100, "in_sight": true, "reachable": true});
        assert_eq!(told_line["segments"], json!([segment]));
        told.samples.remove(0);
        assert_eq!(
            (&line(&told)["hits_per_second"], &line(&told)["hit_share"]),
            (&Value::Null, &Value::Null)
        );
    }
}
