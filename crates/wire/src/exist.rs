//! Questions whether objects exist, to the master and to the process that serves a dummy client. The keys are written
//! apart.

use mooncake_types::{ExistOptions, PrefetchLimits};

use crate::generated as proto;

pub(crate) fn from_options(options: ExistOptions) -> proto::ExistKeyRequest {
    let ExistOptions { probe, prefetch } = options;
    proto::ExistKeyRequest {
        keys: Vec::new(),
        probe,
        prefetch: prefetch.is_some(),
        prefetch_cooldown_ms: prefetch.map_or(0, |limits| limits.cooldown_ms),
        prefetch_rest_ms: prefetch.map_or(0, |limits| limits.rest_ms),
    }
}

pub(crate) fn to_options(message: &proto::ExistKeyRequest) -> ExistOptions {
    let limits = PrefetchLimits {
        cooldown_ms: message.prefetch_cooldown_ms,
        rest_ms: message.prefetch_rest_ms,
    };
    ExistOptions { probe: message.probe, prefetch: message.prefetch.then_some(limits) }
}

pub(crate) fn from_prefix(leased_from: u32) -> proto::PrefixLenRequest {
    proto::PrefixLenRequest { keys: Vec::new(), leased_from }
}
