use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::CoordinatorError;
use crate::http::{self, HttpAgent};

/// Sends requests to the members of a cluster; one answer is enough.
pub(super) struct Gateway {
    agent: HttpAgent,
    endpoints: Vec<String>,
    /// The member that is asked first: the last that answered.
    first: AtomicUsize,
    attempt: Duration,
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "etcd://{}", self.endpoints.join(";"))
    }
}

impl Gateway {
    /// `attempt` is how long one member may take. All members together get twice that for one request.
    pub(super) fn new(endpoints: &[String], attempt: Duration) -> Self {
        let agent = HttpAgent::plain();
        Self { agent, endpoints: endpoints.to_vec(), first: AtomicUsize::new(0), attempt }
    }

    /// Asks one member after the other, once each, until one answers. A request that changes something must be safe
    /// to repeat.
    pub(super) fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, CoordinatorError> {
        let deadline = Instant::now() + self.attempt * 2;
        let first = self.first.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        for turn in 0..self.endpoints.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let index = (first + turn) % self.endpoints.len();
            match self.ask(index, path, body, left.min(self.attempt)) {
                Ok(answer) => {
                    self.first.store(index, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(reason) => reasons.push(format!("{}: {reason}", self.endpoints[index])),
            }
        }
        // The next request begins with another member, so that a silent member is not asked first.
        self.first.store((first + reasons.len()) % self.endpoints.len(), Ordering::Relaxed);
        Err(CoordinatorError::unavailable("etcd", reasons.join("; ")))
    }

    fn ask<T: DeserializeOwned>(
        &self,
        index: usize,
        path: &str,
        body: &Value,
        within: Duration,
    ) -> Result<T, String> {
        let url = format!("http://{}{path}", self.endpoints[index]);
        let answer =
            self.agent.send(&http::Ask { method: "POST", url, body: Some(body), within })?;
        match answer.status {
            200 => serde_json::from_slice(&answer.body)
                .map_err(|error| format!("its answer is not that of etcd ({error})")),
            status => Err(format!("it answered {status}: {}", answer.start())),
        }
    }
}
