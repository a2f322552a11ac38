/// Errors of the system: the process, or the machine, has no file descriptor left.
const OF_PROCESS: i32 = 24;
const OF_MACHINE: i32 = 23;

/// What an operator can do about an error of the system, if it says that no file descriptor is left; otherwise empty.
/// To be appended to a message.
#[must_use]
pub fn descriptor_remedy(os_error: Option<i32>) -> &'static str {
    match os_error {
        Some(OF_PROCESS) => ": raise ulimit -n (LimitNOFILE of systemd) for this process",
        Some(OF_MACHINE) => ": raise fs.file-max of this machine",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_descriptors_has_this_remedy() {
        assert!(descriptor_remedy(Some(24)).contains("ulimit -n"));
        assert!(descriptor_remedy(Some(23)).contains("fs.file-max"));
        assert_eq!([descriptor_remedy(Some(103)), descriptor_remedy(None)], ["", ""]);
    }
}
