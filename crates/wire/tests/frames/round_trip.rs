use proptest::prelude::any;
use proptest::prop_assert_eq;

use crate::frame::{decode, split};
use crate::seed::runner;
use crate::strategy;

#[test]
fn any_frame_comes_back_as_it_was() {
    let cases = (any::<u64>(), strategy::frame());
    runner(4000)
        .run(&cases, |(request_id, sent)| {
            let bytes = sent.encode(request_id);
            let (header, body) = split(&bytes);
            prop_assert_eq!(header.request_id, request_id);
            let same = decode(header.kind, body, |received| {
                prop_assert_eq!(received, sent);
                Ok(())
            });
            same.expect("what was encoded can be decoded")
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}
