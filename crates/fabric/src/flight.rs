//! The requests of an endpoint: what waits for room, what is in flight, what has ended.

use std::collections::BTreeMap;
use std::mem;

use mooncake_memory::HeldMemory;

use crate::call::CallError;
use crate::contexts::{Contexts, Posted};
use crate::error::TransferError;
use crate::port::{Completion, Direction, Outcome, Port, Request, Ways};

/// Requests that a way has lost are posted again at most this often: what breaks so many ways is none of them.
const MAX_LOSSES: u8 = 3;

/// What an endpoint is doing. All of it is behind one lock.
pub(crate) struct Flights {
    /// `None` once the endpoint was closed. It goes first: then nothing touches contexts and memory any more.
    port: Option<Box<dyn Port>>,
    closed: String,
    contexts: Contexts,
    batches: BTreeMap<u64, Flight>,
    peers: BTreeMap<u64, PeerState>,
    named_peers: u64,
    next: u64,
    /// Empty between calls, so that polling allocates nothing.
    completions: Vec<Completion>,
    /// Whether a thread waits for the port's descriptor, on behalf of all.
    pub(crate) has_watcher: bool,
}

/// A batch that was submitted.
pub(crate) struct Flight {
    pub(crate) peer: u64,
    pub(crate) direction: Direction,
    pub(crate) requests: Vec<Request>,
    /// Keeps the local memory mapped, and registered.
    _memory: Vec<HeldMemory>,
    posted: usize,
    /// Requests that were lost, and are to be posted again. A broken way has ended all that it had under way.
    lost: Vec<Posted>,
    /// How many completions are to come. Each is that of one or more requests.
    in_flight: usize,
    error: Option<TransferError>,
}

struct PeerState {
    number: u64,
    text: String,
    in_flight: usize,
    is_leaving: bool,
}

/// What a look at a batch found.
pub(crate) enum Progress {
    /// It has ended.
    Ended(Result<(), TransferError>),
    /// Something of any batch moved.
    Moved,
    /// Nothing moved.
    Still,
}

impl Flight {
    pub(crate) fn new(
        peer: u64,
        direction: Direction,
        requests: Vec<Request>,
        memory: Vec<HeldMemory>,
    ) -> Flight {
        let (posted, lost) = (0, Vec::new());
        Flight {
            peer,
            direction,
            requests,
            _memory: memory,
            posted,
            lost,
            in_flight: 0,
            error: None,
        }
    }

    fn has_ended(&self) -> bool {
        let nothing_left = self.posted == self.requests.len() && self.lost.is_empty();
        (nothing_left || self.error.is_some()) && self.in_flight == 0
    }

    /// The requests to post next: those that were lost go first.
    fn next(&self, batch: u64) -> Option<Posted> {
        if self.error.is_some() {
            return None;
        }
        let (first, count) = (self.posted, self.requests.len() - self.posted);
        let rest = (count > 0).then_some(Posted { batch, first, count, losses: 0 });
        self.lost.last().copied().or(rest)
    }

    /// Notes that the first `count` of [`Flight::next`] were posted.
    fn advance(&mut self, count: usize) {
        match self.lost.last_mut() {
            Some(lost) if lost.count > count => {
                lost.first += count;
                lost.count -= count;
            }
            Some(_) => drop(self.lost.pop()),
            None => self.posted += count,
        }
        self.in_flight += 1;
    }
}

impl Flights {
    pub(crate) fn new(port: Box<dyn Port>, requests: usize) -> Flights {
        Flights {
            contexts: Contexts::new(requests),
            port: Some(port),
            closed: String::new(),
            batches: BTreeMap::new(),
            peers: BTreeMap::new(),
            named_peers: 0,
            next: 0,
            completions: Vec::new(),
            has_watcher: false,
        }
    }

    pub(crate) fn port(&self) -> Option<&dyn Port> {
        self.port.as_deref()
    }

    /// The error of each call on a closed endpoint.
    pub(crate) fn closed_error(&self) -> TransferError {
        TransferError::Closed { reason: self.closed.clone() }
    }

    /// How many peers were ever added.
    pub(crate) fn named_peers(&self) -> u64 {
        self.named_peers
    }

    /// Adds a peer that the port knows by this number.
    pub(crate) fn add_peer(&mut self, number: u64, text: String) -> u64 {
        self.named_peers += 1;
        self.next += 1;
        self.peers.insert(self.next, PeerState { number, text, in_flight: 0, is_leaving: false });
        self.next
    }

