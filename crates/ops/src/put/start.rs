use std::sync::Arc;

use mooncake_types::{
    ErrorCode, Grant, PutItem, PutMode, PutRevoke, PutStart, ReplicateConfig, Reply, Request,
    SegmentAddress, Tick,
};

use super::granted::Granted;

use crate::op::{CallError, Op, Step, unexpected};

/// The first stage of a put: asks the master for ranges, in one request.
#[derive(Debug)]
pub struct Start<'a> {
    items: &'a [PutItem<'a>],
    /// The items that are asked for.
    positions: Vec<usize>,
    request: Option<PutStart<'a>>,
    started: Started<'a>,
}

/// What came of a [`Start`].
#[derive(Debug, Default)]
pub struct Started<'a> {
    pub(super) asked_at: Tick,
    pub(super) granted: Vec<InPut<'a>>,
    /// What got nothing, and why, by position.
    pub(super) refused: Vec<(usize, ErrorCode)>,
    /// Of those, what got a grant that makes no sense, to be given back.
    pub(super) senseless: Vec<PutRevoke<'a>>,
}

/// One put that was granted.
#[derive(Clone, Debug)]
pub(crate) struct InPut<'a> {
    /// Its place in the caller's batch.
    pub(super) position: usize,
    pub(super) key: &'a str,
    pub(super) granted: Granted,
}

impl<'a> InPut<'a> {
    pub(crate) const fn new(position: usize, key: &'a str, granted: Granted) -> Self {
        Self { position, key, granted }
    }
}

impl<'a> Start<'a> {
    /// Asks for the items at these positions.
    pub(super) fn new(
        items: &'a [PutItem<'a>],
        positions: Vec<usize>,
        config: &ReplicateConfig<'a>,
        mode: PutMode,
    ) -> Self {
        let puts = positions.iter().map(|&position| items[position]).collect();
        let request = Some(PutStart { puts, config: config.clone(), mode });
        Self { items, positions, request, started: Started::default() }
    }

    fn accept(&mut self, grants: Vec<Result<Grant, ErrorCode>>, segments: Vec<SegmentAddress>) {
        let segments: Arc<[SegmentAddress]> = segments.into();
        self.started.granted.reserve(grants.len());
        for (&position, grant) in self.positions.iter().zip(grants) {
            let PutItem { key, len, .. } = self.items[position];
            let granted = grant.and_then(|grant| {
                let version = grant.version;
                Granted::new(grant, version, len, &segments).ok_or_else(|| {
                    self.started.senseless.push(PutRevoke::new(key, version));
                    ErrorCode::InternalError
                })
            });
            match granted {
                Ok(granted) => self.started.granted.push(InPut { position, key, granted }),
                Err(code) => self.started.refused.push((position, code)),
            }
        }
    }

    fn refuse(&mut self, code: ErrorCode) {
        self.started.refused = self.positions.iter().map(|&position| (position, code)).collect();
    }
}

impl<'a> Op<'a> for Start<'a> {
    type Output = Started<'a>;

    fn next(&mut self, now: Tick) -> Step<'a> {
        let Some(request) = self.request.take() else { return Step::Done };
        self.started.asked_at = now;
        Step::Call(Request::PutStart(request))
    }

    fn on_reply(&mut self, _now: Tick, reply: Result<Reply, CallError>) {
        match reply {
            Ok(Reply::Granted { results, segments }) if results.len() == self.positions.len() => {
                self.accept(results, segments);
            }
            Ok(other) => self.refuse(unexpected(&other)),
            Err(error) => self.refuse(error.code()),
        }
    }

    fn finish(self) -> Started<'a> {
        self.started
    }
}
