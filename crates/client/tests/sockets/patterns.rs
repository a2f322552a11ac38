use mooncake_client::ErrorCode;
use mooncake_testing::logged;
use mooncake_types::limits;

use crate::master::Master;
use crate::rig::{open, put};

#[test]
fn a_pattern_that_is_refused_is_named_in_the_log() {
    let master = Master::start();
    let store = open(&master, 1 << 20);
    assert_eq!(put(&store, "key", 10, 1), Ok(()));
    let broken = format!("(\n{}", "\u{e9}".repeat(100));
    let too_long = "a".repeat(limits::MAX_REGEX_BYTES + 1);
    for (pattern, shown) in [
        ("(?=key)", "(?=key)".to_owned()),
        (r"(k)\1", r"(k)\\1".to_owned()),
        (broken.as_str(), format!("(\\n{}", "\u{e9}".repeat(78))),
        (too_long.as_str(), "a".repeat(80)),
    ] {
        let warning = format!(
            " WARN the pattern was refused: it does not parse, is longer than 4096 bytes, or needs look-around or \
             back-references, which matching in linear time excludes pattern=\"{shown}\"\n"
        );
        let refused = ErrorCode::InvalidParams;
        let removing = || assert_eq!(store.remove_by_regex(pattern, true), Err(refused));
        assert_eq!(logged(removing), warning);
        let listing = || assert_eq!(store.list_by_regex(pattern).err(), Some(refused));
        assert_eq!(logged(listing), warning);
    }
    let fine = || assert_eq!(store.list_by_regex("^k").map(|found| found.len()), Ok(1));
    assert_eq!(logged(fine), "");
    let all = || assert_eq!(store.remove_all(true), Ok(1));
    assert_eq!(logged(all), "");
}
