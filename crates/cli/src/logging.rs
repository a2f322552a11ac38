//! Logs of all programs: to standard error, with time, level and target.

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// What helps to find a fault.
    Debug,
    /// What an operator wants to know.
    #[default]
    Info,
    /// What may be wrong.
    Warn,
    /// What is wrong.
    Error,
    /// Nothing.
    Off,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Trace => LevelFilter::TRACE,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Off => LevelFilter::OFF,
        }
    }
}

/// Starts logging for this process. A second call changes nothing.
pub fn start(level: LogLevel) {
    use std::io::IsTerminal;
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // A program goes on when nobody reads its log any more; telling that to the same stream would end it.
        .log_internal_errors(false)
        .finish();
    // Fails only if a subscriber is there already.
    let _ = tracing::subscriber::set_global_default(subscriber);
}
