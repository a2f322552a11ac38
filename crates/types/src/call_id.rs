use std::fmt;

/// The number of one call of a client. It stands in the log lines of the client, the master and the nodes about that
/// call. Frames carry it in the upper bits of their request ids, which those that answer repeat: so it takes no room, and
/// versions that know nothing of it understand the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallId(u64);

impl CallId {
    /// The lower bits of a request id tell the frames of one connection apart.
    const FRAME_BITS: u32 = 16;

    /// Set in each id: connections that make no calls number their frames from 1.
    const MARK: u64 = 1 << 63;

    /// The id with this number, of which only the lower 47 bits count.
    #[must_use]
    pub const fn numbered(number: u64) -> CallId {
        CallId(number << Self::FRAME_BITS | Self::MARK)
    }

    /// The call that sent the frame with this request id, if it is known.
    #[must_use]
    pub const fn of_frame(request_id: u64) -> Option<CallId> {
        match request_id & Self::MARK {
            0 => None,
            _ => Some(CallId(request_id >> Self::FRAME_BITS << Self::FRAME_BITS)),
        }
    }

    /// The request id of the frame with this number, of which only the lower 16 bits count.
    #[must_use]
    pub const fn frame(self, number: u64) -> u64 {
        self.0 | number & ((1 << Self::FRAME_BITS) - 1)
    }

    /// Its bits: the last 16 are zero.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// As 12 hexadecimal digits.
impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0 >> Self::FRAME_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_a_call_names_it_whatever_its_own_number_is() {
        let call = CallId::numbered(0x1234_5678_9ABC);
        assert_eq!(call.to_string(), "923456789abc");
        for number in [0, 1, 0xFFFF, 0x1_0000, u64::MAX] {
            let request_id = call.frame(number);
            assert_eq!(CallId::of_frame(request_id), Some(call), "{number}");
            assert_eq!(request_id & 0xFFFF, number & 0xFFFF);
        }
    }

    #[test]
    fn frames_that_are_numbered_from_one_belong_to_no_call() {
        for request_id in [0, 1, 70_000, u64::MAX >> 1] {
            assert_eq!(CallId::of_frame(request_id), None, "{request_id}");
        }
    }
}
