//! Turns flags into the configuration of leadership and of the state file.

use std::path::PathBuf;
use std::time::Duration;

use mooncake_ha::KubernetesAccess;
use mooncake_master::{LeadershipConfig, PodConfig, StateDir};
use mooncake_types::without_password;

use super::flags::{BackendName, LeadershipFlags};

/// The environment of the process, as far as leadership depends on it.
#[derive(Clone, Debug, Default)]
pub struct LeadershipEnvironment {
    /// `XDG_STATE_HOME`.
    pub state_home: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// How a pod reaches the API server.
    pub kubernetes: Option<KubernetesAccess>,
}

impl LeadershipEnvironment {
    /// Reads the environment.
    #[must_use]
    pub fn look() -> LeadershipEnvironment {
        // By the XDG specification, a relative path counts as unset.
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        LeadershipEnvironment {
            state_home: folder("XDG_STATE_HOME"),
            home: folder("HOME"),
            kubernetes: KubernetesAccess::from_environment(),
        }
    }

    fn state_dir(&self) -> Option<PathBuf> {
        let below_home = || self.home.as_ref().map(|home| home.join(".local/state"));
        self.state_home.clone().or_else(below_home).map(|folder| folder.join("mooncake"))
    }
}

impl LeadershipFlags {
    /// Checks flags that depend on each other.
    ///
    /// # Errors
    /// The text names the flag.
    pub(super) fn check(&self) -> Result<(), String> {
        match (self.enable_ha.0, self.address()) {
            (true, None) => {
                Err("--enable_ha needs --ha_backend_connstring (for etcd, --etcd_endpoints will do): where the leader \
                     is elected"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Refuses the address of a coordinator that would be ignored: each of several masters would lead on its own.
    /// `--enable_ha=false` says that this is meant.
    ///
    /// # Errors
    /// The text names the flag.
    pub(super) fn check_intent(&self, is_given: impl Fn(&str) -> bool) -> Result<(), String> {
        if self.enable_ha.0 || is_given("enable_ha") {
            return Ok(());
        }
        let addresses = [
            ("etcd_endpoints", &self.etcd_endpoints),
            ("ha_backend_connstring", &self.ha_backend_connstring),
        ];
        match addresses.into_iter().find(|(_, value)| !value.trim().is_empty()) {
            None => Ok(()),
            Some((flag, value)) => Err(format!(
                "--{flag}={}: without --enable_ha no coordinator is asked, and each master leads by itself; add \
                 --enable_ha, or --enable_ha=false if this master is alone",
                without_password(value)
            )),
        }
    }

    pub(super) fn config(&self, surroundings: LeadershipEnvironment) -> LeadershipConfig {
        match self.address().filter(|_| self.enable_ha.0) {
            Some(coordinator) => LeadershipConfig::Elected {
                coordinator,
                ttl: Duration::from_secs(self.ha_lease_ttl_sec),
                kubernetes: surroundings.kubernetes,
            },
            None => LeadershipConfig::Alone { state_dir: self.state_dir(&surroundings) },
        }
    }

    /// The pod to label while this master leads, if both of its names are given.
    pub(super) fn pod(&self, surroundings: &LeadershipEnvironment) -> Option<PodConfig> {
        let access = surroundings.kubernetes.clone()?;
        let is_named = !self.pod_name.is_empty() && !self.pod_namespace.is_empty();
        (self.enable_ha.0 && is_named).then(|| PodConfig {
            namespace: self.pod_namespace.clone(),
            name: self.pod_name.clone(),
            access,
        })
    }

    /// Whether the operator expects a state file: `--state_dir` is not `none`.
    pub(super) fn forgets(&self) -> bool {
        self.state_dir != "none"
    }

    fn state_dir(&self, surroundings: &LeadershipEnvironment) -> Option<StateDir> {
        let (folder, is_required) = match self.state_dir.as_str() {
            "none" => return None,
            "" => (surroundings.state_dir()?, false),
            folder => (PathBuf::from(folder), true),
        };
        Some(StateDir { folder, is_required })
    }

    /// The address of the coordinator, with its scheme.
    fn address(&self) -> Option<String> {
        let scheme = match self.ha_backend_type {
            BackendName::Etcd => "etcd://",
            BackendName::Redis => "redis://",
            BackendName::K8s => "k8s://",
            BackendName::File => "file://",
        };
        let text = match (self.ha_backend_connstring.trim(), self.ha_backend_type) {
            ("", BackendName::Etcd) => self.etcd_endpoints.trim(),
            (text, _) => text,
        };
        match text {
            "" => None,
            text if text.starts_with(scheme) => Some(text.to_owned()),
            text => Some(format!("{scheme}{text}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Switch;

    fn flags(kind: BackendName, connstring: &str, etcd_endpoints: &str) -> LeadershipFlags {
        LeadershipFlags {
            enable_ha: Switch(true),
            ha_backend_type: kind,
            ha_backend_connstring: connstring.to_owned(),
            etcd_endpoints: etcd_endpoints.to_owned(),
            ha_lease_ttl_sec: 5,
            ha_warm_standby: Switch(true),
            state_dir: String::new(),
            pod_name: "mooncake-0".to_owned(),
            pod_namespace: "kv".to_owned(),
        }
    }

    #[test]
    fn one_of_several_masters_in_a_pod_labels_it() {
        let url = "http://127.0.0.1:8001".to_owned();
        let access = KubernetesAccess { url, token_path: None, certificate_path: None };
        let pod = |change: fn(&mut LeadershipFlags), kubernetes| {
            let mut flags = flags(BackendName::K8s, "kv/lease", "");
            change(&mut flags);
            let surroundings = LeadershipEnvironment { state_home: None, home: None, kubernetes };
            flags.pod(&surroundings)
        };
        let expected = PodConfig {
            namespace: "kv".to_owned(),
            name: "mooncake-0".to_owned(),
            access: access.clone(),
        };
        assert_eq!(pod(|_| (), Some(access.clone())), Some(expected));
        assert_eq!(pod(|_| (), None), None);
        assert_eq!(pod(|flags| flags.pod_name.clear(), Some(access.clone())), None);
        assert_eq!(pod(|flags| flags.enable_ha = Switch(false), Some(access)), None);
    }

    #[test]
    fn the_coordinator_has_its_scheme_and_etcd_has_an_older_flag() {
        use BackendName::{Etcd, File, K8s, Redis};
        for (kind, connstring, etcd_endpoints, expected) in [
            (Etcd, "", "a:2379;b:2379", Some("etcd://a:2379;b:2379")),
            (Etcd, "c:1", "a:2379", Some("etcd://c:1")),
            (Etcd, "etcd://c:1", "", Some("etcd://c:1")),
            (Redis, "h:6379/1", "a:2379", Some("redis://h:6379/1")),
            (K8s, "space/lease", "", Some("k8s://space/lease")),
            (File, "/run/mooncake", "", Some("file:///run/mooncake")),
            (File, "", "a:2379", None),
            (Etcd, "", " ", None),
        ] {
            let flags = flags(kind, connstring, etcd_endpoints);
            assert_eq!(flags.address().as_deref(), expected, "{kind:?}");
            assert_eq!(flags.check().is_ok(), expected.is_some(), "{kind:?}");
        }
    }

    #[test]
    fn a_master_alone_remembers_in_the_folder_for_state() {
        let path = |text: &str| Some(PathBuf::from(text));
        let dir =
            |folder, is_required| Some(StateDir { folder: PathBuf::from(folder), is_required });
        let (home, state_home) = (path("/home/a"), path("/state"));
        for (flag, state_home, home, expected) in [
            ("", state_home.clone(), home.clone(), dir("/state/mooncake", false)),
            ("", None, home.clone(), dir("/home/a/.local/state/mooncake", false)),
            ("", None, None, None),
            ("none", state_home.clone(), home.clone(), None),
            ("/srv", state_home, home, dir("/srv", true)),
        ] {
            let mut flags = flags(BackendName::File, "/run", "");
            (flags.enable_ha, flags.state_dir) = (Switch(false), flag.to_owned());
            let surroundings = LeadershipEnvironment { state_home, home, kubernetes: None };
            let config = flags.config(surroundings);
            assert_eq!(config, LeadershipConfig::Alone { state_dir: expected });
        }
    }
}
