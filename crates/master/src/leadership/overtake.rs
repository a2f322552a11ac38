//! Tells the previous leader that another one leads. It may wait for a coordinator that it cannot reach, and hold on
//! to nodes that can reach both masters.

use std::io;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use mooncake_connection::{CallFault, Dialer, Fault};
use mooncake_tls::Tls;
use mooncake_types::{ClientId, Epoch, Medium, MountSegment, Request, Secret, SegmentId};
use mooncake_wire::{Hello, Kind, Role, encode_hello, encode_request};
use tracing::{debug, info};

/// How long one attempt may take, and the time from one attempt to the next.
const ATTEMPT: Duration = Duration::from_secs(1);

/// The secret by which members of the pool know each other.
#[derive(Clone, Default)]
pub(crate) struct ClusterSecret {
    pub(crate) cluster_id: String,
    pub(crate) auth_token: Secret,
    pub(crate) tls: Option<Tls>,
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
                Err(CallFault { fault, .. }) if is_refused(&fault) => return,
                Err(CallFault { fault: error, .. }) => {
                    let predecessor = &self.predecessor;
                    debug!(%error, predecessor, "the leader before does not hear of this one");
                }
            }
            thread::sleep(ATTEMPT.saturating_sub(begun.elapsed()));
        }
    }

    /// Acts like a node that has obeyed this leader. Any answer means that the message arrived, and so does an orderly
    /// end. Greeting and request go together: a paused leader reads both once it goes on.
    fn tell(&self) -> Result<(), CallFault> {
        let dialer = Dialer { tls: self.password.tls.clone(), ..Dialer::new(self.hello()) };
        let mut connection = dialer.connect(&self.predecessor, ATTEMPT)?;
        connection.set_timeout(ATTEMPT).map_err(Fault::from)?;
        // Where there is a secret, a paused leader answers the greeting once it goes on.
        let is_open = self.password.auth_token.is_empty();
        if !is_open {
            dialer.greet(&mut connection)?;
        }
        connection.send(|out| self.encode(out, is_open))?;
        connection.stream().shutdown(Shutdown::Write).map_err(Fault::from)?;
        let answers = [Kind::Welcome, Kind::Refusal, Kind::Reply];
        // Through TLS each end of a connection looks orderly, so that only an answer counts.
        if self.password.tls.is_some() {
            return connection.receive(&answers).map(|_| ());
        }
        match connection.receive_all(&answers) {
            Err(CallFault { fault: Fault::Protocol(_), .. }) => Ok(()),
            told => told,
        }
    }

    fn hello(&self) -> Hello {
        let ClusterSecret { cluster_id, auth_token, .. } = self.password.clone();
        Hello { cluster_id, auth_token, ..Hello::new(Role::Node, ClientId(u128::MAX)) }
    }

    fn encode(&self, out: &mut Vec<u8>, greets: bool) {
        if greets {
            encode_hello(out, 0, &self.hello());
        }
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
            seal_key: None,
        };
        encode_request(out, 1, &Request::MountSegment(mount));
    }
}

fn is_refused(fault: &Fault) -> bool {
    matches!(fault, Fault::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Mutex;

    use mooncake_wire::{HEADER_LEN, Header, Welcome, decode_request, encode_welcome};

    use super::*;

    /// Reads the greeting and the request, before anything is answered. Returns the epoch that the request names.
    fn read_both(stream: &mut TcpStream) -> Epoch {
        let mut frame = || {
            let mut header = [0; HEADER_LEN];
            stream.read_exact(&mut header).expect("a header");
            let header = Header::decode(&header).expect("a header");
            let mut body = vec![0; header.body_len as usize];
            stream.read_exact(&mut body).expect("a body");
            (header.kind, body)
        };
        assert_eq!(frame().0, Kind::Hello);
        let message = decode_request(frame().1.into()).expect("a request");
        match message.request().expect("a request") {
            Request::MountSegment(mount) => mount.seen_epoch,
            other => panic!("{other:?}"),
        }
    }

    /// What comes of telling a leader that has read the message and goes on like this.
    fn told(answer: impl FnOnce(TcpStream) + Send) -> Result<(), CallFault> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let predecessor = listener.local_addr().expect("bound").to_string();
        let (password, epoch) = (ClusterSecret::default(), Epoch(77));
        let overtaking = Overtaking { predecessor, password, epoch, within: ATTEMPT };
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = listener.accept().expect("a connection").0;
                assert_eq!(read_both(&mut stream), Epoch(77));
                answer(stream);
            });
            overtaking.tell()
        })
    }

    #[test]
    fn a_leader_has_the_whole_message_before_it_answers_and_any_answer_counts() {
        told(drop).expect("a leader that obeys may close the connection");
        let answered = told(|mut stream| {
            let mut out = Vec::new();
            encode_welcome(&mut out, 0, &Welcome::new(Epoch(3)));
            let header = Header { kind: Kind::Reply, flags: 0, body_len: 0, request_id: 1 };
            out.extend(header.encode());
            stream.write_all(&out).expect("it listens");
        });
        answered.expect("both answers came together");
        told(|mut stream| stream.write_all(b"anything").expect("it listens"))
            .expect_err("half a header is no answer");
        told(|mut stream| stream.write_all(&[7; HEADER_LEN]).expect("it listens"))
            .expect("another protocol is one");
        let held = Mutex::new(None);
        let CallFault { fault, .. } =
            told(|stream| *held.lock().unwrap() = Some(stream)).expect_err("silence is no answer");
        assert!(matches!(fault, Fault::TimedOut), "{fault}");
    }
}
