//! `mooncake completions`: the scripts by which shells complete commands and flags.

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use clap_complete::{Shell, generate};

use crate::exit::{self, say};
use crate::{client, master, mooncake};

/// Print the script by which a shell completes the commands and their flags.
///
/// The wheel has the scripts where bash, zsh and fish look for them below the folder that it is installed in.
#[derive(Debug, Parser)]
#[command(name = "mooncake completions", max_term_width = 110)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: KnownShell,
    /// The program to complete.
    #[arg(long, value_name = "NAME", default_value = "mooncake")]
    program: CompletedProgram,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum CompletedProgram {
    Mooncake,
    MooncakeMaster,
    MooncakeClient,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    let args: CompletionsArgs = match exit::parse("mooncake completions", args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    say(format_args!("{}", script(args.shell, args.program)));
    ExitCode::SUCCESS
}

fn script(shell: KnownShell, program: CompletedProgram) -> String {
    let shell = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let (mut command, name) = match program {
        CompletedProgram::Mooncake => (mooncake::tree(), "mooncake"),
        CompletedProgram::MooncakeMaster => (master::command(), "mooncake_master"),
        CompletedProgram::MooncakeClient => (client::command(), "mooncake_client"),
    };
    let mut text = Vec::new();
    generate(shell, &mut command, name, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
