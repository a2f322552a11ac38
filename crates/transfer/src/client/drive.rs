use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use mooncake_memory::{Interest, Wait, poll_sockets};

use super::Pulse;
use crate::TransferError;
use mooncake_connection::Fault;

/// What one call has to say to, and to hear from, one peer. All methods do one bit of work and remember how far they
/// came.
pub(crate) trait Exchange {
    /// The lane's socket.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Whether bytes still move on the lane.
    fn pulse(&mut self) -> &mut Pulse;

    /// What can be done next; nothing once it is finished or has failed.
    fn interest(&self) -> Interest;

    /// Sends some of what is to be sent.
    fn send(&mut self, wait: Wait) -> Result<(), Fault>;

    /// Receives some of what is to be received.
    fn recv(&mut self, wait: Wait) -> Result<(), Fault>;

    /// Ends it: every operation that is not finished gets the fault's error.
    fn fail(&mut self, fault: &Fault);

    /// The positions of its operations and their results, when it is over. Gives the lane back if it can be used again.
    fn finish(self) -> impl Iterator<Item = (usize, Result<(), TransferError>)>;
}

/// How long exchanges may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// All of them.
    pub(crate) deadline: Instant,
    /// Each, without that a byte moves.
    pub(crate) silence: Duration,
}

/// A wait looks this many times whether it has been silent for too long.
const LOOKS: u32 = 8;

/// Runs exchanges to their ends, as long as they move and the deadline has not passed. One exchange that only sends or
/// only receives waits in that one system call; otherwise sends are tried first and then whatever is ready is done.
pub(crate) fn drive(exchanges: &mut [impl Exchange], patience: Patience) {
    let Patience { deadline, silence } = patience;
    loop {
        let now = Instant::now();
        for exchange in exchanges.iter_mut().filter(|exchange| is_active(&**exchange)) {
            if exchange.pulse().is_silent(now, silence) {
                try_once_more(exchange);
            }
        }
        let mut active = exchanges.iter_mut().filter(|exchange| is_active(&**exchange));
        let Some(first) = active.next() else { return };
        let alone = active.next().is_none();
        let left = deadline.saturating_duration_since(now);
        if left.is_zero() {
            for exchange in exchanges.iter_mut().filter(|exchange| is_active(&**exchange)) {
                exchange.fail(&Fault::TimedOut);
            }
            return;
        }
        let wait = left.min(silence / LOOKS);
        if alone {
            advance_alone(first, wait);
        } else {
            advance_all(exchanges, wait);
        }
    }
}

/// Ends an exchange that has been silent for too long, unless something moves now: this process may have been stopped
/// itself.
fn try_once_more(exchange: &mut impl Exchange) {
    let Interest { read, write } = exchange.interest();
    if write {
        settle(exchange, |e| e.send(Wait::Now));
    }
    if read {
        settle(exchange, |e| e.recv(Wait::Now));
    }
    if is_active(exchange) && !exchange.pulse().has_moved() {
        exchange.fail(&Fault::Silent);
    }
}

fn is_active(exchange: &impl Exchange) -> bool {
    exchange.interest() != Interest::default()
}

fn advance_alone(exchange: &mut impl Exchange, wait: Duration) {
    match exchange.interest() {
        Interest { read: true, write: false } => settle(exchange, |e| e.recv(Wait::Block)),
        Interest { read: false, write: true } => settle(exchange, |e| e.send(Wait::Block)),
        _ => {
            settle(exchange, |e| e.send(Wait::Now));
            if exchange.interest() == (Interest { read: true, write: true }) {
                advance_all(std::slice::from_mut(exchange), wait);
            }
        }
    }
}

fn advance_all(exchanges: &mut [impl Exchange], wait: Duration) {
    for exchange in exchanges.iter_mut().filter(|exchange| exchange.interest().write) {
        settle(exchange, |e| e.send(Wait::Now));
    }
    let mut sockets: Vec<(BorrowedFd<'_>, Interest)> =
        exchanges.iter().map(|exchange| (exchange.socket(), exchange.interest())).collect();
    if sockets.iter().all(|(_, interest)| *interest == Interest::default()) {
        return;
    }
    let polled = poll_sockets(&mut sockets, wait);
    let ready: Vec<Interest> = sockets.into_iter().map(|(_, ready)| ready).collect();
    for (exchange, ready) in exchanges.iter_mut().zip(ready) {
        match &polled {
            Err(error) if is_active(exchange) => {
                exchange.fail(&Fault::Io(std::io::Error::new(error.kind(), error.to_string())));
            }
            Ok(()) if ready.read => settle(exchange, |e| e.recv(Wait::Now)),
            _ => {}
        }
    }
}

/// A step that could not be taken yet is no failure.
fn settle<E: Exchange>(exchange: &mut E, step: impl FnOnce(&mut E) -> Result<(), Fault>) {
    match step(exchange) {
        Ok(()) => exchange.pulse().beat(),
        Err(fault) if fault.is_not_ready() => {}
        Err(fault) => exchange.fail(&fault),
    }
}
