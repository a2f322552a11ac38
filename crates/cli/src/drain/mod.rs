//! `mooncake drain`: empties segments through the master's HTTP interface, and waits. Enter at [`main`].

mod api;
mod args;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use mooncake_types::ByteSize;

use crate::exit::{complain, say};
use api::Progress;
use args::DrainArgs;

/// Time between two questions.
const PACE: Duration = Duration::from_millis(200);
/// Time between two lines about a job about which there is nothing new.
const PERIOD: Duration = Duration::from_secs(2);
/// Questions that may fail one after the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the program; `args` are without its name. The status is 0 if the segments are empty, 3 if the time was over before,
/// 2 for wrong arguments, and 1 for everything else.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let name = "mooncake drain".to_owned();
    let args = match DrainArgs::try_parse_from(std::iter::once(&name).chain(args)) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    run(&args).unwrap_or_else(|reason| {
        complain(format_args!("mooncake drain: {reason}\n"));
        ExitCode::FAILURE
    })
}

fn run(args: &DrainArgs) -> Result<ExitCode, String> {
    if let Some(job) = &args.cancel {
        api::cancel(&args.master_http, job)?;
        say(format_args!("{job} canceled\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let job = match &args.job {
        Some(job) => job.clone(),
        None => api::create(args)?,
    };
    complain(format_args!("drain job {job}\n"));
    let limit = (args.timeout_sec > 0).then(|| Duration::from_secs(args.timeout_sec));
    let last = watch(&args.master_http, &job, limit)?;
    Ok(conclude(&job, &last))
}

/// Tells of a job until it has ended, or the time is over.
fn watch(address: &str, job: &str, limit: Option<Duration>) -> Result<Progress, String> {
    let begun = Instant::now();
    let (mut told, mut answered) = (None::<(Instant, Progress)>, Instant::now());
    loop {
        match api::query(address, job) {
            Ok(now) => {
                answered = Instant::now();
                let is_new = told.as_ref().is_none_or(|(at, before)| {
                    at.elapsed() >= PERIOD && *before != now
                        || before.status_name != now.status_name
                });
                if is_new {
                    complain(format_args!("{}\n", line(&now)));
                    told = Some((Instant::now(), now.clone()));
                }
                if now.has_ended() || limit.is_some_and(|limit| begun.elapsed() >= limit) {
                    return Ok(now);
                }
            }
            Err(reason) if answered.elapsed() >= PATIENCE || reason.contains("JOB_NOT_FOUND") => {
                return Err(reason);
            }
            Err(_) => {}
        }
        std::thread::sleep(PACE);
    }
}

fn line(progress: &Progress) -> String {
    let mut text = format!(
        "{}: {} moved ({}), {} left",
        progress.status_name,
        progress.succeeded_units - progress.released_units.min(progress.succeeded_units),
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

fn conclude(job: &str, last: &Progress) -> ExitCode {
    match &*last.status_name {
        "SUCCEEDED" => {
            say(format_args!(
                "{}\nThe segments are empty; their nodes can be stopped.\n",
                line(last)
            ));
            ExitCode::SUCCESS
        }
        "FAILED" | "CANCELED" => {
            say(format_args!("{}\n", line(last)));
            complain(format_args!("mooncake drain: {}\n", last.message));
            ExitCode::FAILURE
        }
        _ => {
            say(format_args!("{}\n", line(last)));
            complain(format_args!(
                "mooncake drain: the time is over; the job goes on: mooncake drain --job {job}\n"
            ));
            ExitCode::from(3)
        }
    }
}