    /// Tells the address of a peer that was added without.
    pub(crate) fn name_peer(&mut self, peer: u64, text: String) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.text = text;
        }
    }

    /// Forgets a peer once no request to it is in flight.
    pub(crate) fn remove_peer(&mut self, peer: u64) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.is_leaving = true;
            self.forget_peer(peer);
        }
    }

    fn forget_peer(&mut self, peer: u64) {
        let Some(state) = self.peers.get(&peer).filter(|it| it.is_leaving && it.in_flight == 0)
        else {
            return;
        };
        if let Some(port) = &self.port {
            port.remove(state.number);
        }
        self.peers.remove(&peer);
    }

    /// What has become of the ways to a peer.
    pub(crate) fn ways_of(&self, peer: u64) -> Ways {
        let pairs = self.port.as_deref().and_then(Port::pairs);
        let both = pairs.zip(self.peers.get(&peer));
        both.and_then(|(pairs, peer)| pairs.ways(peer.number)).unwrap_or_default()
    }

    /// Adds a batch, and posts what there is room for.
    pub(crate) fn add(&mut self, flight: Flight) -> Result<u64, TransferError> {
        if self.port.is_none() {
            return Err(self.closed_error());
        }
        self.next += 1;
        let number = self.next;
        self.batches.insert(number, flight);
        self.post_of(number);
        Ok(number)
    }

    /// Lets all batches move on, and looks at one.
    pub(crate) fn look(&mut self, batch: u64) -> Progress {
        let mut has_moved = self.poll();
        let mut next = 0;
        while let Some((&number, _)) = self.batches.range(next..).next() {
            has_moved |= self.post_of(number);
            next = number + 1;
        }
        let ended = self.batches.get(&batch).is_none_or(Flight::has_ended);
        match (ended, has_moved) {
            (true, _) => Progress::Ended(self.take(batch)),
            (false, true) => Progress::Moved,
            (false, false) => Progress::Still,
        }
    }

    /// Takes a batch out that has ended.
    fn take(&mut self, batch: u64) -> Result<(), TransferError> {
        match self.batches.remove(&batch) {
            Some(Flight { error: None, .. }) => Ok(()),
            Some(Flight { error: Some(error), .. }) => Err(error),
            None => Err(self.closed_error()),
        }
    }

    /// Gives a batch up. If requests of it are in flight, the endpoint is closed, since they could touch its memory
    /// later.
    pub(crate) fn give_up(&mut self, batch: u64, reason: impl FnOnce(&str) -> String) {
        let Some(flight) = self.batches.remove(&batch) else { return };
        if flight.in_flight > 0 {
            let peer = self.peers.get(&flight.peer).map_or("", |peer| &peer.text);
            let reason = reason(peer);
            self.close(reason);
        }
        drop(flight);
    }

    /// The address of a batch's peer.
    pub(crate) fn peer_of(&self, batch: u64) -> String {
        let flight = self.batches.get(&batch);
        let peer = flight.and_then(|flight| self.peers.get(&flight.peer));
        peer.map_or_else(String::new, |peer| peer.text.clone())
    }

    /// Closes the endpoint. Nothing that was posted touches memory of this process any more, and all batches end.
    pub(crate) fn close(&mut self, reason: String) {
        if self.port.take().is_none() {
            return;
        }
        self.closed = reason;
        let error = self.closed_error();
        for flight in self.batches.values_mut() {
            flight.in_flight = 0;
            flight.error.get_or_insert_with(|| error.clone());
        }
        self.peers.clear();
    }

    /// Posts requests of a batch while there is room. Returns whether any were.
    fn post_of(&mut self, batch: u64) -> bool {
        let Some(flight) = self.batches.get_mut(&batch) else { return false };
        let (Some(port), Some(peer)) = (&self.port, self.peers.get_mut(&flight.peer)) else {
            return false;
        };
        let mut any = false;
        while let Some(next) = flight.next(batch) {
            let Some(context) = self.contexts.take(next) else { break };
            let requests = &flight.requests[next.first..next.first + next.count];
            // SAFETY: the flight holds the memory, and the context stays taken, until the requests have completed. If the
            // flight is given up before that, the port is dropped first.
            let posted = unsafe { port.post(flight.direction, peer.number, requests, context) };
            if matches!(posted, Ok(0) | Err(_)) {
                self.contexts.give_back(context);
            }
            match posted {
                Ok(0) => break,
                Ok(count) => {
                    self.contexts.note(context, count);
                    flight.advance(count);
                    peer.in_flight += 1;
                    any = true;
                }
                Err(error) => flight.error = Some(failed(&peer.text, error)),
            }
        }
        any || flight.error.is_some()
    }

    /// Takes completions. Returns whether there were any.
    fn poll(&mut self) -> bool {
        let mut completions = mem::take(&mut self.completions);
        let polled = match &self.port {
            Some(port) => port.poll(&mut completions),
            None => return false,
        };
        let has_moved = !completions.is_empty();
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.completions = completions;
        if let Err(error) = polled {
            self.close(error.to_string());
        }
        has_moved
    }

    fn complete(&mut self, completion: Completion) {
        let Some(posted) = self.contexts.give_back(completion.context) else {
            // Some request will never end.
            let what = match completion.outcome {
                Outcome::Done => String::new(),
                Outcome::Failed(error) | Outcome::Lost(error) => format!(" ({error})"),
            };
            self.close(format!("the provider completed a request that is not there{what}"));
            return;
        };
        let Some(flight) = self.batches.get_mut(&posted.batch) else { return };
        flight.in_flight -= 1;
        let peer = flight.peer;
        if let Some(state) = self.peers.get_mut(&peer) {
            state.in_flight -= 1;
            match completion.outcome {
                Outcome::Done => {}
                Outcome::Lost(_) if posted.losses < MAX_LOSSES => {
                    flight.lost.push(Posted { losses: posted.losses + 1, ..posted });
                }
                Outcome::Lost(error) | Outcome::Failed(error) => {
                    flight.error.get_or_insert_with(|| failed(&state.text, error));
                }
            }
        }
        self.forget_peer(peer);
    }
}

fn failed(peer: &str, error: CallError) -> TransferError {
    TransferError::Failed { peer: peer.to_owned(), error }
}
