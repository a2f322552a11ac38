//! Random histories that end in a power cut. After the restart, every complete and undropped object is there, no
//! dropped object is there, and all bytes are right.

use std::collections::BTreeSet;
use std::sync::Arc;

use mooncake_node::{DiskKind, DiskOptions, Host};
use mooncake_tier::testing::DiskDouble;
use mooncake_transfer::SegmentHost;
use mooncake_types::{Chance, Epoch, ErrorCode, SegmentId, Version};

use super::{CAPACITY, Nobody, Piece, check, pieces, put, write};
use crate::shells::{FILES, disk_of, options};

/// Steps of one history.
const STEPS: u64 = 60;
/// All ranges end before this offset. They use so little of the disk that it evicts none.
const END: u64 = 400_000;
const LONGEST: u64 = 40_000;

/// Which objects must exist, may exist and must not exist after a restart.
struct History {
    kind: DiskKind,
    chance: Chance,
    double: DiskDouble,
    segment: SegmentId,
    host: Host,
    next: u64,
    /// The highest epoch under which the host acknowledged a call.
    epoch: Epoch,
    there: BTreeSet<Piece>,
    gone: BTreeSet<Piece>,
    perhaps: BTreeSet<Piece>,
    has_space: bool,
}

impl History {
    fn new(kind: DiskKind, seed: u64) -> Self {
        let (double, segment) = (DiskDouble::new(seed), SegmentId(1));
        let host = Host::new(Vec::new());
        host.lend_disk(disk_of(kind, &double, segment, CAPACITY));
        host.see_epoch(Epoch(1));
        Self {
            kind,
            chance: Chance::new(seed),
            double,
            segment,
            host,
            next: 0,
            epoch: Epoch(0),
            there: BTreeSet::new(),
            gone: BTreeSet::new(),
            perhaps: BTreeSet::new(),
            has_space: true,
        }
    }

    fn new_grant(&mut self) -> Version {
        self.next += 1;
        Version { epoch: self.host.epoch(), counter: self.next }
    }

    fn new_piece(&mut self) -> Piece {
        let grant = self.new_grant();
        let len = 1 + self.chance.below(LONGEST);
        let offset = self.chance.below((END - len) / 4096) * 4096;
        // A third of the writes are copies of one version that has existed since epoch 1.
        let is_copy = self.chance.below(3) == 0;
        let version = if is_copy { Version { epoch: Epoch(1), counter: 1 } } else { grant };
        let object_offset = if is_copy { 0 } else { self.chance.below(1000) };
        Piece { offset, grant, version, len, object_offset }
    }

    /// One call, or the calls of one write. Returns an error if the disk failed.
    fn step(&mut self) -> Result<(), ErrorCode> {
        match self.chance.below(20) {
            0..10 => self.write(),
            10..14 => self.drop_one(),
            14..18 => {
                let Some(piece) = self.some_piece() else { return Ok(()) };
                match check(&self.host, self.segment, &piece) {
                    Err(ErrorCode::ObjectNotFound) if !self.has_space => {
                        assert!(self.host.disk_losses().no_room > 0);
                        self.there.remove(&piece);
                        self.perhaps.insert(piece);
                    }
                    read => assert_eq!(read, Ok(())),
                }
                Ok(())
            }
            18 => {
                self.host.see_epoch(Epoch(self.host.epoch().0 + 1));
                Ok(())
            }
            _ if self.chance.below(4) == 0 => self.start_empty(),
            _ => Ok(()),
        }
    }

    fn write(&mut self) -> Result<(), ErrorCode> {
        let piece = self.new_piece();
        let in_the_way = self.there.iter().filter(|other| other.meets(&piece)).copied();
        let in_the_way: Vec<Piece> = in_the_way.collect();
        in_the_way.iter().for_each(|other| {
            self.there.remove(other);
        });
        self.perhaps.extend(&in_the_way);
        let range = piece.write(self.segment, 0, piece.len);
        if self.chance.below(6) == 0 {
            let ticket = self.host.begin_write(self.host.epoch(), &range, Arc::new(Nobody))?;
            self.host.abandon_write(ticket);
        } else {
            self.perhaps.insert(piece);
            let cut = self.chance.below(piece.len);
            if cut > 0 && self.chance.below(3) == 0 {
                write(&self.host, self.segment, &piece, cut, piece.len - cut)?;
                write(&self.host, self.segment, &piece, 0, cut)?;
            } else {
                put(&self.host, self.segment, &piece)?;
            }
            self.perhaps.remove(&piece);
            self.there.insert(piece);
        }
        in_the_way.iter().for_each(|other| {
            self.perhaps.remove(other);
        });
        self.gone.extend(in_the_way);
        self.epoch = self.host.epoch();
        Ok(())
    }

    fn some_piece(&mut self) -> Option<Piece> {
        let count = self.there.len() as u64;
        (count > 0)
            .then(|| self.chance.below(count))
            .and_then(|at| self.there.iter().nth(at as usize))
            .copied()
    }

