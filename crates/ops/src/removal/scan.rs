use mooncake_types::{
    DEFAULT_TENANT, ErrorCode, Reply, Request, Scan, ScanAction, ScanPage, Tick, limits,
};

use crate::dropping::{Dropped, Dropping};
use crate::location::ObjectLocation;
use crate::op::{CallError, MoveError, Op, Step, unexpected};

/// A walk over all objects, page by page.
#[derive(Debug)]
struct Walk<'a> {
    tenant: &'a str,
    pattern: Option<&'a str>,
    action: ScanAction,
    cursor: Option<u64>,
    /// Pages that were asked for.
    begun: u64,
    /// How many pages to ask for at most.
    limit: u64,
    failed: Option<ErrorCode>,
}

impl<'a> Walk<'a> {
    fn new(pattern: Option<&'a str>, action: ScanAction) -> Self {
        let too_long = pattern.is_some_and(|text| text.len() > limits::MAX_REGEX_BYTES);
        let failed = too_long.then_some(ErrorCode::InvalidParams);
        let tenant = DEFAULT_TENANT;
        Self { tenant, pattern, action, cursor: Some(0), begun: 0, limit: u64::MAX, failed }
    }

    fn next(&mut self) -> Step<'a> {
        let (None, Some(cursor)) = (self.failed, self.cursor) else { return Step::Done };
        if self.begun == self.limit {
            return Step::Done;
        }
        self.begun += 1;
        Step::Call(Request::Scan(Scan {
            tenant: Some(self.tenant),
            pattern: self.pattern,
            action: self.action,
            cursor,
            limit: limits::MAX_SCAN_OBJECTS,
        }))
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) -> Option<ScanPage> {
        let page = match reply {
            Ok(Reply::Scanned(page)) => page,
            Ok(other) => {
                self.failed = Some(unexpected(&other));
                return None;
            }
            Err(error) => {
                self.failed = Some(error.code());
                return None;
            }
        };
        // With a cursor that does not move, this walk would never end.
        if page.next_cursor.is_some() && page.next_cursor == self.cursor {
            self.failed = Some(ErrorCode::InternalError);
            return None;
        }
        self.cursor = page.next_cursor;
        Some(page)
    }
}

/// Removes all objects, or those whose keys a pattern finds. A page ends once the nodes have dropped what it removed.
#[derive(Debug)]
pub struct RemoveScanOp<'a> {
    walk: Walk<'a>,
    removed: u64,
    dropping: Dropping,
    /// The request under way is about the unconfirmed drops of the last page.
    asks_again: bool,
}

impl<'a> RemoveScanOp<'a> {
    /// Removes objects, all of them if there is no pattern; leased ones only if `force` is set.
    #[must_use]
    pub fn new(pattern: Option<&'a str>, force: bool) -> Self {
        let walk = Walk::new(pattern, ScanAction::Remove { force });
        Self { walk, removed: 0, dropping: Dropping::default(), asks_again: false }
    }

    /// Removes objects of the tenant of this name instead of the default one.
    #[must_use]
    pub fn of_tenant(mut self, tenant: &'a str) -> Self {
        self.walk.tenant = tenant;
        self
    }
}

impl<'a> Op<'a> for RemoveScanOp<'a> {
    /// How many objects were removed.
    type Output = Result<u64, ErrorCode>;

    fn batch(&self) -> u64 {
        self.walk.begun
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        if let Some(step) = self.dropping.next(now) {
            return step;
        }
        if self.dropping.end() == Dropped::Not {
            self.asks_again = true;
            return Step::Call(self.dropping.ask_again(Vec::new()));
        }
        self.walk.next()
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        if self.dropping.is_under_way() {
            return self.dropping.on_told(reply.is_ok());
        }
        if std::mem::take(&mut self.asks_again) {
            self.dropping.on_reply(&reply);
            match reply {
                Ok(Reply::Remaining { .. } | Reply::Statuses(_)) => {}
                Ok(other) => self.walk.failed = Some(unexpected(&other)),
                Err(error) => self.walk.failed = Some(error.code()),
            }
            return;
        }
        let Some(page) = self.walk.on_reply(reply) else { return };
        self.removed = self.removed.saturating_add(page.removed);
        if !page.remains.ranges.is_empty() {
            self.dropping.begin(&page.remains);
        }
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        self.dropping.on_dropped(&results);
    }

    fn finish(self) -> Self::Output {
        self.walk.failed.map_or(Ok(self.removed), Err)
    }
}

/// Lists the keys that a pattern finds, and where their objects lie. Grants no lease.
#[derive(Debug)]
pub struct ListOp<'a> {
    walk: Walk<'a>,
    found: Vec<(String, ObjectLocation)>,
    most: usize,
}

impl<'a> ListOp<'a> {
    /// Lists all objects, or those whose keys `pattern` finds.
    #[must_use]
    pub fn new(pattern: Option<&'a str>) -> Self {
        Self { walk: Walk::new(pattern, ScanAction::List), found: Vec::new(), most: usize::MAX }
    }

    /// Lists objects of the tenant of this name instead of the default one.
    #[must_use]
    pub fn of_tenant(mut self, tenant: &'a str) -> Self {
        self.walk.tenant = tenant;
        self
    }

    /// The walk ends with [`ErrorCode::BufferOverflow`] if there are more than `most` objects.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }
}

impl<'a> Op<'a> for ListOp<'a> {
    type Output = Result<Vec<(String, ObjectLocation)>, ErrorCode>;

    fn batch(&self) -> u64 {
        self.walk.begun
    }

    fn next(&mut self, _now: Tick) -> Step<'a> {
        self.walk.next()
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        let Some(page) = self.walk.on_reply(reply) else { return };
        for (key, located) in page.objects {
            match ObjectLocation::from_located(&located, &page.segments) {
                Ok(location) => self.found.push((key, location)),
                Err(code) => self.walk.failed = Some(code),
            }
        }
        if self.found.len() > self.most {
            self.walk.failed = Some(ErrorCode::BufferOverflow);
        }
    }

    fn finish(self) -> Self::Output {
        self.walk.failed.map_or(Ok(self.found), Err)
    }
}

/// One page of a [`ListOp`].
#[derive(Debug)]
pub struct ListPageOp<'a>(ListOp<'a>);

/// Objects that a page found, and the cursor of the next page.
pub type ListedPage = (Vec<(String, ObjectLocation)>, Option<u64>);

impl<'a> ListPageOp<'a> {
    /// The page at this cursor; zero is the first. A page may be empty although more follow.
    #[must_use]
    pub fn new(pattern: Option<&'a str>, cursor: u64) -> Self {
        let mut op = ListOp::new(pattern);
        (op.walk.cursor, op.walk.limit) = (Some(cursor), 1);
        Self(op)
    }

    /// As [`ListOp::of_tenant`].
    #[must_use]
    pub fn of_tenant(self, tenant: &'a str) -> Self {
        Self(self.0.of_tenant(tenant))
    }
}

impl<'a> Op<'a> for ListPageOp<'a> {
    type Output = Result<ListedPage, ErrorCode>;

    fn batch(&self) -> u64 {
        self.0.batch()
    }

    fn next(&mut self, now: Tick) -> Step<'a> {
        self.0.next(now)
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.0.on_reply(reply);
    }

    fn finish(self) -> Self::Output {
        let next = self.0.walk.cursor;
        self.0.finish().map(|found| (found, next))
    }
}
