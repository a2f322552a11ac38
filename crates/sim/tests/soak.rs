//! The program that `make soak` runs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn soak(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_soak")).args(args).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The path of a file for one test, which does not exist yet.
fn file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{name}.json"));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn help_lists_the_flags() {
    let output = soak(&["--help"]);
    assert!(output.status.success());
    let help = text(&output.stdout);
    for flag in
        ["--seeds", "--first", "--events", "--kinds", "--threads", "--state <FILE>", "--broken"]
    {
        assert!(help.contains(flag), "{flag} in {help}");
    }
}

#[test]
fn bad_flags_are_named() {
    let cases: [(&[&str], &str); 8] = [
        (&["--seeds", "0"], "invalid value '0' for '--seeds <SEEDS>'"),
        (&["--seeds", "many"], "invalid value 'many' for '--seeds <SEEDS>'"),
        (&["--first", "-1"], "unexpected argument '-1'"),
        (&["--events", "0"], "invalid value '0' for '--events <EVENTS>'"),
        (&["--threads", "0"], "invalid value '0' for '--threads <THREADS>'"),
        (
            &["--kinds", "calm,storm"],
            "invalid value 'storm' for '--kinds <KINDS>': the kinds are calm, network, processes, masters, leaders",
        ),
        (&["--broken", "?"], "invalid value '?' for '--broken <RULE>': the rules are ["),
        (&["1000"], "unexpected argument '1000'"),
    ];
    for (args, expected) in cases {
        let output = soak(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(expected), "{args:?}: {error}");
    }
}

#[test]
fn a_state_that_cannot_be_gone_on_with_is_named() {
    let path = file("broken");
    let name = path.display().to_string();
    let plan = |first: u64, next: u64| {
        format!(
            "{{\"plan\": {{\"first\": {first}, \"events\": 20, \"kinds\": [\"calm\"]}}, \"next\": {next}, \"seconds\": 1.5, \
             \"runs\": 0, \"events\": 0, \"all_events\": 0, \"faults\": {{}}, \"met\": {{}}, \"found\": {{}}, \"findings\": []}}"
        )
    };
    let cases = [
        ("{".to_owned(), format!("{name} is no state of a soak: EOF while parsing")),
        (String::new(), format!("{name} is no state of a soak: EOF while parsing")),
        ("[]".to_owned(), format!("{name} is no state of a soak: invalid length 0")),
        ("{\"next\": 3}".to_owned(), format!("{name} is no state of a soak: missing field")),
        (
            plan(9, 9),
            format!(
                "{name} is of another soak: --first 9 --events 20 --kinds calm, \
                 now --first 4 --events 20 --kinds calm"
            ),
        ),
        (plan(4, 3), format!("{name} is no state of a soak: its next seed is before its first")),
    ];
    for (content, expected) in cases {
        std::fs::write(&path, &content).expect("the file is written");
        let flags = ["--first=4", "--seeds=1", "--events=20", "--kinds=calm", "--state", &name];
        let output = soak(&flags);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{content:?}: {error}");
        assert!(error.starts_with(&format!("soak: {expected}")), "{content:?}: {error}");
        assert_eq!(std::fs::read_to_string(&path).ok(), Some(content), "it is left as it was");
    }
    let output = soak(&["--seeds=1", "--events=20", "--state", "/no/such/folder/state"]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "soak: /no/such/folder/state: No such file or directory (os error 2)\n";
    assert_eq!(text(&output.stderr), expected);
}

/// The saved state, without the time that the runs took.
fn state(path: &Path) -> serde_json::Value {
    let content = std::fs::read_to_string(path).expect("the state is there");
    let mut state: serde_json::Value = serde_json::from_str(&content).expect("it is sound");
    assert!(state["seconds"].take().is_f64());
    state
}

#[test]
fn a_soak_goes_on_where_it_was_ended() {
    let (whole, parts) = (file("whole"), file("parts"));
    let run = |seeds: &str, path: &Path| {
        let path = path.display().to_string();
        let flags = ["--events=60", "--kinds=calm,masters", "--threads=2", "--seeds", seeds];
        let output = soak(&[&flags[..], &["--state", &path]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let told = run("5", &whole);
    run("2", &parts);
    assert_eq!(state(&parts)["next"], 2);
    run("5", &parts);
    assert_eq!(state(&parts), state(&whole));
    assert_eq!(state(&whole)["events"], 600);
    let begin = "5 seeds from 0 on, each as calm, masters: 10 runs, 600 events under faults, ";
    assert!(told.starts_with(begin), "{told}");
    assert!(told.contains("faults: ") && told.contains("met: "), "{told}");
    assert!(told.ends_with("nothing was wrong\n"), "{told}");
    // Seeds that have run are not repeated.
    let before = state(&whole);
    run("3", &whole);
    assert_eq!(state(&whole), before);
}

#[test]
#[cfg(debug_assertions)]
fn what_is_found_is_kept_with_the_command_that_repeats_it() {
    let path = file("findings");
    let name = path.display().to_string();
    let flags = ["--seeds=20", "--kinds=calm", "--broken=RemainsAreDropped", "--state", &name];
    let output = soak(&flags);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let state = state(&path);
    let finding = &state["findings"][0];
    let command = format!(
        "SEED={} KIND=calm cargo nextest run -p mooncake-sim --no-capture calm\n  event {}: {}: {}",
        finding["seed"],
        finding["event"],
        finding["rule"].as_str().expect("a rule"),
        finding["text"].as_str().expect("a text")
    );
    let told = text(&output.stdout);
    assert_eq!(told.matches(&command).count(), 2, "at once and at the end: {told}");
    assert!(told.contains("runs that found something, by rule: "), "{told}");
    // A later run reports the saved finding again.
    assert_eq!(soak(&flags).status.code(), Some(1));
}
