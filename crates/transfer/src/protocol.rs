/// Whether TCP serves callers that ask for this protocol: `tcp` itself, and `rdma` and `efa`, which many callers name
/// by default. The C++ package also falls back to TCP without such a device; this build never looks for one.
#[must_use]
pub fn is_served_by_tcp(protocol: &str) -> bool {
    matches!(protocol, "tcp" | "rdma" | "efa")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_only_another_device_reaches_is_not_served() {
        for (protocol, expected) in [("tcp", true), ("rdma", true), ("efa", true), ("", false)] {
            assert_eq!(is_served_by_tcp(protocol), expected, "{protocol}");
        }
        for protocol in ["TCP", "cxl", "ascend", "nvmeof", "rpc_only"] {
            assert!(!is_served_by_tcp(protocol), "{protocol}");
        }
    }
}
