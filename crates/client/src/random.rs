use crate::open_error::OpenError;

/// 128 random bits from the system.
pub(crate) fn random() -> Result<u128, OpenError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| OpenError::Random { reason: error.to_string() })?;
    Ok(u128::from_le_bytes(bytes))
}
