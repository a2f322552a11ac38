//! Programs that run one command of `mooncake`. All commands are in the one binary `mooncake`, which lies beside them.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::exit;

/// Replaces this process by `mooncake`, with this process's name and arguments. Returns only if that fails.
#[must_use]
pub fn run(name: &str) -> ExitCode {
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return exit::failure(name, &format!("cannot find itself: {error}")),
    };
    let program = own.with_file_name("mooncake");
    let error = Command::new(&program).arg0(name).args(std::env::args_os().skip(1)).exec();
    exit::failure(name, &format!("cannot run {}: {error}", program.display()))
}

/// The command that a program's name or path stands for: `master` for `mooncake_master`.
pub(crate) fn command_of(program: Option<OsString>) -> Option<String> {
    let name = Path::new(&program?).file_name()?.to_str()?.to_owned();
    name.strip_prefix("mooncake_").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_commands() {
        let rows = [
            (Some("mooncake_master"), Some("master")),
            (Some("/usr/bin/mooncake_client"), Some("client")),
            (Some("mooncake"), None),
            (Some("/mooncake_master/mooncake"), None),
            (Some(""), None),
            (None, None),
        ];
        for (program, command) in rows {
            assert_eq!(command_of(program.map(Into::into)).as_deref(), command, "{program:?}");
        }
    }
}
