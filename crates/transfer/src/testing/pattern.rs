use mooncake_types::Version;

/// `len` bytes that lie `offset` bytes into the object `key` of this version. Each depends on all three, so bytes of
/// another object, another version or another place show.
#[must_use]
pub fn pattern(key: &str, version: Version, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 16);
    let seed = seed(key, version);
    let skip = (offset % 8) as usize;
    let mut word = offset / 8;
    while bytes.len() < len + skip {
        bytes
            .extend_from_slice(&mix(seed ^ word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes());
        word += 1;
    }
    bytes.truncate(len + skip);
    bytes.drain(..skip);
    bytes
}

/// Where `bytes` first differ from [`pattern`], if they do.
#[must_use]
pub fn first_mismatch(bytes: &[u8], key: &str, version: Version, offset: u64) -> Option<usize> {
    let expected = pattern(key, version, offset, bytes.len());
    bytes.iter().zip(&expected).position(|(found, wanted)| found != wanted)
}

fn seed(key: &str, version: Version) -> u64 {
    let words = [version.epoch.0, version.counter];
    key.bytes().map(u64::from).chain(words).fold(0xCBF2_9CE4_8422_2325, |hash, word| {
        mix((hash ^ word).wrapping_mul(0x0000_0100_0000_01B3))
    })
}

/// The finaliser of splitmix64.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}
