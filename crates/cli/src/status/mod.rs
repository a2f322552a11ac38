//! `mooncake status`: which master leads, how full the pool is, and what is wrong with it. Enter at [`main`].

mod args;
mod master;
mod report;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use mooncake_http::admin;

use crate::exit::{self, complain, say};
use crate::{drain, segment_list};
use args::StatusArgs;
use master::Master;
use report::{Pool, json, problems, text};

/// The flags of the program.
pub(crate) fn command() -> clap::Command {
    <StatusArgs as clap::CommandFactory>::command()
}

/// Runs the program with `args`, which lack its name. The status is 0 without problems, 1 with problems, and 2 for
/// wrong arguments.
#[must_use]
pub fn main(args: &[String]) -> ExitCode {
    let args: StatusArgs = match exit::parse("mooncake status", args) {
        Ok(args) => args,
        Err(status) => return status,
    };
    let addresses = match args.masters.admin_addresses_or(&args.given) {
        Ok(addresses) => addresses,
        Err(reason) => return exit::failure("mooncake status", &reason),
    };
    let masters: Vec<Master> = addresses.iter().map(|http| Master::ask(http)).collect();
    let pool = masters.iter().find(|master| master.leads()).map(|leader| pool_of(&leader.http));
    let (pool, failure) = match pool.transpose() {
        Ok(pool) => (pool, None),
        Err(reason) => (None, Some(reason)),
    };
    let problems = problems(&masters, pool.as_ref());
    match args.json {
        true => say(format_args!("{}\n", json(&masters, pool.as_ref(), &problems))),
        false => say(format_args!("{}", text(&masters, pool.as_ref(), &problems))),
    }
    if let Some(reason) = &failure {
        complain(format_args!("mooncake status: {reason}\n"));
    }
    if problems.is_empty() && failure.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn pool_of(http: &str) -> Result<Pool, String> {
    let segments = segment_list::list(http).map_err(|error| error.to_string())?;
    let metrics = admin::get(http, "/metrics").map_err(|error| error.to_string())?;
    let drains = drain::api::running(http).map_err(|error| error.to_string())?;
    Ok(Pool { object_count: admin::metric(&metrics, "master_key_count"), segments, drains })
}
