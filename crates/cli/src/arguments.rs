use std::process::ExitCode;

use crate::exit::complain;

/// Runs `main` with the arguments of this process, without the program's name.
#[must_use]
pub fn with_arguments(main: fn(&[String]) -> ExitCode) -> ExitCode {
    let mut args = Vec::new();
    for argument in std::env::args_os().skip(1) {
        match argument.into_string() {
            Ok(argument) => args.push(argument),
            Err(argument) => {
                complain(format_args!("the argument {} is not UTF-8\n", argument.display()));
                return ExitCode::from(2);
            }
        }
    }
    main(&args)
}
