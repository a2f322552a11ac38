//! The place of the quotas.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fmt, process};

use mooncake_ha::{Values, ValuesLogin};
use mooncake_types::without_password;
use thiserror::Error;

use super::{Quotas, policy};

/// Most bytes that are read of a file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// How long one request to a coordinator may take.
const PATIENCE: Duration = Duration::from_secs(4);

/// Where the quotas of tenants are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaSource {
    /// In a YAML file. All masters of a pool need the same one.
    File(PathBuf),
    /// Under a key of etcd or Redis.
    Value {
        /// The address, `etcd://...` or `redis://...`.
        address: String,
        /// The key.
        key: String,
    },
}

/// The quotas cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("quotas of tenants in {place}: {reason}")]
pub struct QuotaSourceError {
    /// The file, or the address and the key.
    pub place: String,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for QuotaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Value { address, key } => write!(f, "{key} at {}", without_password(address)),
        }
    }
}

impl QuotaSource {
    /// The quotas. There are none under a key that does not exist; a file must exist.
    pub(super) fn read(&self) -> Result<Quotas, QuotaSourceError> {
        let text = match self {
            Self::File(path) => Some(read_file(path).map_err(|error| self.error(&error))?),
            Self::Value { address, key } => self.value(address, |values| values.get(key))?,
        };
        let Some(text) = text else { return Ok(Quotas::new()) };
        let text = String::from_utf8(text).map_err(|error| self.error(&error))?;
        policy::parse(&text).map_err(|reason| self.error(&reason))
    }

    pub(super) fn write(&self, quotas: &Quotas) -> Result<(), QuotaSourceError> {
        let text = policy::format(quotas);
        match self {
            Self::File(path) => replace(path, text.as_bytes()).map_err(|error| self.error(&error)),
            Self::Value { address, key } => self.value(address, |values| values.put(key, &text)),
        }
    }

    fn value<T, E: fmt::Display>(
        &self,
        address: &str,
        call: impl FnOnce(&Values) -> Result<T, E>,
    ) -> Result<T, QuotaSourceError> {
        let values = Values::connect(address, &ValuesLogin::default(), PATIENCE);
        call(&values.map_err(|error| self.error(&error))?).map_err(|error| self.error(&error))
    }

    fn error(&self, reason: &impl fmt::Display) -> QuotaSourceError {
        QuotaSourceError { place: self.to_string(), reason: reason.to_string() }
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= MAX_FILE_BYTES {
        true => Ok(bytes),
        false => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

/// Replaces a file as a whole, and keeps its permissions: after a crash it is the old one or the new one.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let by_way_of = path.with_added_extension(format!("new.{}", process::id()));
    let mut file = File::create(&by_way_of)?;
    let written = file
        .set_permissions(fs::metadata(path)?.permissions())
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&by_way_of, path));
    if written.is_err() {
        // The error of the write is told, not that of cleaning up.
        let _ = fs::remove_file(&by_way_of);
    }
    written
}

#[cfg(test)]
mod tests {
    use mooncake_meta::TenantQuota;
    use mooncake_types::Tenant;

    use super::*;

    #[test]
    fn a_file_that_was_written_reads_the_same_and_a_missing_one_is_an_error() {
        let folder = std::env::temp_dir().join(format!("mooncake-quotas-{}", process::id()));
        fs::create_dir_all(&folder).expect("folders can be made");
        let path = folder.join("quotas.yaml");
        let source = QuotaSource::File(path.clone());
        let missing = source.read().expect_err("there is no file");
        assert!(missing.to_string().contains("quotas.yaml"), "{missing}");
        fs::write(&path, "version: 1\ntenants: []\n").expect("the folder takes files");
        let tenant = Tenant::named("blue").expect("a name");
        let quotas = Quotas::from([(tenant, TenantQuota::of_bytes(7))]);
        source.write(&quotas).expect("the file can be replaced");
        assert_eq!(source.read(), Ok(quotas));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
        fs::remove_dir_all(&folder).expect("it is ours");
    }

    #[test]
    fn passwords_are_not_shown() {
        let address = "redis://:secret@127.0.0.1:1".to_owned();
        let source = QuotaSource::Value { address, key: "k".to_owned() };
        let error = source.read().expect_err("nobody listens on port 1").to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
