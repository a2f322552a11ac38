use std::fmt;
use std::str::FromStr;

/// A drain job: drawn at random. It is written as the C++ package writes its ids, two decimal numbers with a hyphen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainId(pub u128);

impl fmt::Display for DrainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", (self.0 >> 64) as u64, self.0 as u64)
    }
}

/// A text is not the id of a drain job.
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

/// The life of a drain job. The numbers never change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DrainStatus {
    /// Nothing was done yet.
    #[default]
    Created = 0,
    /// The job looks for replicas to move. This master looks for them while the job runs, and never reports this status.
    Planning = 1,
    /// Replicas are being moved.
    Running = 2,
    /// Nothing is left on its segments.
    Succeeded = 3,
    /// Something could not be moved; the segments take puts again.
    Failed = 4,
    /// It was canceled; the segments take puts again.
    Canceled = 5,
}

impl DrainStatus {
    /// Whether the job is over.
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

/// What is to be drained. See [`DrainReport`] for what a unit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrainOrder {
    /// Names of the segments that are to be empty; all segments of a name are.
    pub segments: Vec<String>,
    /// Names of the segments to move to; empty: whichever have room.
    pub targets: Vec<String>,
    /// Units that are moved at a time.
    pub max_concurrency: u32,
}

/// How far a drain job is. A unit is one replica that lies, at least in part, on its segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// The job.
    pub id: DrainId,
    /// How far it is.
    pub status: DrainStatus,
    /// Time since it was created, in milliseconds.
    pub created_ms_ago: u64,
    /// Time since something last changed, in milliseconds.
    pub updated_ms_ago: u64,
    /// Names of its segments.
    pub segments: Vec<String>,
    /// Units that were moved.
    pub moved_units: u64,
    /// Bytes of the objects that were moved.
    pub moved_bytes: u64,
    /// Units that were dropped, because no target had room and another replica lies elsewhere.
    pub released_units: u64,
    /// Units that could not be moved when they were last tried.
    pub failed_units: u64,
    /// Units that wait for something else: a put or a task that has not ended, a node that is out of sight.
    pub blocked_units: u64,
    /// Units that are being moved.
    pub active_units: u64,
    /// Ranges of objects that still lie on its segments.
    pub remaining_units: u64,
    /// Bytes that are still reserved on its segments.
    pub remaining_bytes: u64,
    /// How it stands, for people.
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
