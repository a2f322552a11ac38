use std::path::PathBuf;

use mooncake_types::host_port;

/// Where a pod finds the token of its service account, and the certificate of the API server.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How to reach the API server of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubernetesAccess {
    /// `https://host:port`; `http://` too, for a proxy on this host such as `kubectl proxy`.
    pub url: String,
    /// A file with the bearer token. It is read for each request, since Kubernetes replaces tokens now and then.
    pub token_path: Option<PathBuf>,
    /// A file with the certificates, in PEM, that the server's must come from.
    pub certificate_path: Option<PathBuf>,
}

impl KubernetesAccess {
    /// Reads the environment of a pod: `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`, with the service
    /// account that is mounted into it. `MOONCAKE_KUBERNETES_URL` goes before that, for a proxy without a token such
    /// as `kubectl proxy`. `None` if neither is set.
    ///
    /// For programs that read their configuration; nothing else here reads the environment.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        if let Ok(url) = std::env::var("MOONCAKE_KUBERNETES_URL") {
            return Some(Self { url, token_path: None, certificate_path: None });
        }
        let host = std::env::var("KUBERNETES_SERVICE_HOST").ok()?;
        let port = std::env::var("KUBERNETES_SERVICE_PORT").ok()?.parse().ok()?;
        let folder = PathBuf::from(SERVICE_ACCOUNT);
        Some(Self {
            url: format!("https://{}", host_port::join(&host, port)),
            token_path: Some(folder.join("token")),
            certificate_path: Some(folder.join("ca.crt")),
        })
    }
}
