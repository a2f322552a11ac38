use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::debug;

/// Lets this process open as many files as the system allows it: each connection is one, and the usual default of
/// 1024 is less than a large cluster needs.
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
