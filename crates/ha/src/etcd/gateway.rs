use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::CoordinatorError;
use crate::http::{Ask, HttpAgent, HttpReply};
use crate::location::EtcdCluster;

/// Sends requests to the members of a cluster; one answer is enough.
pub(crate) struct Gateway {
    agent: HttpAgent,
    cluster: EtcdCluster,
    /// The token of the login, if the cluster has one.
    token: Mutex<Option<String>>,
    /// The member that is asked first: the last that answered.
    first: AtomicUsize,
    attempt: Duration,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)
    }
}

impl Gateway {
    /// `attempt` is how long one member may take. All members together get twice that for one request.
    pub(crate) fn new(cluster: &EtcdCluster, attempt: Duration) -> Self {
        let (agent, first) = (HttpAgent::plain(), AtomicUsize::new(0));
        Self { agent, cluster: cluster.clone(), token: Mutex::default(), first, attempt }
    }

    /// Asks one member after the other, once each, until one answers. A request that changes something must be safe
    /// to repeat.
    pub(crate) fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, CoordinatorError> {
        let deadline = Instant::now() + self.attempt * 2;
        let first = self.first.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        for turn in 0..self.cluster.endpoints.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let index = (first + turn) % self.cluster.endpoints.len();
            match self.ask(index, path, body, left.min(self.attempt)) {
                Ok(answer) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(reason) => reasons.push(format!("{}: {reason}", self.cluster.endpoints[index])),
            }
        }
        // The next request begins with another member, so that a silent member is not asked first.
        self.first.store((first + reasons.len()) % self.cluster.endpoints.len(), Ordering::Relaxed);
        Err(CoordinatorError::unavailable("etcd", reasons.join("; ")))
    }

    fn ask<T: DeserializeOwned>(
        &self,
        index: usize,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> Result<T, String> {
        let deadline = Instant::now() + within;
        let known = self.token().clone();
        let is_new = known.is_none();
        let token = match known {
            Some(token) => Some(token),
            None => self.log_in(index, within)?,
        };
        let answer = self.send(index, path, body, (token.as_deref(), within))?;
        let is_refused = answer.status == 401 && self.cluster.login.is_some();
        let answer = match is_refused && !is_new {
            false => answer,
            true => {
                // The token has ended, or the member has forgotten it.
                let left = deadline.saturating_duration_since(Instant::now());
                let token = self.log_in(index, left)?;
                let left = deadline.saturating_duration_since(Instant::now());
                self.send(index, path, body, (token.as_deref(), left))?
            }
        };
        match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|error| format!("its answer is not that of etcd ({error})")),
            status => Err(format!("it answered {status}: {}", answer.start())),
        }
    }

    fn send(
        &self,
        index: usize,
        path: &str,
        body: &Value,
        (token, within): (Option<&str>, Duration),
    ) -> Result<HttpReply, String> {
        let url = format!("http://{}{path}", self.cluster.endpoints[index]);
        self.agent.send(&Ask { method: "POST", url, body: Some(body), within }, token)
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a token, and keeps it. `None` if the address has no login.
    fn log_in(&self, index: usize, within: Duration) -> Result<Option<String>, String> {
        #[derive(Deserialize)]
        struct Authenticated {
            token: String,
        }
        let Some((name, password)) = &self.cluster.login else { return Ok(None) };
        let body = json!({"name": name, "password": password});
        let answer = self.send(index, "/v3/auth/authenticate", &body, (None, within))?;
        if answer.status != 200 {
            let (status, start) = (answer.status, answer.start());
            return Err(format!("it refused the login: it answered {status}: {start}"));
        }
        let answer: Authenticated = serde_json::from_slice(&answer.body)
            .map_err(|error| format!("its answer to a login is not that of etcd ({error})"))?;
        *self.token() = Some(answer.token.clone());
        Ok(Some(answer.token))
    }
}
