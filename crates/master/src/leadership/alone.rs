use std::path::{Path, PathBuf};

use mooncake_ha::{StateFile, StateFileError};
use tracing::{info, warn};

use super::config::StateDir;
use super::term::Term;

/// The file's name in its folder.
const FILE: &str = "members.json";

/// The only term of a master without rivals, with its record in a folder below `state_dir`. Its epoch is higher than
/// the recorded one and the clock's. If there is no record, none can be written, and none is required, the record
/// lasts as long as the master.
///
/// # Errors
/// There is a record that cannot be used, or one is required and cannot be written.
pub(crate) fn term(
    state_dir: &StateDir,
    cluster_id: &str,
    rpc_port: u16,
) -> Result<Term, StateFileError> {
    let path = file(&state_dir.folder, cluster_id, rpc_port);
    match StateFile::lead(&path, cluster_id) {
        Ok(leadership) => {
            let members = leadership.record().members().len();
            info!(state_file = %path.display(), members, "the membership record is kept");
            Ok(Term::new(leadership))
        }
        // An existing record must not be ignored: the nodes that it has struck would be believed again.
        Err(error @ StateFileError::Unusable { .. })
            if !state_dir.is_required && !path.exists() =>
        {
            warn!(
                %error,
                "the membership record is not kept: after a restart of this master, a node that could not be reached \
                 before may bring back objects that were removed or replaced; name another folder with --state_dir"
            );
            Ok(Term::unrecorded())
        }
        Err(error) => Err(error),
    }
}

/// The path of a master's record. [`StateFile::lead`] refuses names that are not plain file names.
fn file(state_dir: &Path, cluster_id: &str, rpc_port: u16) -> PathBuf {
    state_dir.join(cluster_id).join(rpc_port.to_string()).join(FILE)
}
