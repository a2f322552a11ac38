/// The name that is most similar to `wanted`, if any is similar enough.
#[must_use]
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |name: &str| strsim::jaro_winkler(wanted, name);
    names
        .map(|name| (likeness(name), name))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_its_flag_and_nonsense_finds_none() {
        let names = ["rpc_port", "rpc_address", "metrics_port", "eviction_ratio", "client_ttl"];
        let cases = [
            ("rpc_prt", Some("rpc_port")),
            ("rpc_adress", Some("rpc_address")),
            ("metric_port", Some("metrics_port")),
            ("evictoin_ratio", Some("eviction_ratio")),
            ("client_live_ttl", Some("client_ttl")),
            ("xyzzy", None),
        ];
        for (wanted, expected) in cases {
            assert_eq!(nearest(wanted, names.into_iter()), expected, "{wanted}");
        }
    }
}
