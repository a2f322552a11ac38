//! A bar for the progress of one large object.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

use super::parts::PART_BYTES;

const TEMPLATE: &str = "{msg} [{bar:32}] {bytes}/{total_bytes}  {bytes_per_sec}  {eta}";

/// Shows at a terminal how many bytes have moved; elsewhere, and for an object of one part, nothing.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn start(verb: &'static str, len: u64) -> Self {
        if len <= PART_BYTES || !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is valid");
        Self(ProgressBar::new(len).with_style(style).with_message(verb))
    }

    pub(super) fn moved(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
