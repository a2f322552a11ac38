//! Quotas.

use std::fmt;

/// Most bytes of a quota, as in the C++ package.
const MOST_BYTES: u64 = i64::MAX as u64;

/// What a tenant may have in memory. Replicas count each, puts from their grant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantQuota {
    /// Bytes that other tenants never make it give up. If all quotas together exceed the memory of the pool, each counts
    /// in proportion.
    pub bytes: u64,
    /// Most bytes that it may have while others leave them; absent: no more than are guaranteed.
    pub burst_bytes: Option<u64>,
    /// Objects that other tenants never make it give up; absent: only bytes count.
    pub objects: Option<u64>,
    /// Most objects that it may have; absent: no more than are guaranteed.
    pub burst_objects: Option<u64>,
}

/// A quota that makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidQuota {
    /// A number is zero or too large.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A burst is below what is guaranteed, or there is nothing that it bounds.
    Burst {
        /// The field.
        field: &'static str,
        /// What is guaranteed; absent if nothing is.
        guaranteed: Option<u64>,
    },
}

impl fmt::Display for InvalidQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { field, value } => {
                write!(f, "{field} is {value}: it must be between 1 and {MOST_BYTES}")
            }
            Self::Burst { field, guaranteed: Some(guaranteed) } => {
                write!(f, "{field} must be at least what is guaranteed, {guaranteed}")
            }
            Self::Burst { field, guaranteed: None } => {
                write!(f, "{field} needs a number of objects that is guaranteed")
            }
        }
    }
}

impl std::error::Error for InvalidQuota {}

impl TenantQuota {
    /// A quota in bytes, without a burst.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        Self { bytes, burst_bytes: None, objects: None, burst_objects: None }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// The first one that makes no sense.
    pub fn validate(&self) -> Result<(), InvalidQuota> {
        let numbers = [
            ("quota", Some(self.bytes)),
            ("burst", self.burst_bytes),
            ("objects", self.objects),
            ("burst_objects", self.burst_objects),
        ];
        for (field, value) in numbers {
            if let Some(value) = value.filter(|value| !(1..=MOST_BYTES).contains(value)) {
                return Err(InvalidQuota::OutOfRange { field, value });
            }
        }
        let bursts = [
            ("burst", Some(self.bytes), self.burst_bytes),
            ("burst_objects", self.objects, self.burst_objects),
        ];
        for (field, guaranteed, burst) in bursts {
            let is_sound = |burst| guaranteed.is_some_and(|guaranteed| burst >= guaranteed);
            if burst.is_some_and(|burst| !is_sound(burst)) {
                return Err(InvalidQuota::Burst { field, guaranteed });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_that_make_no_sense_are_refused() {
        let ten = TenantQuota::of_bytes(10);
        let range = |field, value| Err(InvalidQuota::OutOfRange { field, value });
        let burst = |field, guaranteed| Err(InvalidQuota::Burst { field, guaranteed });
        for (quota, expected) in [
            (ten, Ok(())),
            (TenantQuota::of_bytes(0), range("quota", 0)),
            (TenantQuota::of_bytes(1 << 63), range("quota", 1 << 63)),
            (TenantQuota { burst_bytes: Some(10), ..ten }, Ok(())),
            (TenantQuota { burst_bytes: Some(9), ..ten }, burst("burst", Some(10))),
            (TenantQuota { objects: Some(0), ..ten }, range("objects", 0)),
            (TenantQuota { objects: Some(1), burst_objects: Some(2), ..ten }, Ok(())),
            (TenantQuota { burst_objects: Some(2), ..ten }, burst("burst_objects", None)),
        ] {
            assert_eq!(quota.validate(), expected, "{quota:?}");
        }
    }
}
