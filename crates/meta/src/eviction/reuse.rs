//! How soon objects are used again, learned from a sample of the keys, and what it makes an object worth.
//!
//! For keys of the sample, the last use is kept whether the object is still there or not; so what is learned does not
//! depend on what was evicted. Each further use says how long one of a class and age took to be used again. From that
//! follows, for every class and age, the share of objects still to be used: a curve that falls. An object is worth the
//! steepest fall that lies ahead of it: the most uses for the room that it takes, up to the moment at which it would
//! best be given up. Worth never grows with age: what lies further ahead of the young counts for them already.

use crate::objects::{CLASSES, Class, scatter};

/// Keys in the sample, at most. The size of what is kept of them: 16 bytes each.
const SLOTS: usize = 1 << 14;
/// Keys sampled for each slot's worth of objects in the pool, so that those evicted long ago are among them too.
const REACH: usize = 4;
/// Sampled uses after which the worth of all is reckoned again.
const PERIOD: u32 = 512;
/// What is left, after each period, of the weight of what was learned.
const DECAY: f32 = 0.99;
/// Uses of any class that stand in for those that a class lacks.
const PRIOR: f32 = 20.0;

/// Two ages to every power of two; the last is for all above.
const AGES: usize = 64;

/// The last use of a key of the sample.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: u64,
    /// Half of the hash, never zero; zero: no sample.
    tag: u32,
    class: Class,
}

/// Objects of one class whose age came to its end, by age: because they were used again, or because they were no longer
/// watched.
#[derive(Clone, Copy, Debug)]
struct Ends {
    used: [f32; AGES],
    lost: [f32; AGES],
}

const NO_ENDS: Ends = Ends { used: [0.0; AGES], lost: [0.0; AGES] };

/// What is known about how soon objects are used again.
#[derive(Debug)]
pub(crate) struct Reuse {
    samples: Vec<Sample>,
    /// Keys at least this rare are sampled.
    rarity: u32,
    since: u32,
    ends: Box<[Ends; CLASSES]>,
    worth: Box<[[f32; AGES]; CLASSES]>,
}

impl Reuse {
    pub(crate) fn new() -> Self {
        let none = Sample { at: 0, tag: 0, class: Class::new(0, 0, false) };
        Self {
            samples: vec![none; SLOTS],
            rarity: 0,
            since: 0,
            ends: Box::new([NO_ENDS; CLASSES]),
            worth: Box::new([[0.0; AGES]; CLASSES]),
        }
    }

    /// One that learns nothing: no key is rare enough to be sampled.
    pub(crate) fn idle() -> Self {
        Self { samples: Vec::new(), rarity: u32::MAX, ..Self::new() }
    }

    /// Whether the key of an object of this class is one of the sample.
    pub(super) fn samples(&self, class: Class) -> bool {
        class.rarity() >= self.rarity
    }

    /// The expected uses of an object of a class and age, for each use of any object, while it is kept.
    pub(crate) fn worth(&self, class: Class, age: u64) -> f32 {
        self.worth[class.index()][bucket(age)]
    }

    /// A sampled key was used or put: at `now`, after which it is of this class.
    pub(crate) fn note_use(&mut self, hash: u64, class: Class, now: u64, objects: usize) {
        let sample = &mut self.samples[slot_of(hash)];
        if sample.tag != 0 {
            let ends = &mut self.ends[sample.class.index()];
            let ends = if sample.tag == tag(hash) { &mut ends.used } else { &mut ends.lost };
            ends[bucket(now.saturating_sub(sample.at))] += 1.0;
        }
        *sample = Sample { at: now, tag: tag(hash), class };
        self.since += 1;
        if self.since >= PERIOD {
            self.since = 0;
            self.resample(objects);
            self.reckon(now);
        }
    }

