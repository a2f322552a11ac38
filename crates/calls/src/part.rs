use mooncake_types::{CallId, TraceParent};

/// What a frame says about the call that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallPart {
    /// The request id of the frame.
    pub request_id: u64,
    /// The caller's trace, if it has one.
    pub trace: Option<TraceParent>,
}

impl CallPart {
    /// The call, if it is known.
    #[must_use]
    pub const fn id(&self) -> Option<CallId> {
        CallId::of_frame(self.request_id)
    }
}
