use std::path::{Path, PathBuf};

use mooncake_client::OpenError;

const SCHEME: &str = "local://";

/// The address of a pool of one host, given in place of a master's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPoolAddress {
    folder: Option<PathBuf>,
}

impl HostPoolAddress {
    /// A pool of one process.
    pub const OF_ONE_PROCESS: Self = Self { folder: None };

    /// Parses `local://`, a pool of one process, or `local:///folder`, a pool of all processes that name the folder.
    /// The path must be absolute. `None` if the text is a master's address.
    ///
    /// # Errors
    /// If the path is relative.
    pub fn parse(master: &str) -> Result<Option<Self>, OpenError> {
        let Some(path) = master.trim().strip_prefix(SCHEME) else { return Ok(None) };
        match path {
            "" => Ok(Some(Self { folder: None })),
            path if path.starts_with('/') => Ok(Some(Self { folder: Some(PathBuf::from(path)) })),
            _ => Err(OpenError::Address {
                what: "the master",
                text: master.to_owned(),
                reason: "a folder must follow local:// with its whole path, which begins with a slash",
            }),
        }
    }

    /// The folder of the pool; `None` for a pool of one process.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_of_one_process_or_of_a_folder() {
        let pool = |folder: Option<&str>| HostPoolAddress { folder: folder.map(PathBuf::from) };
        for (text, expected) in [
            ("local://", Some(pool(None))),
            (" local:///dev/shm/a pool ", Some(pool(Some("/dev/shm/a pool")))),
            ("file:///dev/shm/pool", None),
            ("127.0.0.1:50051", None),
            ("", None),
        ] {
            assert_eq!(HostPoolAddress::parse(text), Ok(expected), "{text}");
        }
        for text in ["local://pool", "local://./pool", "local://host/pool"] {
            assert!(HostPoolAddress::parse(text).is_err(), "{text}");
        }
    }
}
