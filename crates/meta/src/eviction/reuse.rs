//! How soon objects are used again, learned from a sample of the keys, and the worth of an object that follows from
//! it.
//!
//! The last use of each sampled key is kept, whether or not the object still exists. So what is learned does not
//! depend on evictions. Each further use shows how long an object of one class took to be used again. From that
//! follows, for every class and age, the share of objects that are still to be used: a curve that falls.
//!
//! The worth of an object is the steepest fall of this curve that lies ahead of it. That is the most uses for the
//! room that it takes, up to the best time to evict it. Worth never grows with age: what lies ahead of an old object
//! also lies ahead of a young one.

use crate::objects::{CLASSES, Class, mix_hash};

/// Most keys in the sample. Each takes 16 bytes.
const SLOTS: usize = 1 << 14;
/// Slots for each sampled key of the pool, so that the sample also holds keys that were evicted long ago.
const REACH: usize = 4;
/// Sampled uses after which the worth of every class and age is computed again.
const PERIOD: u32 = 512;
/// Factor by which the weight of earlier observations falls in each period.
const DECAY: f32 = 0.99;
/// Objects that behave like the average of all classes, and are added to the observations of each class.
const PRIOR: f32 = 20.0;

/// Buckets of ages: two for every power of two. The last has all higher ages.
const AGES: usize = 64;

/// The last use of a key of the sample.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: u64,
    /// Half of the hash, never zero. Zero: the slot is empty.
    tag: u32,
    class: Class,
}

/// Observations of objects of one class, by the age at which they ended. Either the object was used again, or another
/// key took the slot of its key.
#[derive(Clone, Copy, Debug)]
struct Ends {
    used: [f32; AGES],
    lost: [f32; AGES],
}

const NO_ENDS: Ends = Ends { used: [0.0; AGES], lost: [0.0; AGES] };

/// What is known about how soon objects are used again.
#[derive(Debug)]
pub(crate) struct Reuse {
    /// Empty until the first use: many tenants may use nothing.
    samples: Vec<Sample>,
    /// Keys of at least this rarity are sampled.
    rarity: u32,
    since: u32,
    ends: Box<[Ends; CLASSES]>,
    worth: Box<[[f32; AGES]; CLASSES]>,
}

impl Reuse {
    pub(crate) fn new() -> Self {
        Self {
            samples: Vec::new(),
            rarity: 0,
            since: 0,
            ends: Box::new([NO_ENDS; CLASSES]),
            worth: Box::new([[0.0; AGES]; CLASSES]),
        }
    }

    /// Learns nothing, because no key has the rarity for the sample.
    pub(crate) fn idle() -> Self {
        Self { rarity: u32::MAX, ..Self::new() }
    }

    /// Whether the key of an object of this class is in the sample.
    pub(super) fn samples(&self, class: Class) -> bool {
        class.rarity() >= self.rarity
    }

    /// The expected uses of an object of this class and age while it is kept, for each use of any object.
    pub(crate) fn worth(&self, class: Class, age: u64) -> f32 {
        self.worth[class.index()][bucket(age)]
    }

    /// A sampled key was used or put at `now`, and is of this class from then on.
    pub(crate) fn note_use(&mut self, hash: u64, class: Class, now: u64, objects: usize) {
        if self.samples.is_empty() {
            let none = Sample { at: 0, tag: 0, class: Class::new(0, 0, false) };
            self.samples = vec![none; SLOTS];
        }
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

    /// Sets the rarity at which about as many keys are sampled as there are slots, in a pool of `objects`.
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

    /// Computes the worth of every class and age.
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
            // A queue evicts its oldest range first, so a younger range must be worth at least as much as an older
            // one.
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
    (mix_hash(hash) >> (64 - SLOTS.ilog2())) as usize
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

/// For each age, which share of the objects that reach this age are used at it. `prior` further objects are taken to
/// behave as `usual`.
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

/// For every age, the steepest fall of the share still to be used, from that age to any later one. These are the
/// slopes of the curve's lower convex hull, found from its end.
fn steepest_falls(hazards: &[f32; AGES]) -> [f32; AGES] {
    // For each age: how long an object takes up room until then, in uses of any object, and the share still to be
    // used.
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
