use std::time::{Duration, Instant};

use mooncake_client::{
    Buffer, ErrorCode, PutSource, ReplicateConfig, SliceList, Store, StoreConfig,
};
use mooncake_ha::KubernetesAccess;

use crate::surroundings::Folder;
use mooncake_testing::{PATIENCE, Program, http_get};

/// The lease of a leader: how long the coordinator counts it as alive after its last renewal.
pub(crate) const TTL: Duration = Duration::from_secs(2);

const SECRET: &str = "a-secret";
const SECRET_FLAG: &str = "--auth_token=a-secret";

/// A master process that takes part in elections.
pub(crate) struct Master {
    pub(crate) program: Program,
    pub(crate) rpc: String,
    pub(crate) admin: String,
}

impl Master {
    pub(crate) fn start(coordinator: &str) -> Master {
        Self::start_with_variables(coordinator, &[], None)
    }

    pub(crate) fn start_with_variables(
        coordinator: &str,
        variables: &[(&str, &str)],
        flag: Option<&str>,
    ) -> Master {
        let kind = coordinator.split("://").next().expect("a scheme");
        let args = [
            "--enable_ha",
            &format!("--ha_backend_type={kind}"),
            &format!("--ha_backend_connstring={coordinator}"),
            &format!("--ha_lease_ttl_sec={}", TTL.as_secs()),
            "--rpc_port=0",
            "--port=0",
            "--metrics_port=0",
            "--rpc_address=127.0.0.1",
            "--metrics_host=127.0.0.1",
        ];
        let args: Vec<&str> = args.into_iter().chain(flag).collect();
        let path = env!("CARGO_BIN_EXE_mooncake_master");
        let program = Program::start_with_variables(path, &args, variables);
        let line = program.line("the master stands for election");
        let field = |name| Program::field(&line, name);
        let (rpc, admin) = (field("rpc_addr="), field("admin_addr="));
        Master { program, rpc, admin }
    }

    /// The answer of the master's admin server at this path.
    pub(crate) fn says(&self, path: &str) -> String {
        http_get(&self.admin, path)
    }

    pub(crate) fn wait_until_role(&self, role: &str) {
        self.wait_until("/role", role);
    }

