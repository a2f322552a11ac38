//! A stub of the leases and pods of a Kubernetes API server. Serve it with [`crate::stub::listen`].

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::stub::{HttpAnswer, HttpRequest, serve_http};

const NAMESPACE: &str = "/apis/coordination.k8s.io/v1/namespaces/kv/leases";

const PODS: &str = "/api/v1/namespaces/kv/pods/";

/// Most bytes of annotations that an API server accepts.
const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// The leases of an API server. It replaces an object only if the request names the newest version.
#[derive(Debug, Default)]
pub struct Leases {
    /// The leases by name.
    pub objects: BTreeMap<String, Value>,
    /// The labels of the pods by name.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    version: u64,
    /// The `Authorization` header that requests must have; `None` if they need none.
    pub authorization: Option<String>,
}

impl Leases {
    fn answer(&mut self, request: &HttpRequest) -> HttpAnswer {
        if self.authorization.as_ref().is_some_and(|wanted| *wanted != request.authorization) {
            return failure(401, "Unauthorized");
        }
        if let Some(pod) = request.path.strip_prefix(PODS) {
            return self.patch_pod(pod, request);
        }
        let name = request.path.strip_prefix(NAMESPACE);
        let Some(name) = name else { return failure(404, "no such resource") };
        let sent: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        match (request.method.as_str(), name.strip_prefix('/')) {
            ("GET", Some(name)) => match self.objects.get(name) {
                Some(object) => (200, object.to_string().into_bytes()),
                None => failure(404, "NotFound"),
            },
            ("POST", None) => {
                let name = sent["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                match self.objects.contains_key(&name) {
                    true => failure(409, "AlreadyExists"),
                    false => self.store(&name, sent, 201),
                }
            }
            ("PUT", Some(name)) => {
                let Some(stored) = self.objects.get(name) else { return failure(404, "NotFound") };
                let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
                match version(stored) == version(&sent) {
                    true => self.store(name, sent, 200),
                    false => failure(409, "Conflict"),
                }
            }
            _ => failure(405, "MethodNotAllowed"),
        }
    }

    /// Merges labels into those of a pod.
    fn patch_pod(&mut self, pod: &str, request: &HttpRequest) -> HttpAnswer {
        let Some(labels) = self.labels.get_mut(pod) else { return failure(404, "NotFound") };
        if request.method != "PATCH" || request.content_type != "application/merge-patch+json" {
            return failure(415, "UnsupportedMediaType");
        }
        let sent: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        for (name, value) in sent["metadata"]["labels"].as_object().into_iter().flatten() {
            match value.as_str() {
                Some(value) => labels.insert(name.clone(), value.to_owned()),
                None => labels.remove(name),
            };
        }
        (200, json!({"kind": "Pod"}).to_string().into_bytes())
    }

    /// Stores an object as the newest version, and returns an answer with this status.
    pub fn store(&mut self, name: &str, mut object: Value, status: u16) -> HttpAnswer {
        if object["metadata"]["annotations"].to_string().len() > MAX_ANNOTATION_BYTES {
            return failure(422, "Invalid");
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let text = object.to_string().into_bytes();
        self.objects.insert(name.to_owned(), object);
        (status, text)
    }
}

fn failure(status: u16, reason: &str) -> HttpAnswer {
    let body = json!({"kind": "Status", "status": "Failure", "reason": reason, "code": status});
    (status, body.to_string().into_bytes())
}

/// Answers the requests on one connection.
///
/// # Panics
/// If a thread panicked while it held the leases.
pub fn serve(leases: &Mutex<Leases>, stream: impl Read + Write) {
    let _ = serve_http(stream, |request| leases.lock().expect("no panic").answer(request));
}
