//! Collects the attributes of an object for a later leader.

use mooncake_types::PutMode;

use super::attributes::Attributes;
use crate::Meta;
use crate::objects::{ObjectState, Pin};

impl Meta {
    /// The encoded attributes that travel with the writes of an object.
    pub(crate) fn attributes_of(&self, object: u32) -> Vec<u8> {
        let record = &self.objects[object];
        // A running upsert takes over the pin of the object that it will replace.
        let holder = (record.asked.mode() == PutMode::Upsert
            && record.state == ObjectState::Waiting)
            .then(|| self.find(&record.key))
            .flatten()
            .filter(|&holder| self.objects[holder].state == ObjectState::Complete);
        let pinned = match holder {
            Some(holder) if self.objects[holder].pin == Pin::Hard => holder,
            Some(holder) if record.pin == Pin::Inherited => holder,
            _ => object,
        };
        let soft_pin = self.soft_pins.asked(pinned);
        let hard_pin = self.objects[pinned].pin == Pin::Hard;
        Attributes {
            hard_pin,
            soft_pin: soft_pin.filter(|_| !hard_pin),
            data_type: record.data_type,
            group: self.group_name(object).unwrap_or_default(),
            replaces: record.state == ObjectState::Waiting
                || self.recovery.missing().len() > 0
                || self.is_replacing(object)
                || !self.tombstones.leased().of_key(&record.key).is_empty()
                || self.tombstones.len() > 0
                    && self.tombstones.of_key(self.index.hash(&record.key)).next().is_some(),
            replicas: record.asked.replicas(),
        }
        .encode()
    }
}
