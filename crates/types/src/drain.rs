use std::fmt;
use std::str::FromStr;

/// The id of a drain job, drawn at random. Its text is two decimal numbers with a hyphen between them, as in the C++
/// package.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainId(pub u128);

impl fmt::Display for DrainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", (self.0 >> 64) as u64, self.0 as u64)
    }
}

/// The error of parsing a text that is not the id of a drain job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADrainId;

impl fmt::Display for NotADrainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the id of a drain job is two decimal numbers with a hyphen between them")
    }
}

impl std::error::Error for NotADrainId {}

impl FromStr for DrainId {
    type Err = NotADrainId;

    fn from_str(text: &str) -> Result<DrainId, NotADrainId> {
        let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
            true => part.parse::<u64>().map(u128::from).map_err(|_| NotADrainId),
            false => Err(NotADrainId),
        };
        let (first, second) = text.split_once('-').ok_or(NotADrainId)?;
        Ok(DrainId(number(first)? << 64 | number(second)?))
    }
}

/// The states of a drain job. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DrainStatus {
    /// The job has not begun.
    #[default]
    Created = 0,
    /// The job looks for replicas to move. This master looks for them while the job runs, and never reports this
    /// status.
    Planning = 1,
    /// The job is moving replicas.
    Running = 2,
    /// No replica is left on its segments.
    Succeeded = 3,
    /// The job could not move some replicas; its segments take puts again.
    Failed = 4,
    /// The job was canceled; its segments take puts again.
    Canceled = 5,
}

impl DrainStatus {
    /// Whether the job has ended.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, DrainStatus::Succeeded | DrainStatus::Failed | DrainStatus::Canceled)
    }

    /// Its name in the HTTP API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            DrainStatus::Created => "CREATED",
            DrainStatus::Planning => "PLANNING",
            DrainStatus::Running => "RUNNING",
            DrainStatus::Succeeded => "SUCCEEDED",
            DrainStatus::Failed => "FAILED",
            DrainStatus::Canceled => "CANCELED",
        }
    }
}

/// A request to drain segments. [`DrainReport`] says what a unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainOrder {
    /// Names of the segments to drain. If several segments share a name, the job drains all of them.
    pub segments: Vec<String>,
    /// Names of the segments to move replicas to. If empty, any segment with room.
    pub targets: Vec<String>,
    /// Most units that the job moves at a time.
    pub max_concurrency: u32,
}

/// The progress of a drain job. A unit is one replica that lies, at least in part, on the segments of the job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// The job.
    pub id: DrainId,
    /// Its status.
    pub status: DrainStatus,
    /// Time since it was created, in milliseconds.
    pub created_ms_ago: u64,
    /// Time since its progress last changed, in milliseconds.
    pub updated_ms_ago: u64,
    /// Names of the segments that it drains.
    pub segments: Vec<String>,
    /// Units that were moved.
    pub moved_units: u64,
    /// Bytes of the objects whose units were moved.
    pub moved_bytes: u64,
    /// Units that were dropped, because no target had room and another replica lies elsewhere.
    pub released_units: u64,
    /// Units whose last move failed.
    pub failed_units: u64,
    /// Units that cannot be moved yet: a put or a task has not ended, or a node is unreachable.
    pub blocked_units: u64,
    /// Units that are being moved.
    pub active_units: u64,
    /// Ranges of objects that still lie on its segments.
    pub remaining_units: u64,
    /// Bytes that are still reserved on its segments.
    pub remaining_bytes: u64,
    /// The progress in words, for people.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_two_numbers_and_read_back() {
        let id = DrainId(7 << 64 | 9);
        assert_eq!((id.to_string(), "7-9".parse()), ("7-9".to_owned(), Ok(id)));
        let most = DrainId(u128::MAX);
        assert_eq!(most.to_string().parse(), Ok(most));
        for text in ["", "-", "7", "7-", "-9", "+7-9", "7-9-1", "7- 9", "7-18446744073709551616"] {
            assert_eq!(text.parse::<DrainId>(), Err(NotADrainId), "{text:?}");
        }
    }
}
