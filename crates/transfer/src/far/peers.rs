use std::io;
use std::sync::Arc;
use std::time::Duration;

use mooncake_connection::Fault;

use super::carrier::Far;
use super::peer::FarPeer;
use crate::peer_ways::{Discovery, Validity};
use crate::{TransferError, client};

/// A node that does not offer this transport is asked again after this long.
const NOT_OFFERED: Duration = Duration::from_secs(300);

/// A node that could not be asked is asked again after this long.
const UNKNOWN: Duration = Duration::from_secs(1);

/// A node that offers this transport, but is not reached by it, is tried again after this long.
const BROKEN: Duration = Duration::from_secs(10);

/// Whether a node is reached one-sided.
#[derive(Clone)]
pub(super) enum FarReach {
    Reached(Arc<FarPeer>),
    NotReached { why: String, retry_after: Duration },
}

impl Discovery for FarReach {
    fn validity(&self) -> Validity {
        match self {
            FarReach::Reached(peer) if peer.is_lost() => Validity::Lost,
            FarReach::Reached(_) => Validity::Reached,
            FarReach::NotReached { retry_after, .. } => Validity::NotReached(*retry_after),
        }
    }
}

impl Far {
    /// Whether a node is reached. Asks it by TCP if that is not known.
    pub(super) fn find(&self, endpoint: &Arc<str>) -> FarReach {
        let too_many = || FarReach::NotReached {
            why: "too many peers are known already".to_owned(),
            retry_after: Duration::ZERO,
        };
        self.peers.find(endpoint, || self.discover(endpoint)).unwrap_or_else(too_many)
    }

    fn discover(&self, endpoint: &Arc<str>) -> FarReach {
        let not = |why, retry_after| FarReach::NotReached { why, retry_after };
        // A new connection: what a node offers may have changed since others were opened.
        let greeted = client::open(endpoint, &self.config, &self.config.dialer());
        let (connection, welcome) = match greeted {
            Ok(greeted) => greeted,
            Err(fault) => {
                let error = TransferError::of_fault(&fault, endpoint);
                return not(error.to_string(), UNKNOWN);
            }
        };
        let Some(offer) = welcome.transports.iter().find(|offer| offer.kind == self.kind) else {
            let offered: Vec<&str> =
                welcome.transports.iter().map(|offer| offer.kind.as_str()).collect();
            let offered =
                if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
            let why = format!("it offers {offered}, and this process has {}", self.kind);
            self.fallbacks.warn(self.way().name(), endpoint, &why);
            return not(why, NOT_OFFERED);
        };
        match FarPeer::meet(endpoint, connection, offer, &self.domain, &self.config) {
            Ok(peer) => FarReach::Reached(Arc::new(peer)),
            Err(why) => {
                self.fallbacks.warn(self.way().name(), endpoint, &why);
                not(why, BROKEN)
            }
        }
    }

    /// As [`Far::lose`]. The fault ends the connection by which the request was begun.
    pub(super) fn fault(&self, peer: &FarPeer, error: &mooncake_fabric::TransferError) -> Fault {
        self.lose(peer, error);
        Fault::Io(io::Error::other(error.to_string()))
    }

    /// A request to a peer failed. The peer is greeted anew at the next call: it may have restarted, or the segment may
    /// have gone. If it did not answer, it is reached by other ways for a while.
    pub(super) fn lose(&self, peer: &FarPeer, error: &mooncake_fabric::TransferError) {
        tracing::debug!(peer = %peer.endpoint(), %error, "a one-sided transfer failed");
        peer.lose();
        if !matches!(error, mooncake_fabric::TransferError::Failed { .. }) {
            let why = error.to_string();
            self.fallbacks.warn(self.way().name(), peer.endpoint(), &why);
            self.peers.replace(peer.endpoint(), FarReach::NotReached { why, retry_after: BROKEN });
        }
    }
}
