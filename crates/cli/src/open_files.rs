use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::debug;

/// Raises the limit of open files to the system's maximum. Each connection needs one, and the usual limit of 1024 is
/// too low for a large cluster.
pub(crate) fn allow_many() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => debug!(from = limit.current, to = limit.maximum, "more open files allowed"),
        Err(error) => debug!(%error, "the limit of open files stays as it is"),
    }
}