    /// Samples as many keys as there are slots for, in a pool of `objects`.
    fn resample(&mut self, objects: usize) {
        let excess = (objects.saturating_mul(REACH) / SLOTS).max(1);
        let rarity = excess.ilog2() + u32::from(!excess.is_power_of_two());
        if rarity > self.rarity {
            for sample in self.samples.iter_mut().filter(|it| it.class.rarity() < rarity) {
                sample.tag = 0;
            }
        }
        self.rarity = rarity;
    }

    /// Reckons what every class and age is worth.
    fn reckon(&mut self, now: u64) {
        let mut ends = *self.ends;
        for sample in self.samples.iter().filter(|sample| sample.tag != 0) {
            ends[sample.class.index()].lost[bucket(now.saturating_sub(sample.at))] += 1.0;
        }
        let mut all = NO_ENDS;
        for class in &ends {
            for age in 0..AGES {
                all.used[age] += class.used[age];
                all.lost[age] += class.lost[age];
            }
        }
        let usual = hazards(&all, 0.0, &[0.0; AGES]);
        for (worth, class) in self.worth.iter_mut().zip(&ends) {
            *worth = steepest_falls(&hazards(class, PRIOR, &usual));
            // A queue gives up its oldest first, so the old ones' time must not be what the young ones wait for.
            for age in (0..AGES - 1).rev() {
                worth[age] = worth[age].max(worth[age + 1]);
            }
        }
        for class in self.ends.iter_mut() {
            class.used.iter_mut().chain(&mut class.lost).for_each(|count| *count *= DECAY);
        }
    }
}

fn slot_of(hash: u64) -> usize {
    (scatter(hash) >> (64 - SLOTS.ilog2())) as usize
}

fn tag(hash: u64) -> u32 {
    hash as u32 | 1
}

/// The bucket of an age, in uses of any object.
fn bucket(age: u64) -> usize {
    let octave = (age + 1).ilog2();
    let half = (((age + 1) << 1) >> octave) & 1;
    (octave as usize * 2 + half as usize).min(AGES - 1)
}

/// The least age of a bucket.
fn least_age(bucket: usize) -> f64 {
    let whole = (1u64 << (bucket / 2)) as f64;
    whole * if bucket.is_multiple_of(2) { 1.0 } else { 1.5 } - 1.0
}

/// The share of those that reach an age which are used while at it. `prior` objects are thought to do as is `usual`.
fn hazards(ends: &Ends, prior: f32, usual: &[f32; AGES]) -> [f32; AGES] {
    let mut hazards = [0.0; AGES];
    let mut older = 0.0;
    for age in (0..AGES).rev() {
        let (used, lost) = (ends.used[age], ends.lost[age]);
        let reached = older + used + lost / 2.0 + prior;
        older += used + lost;
        if reached > 0.0 {
            hazards[age] = ((used + prior * usual[age]) / reached).min(1.0);
        }
    }
    hazards
}

/// For every age, the steepest fall of the share still to be used, from there to any later age: the steps of the
/// curve's lower convex hull, found from its end.
fn steepest_falls(hazards: &[f32; AGES]) -> [f32; AGES] {
    // For each age, the uses that an object takes room for until then, and the share still to be used.
    let mut curve = [(0.0f64, 1.0f64); AGES + 1];
    for age in 0..AGES {
        let (room, share) = curve[age];
        let rest = share * (1.0 - f64::from(hazards[age]));
        let width = least_age(age + 1) - least_age(age);
        curve[age + 1] = (room + width * (share + rest) / 2.0, rest);
    }
    let fall = |from: usize, to: usize| {
        let ((room, share), (room_to, share_to)) = (curve[from], curve[to]);
        if room_to > room { (share - share_to) / (room_to - room) } else { 0.0 }
    };
    let mut hull = Vec::with_capacity(AGES + 1);
    hull.push(AGES);
    let mut falls = [0.0; AGES];
    for age in (0..AGES).rev() {
        while let [.., second, first] = hull[..]
            && fall(age, first) <= fall(age, second)
        {
            hull.pop();
        }
        falls[age] = fall(age, hull[hull.len() - 1]) as f32;
        hull.push(age);
    }
    falls
}

#[cfg(test)]
mod tests;
