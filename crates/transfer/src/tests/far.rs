//! Nodes that are read and written one-sided: over the provider `tcp` of libfabric on the loopback interface, and over a
//! double of libibverbs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mooncake_connection::Connection;
use mooncake_fabric::testing::use_verbs;
use mooncake_fabric::{
    Address, DeviceOptions, Direction, Domain, Initiator, Limits, Part, Peer, RemoteMemory,
    Revocation, Target, VerbsOptions,
};
use mooncake_memory::{Buffer, HeldSlice, Region, SlotTable};
use mooncake_testing::logged;
#[cfg(debug_assertions)]
use mooncake_types::mutation::{Rule, break_rule_everywhere};
use mooncake_types::{Epoch, ErrorCode, SegmentId};
use mooncake_verbs_double::control;
use mooncake_wire::{Begun, Kind, decode_begun, decode_join_reply, encode_begin, encode_join};

use super::rig::{
    EPOCH, Node, Object, all_ok, read_all, server_config, tcp, tcp_config, version, wait_until,
    write_all,
};
use crate::testing::first_mismatch;
use crate::{FarLender, Paths, ServerConfig, SharedSegment, TransferError, Transport, client};

const MIB: u64 = 1 << 20;

/// The devices of all tests.
#[derive(Clone, Copy, Debug)]
pub(super) enum Net {
    Libfabric,
    Verbs,
}

impl Net {
    pub(super) const ALL: [Net; 2] = [Net::Libfabric, Net::Verbs];

    pub(super) fn device(self) -> Arc<Domain> {
        static LIBFABRIC: OnceLock<Arc<Domain>> = OnceLock::new();
        static VERBS: OnceLock<Arc<Domain>> = OnceLock::new();
        let device = match self {
            Net::Libfabric => LIBFABRIC.get_or_init(|| {
                let (provider, device) = (Some("tcp".to_owned()), Some("lo".to_owned()));
                let options = DeviceOptions { library: None, provider, device };
                let opened = Domain::open(&options, Limits::default());
                opened.expect("Debian's package libfabric1 is installed")
            }),
            Net::Verbs => VERBS.get_or_init(|| {
                use_verbs(mooncake_verbs_double::symbol);
                let options = VerbsOptions::default();
                Domain::open_verbs(&options, Limits::default()).expect("the double has a NIC")
            }),
        };
        Arc::clone(device)
    }

    /// A node that lends its segment to other hosts.
    pub(super) fn lender(self, segment: u128, len: u64) -> Node {
        let far = Some(Arc::new(FarLender::open(&self.device()).unwrap()));
        let config = ServerConfig { far, local_socket: false, ..server_config() };
        Node::with_config(segment, len, config)
    }

    /// Paths by these ways.
    pub(super) fn far_by(self, ways: &str) -> Paths {
        Paths::new(None, tcp_config(), ways.parse().unwrap()).with_fabric(Some(self.device()))
    }
}

#[test]
fn what_is_complete_is_read_and_written_without_a_thread_of_the_node() {
    for net in Net::ALL {
        let (node, transport) = (net.lender(1, 16 * MIB), net.far_by("fabric"));
        let objects: Vec<Object> = [(0, 100), (4096, 4096), (MIB, 9 * MIB + 5), (12 * MIB, 70_000)]
            .into_iter()
            .zip(1..)
            .map(|((offset, len), counter)| Object::at(&node, offset, len, counter))
            .collect();
        assert_eq!(write_all(&transport, &objects), all_ok(4));
        assert_eq!(read_all(&transport, &objects), all_ok(4));
        assert_eq!(node.host.reads(), 0);
        let newer = Object { version: version(9), ..objects[2].clone() };
        assert_eq!(write_all(&transport, std::slice::from_ref(&newer)), all_ok(1));
        let stale = Err(TransferError::Stale);
        assert_eq!(read_all(&transport, &[objects[2].clone(), newer]), [stale, Ok(())]);
        assert_eq!(node.host.reads(), 0);
    }
}

#[test]
fn what_is_not_in_the_table_is_read_by_message() {
    for net in Net::ALL {
        for ways in ["fabric", "fabric,tcp"] {
            let (node, transport) = (net.lender(1, MIB), net.far_by(ways));
            // The objects fall into one group and one set of the table, so not all get a slot.
            let objects: Vec<Object> =
                (0..100).map(|index| Object::at(&node, index * 8, 8, index + 1)).collect();
            assert_eq!(write_all(&tcp(), &objects), all_ok(100));
            assert_eq!(read_all(&transport, &objects), all_ok(100));
            assert_eq!(node.host.reads(), 100 - 32, "{ways}");
        }
    }
}

