//! The requests of each kind of work, and their order.

use mooncake_types::{
    PutEnd, PutItem, PutMode, PutStart, RangeDrop, ReplicateConfig, Reply, Request, Version,
};

use crate::connection::LoadError;

/// The length of each object.
pub(crate) const OBJECT_BYTES: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    Exist,
    Get,
    Put,
}

impl Work {
    /// # Errors
    /// A message that lists the kinds of work.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match name {
            "exist" => Ok(Self::Exist),
            "get" => Ok(Self::Get),
            "put" => Ok(Self::Put),
            _ => Err(format!("--work is exist, get or put, not {name:?}")),
        }
    }
}

/// The next request of the batch in a slot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stage {
    Ask,
    Start,
    End(Vec<Version>),
    Remove,
    /// The report that the node has dropped these ranges.
    Drop(Vec<RangeDrop>),
}

impl Stage {
    pub(crate) fn first(work: Work) -> Self {
        if work == Work::Put { Self::Start } else { Self::Ask }
    }

    /// The request of this stage, for these keys.
    pub(crate) fn request<'a>(&self, work: Work, keys: &'a [String]) -> Request<'a> {
        let all = || keys.iter().map(String::as_str);
        match self {
            Self::Ask if work == Work::Exist => Request::exist(all().collect()),
            Self::Ask => Request::GetReplicaList { keys: all().collect() },
            Self::Start => Request::PutStart(PutStart {
                puts: all().map(|key| PutItem::new(key, OBJECT_BYTES)).collect(),
                config: ReplicateConfig::default(),
                mode: PutMode::Insert,
            }),
            Self::End(versions) => {
                let end =
                    |(key, &version)| PutEnd { key, version, failed_replicas: 0, held_replicas: 0 };
                Request::PutEnd { puts: all().zip(versions).map(end).collect() }
            }
            Self::Remove => Request::Remove { keys: all().collect(), force: false },
            Self::Drop(dropped) => Request::Dropped { dropped: dropped.clone() },
        }
    }

    /// The stage after the reply; `None` if the batch is done.
    ///
    /// # Errors
    /// If the reply is not a success for every key.
    pub(crate) fn after(&self, reply: Reply) -> Result<Option<Self>, LoadError> {
        let (is_good, next) = match reply {
            Reply::Exist(found) => (found.iter().all(|one| *one == Ok(true)), None),
            Reply::Located { results, .. } => (results.iter().all(Result::is_ok), None),
            Reply::Granted { results, .. } => {
                let versions: Vec<_> =
                    results.iter().flatten().map(|grant| grant.version).collect();
                (versions.len() == results.len(), Some(Self::End(versions)))
            }
            Reply::Statuses(done) => {
                let next = matches!(self, Self::End(_)).then_some(Self::Remove);
                (done.iter().all(Result::is_ok), next)
            }
            Reply::Remaining { results, remains } => {
                let drops = remains.ranges.iter().map(|range| RangeDrop {
                    segment: remains.segments[range.segment as usize].id,
                    offset: range.offset,
                    version: range.version,
                    grant: range.grant,
                });
                let is_good = *self == Self::Remove && results.iter().all(Result::is_ok);
                (is_good, Some(Self::Drop(drops.collect())))
            }
            Reply::Done(done) => (done.is_ok(), None),
            _ => (false, None),
        };
        if is_good {
            return Ok(next);
        }
        Err(LoadError::Answer { to: "a batch", got: "not a success for every key".to_owned() })
    }
}
