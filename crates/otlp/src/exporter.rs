use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use mooncake_calls::{Span, SpanSink};
use mooncake_types::LogLimiter;

use crate::endpoint::Endpoint;
use crate::json;
use crate::queue::{Batch, Queue};

/// How long a collector may take to accept a batch.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends spans on a thread of its own, once a second. The last ones are sent when it is dropped.
#[derive(Debug)]
pub struct Exporter {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(endpoint: &Endpoint) -> io::Result<Exporter> {
        let queue = Arc::new(Queue::default());
        let (of_thread, sender) = (Arc::clone(&queue), Sender::new(endpoint));
        let run = move || sender.run(&of_thread);
        let thread = Builder::new().name("mooncake-otlp".to_owned()).spawn(run)?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)) })
    }
}

impl SpanSink for Exporter {
    fn take(&self, spans: Vec<Span>) {
        self.queue.add(spans);
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic there lost spans, and nothing else.
        let _ = thread.map(JoinHandle::join);
    }
}

struct Sender {
    agent: ureq::Agent,
    url: String,
    failures: LogLimiter<()>,
}

impl Sender {
    fn new(endpoint: &Endpoint) -> Self {
        let agent = ureq::Agent::config_builder().max_redirects(0).proxy(None).build();
        Self { agent: agent.into(), url: endpoint.url().to_owned(), failures: LogLimiter::new() }
    }

    fn run(&self, queue: &Queue) {
        loop {
            let batch = queue.gather();
            let is_last = batch.is_last;
            self.send(&batch);
            if is_last {
                return;
            }
        }
    }

    /// Sends a batch once: spans are not worth keeping for a collector that may never come back.
    fn send(&self, batch: &Batch) {
        let Batch { spans, lost, .. } = batch;
        if spans.is_empty() && *lost == 0 {
            return;
        }
        let body = json::of_spans(spans).to_string();
        let request = self.agent.post(&self.url).config().timeout_global(Some(PATIENCE)).build();
        let sent = request.header("content-type", "application/json").send(body);
        let lost = lost + sent.as_ref().err().map_or(0, |_| spans.len() as u64);
        if lost > 0
            && let Some(further) = self.failures.admit((), Instant::now())
        {
            let error = sent.err().map(tracing::field::display);
            tracing::warn!(url = self.url, lost, error, further, "spans were not sent");
        }
    }
}
