//! `mooncake`: all programs of the store in one binary.

use std::ffi::CString;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use mooncake_client::nearest;

use crate::exit::{complain, say};
use crate::objects::{exists, get, ls, pin, put, rm, stat};
use crate::{
    alias, bench, client, completions, doctor, drain, events, explain, man, master, status, top,
    trace, version,
};

/// A command of this binary.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    main: fn(&[String]) -> ExitCode,
    /// Its flags, for completions and man pages.
    command: fn() -> Command,
}

pub(crate) const PROGRAMS: &[Program] = &[
    Program {
        name: "master",
        about: "Run a master (also mooncake_master)",
        main: master::main,
        command: master::command,
    },
    Program {
        name: "client",
        about: "Run a storage node (also mooncake_client)",
        main: client::main,
        command: client::command,
    },
    Program {
        name: "get",
        about: "Write the bytes of an object to standard output or a file",
        main: get::main,
        command: get::GetArgs::command,
    },
    Program {
        name: "put",
        about: "Put an object out of a file or standard input",
        main: put::main,
        command: put::PutArgs::command,
    },
    Program {
        name: "ls",
        about: "List keys, by prefix or expression",
        main: ls::main,
        command: ls::LsArgs::command,
    },
    Program {
        name: "stat",
        about: "Say where objects lie, and what protects them",
        main: stat::main,
        command: stat::StatArgs::command,
    },
    Program {
        name: "exists",
        about: "Say whether keys have objects",
        main: exists::main,
        command: exists::ExistsArgs::command,
    },
    Program {
        name: "rm",
        about: "Remove objects, by key, prefix or expression",
        main: rm::main,
        command: rm::RmArgs::command,
    },
    Program {
        name: "pin",
        about: "Pin objects softly for a time",
        main: pin::main,
        command: pin::PinArgs::command,
    },
    Program {
        name: "events",
        about: "Follow which keys the pool stores and removes",
        main: events::main,
        command: events::EventsArgs::command,
    },
    Program {
        name: "top",
        about: "Show a pool as it works, at a terminal",
        main: top::main,
        command: top::TopArgs::command,
    },
    Program {
        name: "bench",
        about: "Say what a pool gives from here",
        main: bench::main,
        command: bench::BenchArgs::command,
    },
    Program {
        name: "status",
        about: "Say which master leads, how full the pool is, and what is wrong with it",
        main: status::main,
        command: status::command,
    },
    Program {
        name: "doctor",
        about: "Say which way bytes take to each segment, and why",
        main: doctor::main,
        command: doctor::command,
    },
    Program {
        name: "drain",
        about: "Move what lies in segments to others, so that their nodes can be taken away",
        main: drain::main,
        command: drain::command,
    },
    Program {
        name: "sim",
        about: "Say what a pool of a size would hit on a trace of requests",
        main: mooncake_workload::sim::main,
        command: mooncake_workload::sim::command,
    },
    Program {
        name: "trace",
        about: "Make a trace for sim out of the KV events of an engine, or out of a log of requests",
        main: trace::main,
        command: trace::command,
    },
    Program {
        name: "replay",
        about: "Replay real requests against a pool and check every byte",
        main: mooncake_replay::main,
        command: mooncake_replay::command,
    },
    Program {
        name: "error",
        about: "Say what an error code means and what to do about it",
        main: explain::main,
        command: explain::command,
    },
    Program {
        name: "completions",
        about: "Print the script by which a shell completes commands and flags",
        main: completions::main,
        command: completions::CompletionsArgs::command,
    },
    Program {
        name: "man",
        about: "Write the man pages of all commands",
        main: man::main,
        command: man::ManArgs::command,
    },
];

impl Program {
    fn find(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Runs the program. Operators find its process under its own name.
    fn run(&self, args: &[String]) -> ExitCode {
        if let Ok(name) = CString::new(format!("mooncake_{}", self.name)) {
            // The name has no effect on the program.
            let _ = rustix::thread::set_name(&name);
        }
        (self.main)(args)
    }
}

/// All commands and their flags, as one tree.
pub(crate) fn tree() -> Command {
    let all = PROGRAMS.iter().map(|program| (program.command)().name(program.name));
    Command::new("mooncake")
        .about("A distributed KV-cache store for LLM inference")
        .version(version::SHORT)
        .subcommands(all)
}

/// Runs the program that this process is named after, or else the one that the first argument names. `args` lack the
/// program's own name.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let own = alias::command_of(std::env::args_os().next());
    if let Some(program) = own.as_deref().and_then(Program::find) {
        return program.run(args);
    }
    let Some((name, rest)) = args.split_first() else {
        complain(format_args!("{}", usage()));
        return ExitCode::from(2);
    };
    if let Some(program) = Program::find(name) {
        return program.run(rest);
    }
    match name.trim_start_matches('-') {
        "help" | "h" => {
            say(format_args!("{}", usage()));
            ExitCode::SUCCESS
        }
        "version" | "V" => {
            say(format_args!("{}\n", version::line()));
            ExitCode::SUCCESS
        }
        _ => {
            let hint = nearest(name, PROGRAMS.iter().map(|program| program.name))
                .map(|name| format!("; did you mean {name}?"))
                .unwrap_or_default();
            complain(format_args!("mooncake: there is no command '{name}'{hint}\n\n{}\n", usage()));
            ExitCode::from(2)
        }
    }
}

fn usage() -> String {
    let lines: String = PROGRAMS
        .iter()
        .map(|program| format!("  {:<11} {}\n", program.name, program.about))
        .collect();
    format!(
        "A distributed KV-cache store for LLM inference.\n\nUsage: mooncake <COMMAND> [FLAGS]\n\nCommands:\n{lines}\n\
         'mooncake <COMMAND> --help' shows the flags of a command.\n"
    )
}
