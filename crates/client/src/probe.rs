use std::num::NonZeroUsize;

use mooncake_types::{ErrorCode, ExistOptions};

/// Which objects a probe protects as an existence check does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProbeLeases {
    /// None.
    #[default]
    None,
    /// The keys are groups of this length, and the last group that is there whole is protected.
    LastGroup(NonZeroUsize),
}

/// Probes keys with `exist`, which asks about keys: see [`crate::Store::probe`].
///
/// A group is protected by a second question about it alone. If one of its objects has left since the first, the answer
/// says so, and the group before is tried. Objects of such a group may stay protected for the length of a lease.
pub fn probe(
    keys: &[&str],
    leases: ProbeLeases,
    exist: impl Fn(&[&str], ExistOptions) -> Vec<Result<bool, ErrorCode>>,
) -> Vec<Result<bool, ErrorCode>> {
    let mut answers = exist(keys, ExistOptions::PROBE);
    let ProbeLeases::LastGroup(len) = leases else { return answers };
    let groups = keys.chunks(len.get()).zip(answers.chunks_mut(len.get()));
    for (keys, answers) in groups.rev() {
        let is_whole =
            |answers: &[Result<bool, ErrorCode>]| answers.iter().all(|answer| *answer == Ok(true));
        if keys.len() < len.get() || !is_whole(answers) {
            continue;
        }
        answers.clone_from_slice(&exist(keys, ExistOptions::default()));
        if is_whole(answers) {
            break;
        }
    }
    answers
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Probes keys of which these are there at first, and later those that are not `gone`. Returns the answers, and the
    /// keys of each question that leases.
    fn run(keys: &str, there: &str, gone: &str, group: usize) -> (Vec<bool>, Vec<String>) {
        let leased = RefCell::new(Vec::new());
        let exist = |keys: &[&str], options: ExistOptions| {
            if !options.probe {
                leased.borrow_mut().push(keys.concat());
            }
            let is_there =
                |key: &&str| there.contains(key) && (options.probe || !gone.contains(key));
            keys.iter().map(|key| Ok(is_there(key))).collect()
        };
        let keys: Vec<String> = keys.chars().map(String::from).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let leases = NonZeroUsize::new(group).map_or(ProbeLeases::None, ProbeLeases::LastGroup);
        let answers = probe(&keys, leases, exist).into_iter().map(|answer| answer == Ok(true));
        (answers.collect(), leased.into_inner())
    }

    #[test]
    fn only_the_last_whole_group_is_leased() {
        for (keys, there, gone, group, leased) in [
            ("abcd", "abcd", "", 0, vec![]),
            ("abcdef", "abcdef", "", 2, vec!["ef"]),
            ("abcdef", "abcdf", "", 2, vec!["cd"]),
            ("abcdef", "abdf", "f", 2, vec!["ab"]),
            ("abcdef", "acf", "", 2, vec![]),
            ("abcdef", "abcdef", "e", 2, vec!["ef", "cd"]),
            ("abc", "abc", "", 1, vec!["c"]),
            ("abc", "abc", "", 2, vec!["ab"]),
            ("", "", "", 1, vec![]),
        ] {
            let (answers, asked) = run(keys, there, gone, group);
            assert_eq!(asked, leased, "{keys} {there} {gone}");
            assert_eq!(answers.len(), keys.len());
        }
        assert_eq!(run("abcd", "abcd", "c", 2).0, [true, true, false, true]);
    }
}
