//! Rules that are broken on purpose, to see that a run finds it.

use mooncake_types::mutation::Rule;

/// Names the broken rule to the processes of a run.
pub(crate) const VARIABLE: &str = "MOONCAKE_CHAOS_BROKEN";

/// The rule of this name.
///
/// # Errors
/// There is none; the text has those that there are. Builds without debug assertions have none.
pub(crate) fn parse(name: &str) -> Result<String, String> {
    if !cfg!(debug_assertions) {
        return Err("this build breaks no rules: it has no debug assertions".to_owned());
    }
    match rule(name) {
        Some(_) => Ok(name.to_owned()),
        None => Err(format!("the rules are {:?}", Rule::ALL)),
    }
}

fn rule(name: &str) -> Option<Rule> {
    Rule::ALL.into_iter().find(|rule| format!("{rule:?}") == name)
}

/// Breaks the rule that the environment names, if any, in this process.
pub(crate) fn obey() {
    #[cfg(debug_assertions)]
    if let Some(rule) = std::env::var(VARIABLE).ok().and_then(|name| rule(&name)) {
        mooncake_types::mutation::break_rule_everywhere(rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_known_by_their_names() {
        for rule in Rule::ALL {
            assert_eq!(super::rule(&format!("{rule:?}")), Some(rule));
        }
        let refused = parse("NoSuchRule").expect_err("there is none");
        assert!(refused.contains("RemainsAreDropped"), "{refused}");
    }
}
