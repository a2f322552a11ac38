//! The segments of a pool, as its master lists them for operators.

use mooncake_client::{SegmentId, parse_segment_id};
use mooncake_http::admin::{self, AdminError};
use serde::Deserialize;

/// Most segments that are examined.
const MAX_SEGMENTS: usize = 4096;

/// A segment and where it is reached.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: SegmentId,
    pub(super) name: String,
    pub(super) endpoint: String,
    pub(super) len_bytes: u64,
    /// The failure domains that its node named.
    pub(super) domains: Vec<String>,
}

/// Why they are not known.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ListError {
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("http://{address} does not answer as a master does: {reason}")]
    Malformed { address: String, reason: String },
}

#[derive(Deserialize)]
struct SegmentList {
    segments: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    segment_name: String,
    segment_id: String,
    te_endpoint: String,
    size_bytes: u64,
    #[serde(default)]
    medium: String,
    /// Earlier masters list none.
    #[serde(default)]
    domains: Vec<String>,
}

/// The segments of the pool whose master serves admin HTTP at this address.
pub(super) fn list(address: &str) -> Result<Vec<Listed>, ListError> {
    let text = admin::get(address, "/get_segments_detail")?;
    read(&text).map_err(|reason| ListError::Malformed { address: address.to_owned(), reason })
}

fn read(text: &str) -> Result<Vec<Listed>, String> {
    let answer: SegmentList = serde_json::from_str(text).map_err(|error| error.to_string())?;
    // What lies on a disk is reached through its node, whose memory is examined.
    let is_memory = |row: &Row| row.medium.is_empty() || row.medium == "memory";
    let in_memory = answer.segments.into_iter().filter(is_memory);
    let listed = in_memory.take(MAX_SEGMENTS).map(|row| {
        let id = parse_segment_id(&row.segment_id);
        let id = id.map_err(|_| format!("{:?} is no id of a segment", row.segment_id))?;
        let (name, endpoint, domains) = (row.segment_name, row.te_endpoint, row.domains);
        Ok(Listed { id, name, endpoint, len_bytes: row.size_bytes, domains })
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_master_lists_is_read() {
        let text = r#"{"total_segments":1,"segments":[{"segment_name":"a:1","segment_id":
            "0000000000000000000000000000002a","client_id":"7","size_bytes":1024,"te_endpoint":"b:2"},
            {"segment_name":"a:1","segment_id":"0000000000000000000000000000002b","medium":"disk",
            "size_bytes":4096,"te_endpoint":"b:2"},
            {"segment_name":"a:1","segment_id":"0000000000000000000000000000002d",
            "medium":"object store","size_bytes":4096,"te_endpoint":"b:2"},
            {"segment_name":"c:1","segment_id":"0000000000000000000000000000002c","medium":"memory",
            "size_bytes":4096,"te_endpoint":"c:2","domains":["rack=r7","zone=east"]}]}"#;
        let expected = Listed {
            id: SegmentId(42),
            name: "a:1".into(),
            endpoint: "b:2".into(),
            len_bytes: 1024,
            domains: vec![],
        };
        let in_rack = Listed {
            id: SegmentId(44),
            name: "c:1".into(),
            endpoint: "c:2".into(),
            len_bytes: 4096,
            domains: vec!["rack=r7".into(), "zone=east".into()],
        };
        assert_eq!(read(text), Ok(vec![expected, in_rack]));
        assert_eq!(read(r#"{"segments":[]}"#), Ok(vec![]));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["", "ok", "[]", r#"{"segments":[{}]}"#] {
            assert!(read(text).is_err(), "{text}");
        }
        let text = r#"{"segments":[{"segment_name":"a","segment_id":"x","te_endpoint":"b","size_bytes":1}]}"#;
        assert_eq!(read(text), Err(r#""x" is no id of a segment"#.to_owned()));
    }
}
