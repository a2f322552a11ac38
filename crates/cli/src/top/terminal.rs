//! The screen, and the keys that the user presses.

use std::io::{self, Stdout, Write, stdin, stdout};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use ratatui::backend::TermionBackend;
use ratatui::termion::clear;
use ratatui::termion::event::Key;
use ratatui::termion::input::TermRead;
use ratatui::termion::raw::{IntoRawMode, RawTerminal};
use ratatui::termion::screen::{AlternateScreen, IntoAlternateScreen};
use ratatui::{Frame, Terminal};

/// The terminal in its own screen. Dropping it brings back what was there before.
pub(super) struct Screen {
    terminal: Terminal<TermionBackend<AlternateScreen<RawTerminal<Stdout>>>>,
    keys: Receiver<Key>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let mut raw = stdout().into_raw_mode()?.into_alternate_screen()?;
        // Terminal::clear would ask the terminal where its cursor is, and read the answer among the keys.
        write!(raw, "{}", clear::All)?;
        let terminal = Terminal::new(TermionBackend::new(raw))?;
        let (send, keys) = mpsc::channel();
        // The thread ends with the process: nothing ends a read of a terminal.
        std::thread::Builder::new().name("mooncake-keys".to_owned()).spawn(move || {
            let pressed = stdin().keys().map_while(Result::ok);
            let _ = pressed.map(|key| send.send(key)).take_while(Result::is_ok).count();
        })?;
        Ok(Self { terminal, keys })
    }

    pub(super) fn draw(&mut self, paint: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(paint).map(|_| ())
    }

    /// The next key, if one is pressed within this time.
    pub(super) fn key(&mut self, most: Duration) -> Option<Key> {
        match self.keys.recv_timeout(most) {
            Ok(key) => Some(key),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            // The terminal is gone.
            Err(mpsc::RecvTimeoutError::Disconnected) => Some(Key::Ctrl('c')),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
    }
}
