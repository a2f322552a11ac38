use super::*;

/// SplitMix64.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[test]
fn every_age_lies_in_its_bucket() {
    let ages = (0..10_000).chain((0..40).flat_map(|power| [(1 << power) - 1, 1 << power]));
    for age in ages {
        let bucket = bucket(age);
        assert!(least_age(bucket) <= age as f64, "{age} in {bucket}");
        assert!(bucket == AGES - 1 || (age as f64) < least_age(bucket + 1), "{age} in {bucket}");
    }
}

#[test]
fn the_steepest_fall_is_the_best_of_all_later_ages() {
    for seed in 0..50 {
        let hazards: [f32; AGES] = std::array::from_fn(|age| {
            let dice = mix(seed * 1_000 + age as u64);
            if dice.is_multiple_of(3) { 0.0 } else { (dice >> 40) as f32 / (1 << 24) as f32 }
        });
        let mut curve = vec![(0.0, 1.0)];
        for (age, &hazard) in hazards.iter().enumerate() {
            let (room, share): (f64, f64) = curve[age];
            let rest = share * (1.0 - f64::from(hazard));
            curve.push((room + (least_age(age + 1) - least_age(age)) * (share + rest) / 2.0, rest));
        }
        for (age, &found) in steepest_falls(&hazards).iter().enumerate() {
            let (room, share) = curve[age];
            let fall = |&(room_to, share_to): &(f64, f64)| {
                if room_to > room { (share - share_to) / (room_to - room) } else { 0.0 }
            };
            let best = curve[age + 1..].iter().map(fall).fold(0.0, f64::max);
            assert!((best - f64::from(found)).abs() <= best * 1e-6, "seed {seed}, age {age}");
        }
    }
}

#[test]
fn all_are_worth_the_same_before_anything_is_learned() {
    let reuse = Reuse::new();
    for uses in 0..=3 {
        assert_eq!(reuse.worth(Class::new(0, uses, uses == 1), 1 << (8 * uses)), 0.0);
    }
}

/// Objects of the class `busy` are used every 300 uses, four times. Those of the class `idle` are never used again.
#[test]
fn what_is_used_again_is_worth_more_until_it_no_longer_is() {
    let mut reuse = Reuse::new();
    let (idle, busy) = (|key| Class::new(mix(key), 0, true), |key| Class::new(mix(key), 0, false));
    for now in 0..40_000u64 {
        let (class, key) = match now % 2 {
            0 => (idle(now), now),
            _ => (busy(now), (now / 1_200) * 300 + now % 300),
        };
        if reuse.samples(class) {
            reuse.note_use(mix(key), class, now, 1_000);
        }
    }
    let worth = |class: Class, age| reuse.worth(class, age);
    assert!(worth(busy(1), 0) > 20.0 * worth(idle(1), 0));
    assert!(worth(busy(1), 0) >= worth(busy(1), 200), "what lies ahead counts from the start");
    assert!(worth(busy(1), 200) > 20.0 * worth(busy(1), 2_000), "the time has passed");
}

#[test]
fn a_larger_pool_samples_fewer_keys() {
    for (objects, rarity) in [(0, 0), (4_096, 0), (4_097, 0), (8_192, 1), (16_384, 2), (1 << 20, 8)]
    {
        let mut reuse = Reuse::new();
        for now in 0..u64::from(PERIOD) {
            reuse.note_use(mix(now), Class::new(mix(now), 0, false), now, objects);
        }
        assert_eq!(reuse.rarity, rarity, "{objects} objects");
        let left = reuse.samples.iter().filter(|sample| sample.tag != 0);
        assert!(left.clone().all(|sample| sample.class.rarity() >= rarity));
        assert!(rarity > 2 || left.count() > PERIOD as usize / 8);
    }
}
