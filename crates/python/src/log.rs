//! Log lines of this process's stores, on the standard error stream.

use std::fmt;
use std::time::Instant;

use mooncake_client::LogLimiter;
use tracing::level_filters::LevelFilter;

/// Starts logging at the level that the environment variable `MC_LOG_LEVEL` names, warnings and errors without it.
/// A process that has a subscriber already keeps it.
pub(crate) fn start() {
    let level = std::env::var("MC_LOG_LEVEL").map_or(LevelFilter::WARN, |name| level(&name));
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // A process goes on when nobody reads its log any more; telling that to the same stream would raise.
        .log_internal_errors(false)
        .finish();
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        tracing::debug!("the process has a log already");
    }
}

fn level(name: &str) -> LevelFilter {
    match name.to_ascii_lowercase().as_str() {
        "trace" => LevelFilter::TRACE,
        "debug" => LevelFilter::DEBUG,
        "info" => LevelFilter::INFO,
        "error" | "fatal" => LevelFilter::ERROR,
        "off" | "none" => LevelFilter::OFF,
        _ => LevelFilter::WARN,
    }
}

/// Warns of a call that failed or was refused: one line for what is wrong with which operation, however many calls there are.
pub(crate) fn warn(operation: &str, cause: &str, text: fmt::Arguments<'_>) {
    if let Some(more) = admit(operation, cause) {
        tracing::warn!("{operation}: {text}{more}");
    }
}

/// As [`warn`], for what a program has to mend.
pub(crate) fn error(operation: &str, cause: &str, text: fmt::Arguments<'_>) {
    if let Some(more) = admit(operation, cause) {
        tracing::error!("{operation}: {text}{more}");
    }
}

/// Whether there is to be a line: if so, what it says of those that were kept back.
fn admit(operation: &str, cause: &str) -> Option<String> {
    static LIMITER: LogLimiter<(String, String)> = LogLimiter::new();
    let cause = (operation.to_owned(), cause.to_owned());
    Some(match LIMITER.admit(cause, Instant::now())? {
        0 => String::new(),
        further => format!(" ({further} more since the last such line)"),
    })
}
