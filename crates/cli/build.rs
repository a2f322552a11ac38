//! Tells the commands which commit they are built from. `MOONCAKE_COMMIT` names it where there is no git, or no clone.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=MOONCAKE_COMMIT");
    let named = std::env::var("MOONCAKE_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = named.or_else(commit_of_clone).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=MOONCAKE_COMMIT={commit}");
}

/// The commit that is checked out. The log of HEAD grows whenever another one is.
fn commit_of_clone() -> Option<String> {
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|it| it.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
