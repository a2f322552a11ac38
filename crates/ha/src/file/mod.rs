//! A folder of this host as the coordinator.
//!
//! Each leadership has a number, its epoch, and two files: `leader.N`, which belongs to the first candidate that
//! links it, and `record.N`, which only that leader writes. The highest number counts.
//!
//! No master waits for a lock, so a paused process blocks no other:
//! - A leader holds a lock on its `leader.N` until it dies, and keeps in it the time until which it leads. The claim
//!   is *done* when the lock is free, or that time is over.
//! - A successor first creates `leader.M`, with a higher number. Then it waits until all lower claims are done, and
//!   only then it reads the record. A leader first renews, or writes its record, and only then it looks for higher
//!   numbers. So if both happen at once, at least one sees the other: the successor waits for a renewal that counts,
//!   and reads a record that was acknowledged.
//!
//! A standby waits for an event in the folder, or for the end of the leader's lease. A leader that resigns removes
//! its file, and the system closes the file of a leader that dies.
//!
//! Locks and the monotonic clock belong to one host: a folder that hosts share is refused if that is noticed.

mod claim;
mod claim_file;
mod folder;
mod term;
mod watch;

#[cfg(test)]
use claim::LONGEST_REST;
pub(crate) use folder::FolderBackend;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::time::{Duration, Instant};
    use std::{env, fs, process, thread};

    use mooncake_types::Epoch;

    use super::term::FileTerm;
    use super::*;
    use crate::backend::{Backend, Claim, Claimed, Won};
    use crate::boot_time;
    use crate::leadership::LeaseTimes;
    use crate::{CoordinatorError, Leadership, Options};

    /// Short, so that leases end at every step.
    const TTL: Duration = Duration::from_millis(4);

    /// Until when each leader takes its leadership to be valid.
    type Beliefs = Mutex<BTreeMap<Epoch, Instant>>;

    /// Notes until when a leader takes its leadership to be valid, and checks that no other does so now.
    fn believe(beliefs: &Beliefs, leadership: &Leadership) {
        let now = boot_time::now();
        let mut beliefs = beliefs.lock().expect("no panic");
        beliefs.insert(leadership.epoch(), leadership.valid_until());
        let leaders: Vec<&Epoch> =
            beliefs.iter().filter(|(_, until)| **until > now).map(|(epoch, _)| epoch).collect();
        assert!(leaders.len() < 2, "these lead at once: {leaders:?}");
        let highest = beliefs.keys().last().expect("one at least");
        assert!(!leaders.contains(&&leadership.epoch()) || *highest == leadership.epoch());
    }

    /// Leads as often as it can, and renews early, late, and too late.
    fn contend(folder: &FolderBackend, beliefs: &Beliefs, seed: u64, until: Instant) -> u32 {
        let mut random = seed;
        let mut terms = 0;
        while Instant::now() < until {
            let claim = claim(&format!("{seed}-{terms}-{random}"));
            let Ok(Claimed::Won(won)) = folder.claim(&claim) else { continue };
            terms += 1;
            let leadership = Leadership::begin(won, Some(lasting(TTL)));
            believe(beliefs, &leadership);
            loop {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                thread::sleep(TTL * u32::try_from(random >> 60).expect("four bits") / 12);
                if random >> 40 & 7 == 0 || leadership.renew().is_err() {
                    break;
                }
                believe(beliefs, &leadership);
            }
            beliefs.lock().expect("no panic").remove(&leadership.epoch());
        }
        terms
    }

    /// A folder of a test, removed with the value.
    struct TestFolder(PathBuf);

    impl TestFolder {
        fn new() -> Self {
            let unique = getrandom::u64().expect("random numbers");
            Self(env::temp_dir().join(format!("mooncake-ha-{}-{unique:x}", process::id())))
        }

        fn folder(&self, ttl: Duration) -> FolderBackend {
            FolderBackend::new(&self.0, &Options { ttl, ..Options::new("a") })
        }
    }

    impl Drop for TestFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn lasting(ttl: Duration) -> LeaseTimes {
        LeaseTimes { ttl, suspension: Duration::ZERO, are_waited_for: false }
    }

    fn claim(token: &str) -> Claim {
        Claim { address: "a:1".to_owned(), token: token.to_owned(), now: Epoch(1) }
    }

    fn won(claimed: Result<Claimed, CoordinatorError>) -> Won {
        match claimed {
            Ok(Claimed::Won(won)) => won,
            other => panic!("{other:?}"),
        }
    }

    /// A claim of a process that was paused after it looked at the other claims.
    fn made_blindly(folder: &FolderBackend, epoch: u64) -> FileTerm {
        let file = folder.make_claim(&claim("blind"), epoch).expect("a folder");
        FileTerm::new(folder.clone(), file.expect("nobody has it"), epoch)
    }

    #[test]
    fn a_renewal_between_look_and_claim_is_waited_for() {
        const TTL: Duration = Duration::from_millis(200);
        // With and without a failed claim between them.
        for above in [1, 2] {
            let place = TestFolder::new();
            let folder = place.folder(TTL);
            let first = Leadership::begin(won(folder.claim(&claim("first"))), Some(lasting(TTL)));
            let epoch = first.epoch().0 + above;
            if above == 2 {
                fs::write(folder.claim_path(epoch - 1), "").expect("a file");
            }
            let second = Leadership::begin(
                won(folder.take(made_blindly(&folder, epoch))),
                Some(lasting(TTL)),
            );
            assert!(boot_time::now() >= first.valid_until(), "both lead, {above} apart");
            assert_eq!(second.epoch(), Epoch(epoch));
            assert!(matches!(first.renew(), Err(CoordinatorError::Deposed { .. })));
        }
    }

    #[test]
    fn who_stands_by_looks_a_few_times_a_second_and_sees_the_end_of_a_leadership_at_once() {
        const TTL: Duration = Duration::from_secs(60);
        let place = TestFolder::new();
        let folder = place.folder(TTL);
        for resigns in [true, false] {
            let leading = won(folder.claim(&claim("leading")));
            let seen = folder.leader().expect("a folder").expect("one leads");
            let begun = Instant::now();
            let mut rests = 0;
            while begun.elapsed() < Duration::from_millis(1_500) {
                folder.rest(Some(&seen), Duration::MAX);
                rests += 1;
            }
            assert!(rests < 8, "{rests} rests in 1.5 s");
            let took = thread::scope(|scope| {
                let waiting = scope.spawn(|| {
                    while folder.leader().expect("a folder").is_some() {
                        folder.rest(Some(&seen), Duration::MAX);
                    }
                    Instant::now()
                });
                thread::sleep(Duration::from_millis(20));
                let end = Instant::now();
                if resigns {
                    leading.term.resign().expect("a folder");
                }
                drop(leading);
                waiting.join().expect("no panic").saturating_duration_since(end)
            });
            // Far shorter than a rest without an event.
            assert!(took < LONGEST_REST / 4, "{took:?}, resigns: {resigns}");
        }
    }

    #[test]
    fn a_rest_ends_with_the_lease_and_at_once_if_another_leads() {
        let place = TestFolder::new();
        let folder = place.folder(Duration::from_millis(100));
        let leading = won(folder.claim(&claim("leading")));
        let seen = folder.leader().expect("a folder").expect("one leads");
        let begun = Instant::now();
        folder.rest(Some(&seen), Duration::MAX);
        assert!(begun.elapsed() < LONGEST_REST * 4 / 5, "{:?}", begun.elapsed());
        assert_eq!(folder.leader(), Ok(None), "its lease is over");
        drop(leading);
        let folder = place.folder(Duration::from_secs(60));
        let next = won(folder.claim(&claim("next")));
        let begun = Instant::now();
        folder.rest(Some(&seen), Duration::MAX);
        assert!(begun.elapsed() < LONGEST_REST / 4, "{:?}", begun.elapsed());
        drop(next);
    }

    #[test]
    fn a_claim_that_is_made_during_a_renewal_or_a_write_ends_the_leadership() {
        let place = TestFolder::new();
        let folder = place.folder(TTL);
        fs::create_dir_all(place.0.join("a")).expect("a folder");
        let term = made_blindly(&folder, 7);
        assert_eq!(term.then_look_up(|| Ok(())), Ok(()));
        let mut other = None;
        let found = term.then_look_up(|| {
            other = Some(made_blindly(&folder, 8));
            Ok(())
        });
        assert!(matches!(found, Err(CoordinatorError::Deposed { .. })), "{found:?}");
    }

    #[test]
    fn no_two_lead_at_once_however_late_they_renew() {
        let seed = getrandom::u64().expect("random numbers");
        println!("seed {seed}");
        let place = TestFolder::new();
        let (folder, beliefs) = (place.folder(TTL), Beliefs::default());
        let until = Instant::now() + Duration::from_secs(2);
        let terms: u32 = thread::scope(|scope| {
            let contenders = [1, 2, 3].map(|number| {
                let (folder, beliefs) = (&folder, &beliefs);
                scope.spawn(move || contend(folder, beliefs, seed ^ number, until))
            });
            contenders.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert!(terms > 10, "only {terms} leaderships");
    }
}
