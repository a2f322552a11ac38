//! Tells the previous leader that another one leads. It may wait for a coordinator that it cannot reach, and hold on
//! to nodes that can reach both masters.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use mooncake_connection::{Dialer, Fault};
use mooncake_types::{ClientId, Epoch, Medium, MountSegment, Request, SegmentId};
use mooncake_wire::{Hello, Role, encode_hello, encode_request};
use tracing::{debug, info};

/// How long one attempt may take, and the time from one attempt to the next.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The secret by which members of the pool know each other.
#[derive(Clone, Default)]
pub(crate) struct ClusterSecret {
    pub(crate) cluster_id: String,
    pub(crate) auth_token: String,
}

/// The message to the previous leader.
pub(super) struct Overtaking {
    /// The address of the previous leader, `host:port`.
    pub(super) predecessor: String,
    pub(super) password: ClusterSecret,
    pub(super) epoch: Epoch,
    /// After this, its leadership has expired.
    pub(super) within: Duration,
}

impl Overtaking {
    /// Tells it from a new thread. Repeats that until the previous leader has answered, or refuses the connection.
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

    /// Acts like a node that has obeyed this leader. Any answer means that the message arrived.
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
        let ClusterSecret { cluster_id, auth_token } = self.password.clone();
        Hello { cluster_id, auth_token, ..Hello::new(Role::Node, ClientId(u128::MAX)) }
    }

    fn words(&self) -> Vec<u8> {
        let mut words = Vec::new();
        encode_hello(&mut words, 0, &self.hello());
        // This request mounts nothing at any master.
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
