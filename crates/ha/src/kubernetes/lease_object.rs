use super::api::Api;
use super::object::Object;
use crate::{CoordinatorError, Record};

/// Largest record that is written, in bytes: the API server takes 256 KiB of annotations.
pub(super) const MAX_RECORD_BYTES: usize = 240 << 10;

/// The Lease object, and the cluster whose record it holds.
#[derive(Debug)]
pub(super) struct LeaseObject {
    pub(super) api: Api,
    pub(super) cluster_id: String,
}

impl LeaseObject {
    pub(super) fn decode_record(&self, object: &Object) -> Result<Record, CoordinatorError> {
        let Some(text) = object.record() else { return Ok(Record::empty()) };
        Record::decode(text.as_bytes(), &self.cluster_id).map_err(|error| self.api.corrupt(error))
    }

    /// The text of a record, unless it is too long.
    pub(super) fn encode_record(&self, record: &Record) -> Result<String, CoordinatorError> {
        let text = record.encode(&self.cluster_id);
        let (len_bytes, limit_bytes) = (text.len(), MAX_RECORD_BYTES);
        match len_bytes <= limit_bytes {
            true => Ok(text),
            false => {
                let place = format!("an annotation of {:?}", self.api);
                Err(CoordinatorError::Full { place, len_bytes, limit_bytes })
            }
        }
    }
}
