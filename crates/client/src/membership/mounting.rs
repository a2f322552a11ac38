use mooncake_types::{ErrorCode, MountOutcome};

/// Progress of mounting all segments, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Mounting {
    /// Index of the segment that is being mounted; past the last one when all are.
    segment: usize,
    stage: MountStage,
    /// Nothing is done before the next pong. Either it will name a higher epoch, or the segments must be mounted
    /// again, or the leader has put this segment off.
    awaits_pong: bool,
    /// Whether the segment has started empty since its mount began.
    is_emptied: bool,
    refusal: Option<(usize, ErrorCode)>,
}

/// The next step for a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MountStage {
    /// Ask the master to mount it.
    #[default]
    Mount,
    /// Send its inventory, from this page on.
    Report { page: u32, from: u64 },
    /// Send its changes, from this page on.
    ReportChanges { page: u32, since: u64 },
    /// Drop everything in it.
    StartEmpty,
}

impl Mounting {
    /// Begins with the first segment.
    pub(super) fn begin(&mut self) {
        *self = Self::default();
    }

    pub(super) const fn segment(&self) -> usize {
        self.segment
    }

    /// The segment that was refused last, and why.
    pub(super) const fn refusal(&self) -> Option<(usize, ErrorCode)> {
        self.refusal
    }

    /// The step to take now; `None` once `count` segments are mounted. Only the leader that the node obeys gets a
    /// report on a segment: for another leader, older grants could still begin there.
    pub(super) fn stage(&mut self, count: usize, obeys: bool) -> Option<MountStage> {
        let tells =
            matches!(self.stage, MountStage::Report { .. } | MountStage::ReportChanges { .. });
        if tells && !obeys {
            self.on_put_off();
        }
        (self.segment < count && !self.awaits_pong).then_some(self.stage)
    }

    pub(super) fn on_outcome(&mut self, outcome: MountOutcome, obeys: bool) {
        self.refusal = self.refusal.filter(|(segment, _)| *segment != self.segment);
        match outcome {
            MountOutcome::Ready => self.go_on(),
            MountOutcome::WantsInventory if obeys => {
                self.stage = MountStage::Report { page: 0, from: 0 }
            }
            MountOutcome::WantsChanges { since } if obeys => {
                self.stage = MountStage::ReportChanges { page: 0, since };
            }
            MountOutcome::WantsInventory | MountOutcome::WantsChanges { .. } => {
                self.awaits_pong = true;
            }
            // It has just started empty, and would repeat that for ever.
            MountOutcome::StartEmpty if self.is_emptied => {
                self.on_refused(ErrorCode::InternalError);
            }
            MountOutcome::StartEmpty => self.stage = MountStage::StartEmpty,
        }
    }

    /// The master took a page. The next page of the same report begins at `next`.
    pub(super) fn on_reported(&mut self, next: Option<u64>) {
        match (self.stage, next) {
            (MountStage::Report { page, .. }, Some(from)) => {
                self.stage = MountStage::Report { page: page.saturating_add(1), from };
            }
            (MountStage::ReportChanges { page, .. }, Some(since)) => {
                self.stage = MountStage::ReportChanges { page: page.saturating_add(1), since };
            }
            _ => self.go_on(),
        }
    }

    /// Some changes were forgotten: sends the whole inventory instead.
    pub(super) fn on_changes_forgotten(&mut self) {
        self.stage = MountStage::Report { page: 0, from: 0 };
    }

    pub(super) fn on_started_empty(&mut self) {
        (self.stage, self.is_emptied) = (MountStage::Mount, true);
    }

    /// The master refused the segment. If its lease is over, or its membership record takes no writes, or it denies
    /// this client the right, it is asked again after its next pong. Other refusals hold until the segments are mounted again.
    pub(super) fn on_refused(&mut self, code: ErrorCode) {
        self.refusal = Some((self.segment, code));
        match code {
            ErrorCode::UnavailableInCurrentStatus
            | ErrorCode::PersistentFail
            | ErrorCode::PermissionDenied => self.on_put_off(),
            _ => self.go_on(),
        }
    }

    fn on_put_off(&mut self) {
        (self.stage, self.awaits_pong) = (MountStage::Mount, true);
    }

    /// Retries the segment that the leader has put off, since it has answered.
    pub(super) fn on_pong(&mut self) {
        if self.refusal.is_some_and(|(segment, _)| segment == self.segment) {
            self.awaits_pong = false;
        }
    }

    /// The connection ended: a report begins again with its first page.
    pub(super) fn on_connection_lost(&mut self) {
        (self.stage, self.awaits_pong) = (MountStage::Mount, false);
    }

    /// Adds a segment at this index that the master has mounted already.
    pub(super) fn on_mounted_elsewhere(&mut self, segment: usize) {
        if self.segment == segment {
            self.go_on();
        }
    }

    /// Removes the segment at this index; later ones move up.
    pub(super) fn on_taken_back(&mut self, segment: usize) {
        if segment < self.segment {
            self.segment -= 1;
        } else if segment == self.segment {
            (self.stage, self.is_emptied) = (MountStage::Mount, false);
        }
        self.refusal = match self.refusal {
            Some((refused, _)) if refused == segment => None,
            Some((refused, code)) if refused > segment => Some((refused - 1, code)),
            refusal => refusal,
        };
    }

    fn go_on(&mut self) {
        self.segment += 1;
        (self.stage, self.is_emptied) = (MountStage::Mount, false);
    }
}
