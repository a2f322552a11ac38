//! Finds the leading master, for programs that need no more than that.

use std::sync::Arc;
use std::time::Duration;

use mooncake_ha::Options;
use mooncake_tls::Tls;
use mooncake_types::{ClientId, SharedDirectory, without_password};
use mooncake_wire::{Hello, Role};

use crate::address::{MasterAddress, MasterEndpoint};
use crate::config::StoreConfig;
use crate::open_error::OpenError;
use crate::random::random;
use crate::rpc::{DialError, Dialer, Masters};

/// Longest attempt to connect to one address.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(2);

/// The leading master.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLeader {
    /// Its address, `host:port`.
    pub address: String,
    /// The directory in which its nodes keep objects as files, if they do.
    pub shared_directory: Option<SharedDirectory>,
}

/// Finds the leading master: the first of a list that says it leads, or the one that the coordinator names. Tries
/// each address once.
///
/// # Errors
/// [`OpenError::NoLeader`] with the answer of each master, [`OpenError::Refused`], or an address that is invalid.
pub fn find_leader(config: &StoreConfig) -> Result<FoundLeader, OpenError> {
    let masters = Arc::new(masters(config)?);
    let hello = Hello {
        cluster_id: config.cluster_id.clone(),
        auth_token: config.auth_token.clone(),
        ..Hello::new(Role::Client, ClientId(random()?))
    };
    let dialer = Dialer {
        attempt_timeout: config.rpc_connect_timeout.min(LONGEST_ATTEMPT),
        call_timeout: config.rpc_timeout,
        ..Dialer::new(Arc::clone(&masters), hello, Duration::ZERO)
    }
    .with_tls(Tls::of(&config.tls)?);
    let mut reasons = Vec::new();
    for address in 0..masters.count() {
        let dialed = dialer.dial(address, Duration::MAX);
        match dialed.map(|(connection, _)| connection.peer_addr()) {
            Ok(Some(leader)) => {
                let shared_directory = masters.shared_directory();
                return Ok(FoundLeader { address: leader.to_string(), shared_directory });
            }
            Ok(None) => reasons.push("it is behind a local socket".to_owned()),
            Err(DialError::Refused { address, code, message }) => {
                return Err(OpenError::Refused { master: address, code, message });
            }
            Err(error) => reasons.push(error.to_string()),
        }
    }
    let (master, reason) = (without_password(&config.master), reasons.join("; "));
    Err(OpenError::NoLeader { master, reason })
}

/// The masters that the configuration names.
pub(crate) fn masters(config: &StoreConfig) -> Result<Masters, OpenError> {
    let name = match MasterAddress::parse(&config.master)? {
        MasterAddress::Listed(addresses) => {
            return Ok(Masters::listed(addresses.into_iter().map(MasterEndpoint::Port).collect()));
        }
        MasterAddress::Local(name) if config.only_this_host => {
            return Ok(Masters::listed(vec![MasterEndpoint::Local(name)]));
        }
        MasterAddress::Local(name) => {
            let reason = "a local socket is for stores that only their own host reaches";
            return Err(OpenError::Address { what: "the master", text: name, reason });
        }
        MasterAddress::Elected(name) => name,
    };
    let kubernetes = config.kubernetes.clone();
    let options = Options { kubernetes, ..Options::new(&config.cluster_id) };
    let coordinator = mooncake_ha::connect(&name, &options)
        .map_err(|error| OpenError::Coordinator { reason: error.to_string() })?;
    Ok(Masters::elected(coordinator, without_password(&name), config.only_this_host))
}
