//! `mooncake error`: explains error codes, and what to do about them.

use std::fmt::Write;
use std::process::ExitCode;

use mooncake_client::nearest;
use mooncake_types::ErrorCode;

use crate::exit::{complain, say};

const USAGE: &str = "\
Say what an error code means and what to do about it.

Usage: mooncake error [CODE...]

CODE is a number like -200, or a name like NO_AVAILABLE_HANDLE. Without one, all codes that calls return are listed.
";

/// The arguments of the program.
pub(crate) fn command() -> clap::Command {
    let code = clap::Arg::new("code").value_name("CODE").num_args(0..);
    let code = code.help("A number like -200, or a name like NO_AVAILABLE_HANDLE");
    let about = "Say what an error code means and what to do about it; without a code, list all that calls return";
    clap::Command::new("mooncake error").about(about).arg(code)
}

/// Runs the program with `args`, which lack its name. The status is 0 if all codes exist, and 2 if not.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    if args.iter().any(|arg| matches!(&**arg, "-h" | "--help" | "help")) {
        say(format_args!("{USAGE}"));
        return ExitCode::SUCCESS;
    }
    let codes: Result<Vec<ErrorCode>, String> = match args {
        [] => Ok(ErrorCode::ALL.iter().copied().filter(|code| code.advice().is_some()).collect()),
        args => args.iter().map(|arg| read(arg)).collect(),
    };
    match codes {
        Ok(codes) => {
            let texts: Vec<String> = codes.into_iter().map(text).collect();
            say(format_args!("{}", texts.join("\n")));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            complain(format_args!("mooncake error: {reason}\n"));
            ExitCode::from(2)
        }
    }
}

/// Parses a number, with or without its sign, or a name in any case.
fn read(text: &str) -> Result<ErrorCode, String> {
    if let Ok(number) = text.parse::<i32>() {
        let code = ErrorCode::from_number(number.checked_neg().map_or(number, |it| it.min(number)));
        return code.ok_or_else(|| format!("{text} is no error code; 'mooncake error' lists them"));
    }
    let wanted = text.to_ascii_uppercase();
    ErrorCode::ALL.iter().copied().find(|code| code.name() == wanted).ok_or_else(|| {
        let hint = nearest(&wanted, ErrorCode::ALL.iter().map(|code| code.name()));
        let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        format!("{text} is no error code{hint}")
    })
}

fn text(code: ErrorCode) -> String {
    let mut text = format!("{code}\n");
    let _ = match code.advice() {
        Some(advice) => writeln!(text, "  {}\n  {}", advice.meaning, advice.remedy),
        None => writeln!(text, "  A code of the C++ store; no call returns it here."),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_or_a_name_is_explained() {
        for word in ["-200", "200", "NO_AVAILABLE_HANDLE", "no_available_handle"] {
            assert_eq!(read(word), Ok(ErrorCode::NoAvailableHandle), "{word}");
        }
        let said = text(ErrorCode::NoAvailableHandle);
        assert!(said.starts_with("NO_AVAILABLE_HANDLE (-200)\n  The pool has no room"), "{said}");
        assert!(text(ErrorCode::OplogEntryNotFound).contains("no call returns it here"));
    }

    #[test]
    fn what_is_no_code_is_named() {
        let unknown = "-2 is no error code; 'mooncake error' lists them";
        assert_eq!(read("-2"), Err(unknown.to_owned()));
        let slip = read("NO_AVAILABLE_HANDEL").expect_err("it is misspelt");
        assert!(slip.ends_with("did you mean NO_AVAILABLE_HANDLE?"), "{slip}");
        assert!(read("-2147483648").is_err() && read("").is_err());
    }
}
