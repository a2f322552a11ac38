//! Log lines of this process's stores, on the standard error stream.

use std::fmt;
use std::time::Instant;

use mooncake_client::{LogLimiter, PlainLines};
use tracing::level_filters::LevelFilter;

/// Starts logging at the level that the environment variable `MC_LOG_LEVEL` names; without it, warnings and errors. If
/// the process has a `tracing` subscriber already, that one stays.
pub fn start() {
    let name = std::env::var("MC_LOG_LEVEL").unwrap_or_default();
    let level = level(&name);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(LevelFilter::WARN))
        .with_writer(|| PlainLines::new(std::io::stderr(), false))
        .with_ansi(false)
        // If standard error is closed, the process goes on without a log. To report the failed write there would
        // panic.
        .log_internal_errors(false)
        .finish();
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        tracing::debug!("the process has a log already");
    }
    if level.is_none() {
        tracing::warn!(
            "MC_LOG_LEVEL is {name:?}, which is no level, and is taken for warn; there are trace, debug, info, warn, \
             error and off"
        );
    }
}

/// The level of this name, in upper or lower case; `None` if there is no such level.
fn level(name: &str) -> Option<LevelFilter> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "trace" => LevelFilter::TRACE,
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        "" | "warn" | "warning" => LevelFilter::WARN,
        "error" | "fatal" => LevelFilter::ERROR,
        "off" | "none" => LevelFilter::OFF,
        _ => return None,
    })
}

/// Warns of a call that failed or was refused. The limiter admits few lines for each pair of operation and cause.
pub fn warn(operation: &str, cause: &str, text: fmt::Arguments<'_>) {
    if let Some(more) = admit(operation, cause) {
        tracing::warn!("{operation}: {text}{more}");
    }
}

/// As [`warn`], of the call that this thread has made last: the line names it, as the logs of master and nodes do.
pub fn warn_of_call(operation: &str, cause: &str, text: fmt::Arguments<'_>) {
    if let Some(more) = admit(operation, cause) {
        let request = mooncake_calls::last().map(tracing::field::display);
        tracing::warn!(request, "{operation}: {text}{more}");
    }
}

/// As [`warn`], at the level of errors: for a mistake that the program has to correct.
pub fn error(operation: &str, cause: &str, text: fmt::Arguments<'_>) {
    if let Some(more) = admit(operation, cause) {
        tracing::error!("{operation}: {text}{more}");
    }
}

/// `None` if the limiter holds this line back. Otherwise the end of the line: how many were held back since the last.
fn admit(operation: &str, cause: &str) -> Option<String> {
    static LIMITER: LogLimiter<(String, String)> = LogLimiter::new();
    let cause = (operation.to_owned(), cause.to_owned());
    Some(match LIMITER.admit(cause, Instant::now())? {
        0 => String::new(),
        further => format!(" ({further} more since the last such line)"),
    })
}
