//! `mooncake events`: follows the KV events of a pool. Enter at [`main`].

mod event;
mod source;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::sync::oneshot;

use self::event::{BadEvent, Event};
use self::source::endpoint;
use crate::auth_token::TokenFlags;
use crate::exit::complain;
use crate::objects::outcome::{CommandError, Outcome, run};
use crate::objects::output::Output;
use crate::pool::PoolName;

const PROGRAM: &str = "mooncake events";
/// A publisher that is lost later than this was there: it is looked for again.
const SETTLED: Duration = Duration::from_secs(1);
/// Time between two attempts to find it.
const PACE: Duration = Duration::from_millis(500);

/// Follow the KV events of a pool: which tier holds which key from now on, or no longer.
///
/// The master publishes them if it was started with --enable_kv_events. A line has the time (UTC), stored, removed or
/// cleared, the tier (cpu is memory), and the key; then its group and session, if it has them. If the leader changes,
/// the command follows the next one, which begins with cleared.
///
/// It ends with --count or --seconds, or with Ctrl-C. The exit status is 2 for wrong arguments, and 1 if there is no
/// publisher.
#[derive(Debug, Parser)]
#[command(name = "mooncake events", max_term_width = 110)]
pub(crate) struct EventsArgs {
    /// Endpoint of the publisher, like tcp://HOST:5557 [default: the one that the leader names over admin HTTP].
    #[arg(long, value_name = "ENDPOINT", value_parser = crate::trace::endpoint)]
    endpoint: Option<String>,
    /// Only events of keys that begin with this text.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    prefix: String,
    /// End after so many events.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End after this time.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    seconds: Option<u64>,
    /// Print each event as a line of JSON, with all its fields.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pool: PoolName,
    #[command(flatten)]
    token: TokenFlags,
}

/// Runs the program with `args`, which lack its name.
#[must_use]
pub(crate) fn main(args: &[String]) -> ExitCode {
    run(PROGRAM, args, |args: &EventsArgs| follow(args))
}

fn follow(args: &EventsArgs) -> Result<Outcome, CommandError> {
    let begun = Instant::now();
    let most = args.seconds.map_or(Duration::MAX, Duration::from_secs);
    let token = args.token.token().map_err(|error| CommandError::failed(error.to_string()))?;
    let mut reader = Reader::new(args, &token);
    loop {
        let left = most.saturating_sub(begun.elapsed());
        let followed = endpoint(args, &token).and_then(|address| reader.follow(&address, left));
        let error = match followed {
            Ok(()) => return Ok(Outcome::Done),
            Err(error @ (CommandError::ClosedOutput | CommandError::Usage { .. })) => {
                return Err(error);
            }
            Err(error) => error,
        };
        if begun.elapsed() < SETTLED {
            return Err(error);
        }
        reader.tell_loss(&error);
        if begun.elapsed() + PACE >= most {
            return Ok(Outcome::Done);
        }
        std::thread::sleep(PACE);
    }
}

/// Prints events as they come.
struct Reader<'a> {
    args: &'a EventsArgs,
    token: &'a str,
    output: Output,
    printed: u64,
    /// The number of the last batch of this publisher.
    last: Option<u64>,
    is_loss_told: bool,
}

impl<'a> Reader<'a> {
    fn new(args: &'a EventsArgs, token: &'a str) -> Self {
        Self { args, token, output: Output::new(), printed: 0, last: None, is_loss_told: false }
    }

    /// Follows one publisher until the events or the time are over.
    fn follow(&mut self, address: &str, most: Duration) -> Result<(), CommandError> {
        self.last = None;
        let (end, ended) = oneshot::channel::<()>();
        let (mut end, mut result) = (Some(end), Ok(()));
        let stop = async {
            // The sender lives until the end, so that no error comes before.
            let _ = ended.await;
        };
        let followed =
            mooncake_kv_events::follow((address, self.token), (most, stop), |number, bytes| {
                self.is_loss_told = false;
                match self.print(number, bytes) {
                    Ok(true) => {}
                    Ok(false) => drop(end.take()),
                    Err(error) => {
                        result = Err(error);
                        drop(end.take());
                    }
                }
            });
        result?;
        let reason = |error| format!("the publisher at {address}: {error}");
        followed.map_err(|error| CommandError::failed(reason(error)))
    }

    /// Prints a batch. Returns whether more events are wanted.
    fn print(&mut self, number: u64, bytes: &[u8]) -> Result<bool, CommandError> {
        let next = self.last.map_or(number, |last| last.wrapping_add(1));
        if number > next {
            complain(format_args!("{PROGRAM}: {} batches were lost on the way\n", number - next));
        }
        self.last = Some(number);
        let events = match event::read(bytes) {
            Ok(events) => events,
            Err(BadEvent) => {
                complain(format_args!("{PROGRAM}: batch {number} is no batch of KV events\n"));
                return Ok(true);
            }
        };
        let is_wanted =
            |event: &&Event| event.key().is_none_or(|key| key.starts_with(&self.args.prefix));
        for event in events.iter().filter(is_wanted) {
            let line = if self.args.json { event.json() } else { event.text() };
            self.output.line(format_args!("{line}"))?;
            self.printed += 1;
            if self.args.count == Some(self.printed) {
                self.output.flush()?;
                return Ok(false);
            }
        }
        self.output.flush()?;
        Ok(true)
    }

    /// Says once that the publisher is gone.
    fn tell_loss(&mut self, error: &CommandError) {
        if !std::mem::replace(&mut self.is_loss_told, true) {
            complain(format_args!("{PROGRAM}: {error}; waits for the next one\n"));
        }
    }
}
