//! Rules that a run breaks on purpose, to see that it detects the violation.

use mooncake_types::mutation::Rule;

/// The environment variable that names the broken rule to the processes of a run.
pub(crate) const VARIABLE: &str = "MOONCAKE_CHAOS_BROKEN";

/// Checks the name of a rule.
///
/// # Errors
/// If no rule has this name: the text lists all rules. Builds without debug assertions can break none.
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

/// Breaks the rule that the environment names in this process, if there is one.
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
