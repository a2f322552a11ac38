//! The folder that the processes of a pool share.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use mooncake_client::OpenError;
use mooncake_connection::LOCAL_MARK;
use mooncake_ha::Options;
use mooncake_memory::own_uid;
use rustix::fs::{Access, access};

/// How long a paused leader keeps the leadership. If the leader dies, others take over at once.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// The address of the folder's coordinator. Makes the folder if it is missing, and checks that it can be used.
///
/// # Errors
/// [`OpenError::PoolFolder`] if the folder belongs to another user, is open to other users, is not writable, or has a
/// master on the network. [`OpenError::Coordinator`] if it holds anything else.
pub(crate) fn coordinator(folder: &Path, cluster_id: &str) -> Result<String, OpenError> {
    prepare(folder).map_err(|reason| unusable(folder, reason))?;
    let text = folder.to_str().ok_or_else(|| unusable(folder, "it is not UTF-8".to_owned()))?;
    let address = format!("file://{text}");
    let options = Options { ttl: LEASE, ..Options::new(cluster_id) };
    let refused = |reason: String| OpenError::Coordinator { reason };
    let coordinator = mooncake_ha::connect(&address, &options);
    let coordinator = coordinator.map_err(|error| refused(error.to_string()))?;
    match coordinator.leader().map_err(|error| refused(error.to_string()))? {
        Some(leader) if !leader.address.starts_with(LOCAL_MARK) => {
            let reason = format!("the master at {} leads there, on the network", leader.address);
            Err(unusable(folder, reason))
        }
        _ => Ok(address),
    }
}

fn unusable(folder: &Path, reason: String) -> OpenError {
    OpenError::PoolFolder { path: folder.display().to_string(), reason }
}

/// Makes the folder for this user only, and checks its owner and permissions.
fn prepare(folder: &Path) -> Result<(), String> {
    let said = |error: io::Error| error.to_string();
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(said)?;
    let (found, own) = (fs::metadata(folder).map_err(said)?, own_uid());
    if found.uid() != own {
        return Err(format!(
            "it belongs to user {}, and this process to user {own}: only processes of one user share memory",
            found.uid()
        ));
    }
    if is_open_to_others(&found) {
        return Err("other users may write to it; take that from them with chmod go-w".to_owned());
    }
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    access(folder, wanted).map_err(|error| said(error.into()))
}

fn is_open_to_others(found: &Metadata) -> bool {
    found.mode() & 0o022 != 0
}
