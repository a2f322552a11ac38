//! Reads the configuration of the hot cache from environment variables.

use mooncake_transfer::{EnvError, HotCacheConfig, Variables};

const SIZE: &str = "MC_STORE_LOCAL_HOT_CACHE_SIZE";
const LONGEST: &str = "MC_STORE_LOCAL_HOT_BLOCK_SIZE";
const READS: &str = "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD";

/// The defaults, changed by environment variables. In the C++ package an object must fit into a block; here the
/// length of a block only limits the length of ranges.
pub(crate) fn from_variables(
    variables: &Variables<impl Fn(&str) -> Option<String>>,
) -> Result<HotCacheConfig, EnvError> {
    let mut config = HotCacheConfig::default();
    let size =
        |value: &str| value.parse().ok().filter(|bytes| *bytes == 0 || SIZES.contains(bytes));
    let wanted = "0, or from 1048576 to 4398046511104 bytes";
    config.bytes = variables.parse(SIZE, wanted, size)?.unwrap_or(0);
    let longest = |value: &str| value.parse().ok();
    let longest = variables.parse(LONGEST, "a whole number of bytes", longest)?;
    config.longest_bytes = longest.filter(|&longest| longest > 0);
    let reads = |value: &str| value.parse().ok().filter(|&reads: &u8| reads > 0);
    let reads = variables.parse(READS, "a number of reads from 1 to 255", reads)?;
    config.admission_reads = reads.unwrap_or(config.admission_reads);
    Ok(config)
}

/// The sizes that a cache may have, in bytes.
pub(crate) const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 42;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_make_no_sense_are_named() {
        let with = |name: &'static str, value: &'static str| {
            let look_up = |known: &str| (known == name).then(|| value.to_owned());
            from_variables(&Variables::new(look_up))
        };
        for (name, value) in [
            (SIZE, "much"),
            (SIZE, "-1"),
            (SIZE, "4096"),
            (LONGEST, "16 MiB"),
            (READS, "0"),
            (READS, "256"),
        ] {
            let error = with(name, value).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), (name, value));
        }
        assert_eq!(with(SIZE, "0"), Ok(HotCacheConfig::default()));
        assert_eq!(with(LONGEST, "0"), Ok(HotCacheConfig::default()));
    }
}
