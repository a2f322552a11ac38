use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::spawn_unpinned;

/// How long an answer is reused. It is short, so that a peer that moved is soon found.
const FRESH: Duration = Duration::from_secs(1);

/// How long an answer is used while name servers do not answer.
const USABLE: Duration = Duration::from_secs(600);

/// Most names that are cached.
const MAX_NAMES: usize = 1024;

/// Most names that are looked up at a time. Each takes a thread.
const MAX_ASKED: usize = 32;

/// Looks up the addresses of `host:port`.
type LookUp = dyn Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Resolves endpoints within the caller's time limit. The system's resolver has its own timeouts, so a thread waits
/// for it. Callers that want the same name meanwhile share that thread.
#[derive(Clone)]
pub struct Resolver(Arc<Shared>);

struct Shared {
    look_up: Box<LookUp>,
    names: Mutex<HashMap<String, Name>>,
    answered: Condvar,
}

#[derive(Default)]
struct Name {
    is_asked: bool,
    /// How many lookups have ended.
    answers: u64,
    /// The last result, good or bad.
    last: Option<(Instant, Resolution)>,
    /// The last good result.
    known: Option<(Instant, Vec<SocketAddr>)>,
}

type Resolution = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;

impl Default for Resolver {
    /// A resolver that asks the operating system.
    fn default() -> Self {
        Self::with(|endpoint| endpoint.to_socket_addrs().map(Iterator::collect))
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

impl Resolver {
    /// A resolver that asks `look_up`.
    #[must_use]
    pub fn with(
        look_up: impl Fn(&str) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static,
    ) -> Self {
        let (names, answered) = (Mutex::default(), Condvar::new());
        Self(Arc::new(Shared { look_up: Box::new(look_up), names, answered }))
    }

    /// Resolves `host:port`. An answer of the last second is reused.
    ///
    /// # Errors
    /// The lookup's error, or that too many names are being looked up. Of kind `TimedOut` if the lookup took longer
    /// than `within`, and no good answer of the last ten minutes exists.
    pub fn resolve(&self, endpoint: &str, within: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = endpoint.parse() {
            return Ok(vec![address]);
        }
        let mut names = self.0.lock();
        if let Some(answer) = names.get(endpoint).and_then(|name| name.fresh(Instant::now())) {
            return told(answer);
        }
        let answers = self.ask(&mut names, endpoint)?;
        let is_waiting = |names: &mut HashMap<String, Name>| {
            names.get(endpoint).is_some_and(|name| name.answers == answers)
        };
        let waited = self.0.answered.wait_timeout_while(names, within, is_waiting);
        let (names, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        let late = || Err(io::Error::new(io::ErrorKind::TimedOut, "the name is not resolved yet"));
        let Some(name) = names.get(endpoint) else { return late() };
        match (&name.last, timed_out.timed_out()) {
            (Some((_, answer)), false) => told(answer.clone()),
            _ => name.usable(Instant::now()).map_or_else(late, Ok),
        }
    }

    /// Starts a lookup unless one is running. Returns how many lookups have ended before.
    fn ask(&self, names: &mut HashMap<String, Name>, endpoint: &str) -> io::Result<u64> {
        if names.len() >= MAX_NAMES && !names.contains_key(endpoint) {
            names.retain(|_, name| name.is_asked);
        }
        let asked = names.values().filter(|name| name.is_asked).count();
        let name = names.entry(endpoint.to_owned()).or_default();
        if !name.is_asked {
            if asked >= MAX_ASKED {
                return Err(io::Error::other("too many names are being resolved"));
            }
            let (shared, endpoint) = (Arc::clone(&self.0), endpoint.to_owned());
            let thread = Builder::new().name("mooncake-names".to_owned());
            spawn_unpinned(thread, move || shared.look_up(&endpoint))?;
            name.is_asked = true;
        }
        Ok(name.answers)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Name>> {
        // Every change of the map is a single step, so a poisoned lock is harmless.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_up(&self, endpoint: &str) {
        let found = (self.look_up)(endpoint).map_err(|error| (error.kind(), error.to_string()));
        let now = Instant::now();
        if let Some(name) = self.lock().get_mut(endpoint) {
            name.is_asked = false;
            name.answers += 1;
            if let Ok(addresses) = &found {
                name.known = Some((now, addresses.clone()));
            }
            name.last = Some((now, found));
        }
        self.answered.notify_all();
    }
}

impl Name {
    fn fresh(&self, now: Instant) -> Option<Resolution> {
        let (at, answer) = self.last.as_ref()?;
        (now.saturating_duration_since(*at) < FRESH).then(|| answer.clone())
    }

    fn usable(&self, now: Instant) -> Option<Vec<SocketAddr>> {
        let (at, addresses) = self.known.as_ref()?;
        (now.saturating_duration_since(*at) < USABLE).then(|| addresses.clone())
    }
}

fn told(answer: Resolution) -> io::Result<Vec<SocketAddr>> {
    answer.map_err(|(kind, reason)| io::Error::new(kind, reason))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(20);

    fn address() -> SocketAddr {
        "10.0.0.7:12".parse().expect("an address")
    }

    /// A resolver whose name server answers on request, and the number of its lookups.
    fn slow() -> (Resolver, Sender<()>, Arc<AtomicUsize>) {
        let (answer, answered) = channel::<()>();
        let (answered, asked) = (Mutex::new(answered), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&asked);
        let resolver = Resolver::with(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            let answered = answered.lock().expect("nobody panics");
            answered.recv().map_err(|_| io::Error::other("no such name"))?;
            Ok(vec![address()])
        });
        (resolver, answer, asked)
    }

    #[test]
    fn a_name_server_that_says_nothing_costs_no_more_than_the_deadline() {
        let (resolver, answer, asked) = slow();
        let started = Instant::now();
        for _ in 0..3 {
            let error = resolver.resolve("node:12", SHORT).expect_err("nobody answers");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        }
        assert!(started.elapsed() < LONG / 2, "{:?}", started.elapsed());
        assert_eq!(asked.load(Ordering::SeqCst), 1, "one thread waits for the answer");
        assert_eq!(resolver.resolve("10.0.0.7:12", SHORT).ok(), Some(vec![address()]));
        answer.send(()).expect("it waits");
        assert_eq!(resolver.resolve("node:12", LONG).ok(), Some(vec![address()]));
        assert_eq!(resolver.resolve("node:12", LONG).ok(), Some(vec![address()]));
        assert_eq!(asked.load(Ordering::SeqCst), 1, "it was answered a moment ago");
    }

    #[test]
    fn an_earlier_answer_serves_while_name_servers_say_nothing() {
        let (resolver, answer, asked) = slow();
        answer.send(()).expect("it waits");
        assert_eq!(resolver.resolve("node:12", LONG).ok(), Some(vec![address()]));
        let later = || Instant::now().checked_sub(2 * FRESH).expect("the machine runs for longer");
        if let Some(name) = resolver.0.lock().get_mut("node:12") {
            name.last.as_mut().expect("it was answered").0 = later();
        }
        assert_eq!(resolver.resolve("node:12", SHORT).ok(), Some(vec![address()]));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        drop(answer);
        let error = resolver.resolve("node:12", LONG).expect_err("the server says so");
        assert_eq!(error.to_string(), "no such name");
    }

    #[test]
    fn no_more_names_are_remembered_and_asked_for_than_may_be() {
        let resolver = Resolver::with(|_| Ok(vec![address()]));
        for number in 0..MAX_NAMES + 10 {
            resolver.resolve(&format!("node{number}:1"), LONG).expect("it answers");
        }
        assert!(resolver.0.lock().len() <= MAX_NAMES);
        let (resolver, answer, _) = slow();
        for number in 0..MAX_ASKED {
            resolver.resolve(&format!("node{number}:1"), Duration::ZERO).expect_err("not yet");
        }
        let error = resolver.resolve("one more:1", LONG).expect_err("there are too many");
        assert_eq!(error.to_string(), "too many names are being resolved");
        drop(answer);
    }
}
