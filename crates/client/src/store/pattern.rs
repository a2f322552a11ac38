use mooncake_types::{ErrorCode, limits};

/// Most characters of a pattern that a warning shows.
const SHOWN_CHARS: usize = 80;

/// Warns of what a code alone does not say: that the pattern was refused, and what may be wrong with it.
pub(super) fn warn_if_refused<T>(pattern: Option<&str>, result: &Result<T, ErrorCode>) {
    let (Some(pattern), Err(ErrorCode::InvalidParams)) = (pattern, result) else { return };
    let end = pattern.char_indices().nth(SHOWN_CHARS).map_or(pattern.len(), |(end, _)| end);
    tracing::warn!(
        pattern = &pattern[..end],
        "the pattern was refused: it does not parse, is longer than {} bytes, or needs look-around or \
         back-references, which matching in linear time excludes",
        limits::MAX_REGEX_BYTES
    );
}
