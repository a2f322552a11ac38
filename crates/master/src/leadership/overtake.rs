//! Telling the leader before that another leads: it may wait for a coordinator that it cannot reach, and keep the nodes
//! that could reach both.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_connection::{Dialer, Fault};
use mooncake_types::{ClientId, Epoch, Medium, MountSegment, Request, SegmentId};
use mooncake_wire::{Hello, Role, encode_hello, encode_request};
use tracing::{debug, info};

/// How long one attempt may take, and between two of them.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The words by which members of the pool know each other.
#[derive(Clone, Default)]
pub(crate) struct Password {
    pub(crate) cluster_id: String,
    pub(crate) auth_token: String,
}

/// Whom to tell what.
pub(super) struct Overtaking {
    /// Where the leader before is reached, `host:port`.
    pub(super) predecessor: String,
    pub(super) password: Password,
    pub(super) epoch: Epoch,
    /// After this, it leads no more by itself.
    pub(super) within: Duration,
}

impl Overtaking {
    /// Tells it, on a thread of its own, again and again until it has heard or is not there.
    pub(super) fn begin(self) {
        let thread = thread::Builder::new().name("overtake".to_owned());
        if let Err(error) = thread.spawn(move || self.run()) {
            info!(%error, "the leader before is not told of this one");
        }
    }

    fn run(&self) {
        let until = Instant::now() + self.within;
        while Instant::now() < until {
            let begun = Instant::now();
            match self.tell() {
                Ok(()) => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return,
                Err(error) => {
                    let predecessor = &self.predecessor;
                    debug!(%error, predecessor, "the leader before does not hear of this one");
                }
            }
            thread::sleep(ATTEMPT.saturating_sub(begun.elapsed()));
        }
    }

    /// Says what a node would that has obeyed this leader. Whatever comes back, it was heard.
    fn tell(&self) -> io::Result<()> {
        let connection = Dialer::new(self.hello()).connect(&self.predecessor, ATTEMPT);
        let stream = connection.map_err(of_fault)?.into_stream();
        stream.set_write_timeout(Some(ATTEMPT))?;
        stream.set_read_timeout(Some(ATTEMPT))?;
        let mut stream = &**stream;
        stream.write_all(&self.words())?;
        stream.shutdown(std::net::Shutdown::Write)?;
        io::copy(&mut stream.take(1 << 16), &mut io::sink()).map(|_| ())
    }

    fn hello(&self) -> Hello {
        let Password { cluster_id, auth_token } = self.password.clone();
        Hello { cluster_id, auth_token, ..Hello::new(Role::Node, ClientId(u128::MAX)) }
    }

    fn words(&self) -> Vec<u8> {
        let mut words = Vec::new();
        encode_hello(&mut words, 0, &self.hello());
        // Nothing can be mounted by it, whoever hears it.
        let mount = MountSegment {
            id: SegmentId(u128::MAX),
            name: "",
            endpoint: "",
            len: 0,
            seen_epoch: self.epoch,
            is_empty: true,
            run: 0,
            medium: Medium::Memory,
            domains: &[],
        };
        encode_request(&mut words, 1, &Request::MountSegment(mount));
        words
    }
}

fn of_fault(fault: Fault) -> io::Error {
    match fault {
        Fault::Io(error) => error,
        Fault::TimedOut => io::ErrorKind::TimedOut.into(),
        other => io::Error::other(other.to_string()),
    }
}
