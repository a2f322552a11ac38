use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::timestamp;
use crate::holder::Holder;

/// The annotation with the leader.
const HOLDER: &str = "mooncake.io/leader";

/// The annotation with the membership record.
const RECORD: &str = "mooncake.io/membership";

/// The longest lease that is believed, in seconds.
const LONGEST_SECONDS: u64 = 3600;

/// A Lease object. Keeps what other programs have written into it, such as labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    json: Value,
}

impl Object {
    /// An object without a holder.
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        let json = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace, "annotations": {}},
            "spec": {},
        });
        Self { json }
    }

    /// The object that an API server sent.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(text)
            .map_err(|error| format!("its answer is not that of an API server ({error})"))?;
        let object = Self { json };
        match object.json["kind"] == "Lease" && !object.version().is_empty() {
            true => Ok(object),
            false => Err("its answer is no Lease with a version".to_owned()),
        }
    }

    pub(super) fn json(&self) -> &Value {
        &self.json
    }

    /// The version of the object, which every change replaces.
    pub(super) fn version(&self) -> &str {
        self.json["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }

    /// Its holder, if there is one.
    ///
    /// # Errors
    /// It is held, but not by this program.
    pub(super) fn holder(&self) -> Result<Option<Holder>, String> {
        let identity = self.json["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let text = self.annotation(HOLDER).unwrap_or_default();
        if identity.is_empty() {
            return Ok(None);
        }
        Holder::decode(text.as_bytes()).map(Some)
    }

    /// How long its holder may keep it without renewing it.
    pub(super) fn lasts(&self) -> Duration {
        let seconds = self.json["spec"]["leaseDurationSeconds"].as_u64().unwrap_or(LONGEST_SECONDS);
        Duration::from_secs(seconds.clamp(1, LONGEST_SECONDS))
    }

    /// The text of the record.
    pub(super) fn record(&self) -> Option<&str> {
        self.annotation(RECORD)
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        self.json["metadata"]["annotations"][name].as_str()
    }

    pub(super) fn set_record(&mut self, text: &str) {
        part(part(&mut self.json, "metadata"), "annotations")[RECORD] = text.into();
    }

    /// Sets the holder, from now on.
    pub(super) fn set_holder(&mut self, holder: &Holder, lasts_seconds: u64) {
        part(part(&mut self.json, "metadata"), "annotations")[HOLDER] = holder.encode().into();
        let spec = part(&mut self.json, "spec");
        let transitions = spec["leaseTransitions"].as_u64().unwrap_or(0);
        spec["holderIdentity"] = holder.address.clone().into();
        spec["leaseDurationSeconds"] = lasts_seconds.into();
        spec["leaseTransitions"] = transitions.saturating_add(1).into();
        spec["acquireTime"] = timestamp::format(SystemTime::now()).into();
        self.renew();
    }

    /// Renews the lease.
    pub(super) fn renew(&mut self) {
        part(&mut self.json, "spec")["renewTime"] = timestamp::format(SystemTime::now()).into();
    }

    /// Removes the holder.
    pub(super) fn clear_holder(&mut self) {
        part(&mut self.json, "spec")["holderIdentity"] = "".into();
    }
}

/// A part of an object that is itself an object. Made if it is missing or something else.
fn part<'a>(json: &'a mut Value, name: &str) -> &'a mut Value {
    if !json.is_object() {
        *json = Value::Object(Map::new());
    }
    let part = &mut json[name];
    if !part.is_object() {
        *part = Value::Object(Map::new());
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder { address: "h:1".to_owned(), epoch: 7, token: "t".to_owned() }
    }

    #[test]
    fn an_object_tells_what_was_set() {
        let mut object = Object::new("kv", "master");
        assert_eq!((object.holder(), object.record(), object.version()), (Ok(None), None, ""));
        object.set_holder(&holder(), 5);
        object.set_record("members");
        assert_eq!(object.holder(), Ok(Some(holder())));
        assert_eq!((object.lasts(), object.record()), (Duration::from_secs(5), Some("members")));
        object.clear_holder();
        assert_eq!((object.holder(), object.record()), (Ok(None), Some("members")));
    }

    #[test]
    fn what_others_wrote_stays() {
        let text = r#"{"kind":"Lease","metadata":{"resourceVersion":"3","labels":{"a":"b"},
            "annotations":{"theirs":"x"}},"spec":{"strategy":"s","leaseTransitions":4}}"#;
        let mut object = Object::parse(text.as_bytes()).expect("a lease");
        object.set_holder(&holder(), 5);
        let json = object.json();
        assert_eq!(json["metadata"]["labels"]["a"], "b");
        assert_eq!(json["metadata"]["annotations"]["theirs"], "x");
        assert_eq!(json["spec"]["strategy"], "s");
        assert_eq!(json["spec"]["leaseTransitions"], 5);
        assert_eq!(object.version(), "3");
    }

    #[test]
    fn odd_objects_do_no_harm() {
        for (text, reason) in [
            ("", "not that of an API server"),
            ("[1]", "no Lease with a version"),
            (r#"{"kind":"Status"}"#, "no Lease with a version"),
            (r#"{"kind":"Lease","metadata":[]}"#, "no Lease with a version"),
        ] {
            let refused = Object::parse(text.as_bytes()).expect_err(text);
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        let text = r#"{"kind":"Lease","metadata":{"resourceVersion":"3","annotations":[1]},
            "spec":{"leaseDurationSeconds":-5,"holderIdentity":"someone"}}"#;
        let mut object = Object::parse(text.as_bytes()).expect("a lease");
        assert!(object.holder().is_err());
        assert_eq!(object.lasts(), Duration::from_secs(LONGEST_SECONDS));
        object.set_holder(&holder(), 5);
        assert_eq!(object.holder(), Ok(Some(holder())));
    }
}
