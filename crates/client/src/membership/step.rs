use mooncake_types::{
    Epoch, FailureDomains, Medium, MountSegment, RangeDrop, Request, SealKey, SegmentId, Tick,
};

/// A segment that this client lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Its present id.
    pub id: SegmentId,
    /// The name that callers know it by.
    pub name: String,
    /// Where it is served, `host:port`.
    pub endpoint: String,
    /// Its length in bytes.
    pub len: u64,
    /// How many processes have lent this client's segments, this one included.
    pub run: u64,
    /// The medium of its bytes.
    pub medium: Medium,
    /// Failure domains of its node.
    pub domains: FailureDomains,
}

impl Lent {
    /// The request to mount it, given the highest epoch that its node has seen, whether it is empty, and the key of the
    /// seals that its node checks.
    #[must_use]
    pub fn mount(
        &self,
        seen_epoch: Epoch,
        is_empty: bool,
        seal_key: Option<SealKey>,
    ) -> Request<'_> {
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
            seal_key,
        })
    }
}

/// The next step for the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipStep<'a> {
    /// Resolve this address of the master (an index into the list) and connect to it.
    Connect {
        /// Which address.
        address: usize,
    },
    /// Send this request over the last connection.
    Call(Request<'a>),
    /// Send [`Lent::mount`] over that connection, once the node obeys `seen_epoch`.
    Mount {
        /// The segment to mount.
        segment: &'a Lent,
        /// The highest epoch seen.
        seen_epoch: Epoch,
    },
    /// Send one page of a segment's inventory. The outcome goes to
    /// [`Membership::on_reported`](super::Membership::on_reported).
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
    /// Send one page of a segment's changes. The outcome goes to
    /// [`Membership::on_reported`](super::Membership::on_reported), or to
    /// [`Membership::on_changes_forgotten`](super::Membership::on_changes_forgotten) if the ledger has forgotten some
    /// of them.
    ReportChanges {
        /// Which segment.
        segment: SegmentId,
        /// The number of the page.
        page: u32,
        /// The number of the first change to send.
        since: u64,
    },
    /// Drop everything in a segment, and give it an id that was never used. The outcome goes to
    /// [`Membership::on_started_empty`](super::Membership::on_started_empty).
    StartEmpty {
        /// Its present id.
        segment: SegmentId,
    },
    /// Report lost entries with [`Request::ReportLosses`](mooncake_types::Request::ReportLosses). The reply goes to
    /// [`Membership::on_reply`](super::Membership::on_reply).
    ReportLosses,
    /// Drop these entries. The outcome goes to [`Membership::on_dropped`](super::Membership::on_dropped).
    Drop(&'a [RangeDrop]),
    /// Nothing is due before this time.
    Wait {
        /// When to call [`Membership::next`](super::Membership::next) again.
        until: Tick,
    },
}
