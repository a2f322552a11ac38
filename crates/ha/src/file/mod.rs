//! A folder of this host as the coordinator.
//!
//! Each leadership has a number, its epoch, and two files: `leader.N`, which is made by whoever is first to link it
//! there, and `record.N`, which only that leader writes. The highest number counts.
//!
//! No lock is ever waited for, so a process that is stopped anywhere blocks nobody:
//! - A leader holds a lock on its `leader.N` until it dies, and keeps a time in it until which it leads. It is *done*
//!   when the lock is free, or that time is over.
//! - Who follows makes `leader.M` first, with a higher number, then waits until all with lower numbers are done, and
//!   only then reads the record. A leader renews, or writes its record, first, and only then looks for higher
//!   numbers. So if both happen at once, at least one sees the other: a renewal that counts is waited for, and a
//!   record that was acknowledged is read.
//!
//! Locks and the monotonic clock are those of one host: a folder that is shared between hosts is refused where it
//! is noticed.

mod claim_file;
mod folder;
mod tenure;

pub(crate) use folder::Folder;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;
    use std::time::{Duration, Instant};
    use std::{env, fs, process, thread};

    use mooncake_types::Epoch;

    use super::*;
    use crate::backend::{Backend, Claim, Claimed};
    use crate::{Leadership, Options};

    /// Short, so that leases end in the middle of everything.
    const TTL: Duration = Duration::from_millis(4);

    /// Until when each leader believes that it leads.
    type Beliefs = Mutex<BTreeMap<Epoch, Instant>>;

    /// Notes what a leader was just told, and that no other believes that it leads.
    fn believe(beliefs: &Beliefs, leadership: &Leadership) {
        let now = Instant::now();
        let mut beliefs = beliefs.lock().expect("no panic");
        beliefs.insert(leadership.epoch(), leadership.valid_until());
        let leaders: Vec<&Epoch> =
            beliefs.iter().filter(|(_, until)| **until > now).map(|(epoch, _)| epoch).collect();
        assert!(leaders.len() < 2, "these lead at once: {leaders:?}");
        let highest = beliefs.keys().last().expect("one at least");
        assert!(!leaders.contains(&&leadership.epoch()) || *highest == leadership.epoch());
    }

    /// Leads as often as it can, and renews early, late, and too late.
    fn contend(folder: &Folder, beliefs: &Beliefs, seed: u64, until: Instant) -> u32 {
        let mut random = seed;
        let mut terms = 0;
        while Instant::now() < until {
            let token = format!("{seed}-{terms}-{random}");
            let claim = Claim { address: "a:1".to_owned(), token, at_least: Epoch(1) };
            let Ok(Claimed::Won(won)) = folder.claim(&claim) else { continue };
            terms += 1;
            let leadership = Leadership::begin(won, Some(TTL));
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

    #[test]
    fn no_two_lead_at_once_however_late_they_renew() {
        let seed = getrandom::u64().expect("random numbers");
        println!("seed {seed}");
        let path = env::temp_dir().join(format!("mooncake-ha-{}-{seed:x}", process::id()));
        let options = Options { ttl: TTL, ..Options::new("a") };
        let (folder, beliefs) = (Folder::new(&path, &options), Beliefs::default());
        let until = Instant::now() + Duration::from_secs(2);
        let terms: u32 = thread::scope(|scope| {
            let contenders = [1, 2, 3].map(|number| {
                let (folder, beliefs) = (&folder, &beliefs);
                scope.spawn(move || contend(folder, beliefs, seed ^ number, until))
            });
            contenders.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        fs::remove_dir_all(&path).expect("a folder");
        assert!(terms > 10, "only {terms} leaderships");
    }
}
