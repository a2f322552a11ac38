//! What the environment says of the hot cache.

use mooncake_transfer::{EnvError, HotCacheConfig};

const SIZE: &str = "MC_STORE_LOCAL_HOT_CACHE_SIZE";
const LONGEST: &str = "MC_STORE_LOCAL_HOT_BLOCK_SIZE";
const READS: &str = "MC_STORE_LOCAL_HOT_ADMISSION_THRESHOLD";

/// The defaults, changed by what the environment says. The C++ package has blocks that an object must fit; here the length
/// of a block is no more than a limit on the length of ranges.
pub(crate) fn from_variables(
    text: impl Fn(&str) -> Option<String>,
) -> Result<HotCacheConfig, EnvError> {
    let mut config = HotCacheConfig::default();
    let bytes = |name: &'static str| {
        let wanted = "a whole number of bytes";
        let number = |value: String| value.parse().map_err(|_| EnvError { name, value, wanted });
        text(name).map(number).transpose()
    };
    config.bytes = bytes(SIZE)?.unwrap_or(0);
    if let Some(value) = text(SIZE).filter(|_| config.bytes > 0 && !SIZES.contains(&config.bytes)) {
        let wanted = "0, or from 1048576 to 4398046511104 bytes";
        return Err(EnvError { name: SIZE, value, wanted });
    }
    config.longest_bytes = bytes(LONGEST)?.filter(|&longest| longest > 0);
    if let Some(value) = text(READS) {
        let reads = value.parse::<u8>().ok().filter(|&reads| reads > 0);
        let wanted = "a number of reads from 1 to 255";
        config.admission_reads = reads.ok_or(EnvError { name: READS, value, wanted })?;
    }
    Ok(config)
}

/// From the smallest cache to the largest, in bytes.
pub(crate) const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 42;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_make_no_sense_are_named() {
        let with = |name: &'static str, value: &'static str| {
            from_variables(|known| (known == name).then(|| value.to_owned()))
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
