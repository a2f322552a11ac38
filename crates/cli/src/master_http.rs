//! The addresses of masters' admin HTTP servers, as all commands take them.

use mooncake_http::admin;
use mooncake_types::host_port::{join, split};

/// The servers that a text names, which lists them or is the address of a coordinator.
///
/// # Errors
/// An address is wrong, or the coordinator names no leader.
pub(crate) fn addresses(text: &str, cluster_id: Option<&str>) -> Result<Vec<String>, String> {
    let text = text.trim();
    if mooncake_ha::is_locator(text) {
        return leader(text, cluster_id).map(|leader| vec![admin::beside(&leader)]);
    }
    let all: Vec<String> = text
        .split([',', ';'])
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .map(one)
        .collect::<Result<_, _>>()?;
    match all.is_empty() {
        true => Err("no address of a master's admin server is given".to_owned()),
        false => Ok(all),
    }
}

/// One address. `http://` or `https://` in front and a path behind, as in the address line of a browser, are left out.
fn one(text: &str) -> Result<String, String> {
    let wrong =
        |reason: &str| format!("{text:?} is no address of a master's admin server: {reason}");
    let plain = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let plain = plain.unwrap_or(text);
    if let Some((scheme, _)) = plain.split_once("://") {
        return Err(wrong(&format!("{scheme}:// is not spoken there, only http:// and https://")));
    }
    let place = plain.split('/').next().unwrap_or_default();
    match split(place).map_err(wrong)? {
        ("", _) => Err(wrong("it names no host")),
        (host, Some(port)) => Ok(join(host, port)),
        (host, None) => Ok(admin::beside(&join(host, 0))),
    }
}

/// The address for clients of the leader that a coordinator knows.
fn leader(coordinator: &str, cluster_id: Option<&str>) -> Result<String, String> {
    let shown = mooncake_types::without_password(coordinator);
    let mut config = mooncake_client::StoreConfig::from_env().map_err(|error| error.to_string())?;
    if let Some(cluster_id) = cluster_id {
        cluster_id.clone_into(&mut config.cluster_id);
    }
    let (kubernetes, cluster_id) = (config.kubernetes, &config.cluster_id);
    let options = mooncake_ha::Options { kubernetes, ..mooncake_ha::Options::new(cluster_id) };
    let leader = mooncake_ha::connect(coordinator, &options)
        .map_err(|error| error.to_string())?
        .leader()
        .map_err(|error| error.to_string())?;
    let none = || format!("{shown} knows no leader of the cluster {cluster_id}");
    leader.map(|leader| leader.address).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_however_they_are_pasted() {
        for (text, expected) in [
            ("a:1", &["a:1"][..]),
            ("a", &["a:9003"]),
            ("a:1,b:2; c", &["a:1", "b:2", "c:9003"]),
            ("http://a:1/,http://b", &["a:1", "b:9003"]),
            ("http://10.0.0.1:9003/metrics", &["10.0.0.1:9003"]),
            ("https://a:1", &["a:1"]),
            ("[::1]:9003;::1", &["[::1]:9003", "[::1]:9003"]),
        ] {
            assert_eq!(addresses(text, None).expect(text), expected, "{text}");
        }
        for (text, reason) in [
            ("", "no address"),
            (" , ", "no address"),
            ("ftp://a:1", "only http://"),
            ("a:1,:2", "it names no host"),
            ("a:70000", "port"),
            ("etcd://", "it names no endpoint"),
        ] {
            let error = addresses(text, None).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
