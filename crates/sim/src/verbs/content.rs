use mooncake_ops::Part;
use mooncake_types::{ErrorCode, Version};

use crate::extents::Extents;
use crate::task::After;

/// A part of an object, and whether the object has it.
pub(crate) type Wanted = (Part, bool);

/// The version that memory is all of, if it holds these parts of one object of that key; no version if there is nothing
/// to look at. A part that is not there has its place all the same.
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

/// What an item was answered must be true: if its parts were read, all their bytes are of one committed version that was
/// there after the get began. Gives the version, unless there was nothing to read.
pub(crate) fn check_item(
    position: usize,
    found: Result<Vec<Wanted>, ErrorCode>,
    after: &mut After<'_>,
) -> Option<Version> {
    let (key, desk) = (after.keys[position], &mut *after.desk);
    let parts = match found {
        Ok(parts) => parts,
        Err(code) => {
            desk.count_failed_get(code);
            match code {
                ErrorCode::ObjectNotFound if desk.judges_misses => {
                    let verdict = desk.history.check_miss(key, after.began);
                    desk.judge("what is there is found", verdict);
                }
                // The last of them: whenever it was looked up, it was replaced before it was read.
                ErrorCode::ObjectNotFound
                | ErrorCode::ReplicaIsNotReady
                | ErrorCode::ObjectReplicaBusy => {}
                code if desk.judges_failures => {
                    desk.blame("nothing fails", format!("a get of key {key}: {code:?}"));
                }
                _ => {}
            }
            return None;
        }
    };
    match one_version(key, &parts, &after.buffers[position]) {
        Ok(version) => {
            let version = version?;
            desk.check_version(key, version, after.began);
            desk.tally.right += 1;
            Some(version)
        }
        Err(text) => {
            desk.blame("all bytes of a read are of one version", format!("key {key}: {text}"));
            None
        }
    }
}