    pub(crate) fn wait_until(&self, path: &str, answer: &str) {
        let begun = Instant::now();
        while self.says(path) != answer {
            assert!(begun.elapsed() < PATIENCE, "{} never says {answer}", self.rpc);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A coordinator, the nodes that use it, and the settings of the masters that it elects.
pub(crate) struct Cluster {
    coordinator: String,
    /// The URL of the Kubernetes API server, if that is the coordinator.
    api: Option<String>,
    nodes: Vec<Program>,
    /// A further flag for every master.
    flag: Option<&'static str>,
    has_secret: bool,
    _folder: Option<Folder>,
}

impl Cluster {
    /// A cluster with this coordinator.
    pub(crate) fn at(coordinator: String) -> Cluster {
        let (nodes, has_secret) = (Vec::new(), false);
        Cluster { coordinator, api: None, nodes, flag: None, has_secret, _folder: None }
    }

    /// A cluster whose coordinator is a Lease object of this API server.
    pub(crate) fn at_kubernetes(coordinator: &str, url: String) -> Cluster {
        Cluster { api: Some(url), ..Self::at(coordinator.to_owned()) }
    }

    /// A cluster whose coordinator is a folder.
    pub(crate) fn new(name: &str) -> Cluster {
        let folder = Folder::new(name);
        let coordinator = format!("file://{}", folder.path().display());
        Cluster { _folder: Some(folder), ..Self::at(coordinator) }
    }

    /// The same cluster, whose masters get this flag too.
    pub(crate) fn with_flag(self, flag: &'static str) -> Cluster {
        Cluster { flag: Some(flag), ..self }
    }

    /// The same cluster, with a secret that all members know.
    pub(crate) fn with_secret(self) -> Cluster {
        Cluster { flag: Some(SECRET_FLAG), has_secret: true, ..self }
    }

    /// Starts a master that listens and takes part in elections.
    pub(crate) fn master(&self) -> Master {
        Master::start_with_variables(&self.coordinator, &self.variables(), self.flag)
    }

    fn variables(&self) -> Vec<(&str, &str)> {
        self.api.iter().map(|url| ("MOONCAKE_KUBERNETES_URL", url.as_str())).collect()
    }

    /// A store that lends no memory and asks the coordinator for the leader.
    pub(crate) fn store(&self) -> Store {
        let access = |url: &String| KubernetesAccess {
            url: url.clone(),
            token_path: None,
            certificate_path: None,
        };
        let auth_token = if self.has_secret { SECRET } else { "" };
        open(&self.coordinator, self.api.as_ref().map(access), auth_token)
    }

    /// Two masters: the leader and a standby.
    pub(crate) fn pair(&self) -> (Master, Master) {
        let leader = self.master();
        leader.wait_until_role("leader");
        let standby = self.master();
        standby.wait_until("/ha_status", "standby");
        (leader, standby)
    }

    pub(crate) fn coordinator(&self) -> &str {
        &self.coordinator
    }

    /// Starts a node that follows the leader.
    pub(crate) fn add_node(&mut self) {
        let args = [
            "--host=127.0.0.1",
            "--port=0",
            "--global_segment_size=32MB",
            &format!("--master_server_address={}", self.coordinator),
        ];
        let secret = self.has_secret.then_some(SECRET_FLAG);
        let args: Vec<&str> = args.into_iter().chain(secret).collect();
        let path = env!("CARGO_BIN_EXE_mooncake_client");
        let node = Program::start_with_variables(path, &args, &self.variables());
        node.line("the storage node is ready");
        self.nodes.push(node);
    }

    /// Kills all nodes. Their objects are lost.
    pub(crate) fn kill_nodes(&mut self) {
        self.nodes.drain(..).for_each(|mut node| node.kill());
    }
}

/// A store that lends no memory; `master` is its list of masters or its coordinator.
pub(crate) fn store(master: &str) -> Store {
    open(master, None, "")
}

fn open(master: &str, kubernetes: Option<KubernetesAccess>, auth_token: &str) -> Store {
    let config = StoreConfig {
        master: master.to_owned(),
        kubernetes,
        auth_token: auth_token.into(),
        segment_bytes: 0,
        ..StoreConfig::from_variables(|_| None).expect("the defaults make sense")
    };
    Store::open(config).expect("a master leads")
}

/// Bytes generated from the key and the version.
pub(crate) fn value(key: &str, version: u32) -> Vec<u8> {
    format!("{key} {version};").bytes().cycle().take(100_000).collect()
}

pub(crate) fn put(store: &Store, key: &str, version: u32) -> Result<(), ErrorCode> {
    let value = Buffer::from_vec(value(key, version));
    let source = PutSource::new(key, SliceList::from(value.raw()));
    store.put(&[source], &ReplicateConfig::default()).remove(0)
}

/// Gets a key, and checks that its bytes are those of this version.
pub(crate) fn get(store: &Store, key: &str, version: u32) -> Result<(), ErrorCode> {
    let got = store.get(&[key]).remove(0)?;
    assert!(got.into_vec() == value(key, version), "{key} is wrong");
    Ok(())
}

/// Puts new keys until a put succeeds, and gets that key. Returns how long this took.
pub(crate) fn until_served(store: &Store, name: &str) -> Duration {
    let begun = Instant::now();
    for attempt in 0.. {
        let key = format!("{name}-{attempt}");
        let put = put(store, &key, 0);
        if put.is_ok() {
            assert_eq!(get(store, &key, 0), Ok(()));
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing can be put: {put:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    begun.elapsed()
}
