use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mooncake_transfer::TransferError;
use mooncake_types::ErrorCode;
use mooncake_types::host_port::split;
use mooncake_types::limits::MAX_NAME_BYTES;

use crate::PeerError;
use crate::host::Directory;
use crate::metadata::MetadataServer;
use crate::mover::{Mover, Route};

/// Most peers whose route is cached.
const MAX_KNOWN: usize = 65_536;

/// Finds peers by name, and caches their routes.
pub(crate) struct Peers {
    own_name: String,
    own_endpoint: String,
    pub(crate) server: Option<MetadataServer>,
    known: Mutex<HashMap<String, Route>>,
}

impl Peers {
    pub(crate) fn new(
        own_name: String,
        own_endpoint: String,
        server: Option<MetadataServer>,
    ) -> Self {
        Self { own_name, own_endpoint, server, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Route>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The route to a peer. The first call for a name looks it up. Without a metadata server, the peer must then
    /// answer too.
    pub(crate) fn find(&self, mover: &Mover, name: &str) -> Result<Route, PeerError> {
        if name == self.own_name {
            return Ok(Route::Own);
        }
        if let Some(route) = self.known().get(name) {
            return Ok(route.clone());
        }
        let route = self.look_up(name)?;
        if self.server.is_none() {
            self.ask(mover, name, &route)?;
        }
        self.remember(name, &route);
        Ok(route)
    }

    fn look_up(&self, name: &str) -> Result<Route, PeerError> {
        let refuse =
            |reason: &str| PeerError::Name { name: name.to_owned(), reason: reason.to_owned() };
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(refuse("it is empty or too long"));
        }
        let endpoint = match &self.server {
            Some(server) => server.look_up(name)?,
            None => name.to_owned(),
        };
        match split(&endpoint) {
            _ if endpoint == self.own_endpoint => Ok(Route::Own),
            Ok((_, Some(_))) => Ok(Route::At(endpoint.into())),
            Ok((_, None)) => Err(refuse("it names no port")),
            Err(reason) => Err(refuse(reason)),
        }
    }

    /// Reads the peer's directory, which shows that the peer is an engine and answers.
    fn ask(&self, mover: &Mover, name: &str, route: &Route) -> Result<Directory, PeerError> {
        let silent = |source| PeerError::Silent { name: name.to_owned(), source };
        mover.directory(route).map_err(silent)
    }

    fn remember(&self, name: &str, route: &Route) {
        let mut known = self.known();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(name.to_owned(), route.clone());
    }

    /// Reads the peer's directory. If the cached route fails, the name is looked up again.
    pub(crate) fn directory(&self, mover: &Mover, name: &str) -> Result<Directory, PeerError> {
        let route = self.find(mover, name)?;
        if let Ok(directory) = self.ask(mover, name, &route) {
            return Ok(directory);
        }
        // The peer may have moved to another address.
        self.forget(name);
        let route = self.look_up(name)?;
        let directory = self.ask(mover, name, &route)?;
        self.remember(name, &route);
        Ok(directory)
    }

    /// Notes that a transfer with the peer failed. If its route may be wrong, the next call looks the name up again.
    pub(crate) fn note_failure(&self, name: &str, error: &TransferError) {
        use TransferError::{Deserted, Protocol, Refused, TimedOut, Unreachable};
        let elsewhere =
            [ErrorCode::SegmentNotFound, ErrorCode::InvalidParams, ErrorCode::IllegalClient];
        match error {
            Unreachable { .. } | Deserted { .. } | TimedOut { .. } | Protocol { .. } => {
                self.forget(name);
            }
            Refused(code) if elsewhere.contains(code) => self.forget(name),
            _ => {}
        }
    }

    fn forget(&self, name: &str) {
        self.known().remove(name);
    }
}
