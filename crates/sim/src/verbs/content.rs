use mooncake_ops::Part;
use mooncake_types::{ErrorCode, Version};

use crate::extents::Extents;
use crate::task::After;

/// A part that was asked for, and whether the object is long enough to have it.
pub(crate) type Wanted = (Part, bool);

/// The version of the bytes in `memory`, where these parts lie one after the other. `None` if the object has none of
/// the parts. A part that the object lacks still takes up its length.
fn one_version(key: usize, parts: &[Wanted], memory: &Extents) -> Result<Option<Version>, String> {
    let mut found = None;
    let mut place = 0;
    for (part, is_there) in parts {
        let pieces = if *is_there { memory.read(place, part.len) } else { Vec::new() };
        place += part.len;
        let mut at = part.from;
        for piece in pieces {
            let content = piece.content.ok_or_else(|| format!("nothing at {at} of {part:?}"))?;
            let version = *found.get_or_insert(content.version);
            if (content.key, content.version, content.at) != (key, version, at) {
                return Err(format!("{content:?} at {at}, and {version} before it"));
            }
            at += piece.len;
        }
    }
    Ok(found)
}

/// Judges the answer to one item of a get. If parts were read, all their bytes must be of one committed version that
/// was readable after the get began. Returns the version, unless there was nothing to read.
pub(crate) fn check_item(
    position: usize,
    found: Result<Vec<Wanted>, ErrorCode>,
    after: &mut After<'_>,
) -> Option<Version> {
    let (key, run_state) = (after.keys[position], &mut *after.run_state);
    let parts = match found {
        Ok(parts) => parts,
        Err(code) => {
            run_state.count_failed_get(code);
            match code {
                ErrorCode::ObjectNotFound if run_state.judges_misses => {
                    let verdict = run_state.history.check_miss(key, after.began);
                    run_state.judge("what is there is found", verdict);
                }
                // Writers replaced the object between each look-up and its read.
                ErrorCode::ObjectNotFound
                | ErrorCode::ReplicaIsNotReady
                | ErrorCode::ObjectReplicaBusy => {}
                code if run_state.judges_failures => {
                    run_state.blame("nothing fails", format!("a get of key {key}: {code:?}"));
                }
                _ => {}
            }
            return None;
        }
    };
    match one_version(key, &parts, &after.buffers[position]) {
        Ok(version) => {
            let version = version?;
            run_state.check_version(key, version, after.began);
            run_state.tally.right += 1;
            Some(version)
        }
        Err(text) => {
            run_state.blame("all bytes of a read are of one version", format!("key {key}: {text}"));
            None
        }
    }
}
