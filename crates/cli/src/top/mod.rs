//! `mooncake top`: a pool as it works, at a terminal. Enter at [`main`].
//!
//! `told` asks the leader, `rates` says what happened between two samples, `view` keeps what the user chose, `draw`
//! paints, `terminal` is the screen and the keys.

mod args;
mod draw;
mod json;
mod rates;
mod terminal;
mod told;
mod view;

use std::io::{IsTerminal, stdin, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

pub(crate) use self::args::TopArgs;
use self::terminal::Screen;
use self::told::Told;
use self::view::{Next, View};
use crate::admin_masters::Masters;
use crate::exit::complain;
use crate::objects::outcome::{CommandError, Outcome, run};
use crate::objects::output::Output;

/// The leader makes no new numbers before this time is over.
const INTERVAL: Duration = Duration::from_secs(2);

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run("mooncake top", args, |args: &TopArgs| top(args))
}

fn top(args: &TopArgs) -> Result<Outcome, CommandError> {
    let token = args.token.token().map_err(|error| CommandError::usage(error.to_string()))?;
    let addresses = args.pool.admin_addresses().map_err(CommandError::failed)?;
    let mut masters = Masters::at(&addresses, token);
    let failed = |error: crate::admin_masters::ApiError| CommandError::failed(error.to_string());
    let first = Told::ask(&mut masters).map_err(failed)?;
    if args.json {
        return print(&mut masters, first, args.count.unwrap_or(u64::MAX));
    }
    if !stdout().is_terminal() || !stdin().is_terminal() {
        return Err(CommandError::usage("it needs a terminal; --json prints lines without one"));
    }
    let of_terminal = |error| CommandError::failed(format!("the terminal: {error}"));
    let mut screen = Screen::open().map_err(of_terminal)?;
    let ended = show(&mut masters, first, &mut screen);
    drop(screen);
    ended.map_err(of_terminal)
}

/// Prints a line of JSON for each interval. A leader that does not answer is said, and asked again.
fn print(masters: &mut Masters, first: Told, count: u64) -> Result<Outcome, CommandError> {
    let mut output = Output::new();
    output.line(format_args!("{}", json::line(&first)))?;
    output.flush()?;
    let (mut printed, mut failure) = (1, None);
    while printed < count {
        std::thread::sleep(INTERVAL);
        match Told::ask(masters) {
            Ok(told) => {
                output.line(format_args!("{}", json::line(&told)))?;
                output.flush()?;
                (printed, failure) = (printed + 1, None);
            }
            Err(error) if failure.is_none() => {
                complain(format_args!("mooncake top: {error}\n"));
                failure = Some(error);
            }
            Err(_) => {}
        }
    }
    Ok(Outcome::Done)
}

/// Paints until the user ends it. A leader that does not answer is said, and asked again.
fn show(masters: &mut Masters, first: Told, screen: &mut Screen) -> std::io::Result<Outcome> {
    let mut view = View::new();
    let (mut told, mut failure) = (first, None);
    let mut due = Instant::now() + INTERVAL;
    loop {
        screen.draw(|frame| draw::draw(frame, &told, &mut view, failure.as_deref()))?;
        if let Some(key) = screen.key(due.saturating_duration_since(Instant::now())) {
            match view.on_key(key) {
                Next::End => return Ok(Outcome::Done),
                Next::Show => continue,
            }
        }
        if Instant::now() < due {
            continue;
        }
        match Told::ask(masters) {
            Ok(news) => (told, failure) = (news, None),
            Err(error) => failure = Some(error.to_string()),
        }
        due = Instant::now() + INTERVAL;
    }
}
