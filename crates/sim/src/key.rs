use std::sync::LazyLock;

use mooncake_types::{Chance, Tenant};

/// Most keys of a run.
const MOST: usize = 1_000;

/// The keys of all operations. A run uses the first few of them.
pub(crate) static KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let name = |number: usize| match number {
        0..12 => {
            let key = format!("{}{}", ["a", "b", "c", "d"][number / 3], number % 3);
            let tenant = if number.is_multiple_of(2) { Tenant::default() } else { other_tenant() };
            tenant.key(&key).into_owned()
        }
        _ => format!("k{number}"),
    };
    (0..MOST).map(|number| &*name(number).leak()).collect()
});

/// The tenant of every second one of the first keys. The others are of the default tenant.
pub(crate) fn other_tenant() -> Tenant {
    Tenant::named("blue").expect("a name")
}

/// The number of a key.
pub(crate) fn number_of(key: &str) -> usize {
    let named = key.strip_prefix('k').and_then(|number| number.parse().ok());
    let number = named.or_else(|| KEYS[..12].iter().position(|known| *known == key));
    number.expect("a key that was put")
}

/// A few of the first `count` keys, some of them twice; more if there are many.
pub(crate) fn some_keys(chance: &mut Chance, count: usize) -> Vec<usize> {
    let len = [1, 1, 1, 2, 3][chance.below(5) as usize] * (1 + count / 50);
    (0..len).map(|_| chance.below(count as u64) as usize).collect()
}
