use mooncake_types::{
    Epoch, FailureDomains, Medium, MountSegment, RangeDrop, Request, SegmentId, Tick,
};

/// A segment that this client lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Its incarnation.
    pub id: SegmentId,
    /// The name that callers know it by.
    pub name: String,
    /// Where it is served, `host:port`.
    pub endpoint: String,
    /// Its length in bytes.
    pub len: u64,
    /// How many processes have lent what this client lends, this one included.
    pub run: u64,
    /// What its bytes lie in.
    pub medium: Medium,
    /// What its node shares with others that may fail at once.
    pub domains: FailureDomains,
}

impl Lent {
    /// What asks for it to be mounted by a master, given the highest epoch that its node has seen and whether anything
    /// lies in it.
    #[must_use]
    pub fn mount(&self, seen_epoch: Epoch, is_empty: bool) -> Request<'_> {
        let Self { id, name, endpoint, len, run, medium, domains } = self;
        Request::MountSegment(MountSegment {
            id: *id,
            name,
            endpoint,
            len: *len,
            seen_epoch,
            is_empty,
            run: *run,
            medium: *medium,
            domains: domains.as_slice(),
        })
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipStep<'a> {
    /// Resolve this address of the master (an index into the list) and connect to it.
    Connect {
        /// Which address.
        address: usize,
    },
    /// Ask the master over the connection that was made last.
    Call(Request<'a>),
    /// Ask it for [`Lent::mount`], once the node obeys no epoch older than this.
    Mount {
        /// What is to be mounted.
        segment: &'a Lent,
        /// The highest epoch seen.
        seen_epoch: Epoch,
    },
    /// Tell it one page of what lies in a segment. The outcome is for [`Membership::on_reported`](super::Membership::on_reported).
    Report {
        /// Which segment.
        segment: SegmentId,
        /// [`Lent::run`].
        run: u64,
        /// The number of the page.
        page: u32,
        /// Where the page begins, in bytes of the segment.
        from: u64,
    },
    /// Tell it one page of what changed in a segment. The outcome is for
    /// [`Membership::on_reported`](super::Membership::on_reported), or for
    /// [`Membership::on_changes_forgotten`](super::Membership::on_changes_forgotten) if that is not known any more.
    ReportChanges {
        /// Which segment.
        segment: SegmentId,
        /// The number of the page.
        page: u32,
        /// Where the changes begin that it is to tell.
        since: u64,
    },
    /// Drop all that lies in a segment, and call it by an id that was never used. The outcome is for
    /// [`Membership::on_started_empty`](super::Membership::on_started_empty).
    StartEmpty {
        /// The id that it has so far.
        segment: SegmentId,
    },
    /// Drop these entries. The outcome is for [`Membership::on_dropped`](super::Membership::on_dropped).
    Drop(&'a [RangeDrop]),
    /// Nothing before this moment.
    Wait {
        /// When to ask again.
        until: Tick,
    },
}
