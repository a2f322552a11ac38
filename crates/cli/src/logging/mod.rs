//! Logs of all programs: to standard error, with time, level and target.

mod json_lines;

use clap::ValueEnum;
use mooncake_client::{PROTOCOL_VERSION, PlainLines, SOFTWARE_VERSION};
use tracing::level_filters::LevelFilter;

use json_lines::JsonLines;

/// How much is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Everything.
    Trace,
    /// Details that help to find a fault.
    Debug,
    /// Events that an operator wants to know.
    #[default]
    Info,
    /// Events that may be faults.
    Warn,
    /// Faults.
    Error,
    /// Nothing.
    Off,
}

/// How log messages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object on each line, for programs.
    Json,
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

/// Starts logging for a program, whose first line says what it is.
pub(crate) fn start_of(program: &str, level: LogLevel, format: LogFormat) {
    start(level, format);
    tracing::info!(version = SOFTWARE_VERSION, protocol = PROTOCOL_VERSION, "{program} starts");
}

/// Starts logging for a command whose user reads its messages, if the environment asks for a log by `MC_LOG_LEVEL`.
pub(crate) fn start_if_asked() {
    let name = std::env::var("MC_LOG_LEVEL").unwrap_or_default();
    if let Ok(level) = LogLevel::from_str(name.trim(), true) {
        start(level, LogFormat::Text);
    }
}

/// Starts logging for this process. Further calls change nothing.
pub fn start(level: LogLevel, format: LogFormat) {
    use std::io::IsTerminal;
    let is_coloured = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::from(level))
        .with_writer(move || PlainLines::new(std::io::stderr(), is_coloured))
        .with_ansi(is_coloured)
        // If the reader of the log is gone, the program must go on. A message about it would go to the same stream,
        // and end the program.
        .log_internal_errors(false);
    // An error means that the process has a subscriber already.
    let _ = match format {
        LogFormat::Text => tracing::subscriber::set_global_default(builder.finish()),
        LogFormat::Json => {
            tracing::subscriber::set_global_default(builder.event_format(JsonLines).finish())
        }
    };
}
