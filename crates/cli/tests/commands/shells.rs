//! Completions and man pages.

use std::process::Command;

use crate::pool::{MOONCAKE, fed, folder, mooncake};

fn run(args: &[&str]) -> String {
    fed(mooncake(args), b"").ok().text().to_owned()
}

#[test]
fn bash_completes_commands_and_flags() {
    let complete = |words: &str| {
        let script = format!(
            "source <(\"$0\" completions bash); COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _mooncake mooncake \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let mut command = Command::new("bash");
        command.args(["--norc", "-c", &script, MOONCAKE]);
        fed(command, b"").ok().text().trim_end().to_owned()
    };
    assert_eq!(complete("mooncake ex"), "exists");
    assert_eq!(complete("mooncake get --outp"), "--output");
    assert_eq!(complete("mooncake completions f"), "fish");
    let all = complete("mooncake ''");
    assert!(
        ["get", "put", "bench", "status"].iter().all(|name| all.split(' ').any(|it| it == *name)),
        "{all}"
    );
}

#[test]
fn scripts_for_all_shells_know_all_programs() {
    for (shell, program, words) in [
        ("bash", "mooncake", &["complete -F _mooncake", "--hard-pin"][..]),
        ("bash", "mooncake_master", &["complete -F _mooncake_master", "--rpc_port"]),
        ("zsh", "mooncake", &["#compdef mooncake", "--hard-pin", "Remove objects"]),
        ("zsh", "mooncake_client", &["#compdef mooncake_client", "--global_segment_size"]),
        ("fish", "mooncake", &["complete -c mooncake", "hard-pin"]),
        ("fish", "mooncake_master", &["complete -c mooncake_master", "rpc_port"]),
    ] {
        let script = run(&["completions", shell, "--program", program]);
        assert!(
            words.iter().all(|word| script.contains(word)),
            "{shell} {program} lacks one of {words:?}"
        );
    }
    fed(mooncake(&["completions", "bahs"]), b"").fails(2, "error: invalid value 'bahs'");
}

#[test]
fn every_command_has_a_man_page_with_its_flags() {
    let folder = folder("man");
    let said = run(&["man", folder.to_str().expect("text")]);
    let page = |name: &str| std::fs::read_to_string(folder.join(format!("{name}.1")));
    let commands = run(&["help"]);
    let (_, commands) = commands.split_once("Commands:\n").expect("a list");
    let names = commands.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut count = 3;
    for name in names {
        let text =
            page(&format!("mooncake-{name}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(
            text.contains(&format!(".TH mooncake-{name} 1")) && text.contains(".SH SYNOPSIS"),
            "{name}:\n{text}"
        );
        count += 1;
    }
    assert_eq!(said, format!("{count} pages in {}\n", folder.display()));
    for (name, words) in [
        ("mooncake", "mooncake\\-get(1)"),
        ("mooncake-put", "\\-\\-hard\\-pin"),
        ("mooncake_master", "\\-\\-rpc_port"),
        ("mooncake_client", "\\-\\-global_segment_size"),
    ] {
        let text = page(name).expect("a page");
        assert!(text.contains(words), "{name} lacks {words}:\n{text}");
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
    let nowhere = fed(mooncake(&["man", "/proc/none"]), b"");
    nowhere.fails(1, "mooncake man: cannot write to /proc/none: ");
}
