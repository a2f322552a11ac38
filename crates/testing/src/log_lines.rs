use std::io;
use std::sync::{Arc, Mutex};

/// Captures log lines.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What this thread logs while `act` runs, without times and modules: a line each.
///
/// # Panics
/// If `act` does.
pub fn logged(act: impl FnOnce()) -> String {
    let log = Log::default();
    let of_writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .with_writer(move || of_writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, act);
    let bytes = log.0.lock().expect("no writer panicked").clone();
    String::from_utf8(bytes).expect("a log is text")
}
