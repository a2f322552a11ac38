use std::path::{Path, PathBuf};

use mooncake_ha::{StateFile, StateFileError};
use tracing::{info, warn};

use super::term::Term;

/// The file's name in its folder.
const FILE: &str = "members.json";

/// The one term of a master without rivals that keeps its record below a folder. Its epoch is higher than the recorded
/// one and than the clock's. If nothing can be written there and there is no record, the record lasts as long as the master.
///
/// # Errors
/// There is a record that cannot be used.
pub(crate) fn term(
    state_dir: &Path,
    cluster_id: &str,
    rpc_port: u16,
) -> Result<Term, StateFileError> {
    let path = file(state_dir, cluster_id, rpc_port);
    match StateFile::lead(&path, cluster_id) {
        Ok(leadership) => {
            let members = leadership.record().members().len();
            info!(state_file = %path.display(), members, "the membership record is kept");
            Ok(Term::new(leadership))
        }
        // What an existing record says must not be passed over: nodes that it has struck would be believed again.
        Err(error @ StateFileError::Unusable { .. }) if !path.exists() => {
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

/// Where the record of a master lies. Names that are no plain ones of a folder are refused by whoever reads there.
fn file(state_dir: &Path, cluster_id: &str, rpc_port: u16) -> PathBuf {
    state_dir.join(cluster_id).join(rpc_port.to_string()).join(FILE)
}