#[test]
fn what_a_node_does_not_share_goes_by_message() {
    for net in Net::ALL {
        for ways in ["fabric", "fabric,tcp"] {
            let (node, transport) = (net.lender(1, MIB), net.far_by(ways));
            node.host.stop_sharing();
            let object = [Object::at(&node, 0, 200_000, 1)];
            assert_eq!(write_all(&transport, &object), all_ok(1));
            assert_eq!(read_all(&transport, &object), all_ok(1));
            assert_eq!(node.host.reads(), 1, "{ways}");
        }
    }
}

#[test]
fn a_node_that_lends_nothing_is_reached_by_tcp_and_that_is_said_once() {
    for net in Net::ALL {
        let node =
            Node::with_config(1, MIB, ServerConfig { local_socket: false, ..server_config() });
        let object = [Object::at(&node, 0, 100_000, 1)];
        let kind = net.device().device().transport();
        let why = format!("it offers nothing, and this process has {kind}");
        let said = logged(|| {
            let transport = net.far_by("fabric,tcp");
            assert_eq!(write_all(&transport, &object), all_ok(1));
            assert_eq!(read_all(&transport, &object), all_ok(1));
        });
        let endpoint = Arc::clone(&node.endpoint);
        let line = format!(
            " WARN fabric does not reach a peer, so a slower way does peer={endpoint} reason={why}\n"
        );
        assert_eq!(said, line);
        let reason = format!("{why}, and only these transports are allowed: fabric");
        let error = Err(TransferError::Unreachable { endpoint, reason });
        assert_eq!(read_all(&net.far_by("fabric"), &object), std::slice::from_ref(&error));
        assert_eq!(write_all(&net.far_by("fabric"), &object), [error]);
    }
}

/// A writer that has begun a range, and does nothing yet.
pub(super) struct Sleeper {
    pub(super) connection: Option<Connection>,
    peer: Peer,
    _initiator: Initiator,
    memory: RemoteMemory,
}

impl Sleeper {
    pub(super) fn begin(device: &Arc<Domain>, object: &Object) -> Self {
        let config = tcp_config();
        let (mut connection, _) =
            client::open(&object.endpoint, &config, &config.dialer()).unwrap();
        let initiator = Initiator::open(device).unwrap();
        let joined = device.device().joins_in_pairs().then(|| {
            let node = Target::open(device).unwrap().address().clone();
            let end = initiator.prepare(&node, None).unwrap();
            let own = end.address().to_bytes().into();
            let join = |out: &mut Vec<u8>, id| encode_join(out, id, &own);
            let body = connection.call(join, Kind::JoinReply).unwrap();
            let address = decode_join_reply(&body).unwrap().unwrap();
            end.join(&Address::from_bytes(&address).unwrap()).unwrap()
        });
        let source = Buffer::from_vec(object.bytes());
        let range = object.write_op(source.raw().into()).range;
        let begin = |out: &mut Vec<u8>, id| encode_begin(out, id, EPOCH, &[range]);
        let body = connection.call(begin, Kind::Begun).unwrap();
        let Begun { address, ranges } = decode_begun(&body).unwrap();
        let memory = RemoteMemory::from_bytes(ranges[0].as_ref().unwrap()).unwrap();
        let address = Address::from_bytes(&address).unwrap();
        let peer = joined.unwrap_or_else(|| initiator.connect(&address).unwrap());
        assert_eq!(*peer.address(), address, "the node names the end that this peer has joined");
        Self { connection: Some(connection), peer, _initiator: initiator, memory }
    }

    /// Writes to the range. Whether that succeeds means nothing to others.
    pub(super) fn write(&self) -> bool {
        let region = Arc::new(Region::anonymous(self.memory.len()).unwrap());
        region.whole().write_from(&vec![0xEE; self.memory.len() as usize]);
        let part = Part { local: HeldSlice::whole(region).into(), remote: &self.memory, offset: 0 };
        let submitted = self.peer.submit(Direction::Write, &[part]);
        let deadline = Instant::now() + Duration::from_secs(2);
        submitted.and_then(|requests| requests.wait(deadline)).is_ok()
    }
}

#[test]
fn a_writer_that_slept_changes_nothing_that_was_granted_to_another() {
    for net in Net::ALL {
        let node = net.lender(1, MIB);
        let asleep = Object::at(&node, 0, 200_000, 1);
        let sleeper = Sleeper::begin(&net.device(), &asleep);
        assert_eq!(node.host.writers(), 1);
        let newer = [Object::at(&node, 100_000, 200_000, 2)];
        assert_eq!(write_all(&tcp(), &newer), all_ok(1));
        assert!(!sleeper.write(), "it has no key any more");
        assert_eq!(read_all(&tcp(), &newer), all_ok(1));
        assert_eq!(read_all(&net.far_by("fabric"), &newer), all_ok(1));
    }
}

