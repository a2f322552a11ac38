use std::path::PathBuf;

use mooncake_transfer::{EnvError, Variables};

const PATH: &str = "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH";
const MOST_BYTES: &str = "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES";
const BUFFER_BYTES: &str = "MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES";
const MOST_USED: &str = "MOONCAKE_OFFLOAD_DISK_EVICTION_HIGH_WATERMARK_RATIO";
const OBJECT_STORE: &str = "MOONCAKE_OBJECT_STORE_URL";
const OBJECT_STORE_BYTES: &str = "MOONCAKE_OBJECT_STORE_SIZE_BYTES";
const BACKEND: &str = "MOONCAKE_OFFLOAD_STORAGE_BACKEND_DESCRIPTOR";

/// The C++ package's names for its ways to keep objects in a folder. Here all of them mean the same way.
const BACKENDS: [&str; 3] =
    ["bucket_storage_backend", "file_per_key_storage_backend", "offset_allocator_storage_backend"];

/// The disk that a node lends beside its memory. Objects sink to it if memory has no room, and the master is set to
/// offload.
#[derive(Clone, Debug, PartialEq)]
pub struct OffloadConfig {
    /// Whether a disk is lent.
    pub is_enabled: bool,
    /// The folder. Each process that lends a disk has its own folder in it.
    pub path: PathBuf,
    /// Most bytes that the process keeps there.
    pub most_bytes: u64,
    /// The part of the filesystem that may be in use, with files of others, above zero and at most 1. It is checked
    /// when the disk is first lent.
    pub most_used: f64,
    /// Most bytes of staging memory for reads and writes of the disk.
    pub buffer_bytes: u64,
    /// An object store and a prefix in it: `s3://BUCKET/PREFIX`, `gs://...`, `az://...` or `file:///FOLDER`. Each
    /// process that lends memory has its own part of it, whether or not it lends a disk.
    pub object_store_url: Option<String>,
    /// Most bytes of objects that the process keeps there.
    pub object_store_bytes: u64,
}

impl Default for OffloadConfig {
    fn default() -> Self {
        Self {
            is_enabled: false,
            path: PathBuf::from("/data/file_storage"),
            most_bytes: 2 << 40,
            most_used: 0.9,
            buffer_bytes: 1280 << 20,
            object_store_url: None,
            object_store_bytes: 1 << 40,
        }
    }
}

impl OffloadConfig {
    /// The defaults, changed by environment variables.
    pub(crate) fn from_variables(
        variables: &Variables<impl Fn(&str) -> Option<String>>,
    ) -> Result<Self, EnvError> {
        let mut config = Self::default();
        config.is_enabled = variables.switch("MOONCAKE_OFFLOAD_ENABLED")?.unwrap_or_default();
        config.path = variables.text(PATH).map_or(config.path, PathBuf::from);
        // Some scripts write zero for no limit.
        let bytes = |value: &str| value.parse().ok().filter(|&it| it == 0 || it >= LEAST_BYTES);
        for (name, limit) in [
            (MOST_BYTES, &mut config.most_bytes),
            (BUFFER_BYTES, &mut config.buffer_bytes),
            (OBJECT_STORE_BYTES, &mut config.object_store_bytes),
        ] {
            let wanted = "a whole number of bytes, at least 16777216";
            let found = variables.parse(name, wanted, bytes)?;
            *limit = found.filter(|&bytes| bytes > 0).unwrap_or(*limit);
        }
        config.object_store_url = variables.text(OBJECT_STORE);
        let ratio = |value: &str| value.parse().ok().filter(|&it: &f64| it > 0.0 && it <= 1.0);
        let most_used = variables.parse(MOST_USED, "a number above 0 and at most 1", ratio)?;
        config.most_used = most_used.unwrap_or(config.most_used);
        let wanted = "bucket_storage_backend, file_per_key_storage_backend or \
                      offset_allocator_storage_backend, which all mean the same here";
        let backend = |value: &str| BACKENDS.contains(&value).then_some(());
        variables.parse(BACKEND, wanted, backend)?;
        Ok(config)
    }
}

/// The smallest disk, and the least staging memory, in bytes.
pub(crate) const LEAST_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::StoreConfig;

    fn with(variables: &[(&str, &str)]) -> Result<OffloadConfig, EnvError> {
        let config = StoreConfig::from_variables(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        config.map(|config| config.offload)
    }

    #[test]
    fn every_variable_is_taken() {
        let config = with(&[
            ("MOONCAKE_OFFLOAD_ENABLED", "true"),
            (PATH, "/nvme"),
            (MOST_BYTES, "107374182400"),
            (BUFFER_BYTES, "67108864"),
            (MOST_USED, "0.5"),
            (BACKEND, "offset_allocator_storage_backend"),
            (OBJECT_STORE, "s3://bucket/prefix"),
            (OBJECT_STORE_BYTES, "1073741824"),
        ]);
        let expected = OffloadConfig {
            is_enabled: true,
            path: PathBuf::from("/nvme"),
            most_bytes: 100 << 30,
            most_used: 0.5,
            buffer_bytes: 64 << 20,
            object_store_url: Some("s3://bucket/prefix".to_owned()),
            object_store_bytes: 1 << 30,
        };
        assert_eq!(config, Ok(expected));
        assert_eq!(with(&[(MOST_BYTES, "0")]), Ok(OffloadConfig::default()));
    }

    #[test]
    fn values_that_make_no_sense_are_named() {
        for (name, value) in [
            ("MOONCAKE_OFFLOAD_ENABLED", "perhaps"),
            (MOST_BYTES, "1 GB"),
            (MOST_BYTES, "4096"),
            (BUFFER_BYTES, "-1"),
            (MOST_USED, "0"),
            (MOST_USED, "1.5"),
            (MOST_USED, "nan"),
            (BACKEND, "nvme_kv_storage_backend"),
        ] {
            let error = with(&[(name, value)]).expect_err(name);
            assert_eq!((error.name, error.value.as_str()), (name, value));
        }
    }
}
