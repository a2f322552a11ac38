use std::sync::Arc;

use mooncake_fabric::{DeviceOptions, Domain, Limits, OpenError, VerbsOptions};

/// Which device reaches other hosts one-sided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceWish {
    /// One of libfabric.
    Fabric(DeviceOptions),
    /// NICs of libibverbs.
    Nics {
        /// Which of them.
        nics: VerbsOptions,
        /// The device of libfabric that is taken without such NICs, if any is.
        otherwise: Option<DeviceOptions>,
    },
}

/// Why the protocol `rdma` takes another way.
pub const NO_NIC: &str = "there is no NIC of libibverbs";

impl DeviceWish {
    /// Opens the device. Where another than the first choice is taken, a warning says why.
    ///
    /// # Errors
    /// There is none.
    pub fn open(&self) -> Result<Arc<Domain>, OpenError> {
        let limits = Limits::default();
        match self {
            DeviceWish::Fabric(options) => Domain::open(options, limits),
            DeviceWish::Nics { nics, otherwise } => {
                Domain::open_verbs(nics, limits).or_else(|error| {
                    let Some(options) = otherwise else { return Err(error) };
                    tracing::warn!(%error, "protocol 'rdma': {NO_NIC}, so libfabric is asked");
                    Domain::open(options, limits)
                })
            }
        }
    }
}
