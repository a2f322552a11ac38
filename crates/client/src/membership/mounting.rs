use mooncake_types::{ErrorCode, MountOutcome};

/// How far all segments have come, one after the other, since they were last to be mounted.
#[derive(Clone, Debug, Default)]
pub(super) struct Mounting {
    /// The segment that is being mounted; past the last one when all are.
    segment: usize,
    stage: MountStage,
    /// Nothing is done before the next pong: it names a higher epoch, or the segments are to be mounted again, or the leader
    /// has put this one off.
    awaits_pong: bool,
    /// The segment has started empty since it was last to be mounted.
    is_emptied: bool,
    refusal: Option<(usize, ErrorCode)>,
}

/// What is to be done for a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum MountStage {
    /// The master is to be asked for it.
    #[default]
    Mount,
    /// The master wants to know what lies there, from this page on.
    Report { page: u32, from: u64 },
    /// It wants to know what changed there since, from this page on.
    ReportChanges { page: u32, since: u64 },
    /// Nothing that lies there may be read any more.
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

    /// What to do now; nothing once `count` segments are mounted. What lies in a segment is told to nobody but the leader
    /// that its node obeys: older grants could still begin there.
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
            // It has just done so, and would for ever.
            MountOutcome::StartEmpty if self.is_emptied => {
                self.on_refused(ErrorCode::InternalError);
            }
            MountOutcome::StartEmpty => self.stage = MountStage::StartEmpty,
        }
    }

    /// A page was taken. The next is one of the same kind, and begins there.
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

    /// It is not known any more what changed: all is told.
    pub(super) fn on_changes_forgotten(&mut self) {
        self.stage = MountStage::Report { page: 0, from: 0 };
    }

    pub(super) fn on_started_empty(&mut self) {
        (self.stage, self.is_emptied) = (MountStage::Mount, true);
    }

    /// A leader that cannot take the segment now, because its lease is over or its membership record takes no writes, is
    /// asked again after its next pong. Any other refusal stands until the segments are mounted again.
    pub(super) fn on_refused(&mut self, code: ErrorCode) {
        self.refusal = Some((self.segment, code));
        match code {
            ErrorCode::UnavailableInCurrentStatus | ErrorCode::PersistentFail => self.on_put_off(),
            _ => self.go_on(),
        }
    }

    fn on_put_off(&mut self) {
        (self.stage, self.awaits_pong) = (MountStage::Mount, true);
    }

    /// The leader has answered: what it put off is tried again.
    pub(super) fn on_pong(&mut self) {
        if self.refusal.is_some_and(|(segment, _)| segment == self.segment) {
            self.awaits_pong = false;
        }
    }

    /// The connection is gone: pages that were taken are told again.
    pub(super) fn on_connection_lost(&mut self) {
        (self.stage, self.awaits_pong) = (MountStage::Mount, false);
    }

    /// There is one more segment, at this place, and the master has it.
    pub(super) fn on_mounted_elsewhere(&mut self, segment: usize) {
        if self.segment == segment {
            self.go_on();
        }
    }

    /// The segment at this place is gone, and later ones have moved up.
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
