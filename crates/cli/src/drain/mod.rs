//! `mooncake drain`: drains segments through the masters' HTTP interface, and waits. Enter at [`main`].

pub(crate) mod api;
mod args;
mod watch;

use std::process::ExitCode;

use mooncake_types::{ByteSize, ErrorCode};
use serde_json::json;

use crate::admin_masters::{ApiError, Masters};
use crate::exit::{self, complain, say};
use crate::stop_signal::StopSignal;
use api::Progress;
use args::DrainArgs;
use watch::{Outcome, Watch};

/// The status after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// The flags of the program.
pub(crate) fn command() -> clap::Command {
    <DrainArgs as clap::CommandFactory>::command()
}

/// Runs the program with `args`, which lack its name. The status is 0 if the segments are empty, 3 if the time was
/// over first, 130 after a signal, 2 for wrong arguments, and 1 otherwise.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let args: DrainArgs = match exit::parse("mooncake drain", args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    run(&args).unwrap_or_else(|reason| {
        complain(format_args!("mooncake drain: {reason}\n"));
        ExitCode::FAILURE
    })
}

fn run(args: &DrainArgs) -> Result<ExitCode, String> {
    let auth_token = args.token.token().map_err(|error| error.to_string())?;
    let mut masters = Masters::at(&args.masters.admin_addresses()?, auth_token);
    if args.undo {
        for name in &args.segments {
            masters.undrain(name).map_err(|error| error.to_string())?;
            if !args.json {
                say(format_args!("{name} takes puts again\n"));
            }
        }
        if args.json {
            say(format_args!("{}\n", json!({"undrained": args.segments})));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(job) = &args.cancel {
        masters.cancel(job).map_err(|error| error.to_string())?;
        match args.json {
            true => say(format_args!("{}\n", json!({"job": job, "status": "CANCELED"}))),
            false => say(format_args!("{job} canceled\n")),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let job = match &args.job {
        Some(job) => job.clone(),
        None => match masters.create(args) {
            Ok(job) => job,
            Err(error) if is_done(&mut masters, args, &error) => {
                let drained =
                    json!({"job": null, "status": "SUCCEEDED", "segments": args.segments});
                match args.json {
                    true => say(format_args!("{drained}\n")),
                    false => say(format_args!(
                        "The segments are empty already; their nodes can be stopped.\n"
                    )),
                }
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => match running_job(&mut masters, args, &error) {
                Some(job) => job,
                None => return Err(explain(&error)),
            },
        },
    };
    // Before the job is named: from then on a signal ends the program with a line that names it again.
    let signals = StopSignal::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    complain(format_args!("drain job {job}\n"));
    let mut watch = Watch::of(&mut masters, args, job, signals.watch());
    match watch.run()? {
        Outcome::Interrupted => {
            let job = &watch.job;
            if args.json {
                say(format_args!("{}\n", watch.last.json()));
            }
            complain(format_args!(
                "mooncake drain: the job goes on: mooncake drain --job {job} follows it, --cancel {job} ends it\n"
            ));
            Ok(ExitCode::from(INTERRUPTED))
        }
        Outcome::Ended | Outcome::TimeIsOver => Ok(conclude(args.json, &watch.job, &watch.last)),
    }
}

/// The running job for these segments, if that is why another one was refused.
fn running_job(masters: &mut Masters, args: &DrainArgs, refusal: &ApiError) -> Option<String> {
    if !refusal.is(ErrorCode::UnavailableInCurrentStatus) {
        return None;
    }
    let job = masters.running_job_of(&args.segments)?;
    complain(format_args!("these segments are being drained already\n"));
    Some(job)
}

/// Whether a job was refused because all of its segments are drained already.
fn is_done(masters: &mut Masters, args: &DrainArgs, refusal: &ApiError) -> bool {
    refusal.is(ErrorCode::UnavailableInCurrentStatus)
        && args.segments.iter().all(|name| masters.is_drained(name).unwrap_or(false))
}

fn explain(error: &ApiError) -> String {
    if error.is(ErrorCode::UnavailableInCurrentStatus) {
        return format!(
            "{error}: a segment is being drained or takes no puts, or the master does not serve yet"
        );
    }
    error.to_string()
}

pub(crate) fn line(progress: &Progress) -> String {
    let mut text = format!(
        "{}: {} moved ({}), {} left",
        progress.status_name,
        progress.moved_units(),
        ByteSize(progress.migrated_bytes),
        progress.remaining_units
    );
    for (count, what) in [
        (progress.active_units, "on their way"),
        (progress.blocked_units, "waiting"),
        (progress.failed_units, "failed"),
        (progress.released_units, "let go, since another replica stays"),
    ] {
        if count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text
}

fn conclude(as_json: bool, job: &str, last: &Progress) -> ExitCode {
    match as_json {
        true => say(format_args!("{}\n", last.json())),
        false => say(format_args!("{}\n", line(last))),
    }
    match &*last.status_name {
        "SUCCEEDED" if as_json => ExitCode::SUCCESS,
        "SUCCEEDED" => {
            say(format_args!("The segments are empty; their nodes can be stopped.\n"));
            ExitCode::SUCCESS
        }
        "FAILED" | "CANCELED" => {
            complain(format_args!("mooncake drain: {}\n", last.message));
            ExitCode::FAILURE
        }
        _ => {
            complain(format_args!(
                "mooncake drain: the time is over; the job goes on: mooncake drain --job {job}\n"
            ));
            ExitCode::from(3)
        }
    }
}
