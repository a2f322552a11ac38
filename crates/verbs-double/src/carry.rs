//! The side of a NIC that carries out requests: a thread for each queue pair.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::link::{Head, PIECE, connect, receive_word};
use crate::state::{
    FLUSHED, LOCAL_PROTECTION, LOCAL_WRITE, Peer, RETRIES_EXCEEDED, SUCCESS, Work, state,
};

/// Carries out what is posted to a queue pair, in order, until it is destroyed.
pub(crate) fn carry_out(number: u32, work: &Receiver<Work>) {
    let mut stream = None;
    let mut is_broken = false;
    while let Ok(work) = work.recv() {
        let (wanted, nic) = {
            let mut state = state();
            let nic = state.qps.get(&number).map(|qp| qp.nic.name);
            (state.wanted_failure(), nic)
        };
        let is_up = nic.is_some_and(|nic| state().is_up(nic));
        let status = match (is_broken, wanted) {
            (true, _) => FLUSHED,
            (false, Some(status)) => status,
            (false, None) if !is_up => RETRIES_EXCEEDED,
            (false, None) => carry(number, &work, &mut stream),
        };
        if let Some(nic) = nic.filter(|_| status == SUCCESS) {
            state().count_request(nic, work.len);
        }
        is_broken |= status != SUCCESS;
        state().complete(number, work.wr_id, status, work.is_signaled);
    }
}

fn carry(number: u32, work: &Work, stream: &mut Option<UnixStream>) -> u32 {
    if stream.is_none() {
        *stream = connected(number);
    }
    let Some(stream) = stream else { return RETRIES_EXCEEDED };
    let peer = state().qps.get(&number).and_then(|qp| qp.peer);
    let Some(Peer { number: to, nic, .. }) = peer else { return RETRIES_EXCEEDED };
    let head = Head {
        is_write: work.is_write,
        to,
        from: number,
        process: process::id(),
        nic,
        key: work.rkey,
        address: work.remote,
        len: work.len,
    };
    let ended = head.send(stream).and_then(|()| match work.is_write {
        true => write(number, work, stream),
        false => read(number, work, stream),
    });
    // Bytes are there before the completion says so.
    std::thread::sleep(Duration::from_micros(20));
    ended.unwrap_or(RETRIES_EXCEEDED)
}

/// The connection with the peer's process; `None` if it is not reached.
fn connected(number: u32) -> Option<UnixStream> {
    let process = state().qps.get(&number)?.peer?.process?;
    let stream = connect(process).ok()?;
    // Destroying the queue pair closes it.
    state().qps.get_mut(&number)?.stream = Some(stream.try_clone().ok()?);
    Some(stream)
}

fn write(number: u32, work: &Work, stream: &mut UnixStream) -> io::Result<u32> {
    if let Some(bytes) = &work.inline {
        stream.write_all(bytes)?;
        return receive_word(stream);
    }
    let mut done = 0;
    while done < work.len {
        let mut bytes = vec![0; (work.len - done).min(PIECE as u64) as usize];
        {
            let state = state();
            let range = (work.local + done, bytes.len() as u64);
            let pd = state.qps.get(&number).map(|qp| qp.pd);
            if !pd.is_some_and(|pd| state.allows(pd, work.lkey, range, 0)) {
                return Ok(LOCAL_PROTECTION);
            }
            // SAFETY: the range lies in memory that is registered now, and whose owner needs the lock to take that back.
            unsafe {
                let from = std::ptr::with_exposed_provenance::<u8>(state.place(work.lkey, range.0));
                bytes.as_mut_ptr().copy_from_nonoverlapping(from, bytes.len());
            }
        }
        stream.write_all(&bytes)?;
        done += bytes.len() as u64;
    }
    receive_word(stream)
}

fn read(number: u32, work: &Work, stream: &mut UnixStream) -> io::Result<u32> {
    let mut done = 0;
    loop {
        let len = receive_word(stream)? as usize;
        if len == 0 {
            return receive_word(stream);
        }
        let mut bytes = vec![0; len];
        stream.read_exact(&mut bytes)?;
        let state = state();
        let range = (work.local + done, len as u64);
        let pd = state.qps.get(&number).map(|qp| qp.pd);
        if !pd.is_some_and(|pd| state.allows(pd, work.lkey, range, LOCAL_WRITE)) {
            return Ok(LOCAL_PROTECTION);
        }
        // SAFETY: as in `write`.
        unsafe {
            let to = std::ptr::with_exposed_provenance_mut::<u8>(state.place(work.lkey, range.0));
            to.copy_from_nonoverlapping(bytes.as_ptr(), len);
        }
        done += len as u64;
    }
}
