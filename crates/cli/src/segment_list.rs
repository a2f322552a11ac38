//! The segments of a pool, as its master lists them for operators.

use mooncake_client::{SegmentId, parse_segment_id};
use mooncake_http::admin::{self, AdminError};
use serde::Deserialize;

/// A segment, as the master reports it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListedSegment {
    pub(crate) id: SegmentId,
    pub(crate) name: String,
    /// The address at which its node serves reads and writes, `host:port`.
    pub(crate) endpoint: String,
    /// `memory`, `disk`, `shared disk` or `object store`.
    pub(crate) medium: String,
    /// The state in capitals, like `OK` or `DRAINING`.
    pub(crate) state: String,
    /// Whether its node pings.
    pub(crate) is_in_sight: bool,
    /// Whether the master reaches its endpoint.
    pub(crate) is_reachable: bool,
    pub(crate) used_bytes: u64,
    pub(crate) len_bytes: u64,
    /// The failure domains that its node declared.
    pub(crate) domains: Vec<String>,
}

impl ListedSegment {
    pub(crate) fn is_memory(&self) -> bool {
        self.medium == "memory"
    }
}

/// Why the segments could not be listed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListError {
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
    allocator_used_bytes: u64,
    #[serde(default = "memory")]
    medium: String,
    #[serde(default)]
    status: String,
    #[serde(default = "yes")]
    in_sight: bool,
    #[serde(default = "yes")]
    reachable: bool,
    /// Masters of earlier releases list none.
    #[serde(default)]
    domains: Vec<String>,
}

fn memory() -> String {
    "memory".to_owned()
}

fn yes() -> bool {
    true
}

/// The segments that the master with this admin server lists.
pub(crate) fn list(address: &str) -> Result<Vec<ListedSegment>, ListError> {
    let text = admin::get(address, "/get_segments_detail")?;
    read(&text).map_err(|reason| ListError::Malformed { address: address.to_owned(), reason })
}

fn read(text: &str) -> Result<Vec<ListedSegment>, String> {
    let answer: SegmentList = serde_json::from_str(text).map_err(|error| error.to_string())?;
    answer.segments.into_iter().map(ListedSegment::try_from).collect()
}

impl TryFrom<Row> for ListedSegment {
    type Error = String;

    fn try_from(row: Row) -> Result<Self, String> {
        let id = parse_segment_id(&row.segment_id)
            .map_err(|_| format!("{:?} is no id of a segment", row.segment_id))?;
        Ok(Self {
            id,
            name: row.segment_name,
            endpoint: row.te_endpoint,
            medium: row.medium,
            state: row.status,
            is_in_sight: row.in_sight,
            is_reachable: row.reachable,
            used_bytes: row.allocator_used_bytes,
            len_bytes: row.size_bytes,
            domains: row.domains,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_the_master_lists_are_read() {
        let text = r#"{"total_segments":2,"segments":[{"segment_name":"a:1","segment_id":
            "0000000000000000000000000000002a","client_id":"7","size_bytes":1024,"te_endpoint":"b:2"},
            {"segment_name":"c:1","segment_id":"0000000000000000000000000000002c","medium":"disk",
            "status":"DRAINING","in_sight":false,"reachable":false,"allocator_used_bytes":512,
            "size_bytes":4096,"te_endpoint":"c:2","domains":["rack=r7","zone=east"]}]}"#;
        let of_an_earlier_master = ListedSegment {
            id: SegmentId(42),
            name: "a:1".into(),
            endpoint: "b:2".into(),
            medium: "memory".into(),
            state: String::new(),
            is_in_sight: true,
            is_reachable: true,
            used_bytes: 0,
            len_bytes: 1024,
            domains: vec![],
        };
        let whole = ListedSegment {
            id: SegmentId(44),
            name: "c:1".into(),
            endpoint: "c:2".into(),
            medium: "disk".into(),
            state: "DRAINING".into(),
            is_in_sight: false,
            is_reachable: false,
            used_bytes: 512,
            len_bytes: 4096,
            domains: vec!["rack=r7".into(), "zone=east".into()],
        };
        assert_eq!([&of_an_earlier_master, &whole].map(ListedSegment::is_memory), [true, false]);
        assert_eq!(read(text), Ok(vec![of_an_earlier_master, whole]));
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