#[test]
fn a_writer_that_is_gone_gives_its_ranges_back_and_its_keys_are_worth_nothing() {
    for net in Net::ALL {
        let node = net.lender(1, MIB);
        let mut late = Sleeper::begin(&net.device(), &Object::at(&node, 0, 200_000, 1));
        late.connection = None;
        wait_until("the write is given up", || node.host.writers() == 0);
        let newer = [Object::at(&node, 0, 200_000, 2)];
        assert_eq!(write_all(&net.far_by("fabric"), &newer), all_ok(1));
        assert!(!late.write());
        assert_eq!(read_all(&tcp(), &newer), all_ok(1));
    }
}

/// The NIC has a part of a write in memory, and the rest of it under way, when the node takes the range back.
#[test]
fn a_write_that_is_under_way_when_its_range_is_taken_back_changes_no_byte_of_the_next() {
    let net = Net::Verbs;
    let node = net.lender(1, MIB);
    let mut sleeper = Sleeper::begin(&net.device(), &Object::at(&node, 0, 200_000, 1));
    let connection = sleeper.connection.take();
    let (held_before, lost_before) = (control::held_writes(), control::lost_pieces());
    control::hold_writes();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || sleeper.write());
        wait_until("a part has landed", || control::held_writes() > held_before);
        drop(connection);
        wait_until("the write is given up", || node.host.writers() == 0);
        let newer = [Object::at(&node, 0, 200_000, 2)];
        assert_eq!(write_all(&tcp(), &newer), all_ok(1));
        control::let_writes_land();
        assert!(!writing.join().unwrap());
        assert_eq!(read_all(&tcp(), &newer), all_ok(1));
    });
    assert!(control::lost_pieces() > lost_before, "the rest came late");
}

/// A node that takes a range back too early would be found by the test above. The rule is broken in the whole process,
/// so nextest must give the test one of its own.
#[cfg(debug_assertions)]
#[test]
fn a_writer_that_is_gone_and_not_shut_out_writes_over_newer_bytes() {
    if std::env::var_os("NEXTEST").is_none() {
        return;
    }
    break_rule_everywhere(Rule::WritersAreShutOut);
    for net in Net::ALL {
        let node = net.lender(1, MIB);
        let mut late = Sleeper::begin(&net.device(), &Object::at(&node, 0, 200_000, 1));
        late.connection = None;
        wait_until("the write is given up", || node.host.writers() == 0);
        let newer = Object::at(&node, 0, 200_000, 2);
        assert_eq!(write_all(&net.far_by("fabric"), std::slice::from_ref(&newer)), all_ok(1));
        assert!(late.write());
        let target = Buffer::zeroed(200_000);
        let read = net.far_by("fabric").read(&[newer.read_op(0, target.raw().into())]);
        assert_eq!(read, all_ok(1), "its slot is as it was");
        let wrong = first_mismatch(target.as_slice(), &newer.key, newer.version, 0);
        assert!(wrong.is_some(), "bytes of the older writer are there");
    }
}

#[test]
fn a_segment_that_is_no_longer_lent_is_not_read() {
    for net in Net::ALL {
        let (node, transport) = (net.lender(1, MIB), net.far_by("fabric"));
        let object = [Object::at(&node, 0, 100_000, 1)];
        assert_eq!(write_all(&transport, &object), all_ok(1));
        assert_eq!(read_all(&transport, &object), all_ok(1));
        node.host.take_back(node.segment);
        let refused = Err(TransferError::Refused(ErrorCode::SegmentNotFound));
        assert_eq!(read_all(&transport, &object), [refused]);
    }
}

