use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use mooncake_memory::{Interest, Wait, poll_sockets};

use super::peer_call::{PeerCall, Question};
use mooncake_connection::Fault;

/// How long calls may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// All calls together.
    pub(crate) deadline: Instant,
    /// Each call while no byte moves.
    pub(crate) silence: Duration,
}

/// How often a wait checks for silence within the time that counts as silence.
const LOOKS: u32 = 8;

/// Runs calls to their ends, unless they fall silent or the deadline passes. A single call that only sends or only
/// receives blocks in that system call. Otherwise sends are tried first, and then the sockets that are ready are
/// read.
pub(crate) fn drive<'m>(calls: &mut [PeerCall<'m, impl Question<'m>>], patience: CallLimits) {
    let CallLimits { deadline, silence } = patience;
    loop {
        let now = Instant::now();
        for call in calls.iter_mut() {
            if is_active(call) && call.pulse().is_silent(now, silence) {
                try_once_more(call);
            }
            call.note_end(now);
        }
        let mut active = calls.iter_mut().filter(|call| is_active(&**call));
        let Some(first) = active.next() else { return };
        let alone = active.next().is_none();
        let left = deadline.saturating_duration_since(now);
        if left.is_zero() {
            for call in calls.iter_mut().filter(|call| is_active(&**call)) {
                call.fail(&Fault::TimedOut);
            }
            return;
        }
        let wait = left.min(silence / LOOKS);
        if alone {
            advance_alone(first, wait);
        } else {
            advance_all(calls, wait);
        }
    }
}

/// Sends what a new call can send without waiting.
pub(crate) fn set_off<'m>(call: &mut PeerCall<'m, impl Question<'m>>) {
    if call.interest().write {
        settle(call, |call| call.send(Wait::Now));
    }
}

/// Ends a call that has been silent for too long, unless bytes move now: this process itself may have been paused.
fn try_once_more<'m>(call: &mut PeerCall<'m, impl Question<'m>>) {
    let Interest { read, write } = call.interest();
    if write {
        settle(call, |call| call.send(Wait::Now));
    }
    if read {
        settle(call, |call| call.recv(Wait::Now));
    }
    if is_active(call) && !call.pulse().has_moved() {
        call.fail(&Fault::Silent);
    }
}

fn is_active<'m>(call: &PeerCall<'m, impl Question<'m>>) -> bool {
    call.interest() != Interest::default()
}

fn advance_alone<'m>(call: &mut PeerCall<'m, impl Question<'m>>, wait: Duration) {
    match call.interest() {
        Interest { read: true, write: false } => settle(call, |call| call.recv(Wait::Block)),
        Interest { read: false, write: true } => settle(call, |call| call.send(Wait::Block)),
        _ => {
            settle(call, |call| call.send(Wait::Now));
            if call.interest() == (Interest { read: true, write: true }) {
                advance_all(std::slice::from_mut(call), wait);
            }
        }
    }
}

fn advance_all<'m>(calls: &mut [PeerCall<'m, impl Question<'m>>], wait: Duration) {
    for call in calls.iter_mut().filter(|call| call.interest().write) {
        settle(call, |call| call.send(Wait::Now));
    }
    let mut sockets: Vec<(BorrowedFd<'_>, Interest)> =
        calls.iter().map(|call| (call.socket(), call.interest())).collect();
    if sockets.iter().all(|(_, interest)| *interest == Interest::default()) {
        return;
    }
    let polled = poll_sockets(&mut sockets, wait);
    let ready: Vec<Interest> = sockets.into_iter().map(|(_, ready)| ready).collect();
    for (call, ready) in calls.iter_mut().zip(ready) {
        match &polled {
            Err(error) if is_active(call) => {
                call.fail(&Fault::Io(std::io::Error::new(error.kind(), error.to_string())));
            }
            Ok(()) if ready.read => settle(call, |call| call.recv(Wait::Now)),
            _ => {}
        }
    }
}

/// Takes a step of a call. A socket that is not ready is no failure.
fn settle<'m, Q: Question<'m>>(
    call: &mut PeerCall<'m, Q>,
    step: impl FnOnce(&mut PeerCall<'m, Q>) -> Result<(), Fault>,
) {
    match step(call) {
        Ok(()) => call.pulse().beat(),
        Err(fault) if fault.is_not_ready() => {}
        Err(fault) => call.fail(&fault),
    }
}
