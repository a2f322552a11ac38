use mooncake_types::host_port::split;
use mooncake_types::limits;

use super::disk::{DISK_SUFFIX, OBJECT_STORE_SUFFIX};
use crate::bind::split_advertised;
use crate::config::StoreConfig;
use crate::hot_cache;
use crate::open_error::OpenError;

const LOCAL_BUFFER_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 40;

/// Refuses a configuration that is wrong on any machine.
pub(super) fn check(config: &StoreConfig) -> Result<(), OpenError> {
    let segment_sizes = limits::MIN_SEGMENT_BYTES..=limits::MAX_MEMORY_SEGMENT_BYTES;
    if config.segment_bytes != 0 && !segment_sizes.contains(&config.segment_bytes) {
        return Err(OpenError::SegmentSize { bytes: config.segment_bytes });
    }
    if config.local_buffer_bytes != 0 && !LOCAL_BUFFER_BYTES.contains(&config.local_buffer_bytes) {
        return Err(OpenError::LocalBufferSize { bytes: config.local_buffer_bytes });
    }
    let hot_cache_bytes = config.hot_cache.bytes;
    if hot_cache_bytes != 0 && !hot_cache::SIZES.contains(&hot_cache_bytes) {
        return Err(OpenError::HotCacheSize { bytes: hot_cache_bytes });
    }
    if config.only_this_host && config.http.is_some() {
        return Err(OpenError::HttpWithoutPort);
    }
    let (first, last) = (*config.ports.start(), *config.ports.end());
    if first == 0 || first > last {
        return Err(OpenError::Ports { first, last });
    }
    let advertised = config.advertise_address.as_deref().unwrap_or_default();
    // A port and its colon are added to the hostname, and a suffix to the name of a disk.
    let disk = match (&config.offload.object_store_url, config.offload.is_enabled) {
        (Some(_), _) => OBJECT_STORE_SUFFIX.len(),
        (None, true) => DISK_SUFFIX.len(),
        (None, false) => 0,
    };
    let names = [
        ("the local hostname", config.local_hostname.len() + ":65535".len() + disk),
        ("the cluster id", config.cluster_id.len()),
        ("the auth token", config.auth_token.len()),
        ("the advertised address", advertised.len() + ":65535".len() + disk),
    ];
    for (what, len) in names {
        if len > limits::MAX_NAME_BYTES {
            return Err(OpenError::NameTooLong { what, len });
        }
    }
    if let Some(address) = &config.advertise_address {
        split_advertised(address)?;
    }
    split(&config.local_hostname).map(|_| ()).map_err(|reason| OpenError::Address {
        what: "the local hostname",
        text: config.local_hostname.clone(),
        reason,
    })
}