/// A read of a segment may be under way when it goes. Where its key does not stop that, the endpoint for readers is closed.
#[test]
fn after_a_segment_went_the_others_are_read_one_sided_again() {
    for net in Net::ALL {
        let far = Arc::new(FarLender::open(&net.device()).unwrap());
        let config = ServerConfig { far: Some(Arc::clone(&far)), ..server_config() };
        let node = Node::with_config(1, MIB, ServerConfig { local_socket: false, ..config });
        let (transport, object) = (net.far_by("fabric,tcp"), [Object::at(&node, 0, 100_000, 1)]);
        assert_eq!(write_all(&transport, &object), all_ok(1));
        assert_eq!(read_all(&transport, &object), all_ok(1));
        let before = far.descriptor().unwrap();
        for number in 2..5 {
            let region = Arc::new(Region::anonymous(MIB).unwrap());
            let slots = Arc::new(SlotTable::new(MIB).unwrap());
            let other = SharedSegment { region: Arc::clone(&region), slots: Arc::clone(&slots) };
            far.lend(SegmentId(number), &other).unwrap();
            drop(other);
            slots.close();
            assert_eq!(Arc::strong_count(&region), 1, "nothing else holds it");
            let is_closed = net.device().device().revocation() == Revocation::Endpoint;
            assert_eq!(far.descriptor().unwrap() != before, is_closed, "{net:?}");
            wait_until("it is read one-sided", || {
                let by_message = node.host.reads();
                read_all(&transport, &object) == all_ok(1) && node.host.reads() == by_message
            });
            assert_eq!(write_all(&transport, &object), all_ok(1));
        }
    }
}

#[test]
fn a_node_that_restarts_is_greeted_anew() {
    for net in Net::ALL {
        let (node, transport) = (net.lender(1, MIB), net.far_by("fabric,tcp"));
        let object = [Object::at(&node, 0, 100_000, 1)];
        assert_eq!(write_all(&transport, &object), all_ok(1));
        assert_eq!(read_all(&transport, &object), all_ok(1));
        let port = node.server.local_addr();
        let host = Arc::clone(&node.host);
        drop(node);
        assert!(read_all(&transport, &object)[0].is_err());
        let listener = std::net::TcpListener::bind(port).unwrap();
        let far = Some(Arc::new(FarLender::open(&net.device()).unwrap()));
        let config = ServerConfig { far, local_socket: false, ..server_config() };
        let server = crate::DataServer::start(listener, Arc::clone(&host) as _, config).unwrap();
        wait_until("it is read again", || read_all(&transport, &object) == all_ok(1));
        let by_message = host.reads();
        wait_until("it is read one-sided", || {
            let before = host.reads();
            read_all(&transport, &object) == all_ok(1) && host.reads() == before
        });
        assert!(by_message <= host.reads());
        drop(server);
    }
}

/// Readers and writers use the same ranges at the same time. A reader gets the version that it asked for, or nothing.
#[test]
fn readers_and_writers_that_meet_mix_no_bytes() {
    for net in Net::ALL {
        const RANGES: usize = 3;
        const LEN: u64 = 200_000;
        let node = net.lender(1, MIB);
        let newest: [AtomicU64; RANGES] = std::array::from_fn(|_| AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let object = |range: usize, counter| Object::at(&node, range as u64 * LEN, LEN, counter);
        let deadline = Instant::now() + Duration::from_millis(700);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let (newest, stop, object) = (&newest, &stop, &object);
                    scope.spawn(move || {
                        let (transport, mut good) = (net.far_by("fabric"), 0);
                        for turn in reader.. {
                            let range = turn % RANGES;
                            let counter = newest[range].load(Ordering::SeqCst);
                            if stop.load(Ordering::SeqCst) {
                                break;
                            }
                            if counter == 0 {
                                continue;
                            }
                            match &read_all(&transport, &[object(range, counter)])[..] {
                                [Ok(())] => good += 1,
                                [Err(TransferError::Stale)] => {}
                                other => panic!("{other:?}"),
                            }
                        }
                        good
                    })
                })
                .collect();
            let writer = net.far_by("fabric");
            let mut written = 0;
            while Instant::now() < deadline || written < 20 {
                written += 1;
                let range = written as usize % RANGES;
                assert_eq!(write_all(&writer, &[object(range, written)]), all_ok(1));
                newest[range].store(written, Ordering::SeqCst);
            }
            stop.store(true, Ordering::SeqCst);
            let seen: i32 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
            assert!(written >= 20, "{written} writes, {seen} reads");
        });
    }
}

#[test]
fn a_write_of_an_older_epoch_gets_no_key() {
    for net in Net::ALL {
        let (node, transport) = (net.lender(1, MIB), net.far_by("fabric"));
        let object = Object::at(&node, 0, 100_000, 1);
        assert_eq!(write_all(&transport, std::slice::from_ref(&object)), all_ok(1));
        let source = Buffer::from_vec(object.bytes());
        let op = object.write_op(source.raw().into());
        let refused = Err(TransferError::Refused(ErrorCode::InvalidVersion));
        assert_eq!(transport.write(Epoch(EPOCH.0 - 1), &[op]), [refused]);
    }
}
