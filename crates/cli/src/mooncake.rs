//! `mooncake`: all programs of the store in one binary.

use std::ffi::CString;
use std::process::ExitCode;

use mooncake_client::nearest;

use crate::exit::{complain, say};
use crate::{alias, client, doctor, drain, explain, master, status, trace};

struct Program {
    name: &'static str,
    about: &'static str,
    main: fn(&[String]) -> ExitCode,
}

const PROGRAMS: &[Program] = &[
    Program { name: "master", about: "Run a master (also mooncake_master)", main: master::main },
    Program {
        name: "client",
        about: "Run a storage node (also mooncake_client)",
        main: client::main,
    },
    Program {
        name: "replay",
        about: "Replay real requests against a pool and check every byte",
        main: mooncake_replay::main,
    },
    Program {
        name: "sim",
        about: "Say what a pool of a size would hit on a trace of requests",
        main: mooncake_workload::sim::main,
    },
    Program {
        name: "trace",
        about: "Make a trace for sim out of the KV events of an engine, or out of a log of requests",
        main: trace::main,
    },
    Program {
        name: "status",
        about: "Say which master leads, how full the pool is, and what is wrong with it",
        main: status::main,
    },
    Program {
        name: "drain",
        about: "Move what lies in segments to others, so that their nodes can be taken away",
        main: drain::main,
    },
    Program {
        name: "doctor",
        about: "Say which way bytes take to each segment, and why",
        main: doctor::main,
    },
    Program {
        name: "error",
        about: "Say what an error code means and what to do about it",
        main: explain::main,
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
            say(format_args!("mooncake {}\n", env!("CARGO_PKG_VERSION")));
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
        .map(|program| format!("  {:<8} {}\n", program.name, program.about))
        .collect();
    format!(
        "A distributed KV-cache store for LLM inference.\n\nUsage: mooncake <COMMAND> [FLAGS]\n\nCommands:\n{lines}\n\
         'mooncake <COMMAND> --help' shows the flags of a command.\n"
    )
}
