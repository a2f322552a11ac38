use std::sync::{Arc, Mutex, PoisonError};

use mooncake_types::Epoch;

use super::api::Stored;
use super::lease_object::{LeaseObject, MAX_RECORD_BYTES};
use super::object::Object;
use crate::backend::Term;
use crate::holder::Holder;
use crate::{CoordinatorError, Record};

/// How often a write is tried that finds the object changed, by labels for instance.
const ATTEMPTS: usize = 4;

/// The object that a leader holds.
#[derive(Debug)]
pub(super) struct KubernetesTerm {
    place: Arc<LeaseObject>,
    holder: Holder,
    /// The object as it was last seen, and the record of the last successful write.
    object: Mutex<HeldLease>,
}

#[derive(Debug)]
struct HeldLease {
    object: Object,
    record: Option<String>,
}

impl KubernetesTerm {
    pub(super) fn new(place: Arc<LeaseObject>, holder: Holder, object: Object) -> Self {
        let record = object.record().map(str::to_owned);
        Self { place, holder, object: Mutex::new(HeldLease { object, record }) }
    }

    /// Changes the object, if this leader still holds it. Each change writes the record too, and so undoes an attempt
    /// whose answer was lost, unless that attempt is repeated.
    fn change(
        &self,
        new_record: Option<&str>,
        act: impl Fn(&mut Object),
    ) -> Result<(), CoordinatorError> {
        let mut held = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        let record = new_record.map(str::to_owned).or_else(|| held.record.clone());
        for _ in 0..ATTEMPTS {
            let mut next = held.object.clone();
            act(&mut next);
            if let Some(text) = &record {
                next.set_record(text);
            }
            match self.place.api.replace(&next)? {
                Stored::Done(object) => {
                    *held = HeldLease { object, record };
                    return Ok(());
                }
                Stored::Outdated => held.object = self.look_again()?,
            }
        }
        Err(self.place.api.failed("the object changes all the time"))
    }

    /// The object as it is now, if it is still held.
    fn look_again(&self) -> Result<Object, CoordinatorError> {
        let api = &self.place.api;
        let Some(object) = api.read()? else { return Err(self.deposed("it was removed")) };
        match object.holder().map_err(|reason| api.corrupt(reason))? {
            Some(holder) if holder == self.holder => Ok(object),
            Some(holder) => {
                let reason = format!("{} leads under epoch {}", holder.address, holder.epoch);
                Err(self.deposed(&reason))
            }
            None => Err(self.deposed("nobody holds it")),
        }
    }

    fn deposed(&self, reason: &str) -> CoordinatorError {
        let (epoch, reason) = (Epoch(self.holder.epoch), reason.to_owned());
        CoordinatorError::Deposed { epoch, reason }
    }
}

impl Term for KubernetesTerm {
    fn renew(&self) -> Result<(), CoordinatorError> {
        self.change(None, Object::renew)
    }

    fn write(&self, record: &Record) -> Result<(), CoordinatorError> {
        let text = self.place.encode_record(record)?;
        self.change(Some(&text), Object::renew)
    }

    fn limit_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }

    fn resign(&self) -> Result<(), CoordinatorError> {
        match self.change(None, Object::clear_holder) {
            Err(CoordinatorError::Deposed { .. }) => Ok(()),
            other => other,
        }
    }
}