    fn drop_one(&mut self) -> Result<(), ErrorCode> {
        let Some(piece) = self.some_piece() else { return Ok(()) };
        let grant = self.new_grant();
        self.there.remove(&piece);
        self.perhaps.insert(piece);
        let again = 1 + self.chance.below(2);
        for _ in 0..again {
            self.host.drop_range(&piece.drop_by(self.segment, grant))?;
        }
        self.perhaps.remove(&piece);
        self.gone.insert(piece);
        self.epoch = self.host.epoch();
        Ok(())
    }

    fn start_empty(&mut self) -> Result<(), ErrorCode> {
        let id = SegmentId(self.segment.0 + 1);
        self.perhaps.append(&mut self.there);
        assert!(self.host.start_empty(self.segment, id));
        if self.host.disks()[0].is_broken() {
            return Err(ErrorCode::FileWriteFail);
        }
        self.segment = id;
        // Without space, the disk is emptied later. Until then it has the old id.
        if self.has_space {
            self.gone.append(&mut self.perhaps);
        }
        Ok(())
    }

    /// Restarts the host on the same disk, and compares its inventory with the history.
    fn restart(&mut self) {
        let fresh = SegmentId(self.next as u128 + 1000);
        let opened = disk_of(self.kind, &self.double, fresh, CAPACITY);
        self.host = Host::new(Vec::new());
        self.host.lend_disk(opened);
        assert!(self.host.epoch() >= self.epoch, "an older leader would be obeyed");
        let id = self.host.ids()[0];
        let found: BTreeSet<Piece> = pieces(&self.host, id).into_iter().collect();
        if id == self.segment {
            let lost: Vec<_> = self.there.difference(&found).collect();
            assert!(lost.is_empty(), "lost, and neither dropped nor replaced: {lost:?}");
        }
        let back: Vec<_> = found.intersection(&self.gone).collect();
        assert!(back.is_empty(), "dropped or replaced, and back: {back:?}");
        let is_known = |piece: &&Piece| self.there.contains(piece) || self.perhaps.contains(piece);
        assert!(found.iter().all(|piece| is_known(&piece)), "nobody wrote that: {found:?}");
        for piece in &found {
            assert_eq!(check(&self.host, id, piece), Ok(()));
        }
        assert_eq!(self.host.disks()[0].losses().objects(), 0);
        (self.segment, self.there) = (id, found);
        self.gone.append(&mut self.perhaps);
        self.gone.retain(|piece| !self.there.contains(piece));
        self.host.see_epoch(self.host.epoch().max(Epoch(1)));
    }

    /// Runs until the disk fails or all steps are done.
    fn live(&mut self) {
        for _ in 0..STEPS {
            if self.step().is_err() {
                return;
            }
            assert_eq!(self.host.disks()[0].losses().objects(), 0);
        }
    }
}

#[test]
fn whenever_the_power_is_cut_what_was_acknowledged_holds() {
    for (kind, seed) in [(DiskKind::Log, 1), (DiskKind::Log, 2), (FILES, 1), (FILES, 2)] {
        let mut whole = History::new(kind, seed);
        let before = whole.double.writes();
        whole.live();
        let writes = whole.double.writes() - before;
        assert!(writes > 100, "{writes}");
        whole.double.cut();
        whole.restart();
        for at in 0..writes {
            println!("{kind:?}, seed {seed}, failing after {at} writes");
            let mut history = History::new(kind, seed);
            history.double.fail_in(at);
            history.live();
            match at % 4 {
                0 => history.double.kill(),
                _ => history.double.cut(),
            }
            history.restart();
            // Fails once more, this time while a start writes to the disk.
            history.live();
            history.double.kill();
            history.double.fail_in(at % 7);
            let directory = Arc::new(history.double.directory());
            let fresh = options(SegmentId(u128::from(history.next) + 5000), CAPACITY);
            let fresh = DiskOptions { kind, ..fresh };
            if let Err(error) = mooncake_node::DiskSegment::open_directory(directory, fresh) {
                println!("{error}");
                history.double.cut();
            }
            history.double.kill();
            history.restart();
        }
    }
}

/// Whether or not the space was set aside. An object may go for want of space, and counts as lost then.
#[test]
fn when_there_is_no_space_at_any_write_the_disk_is_lent_on() {
    for (kind, seed) in [(DiskKind::Log, 1), (DiskKind::Log, 2), (FILES, 1), (FILES, 2)] {
        let mut whole = History::new(kind, seed);
        let before = whole.double.writes();
        whole.live();
        let writes = whole.double.writes() - before;
        for at in 0..writes {
            println!("{kind:?}, seed {seed}, no space after {at} writes");
            let mut history = History::new(kind, seed);
            history.has_space = false;
            history.double.run_out_in(at, 1 + at % 3);
            for _ in 0..STEPS {
                // The call fails, or makes room elsewhere. The next one goes on.
                let _ = history.step();
                assert_eq!(history.host.disks()[0].failure(), None);
            }
            // What has gone with its file is lost, is counted, and is named no more.
            let gone = |piece: &Piece| check(&history.host, history.segment, piece).is_err();
            let lost: Vec<Piece> = history.there.extract_if(.., |piece| gone(piece)).collect();
            assert!(lost.len() as u64 <= history.host.disk_losses().no_room);
            history.perhaps.extend(lost);
            history.double.cut();
            history.restart();
        }
    }
}
