/// What is wrong with a request that can be read. The dummy that sends it is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request of a dummy client makes no sense: {0}")]
pub(super) struct Malformed(pub(super) &'static str);
