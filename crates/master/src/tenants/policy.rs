//! The quotas as YAML, in the form of the C++ package: `version: 1`, and a list of tenants with names and quotas. The
//! fields beside `quota` are our own.

use std::fmt::Write as _;

use mooncake_meta::TenantQuota;
use mooncake_types::{ByteSize, Tenant, limits};
use serde::Deserialize;

use super::Quotas;

const VERSION: u64 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Policy {
    version: u64,
    tenants: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    quota: Amount,
    burst: Option<Amount>,
    objects: Option<u64>,
    burst_objects: Option<u64>,
}

/// Bytes as a number, or as a text like `200GB`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Number(u64),
    Text(String),
}

impl Amount {
    fn bytes(&self) -> Result<u64, String> {
        match self {
            Self::Number(bytes) => Ok(*bytes),
            Self::Text(text) => match text.parse::<ByteSize>() {
                Ok(bytes) => Ok(bytes.0),
                Err(error) => Err(format!("{text:?}: {error}")),
            },
        }
    }
}

/// Reads quotas.
///
/// # Errors
/// The text says what is wrong, and with which tenant.
pub(super) fn parse(text: &str) -> Result<Quotas, String> {
    let policy: Policy =
        serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?;
    if policy.version != VERSION {
        return Err(format!("version {} is not {VERSION}", policy.version));
    }
    if policy.tenants.len() > limits::MAX_TENANT_QUOTAS {
        let (count, most) = (policy.tenants.len(), limits::MAX_TENANT_QUOTAS);
        return Err(format!("{count} tenants are more than {most}"));
    }
    let mut quotas = Quotas::new();
    for entry in policy.tenants {
        let (tenant, quota) = read(&entry).map_err(|why| format!("{:?}: {why}", entry.name))?;
        if quotas.insert(tenant, quota).is_some() {
            return Err(format!("{:?} stands there twice", entry.name));
        }
    }
    Ok(quotas)
}

fn read(entry: &Entry) -> Result<(Tenant, TenantQuota), String> {
    if entry.name.is_empty() {
        return Err("a tenant needs a name".to_owned());
    }
    let tenant = Tenant::named(&entry.name).map_err(|wrong| wrong.to_string())?;
    let quota = TenantQuota {
        bytes: entry.quota.bytes()?,
        burst_bytes: entry.burst.as_ref().map(Amount::bytes).transpose()?,
        objects: entry.objects,
        burst_objects: entry.burst_objects,
    };
    quota.validate().map_err(|wrong| wrong.to_string())?;
    Ok((tenant, quota))
}

/// Writes quotas.
pub(super) fn format(quotas: &Quotas) -> String {
    let mut out = format!("version: {VERSION}\n\n");
    out += if quotas.is_empty() { "tenants: []\n" } else { "tenants:\n" };
    for (tenant, quota) in quotas {
        // A text in JSON is one in YAML, too.
        let name = serde_json::Value::from(tenant.name());
        let fields = [
            ("quota", Some(quota.bytes)),
            ("burst", quota.burst_bytes),
            ("objects", quota.objects),
            ("burst_objects", quota.burst_objects),
        ];
        writeln!(out, "  - name: {name}").expect("a String takes all text");
        for (field, value) in fields {
            if let Some(value) = value {
                writeln!(out, "    {field}: {value}").expect("a String takes all text");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::named(name).expect("a name")
    }

    #[test]
    fn a_file_of_the_cpp_package_is_read_and_ours_comes_back() {
        let text = "version: 1\n\ntenants:\n  - name: tenant-a\n    quota: 200GB\n\n  - name: \"b \\\"ä\\\"\"\n    \
                    quota: 5\n    burst: 1KB\n    objects: 7\n    burst_objects: 8\n";
        let quotas = parse(text).expect("it is sound");
        let full = TenantQuota {
            bytes: 5,
            burst_bytes: Some(1024),
            objects: Some(7),
            burst_objects: Some(8),
        };
        let expected = Quotas::from([
            (tenant("tenant-a"), TenantQuota::of_bytes(200 << 30)),
            (tenant("b \"ä\""), full),
        ]);
        assert_eq!(quotas, expected);
        assert_eq!(parse(&format(&quotas)), Ok(quotas));
        assert_eq!(parse(&format(&Quotas::new())), Ok(Quotas::new()));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_tenant() {
        let of = |entry: &str| format!("version: 1\ntenants:\n  - {entry}\n");
        for (text, expected) in [
            ("version: 2\ntenants: []\n".to_owned(), "version 2 is not 1"),
            ("tenants: []\n".to_owned(), "version"),
            ("[".to_owned(), ""),
            (of("{name: a}"), "quota"),
            (of("{name: '', quota: 1}"), "\"\": a tenant needs a name"),
            (of("{name: _a, quota: 1}"), "\"_a\": a tenant has a name of"),
            (of("{name: a, quota: 0}"), "\"a\": quota is 0"),
            (of("{name: a, quota: 1XB}"), "\"a\": \"1XB\""),
            (of("{name: a, quota: 2, burst: 1}"), "\"a\": burst must be at least"),
            (of("{name: a, quota: 2, objects: -1}"), ""),
            (of("{name: a, quota: 2, share: 1}"), "share"),
            (of("{name: a, quota: 1}\n  - {name: a, quota: 2}"), "\"a\" stands there twice"),
        ] {
            let wrong = parse(&text).expect_err(&text);
            assert!(wrong.contains(expected), "{text}: {wrong}");
        }
    }
}
