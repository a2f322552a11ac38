use std::fmt;

/// Where a trace goes on, as in W3C's `traceparent`: the trace, and the span in it that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The id of the trace; not zero.
    pub trace: u128,
    /// The id of the span; not zero.
    pub span: u64,
}

impl TraceParent {
    /// Length on the wire, in bytes.
    pub const LEN: usize = 24;

    /// One with these ids; `None` if one of them is zero.
    #[must_use]
    pub const fn new(trace: u128, span: u64) -> Option<TraceParent> {
        if trace == 0 || span == 0 { None } else { Some(TraceParent { trace, span }) }
    }

    /// The bytes on the wire: both ids, big endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..16].copy_from_slice(&self.trace.to_be_bytes());
        bytes[16..].copy_from_slice(&self.span.to_be_bytes());
        bytes
    }

    /// As [`TraceParent::new`], from these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Option<TraceParent> {
        let (trace, span) = bytes.split_at(16);
        let trace = u128::from_be_bytes(trace.try_into().expect("16 bytes"));
        Self::new(trace, u64::from_be_bytes(span.try_into().expect("8 bytes")))
    }
}

/// As the header `traceparent` of a trace that is recorded.
impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-01", self.trace, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_the_wire_and_zeros_are_none() {
        let parent = TraceParent::new(u128::MAX - 7, 9).expect("not zero");
        assert_eq!(TraceParent::from_bytes(&parent.to_bytes()), Some(parent));
        assert_eq!(parent.to_bytes()[15], 0xF8);
        for (trace, span) in [(0, 1), (1, 0), (0, 0)] {
            assert_eq!(TraceParent::new(trace, span), None);
            assert_eq!(TraceParent::from_bytes(&TraceParent { trace, span }.to_bytes()), None);
        }
    }

    #[test]
    fn it_is_written_as_in_the_header() {
        let parent = TraceParent { trace: 0xAB, span: 0xC };
        let expected = "00-000000000000000000000000000000ab-000000000000000c-01";
        assert_eq!(parent.to_string(), expected);
    }
}
