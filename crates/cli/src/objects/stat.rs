//! `mooncake stat`: what the pool knows about objects. Enter at [`main`].

use std::process::ExitCode;

use clap::Parser;
use mooncake_client::{ObjectLocation, Store};
use mooncake_types::{ByteSize, ErrorCode, Tenant};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::outcome::{CommandError, Outcome, complain_of, run};
use super::output::{Output, plain};
use super::parts::only;
use crate::admin_masters::{ApiError, Masters, encoded};
use crate::pool::{Pool, PoolFlags};

const PROGRAM: &str = "mooncake stat";

/// Say where objects lie, and what protects them.
///
/// It asks the master's admin HTTP, which grants no lease and counts no read. If that does not answer, or the pool has
/// none, it asks as a client does: that grants a lease, and does not tell leases, pins and groups.
///
/// The exit status is 0, 3 if a key has no object, 2 for wrong arguments, and 1 otherwise.
#[derive(Debug, Parser)]
#[command(name = "mooncake stat", max_term_width = 110)]
pub(crate) struct StatArgs {
    /// The keys of the objects.
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
    /// Print a line of JSON for each key.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

/// An object, as `/query_key` of admin HTTP describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ObjectFacts {
    version: String,
    len_bytes: u64,
    replicas: Vec<ReplicaFacts>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    protection: Option<Protection>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ReplicaFacts {
    number: u32,
    medium: String,
    segments: Vec<String>,
}

/// What keeps an object from being evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Protection {
    /// How long its lease lasts yet; zero if none does.
    lease_ms: u64,
    /// How long ago its last lease ended; if it had none, when it became readable.
    idle_ms: u64,
    hard_pin: bool,
    /// How long its soft pin lasts yet; absent if it has none.
    soft_pin_ms: Option<u64>,
    group: Option<String>,
}

#[derive(Deserialize)]
struct QueriedKey {
    /// Masters of earlier releases do not tell it.
    object: Option<ObjectFacts>,
}

impl From<&ObjectLocation> for ObjectFacts {
    fn from(location: &ObjectLocation) -> Self {
        let replicas = location.replicas.iter().map(|replica| ReplicaFacts {
            number: replica.number,
            medium: replica.medium().tier().to_owned(),
            segments: replica.stripes.iter().map(|it| it.segment.name.to_string()).collect(),
        });
        let (version, len_bytes) = (location.version.to_string(), location.len);
        Self { version, len_bytes, replicas: replicas.collect(), protection: None }
    }
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &StatArgs| stat(args))
}

fn stat(args: &StatArgs) -> Result<Outcome, CommandError> {
    let mut sources = Sources::of(args)?;
    let (mut output, mut worst) = (Output::new(), Outcome::Done);
    for key in &args.keys {
        match sources.facts(args, key)? {
            Ok(facts) if args.json => {
                let mut line = json!({"key": key});
                let rest = serde_json::to_value(&facts).expect("plain data is JSON");
                if let (Some(line), serde_json::Value::Object(rest)) = (line.as_object_mut(), rest)
                {
                    line.extend(rest);
                }
                output.line(format_args!("{line}"))?;
            }
            Ok(facts) => output.bytes(text(key, &facts).as_bytes())?,
            Err(code) => {
                if args.json {
                    let line =
                        json!({"key": key, "error": code.name(), "error_code": code.number()});
                    output.line(format_args!("{line}"))?;
                }
                worst = worst.max(complain_of(PROGRAM, key, code));
            }
        }
    }
    output.flush()?;
    Ok(worst)
}

/// Who can be asked about objects.
struct Sources {
    /// The admin servers, unless the pool has none or they do not answer.
    masters: Option<Masters>,
    tenant: Tenant,
    /// A client, once it was needed.
    pool: Option<Pool>,
}

