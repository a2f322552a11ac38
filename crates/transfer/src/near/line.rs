use std::io;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use mooncake_memory::{Private, RecvBatch, Resolver, Wait, Watch, recv_with_descriptors};
use mooncake_wire::{HEADER_LEN, Header, Kind, Welcome, decode_refusal};

use crate::client::{Fault, open};
use crate::{TcpConfig, stream};

/// A connection to a node's local socket on which one thing at a time is asked. After an error it is dropped.
pub(super) struct Line {
    stream: Private<TcpStream>,
    watch: Watch,
    next_id: u64,
    frame: Vec<u8>,
    body: Vec<u8>,
    /// Descriptors that came with the last answer.
    descriptors: Vec<OwnedFd>,
}

impl Line {
    pub(super) fn open(endpoint: &str, config: &TcpConfig) -> Result<(Line, Welcome), Fault> {
        // A local socket has no name to be resolved.
        let (stream, welcome) = open(endpoint, config, &Resolver::default())?;
        let patience = config.transfer_timeout.min(config.silence_timeout);
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let (frame, body, descriptors) = (Vec::new(), Vec::new(), Vec::new());
        let watch = Watch::new(config.busy_poll);
        Ok((Line { stream, watch, next_id: 1, frame, body, descriptors }, welcome))
    }

    pub(super) fn stream(&self) -> &Private<TcpStream> {
        &self.stream
    }

    /// Sends the frame that `encode` appends under the id that it is given, and gives the body of the answer.
    pub(super) fn ask(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>, u64),
        awaited: Kind,
    ) -> Result<&[u8], Fault> {
        let id = self.next_id;
        self.next_id += 1;
        self.frame.clear();
        encode(&mut self.frame, id);
        stream::send_all(&self.stream, &self.frame, &[], false).map_err(waited)?;
        self.descriptors.clear();
        let mut head = [0; HEADER_LEN];
        recv_exact(&self.stream, &mut self.watch, &mut head, &mut self.descriptors)?;
        let header = Header::decode(&head)?;
        self.body.resize(header.body_len as usize, 0);
        recv_exact(&self.stream, &mut self.watch, &mut self.body, &mut self.descriptors)?;
        match header.kind {
            Kind::Refusal => Err(Fault::Refused(decode_refusal(&self.body)?.code)),
            kind if kind == awaited && header.request_id == id => Ok(&self.body),
            kind => Err(Fault::Protocol(format!(
                "a {kind:?} frame came as answer to {}, and not a {awaited:?} frame to {id}",
                header.request_id
            ))),
        }
    }

    pub(super) fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }

    /// Whether the node is there and has not asked this side to stop.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let mut batch = RecvBatch::new();
        let pushed = batch.push_bytes(&mut byte);
        debug_assert!(pushed);
        // A byte, an end and an error are all unexpected here, so nothing is lost by taking it.
        let received = batch.recv(self.stream.as_fd(), Wait::Now);
        received.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // Others may hold the descriptor still; the node is to know that this side has stopped.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn recv_exact(
    stream: &TcpStream,
    watch: &mut Watch,
    mut bytes: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> Result<(), Fault> {
    while !bytes.is_empty() {
        let step = |wait| recv_with_descriptors(stream.as_fd(), bytes, descriptors, wait);
        let is_not_ready = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        match watch.wait(step, is_not_ready).map_err(waited)? {
            0 => return Err(Fault::Io(io::ErrorKind::UnexpectedEof.into())),
            count => bytes = &mut bytes[count..],
        }
    }
    Ok(())
}

/// A socket that waited as long as it may says that it would have to wait.
fn waited(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::WouldBlock => Fault::TimedOut,
        _ => Fault::Io(error),
    }
}
