/// Why a request that could be decoded is invalid. The host cuts off the dummy that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request of a dummy client makes no sense: {0}")]
pub(super) struct Malformed(pub(super) &'static str);