impl Sources {
    fn of(args: &StatArgs) -> Result<Self, CommandError> {
        let tenant = args.pool.tenant.tenant().map_err(CommandError::usage)?;
        let addresses = args.pool.name.admin_addresses().ok();
        // A token that cannot be read stops the client, which says so.
        let token = args.pool.token.token().unwrap_or_default();
        let masters = addresses.map(|addresses| Masters::at(&addresses, token));
        Ok(Self { masters, tenant, pool: None })
    }

    fn facts(
        &mut self,
        args: &StatArgs,
        key: &str,
    ) -> Result<Result<ObjectFacts, ErrorCode>, CommandError> {
        if let Some(masters) = &mut self.masters {
            let tenant = encoded(self.tenant.name());
            let path = format!("/query_key?key={}&tenant_id={tenant}", encoded(key));
            match masters.ask::<QueriedKey>("GET", &path, "") {
                Ok(QueriedKey { object: Some(facts) }) => return Ok(Ok(facts)),
                Err(ApiError::Refused { code: Some(code), .. }) => return Ok(Err(code)),
                // The client says what is wrong, if it finds the same.
                Ok(_) | Err(_) => self.masters = None,
            }
        }
        let store: &Store = match &mut self.pool {
            Some(pool) => pool,
            none => none.insert(Pool::join(&args.pool)?),
        };
        Ok(only(store.locate(&[key])).map(|location| ObjectFacts::from(&location)))
    }
}

fn text(key: &str, facts: &ObjectFacts) -> String {
    let mut text = format!("{}\n", plain(key));
    let mut row = |name: &str, value: String| text += &format!("  {name:<9}  {value}\n");
    row("length", format!("{} ({} bytes)", ByteSize(facts.len_bytes), facts.len_bytes));
    row("version", facts.version.clone());
    if let Some(protection) = &facts.protection {
        row("lease", lease(protection));
        row("pin", pin(protection));
        if let Some(group) = &protection.group {
            row("group", plain(group));
        }
    }
    for replica in &facts.replicas {
        let place = replica.segments.join(", ");
        row(&format!("replica {}", replica.number), format!("{} on {place}", replica.medium));
    }
    text
}

fn lease(protection: &Protection) -> String {
    match protection.lease_ms {
        0 => format!("none; not used for {}", seconds(protection.idle_ms)),
        ms => format!("{} left", seconds(ms)),
    }
}

fn pin(protection: &Protection) -> String {
    match (protection.hard_pin, protection.soft_pin_ms) {
        (true, _) => "hard".to_owned(),
        (false, Some(ms)) => format!("soft, {} left", seconds(ms)),
        (false, None) => "none".to_owned(),
    }
}

fn seconds(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        s @ 1..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_told_in_a_few_lines() {
        let protection = Protection {
            lease_ms: 4_900,
            idle_ms: 0,
            hard_pin: false,
            soft_pin_ms: Some(1_800_000),
            group: Some("run\n7".to_owned()),
        };
        let replica = |number, medium: &str, segments: &[&str]| ReplicaFacts {
            number,
            medium: medium.to_owned(),
            segments: segments.iter().map(ToString::to_string).collect(),
        };
        let facts = ObjectFacts {
            version: "3.17".to_owned(),
            len_bytes: 1_500_000,
            replicas: vec![replica(0, "memory", &["a:1", "b:2"]), replica(2, "disk", &["a:1"])],
            protection: Some(protection.clone()),
        };
        let expected = "a\\tkey
  length     1.43 MB (1500000 bytes)
  version    3.17
  lease      4 s left
  pin        soft, 30 min left
  group      run\\n7
  replica 0  memory on a:1, b:2
  replica 2  disk on a:1
";
        assert_eq!(text("a\tkey", &facts), expected);
        let idle = Protection { lease_ms: 0, idle_ms: 300, hard_pin: true, ..protection };
        assert_eq!((lease(&idle), pin(&idle)), ("none; not used for 300 ms".into(), "hard".into()));
    }
}
