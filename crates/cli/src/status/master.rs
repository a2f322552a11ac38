//! A master's role, as its admin server tells it.

use mooncake_http::admin;
use mooncake_master::Problem;
use serde::Deserialize;
use serde_json::{Value, json};

/// A master, and its answer to `/health`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Master {
    /// The address of its admin server, `host:port`.
    pub(super) http: String,
    pub(super) health: Result<Health, String>,
}

/// Something that an operator should look at, and what to do about it; empty if that is plain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) text: String,
    pub(super) remedy: String,
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self { text, remedy: String::new() }
    }
}

impl From<Problem> for Trouble {
    fn from(Problem { text, remedy }: Problem) -> Self {
        Self { text, remedy: remedy.to_owned() }
    }
}

/// The answer to `/health`.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Health {
    /// `leader` or `standby`.
    role: String,
    /// What runs there, and its protocol. Absent in earlier releases.
    version: Option<String>,
    protocol_version: Option<u32>,
    /// The state of the leadership, like `serving` or `recovering`.
    pub(super) ha_state: String,
    leader_address: Option<String>,
    view_version: Option<u64>,
    following: Option<Following>,
    /// Why it does not serve.
    reason: Option<String>,
    /// What the leader finds wrong with the pool.
    problems: Option<Vec<String>>,
    /// What to do about each of these. Absent in earlier releases.
    #[serde(default)]
    remedies: Vec<String>,
}

/// How many ledgers a standby follows.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Following {
    segments: usize,
    known_segments: usize,
}

impl Master {
    pub(super) fn ask(http: &str) -> Self {
        let answer = admin::get(http, "/health").map_err(|error| error.to_string());
        let health = answer.and_then(|text| {
            serde_json::from_str(&text)
                .map_err(|error| format!("http://{http} does not answer as a master does: {error}"))
        });
        Self { http: http.to_owned(), health }
    }

    pub(super) fn leads(&self) -> bool {
        self.health.as_ref().is_ok_and(|health| health.role == "leader")
    }

    /// The address at which clients reach the leader, as far as this master knows.
    pub(super) fn known_leader(&self) -> Option<&str> {
        self.health.as_ref().ok()?.leader_address.as_deref()
    }

    /// What this master, which leads, finds wrong with the pool, and what to do. `None` if it is of an earlier release.
    pub(super) fn problems_of_pool(&self) -> Option<Vec<Trouble>> {
        let Health { problems, remedies, .. } = self.health.as_ref().ok()?;
        let remedies = remedies.iter().cloned().chain(std::iter::repeat(String::new()));
        let trouble = |(text, remedy): (&String, String)| Trouble { text: text.clone(), remedy };
        Some(problems.as_ref()?.iter().zip(remedies).map(trouble).collect())
    }

    /// The cells of the master's row: admin server, role, state, and details.
    pub(super) fn cells(&self) -> [String; 4] {
        let Ok(health) = &self.health else {
            return [self.http.clone(), "no answer".to_owned(), String::new(), String::new()];
        };
        let rest = match (&health.leader_address, &health.following) {
            (Some(address), _) if self.leads() => match health.view_version {
                Some(epoch) => format!("{address}, epoch {epoch}"),
                None => address.clone(),
            },
            (_, Some(Following { segments, known_segments })) => {
                format!("knows the ledgers of {known_segments} of {segments} segments")
            }
            _ => String::new(),
        };
        let version = health.version.as_ref().zip(health.protocol_version);
        let version =
            version.map(|(version, protocol)| format!("version {version}, protocol {protocol}"));
        let rest = [Some(rest).filter(|rest| !rest.is_empty()), version].into_iter().flatten();
        let rest = rest.collect::<Vec<_>>().join("; ");
        [self.http.clone(), health.role.clone(), health.ha_state.clone(), rest]
    }

    /// The same as JSON.
    pub(super) fn json(&self) -> Value {
        let Ok(health) = &self.health else {
            return json!({"http": self.http, "error": self.health.as_ref().err()});
        };
        let following = health.following.as_ref();
        let following = following
            .map(|it| json!({"segments": it.segments, "known_segments": it.known_segments}));
        json!({
            "http": self.http, "role": health.role, "state": health.ha_state, "version": health.version,
            "protocol": health.protocol_version, "leader": health.leader_address, "epoch": health.view_version,
            "following": following, "reason": health.reason,
        })
    }

    /// Why the master is a problem: it does not answer, or leads without serving.
    pub(super) fn problem(&self) -> Option<Trouble> {
        match &self.health {
            Err(reason) => Some(reason.clone().into()),
            Ok(Health { ha_state, reason, .. }) if self.leads() && ha_state != "serving" => {
                Problem::of_leader(ha_state, reason.as_deref()).map(Into::into)
            }
            Ok(Health { reason: Some(reason), .. }) => {
                Some(format!("{}: {reason}", self.http).into())
            }
            Ok(_) => None,
        }
    }
}
