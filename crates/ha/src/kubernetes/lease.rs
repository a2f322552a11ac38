use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::KubernetesAccess;
use super::api::{Api, Stored};
use super::lease_object::LeaseObject;
use super::object::Object;
use super::term::KubernetesTerm;
use crate::backend::{Backend, Claim, Claimed, Won};
use crate::{AddressError, CoordinatorError, LeaderView, Options, boot_time};

/// A Lease object that masters compete for.
#[derive(Debug)]
pub(crate) struct Lease {
    place: Arc<LeaseObject>,
    options: Options,
    /// The version of the object that was seen last, and since when it has been seen.
    seen: Mutex<Option<(String, Instant)>>,
}

impl Lease {
    pub(crate) fn new(
        namespace: &str,
        name: &str,
        options: &Options,
    ) -> Result<Self, AddressError> {
        let Some(access) = &options.kubernetes else {
            let reason = "this is no pod, and nothing else says where it is".to_owned();
            return Err(AddressError::Kubernetes { reason });
        };
        let api = api_of(access, namespace, name, options)?;
        let place = LeaseObject { api, cluster_id: options.cluster_id.clone() };
        Ok(Self { place: Arc::new(place), options: options.clone(), seen: Mutex::default() })
    }

    /// Whether the lease is over: the object has not changed for as long as the lease lasts.
    fn is_over(&self, object: &Object) -> bool {
        let now = boot_time::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &*seen {
            Some((version, since)) if version == object.version() => {
                now.duration_since(*since) >= object.lasts()
            }
            _ => {
                *seen = Some((object.version().to_owned(), now));
                false
            }
        }
    }

    fn leader_of(&self, object: &Object) -> Result<Option<LeaderView>, CoordinatorError> {
        let is_over = self.is_over(object);
        let holder = object.holder().map_err(|reason| self.place.api.corrupt(reason))?;
        Ok(holder.filter(|_| !is_over).map(|holder| holder.view()))
    }

    /// Writes the object with this claim in it.
    fn take(&self, claim: &Claim, found: Option<Object>) -> Result<Claimed, CoordinatorError> {
        let api = &self.place.api;
        let is_new = found.is_none();
        let mut object = found.unwrap_or_else(|| Object::new(&api.namespace, &api.name));
        let record = self.place.decode_record(&object)?.succeed(claim.now);
        let holder = claim.holder(record.epoch());
        object.set_holder(&holder, self.options.ttl_seconds());
        object.set_record(&self.place.encode_record(&record)?);
        let asked_at = boot_time::now();
        let stored = if is_new { api.create(&object) } else { api.replace(&object) };
        let now = match stored {
            Ok(Stored::Done(object)) => Some(object),
            Ok(Stored::Outdated) => return Ok(Claimed::Held(None)),
            // Perhaps the object was written, and only the answer was lost.
            Err(error) => match api.read() {
                Ok(now) => now,
                Err(_) => return Err(error),
            },
        };
        match now {
            Some(object) if object.holder().as_ref() == Ok(&Some(holder.clone())) => {
                let term = KubernetesTerm::new(Arc::clone(&self.place), holder, object);
                Ok(Claimed::Won(Won { term: Box::new(term), record, asked_at }))
            }
            _ => Ok(Claimed::Held(None)),
        }
    }
}

fn api_of(
    access: &KubernetesAccess,
    namespace: &str,
    name: &str,
    options: &Options,
) -> Result<Api, AddressError> {
    Api::new(access, namespace, name, options.request_timeout())
}

impl Backend for Lease {
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError> {
        let found = self.place.api.read()?;
        if let Some(object) = &found
            && let Some(view) = self.leader_of(object)?
        {
            return Ok(Claimed::Held(Some(view)));
        }
        self.take(claim, found)
    }

    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError> {
        match self.place.api.read()? {
            Some(object) => self.leader_of(&object),
            None => Ok(None),
        }
    }

    fn poll_every(&self) -> Duration {
        self.options.poll_every()
    }
}
