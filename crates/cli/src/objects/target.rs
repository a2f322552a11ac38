//! Where the bytes of an object go.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::outcome::CommandError;
use super::output::Output;

/// Standard output, memory, or a file. A file gets its name once all bytes are in it.
pub(super) enum Target {
    Standard { output: Output, takes_any: bool },
    Memory(Vec<u8>),
    File(NewFile),
}

impl Target {
    /// The file of this name, or standard output for `-`. Without a name standard output, which shows only text if it
    /// is a terminal.
    pub(super) fn open(name: Option<&Path>) -> Result<Self, CommandError> {
        let takes_any = name.is_some() || !io::stdout().is_terminal();
        match name {
            Some(path) if path != Path::new("-") => Ok(Self::File(NewFile::create(path)?)),
            _ => Ok(Self::Standard { output: Output::new(), takes_any }),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        match self {
            Self::Standard { takes_any: false, .. } if !is_text(bytes) => Err(CommandError::usage(
                "the value is no text for a terminal; --output FILE writes it to a file, --output - shows it all the \
                 same",
            )),
            Self::Standard { output, .. } => output.bytes(bytes),
            Self::Memory(memory) => {
                memory.extend_from_slice(bytes);
                Ok(())
            }
            Self::File(file) => file.write(bytes),
        }
    }

    /// Makes what was written visible.
    pub(super) fn finish(&mut self) -> Result<(), CommandError> {
        match self {
            Self::Standard { output, .. } => output.flush(),
            Self::Memory(_) => Ok(()),
            Self::File(file) => file.finish(),
        }
    }
}

/// Whether a terminal shows these bytes as they are meant.
fn is_text(bytes: &[u8]) -> bool {
    let is_plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t' | '\r');
    std::str::from_utf8(bytes).is_ok_and(|text| text.chars().all(is_plain))
}

/// A file that is written under another name first, so that a failure leaves what was there. A name that stands for a
/// pipe or a device is written to at once.
pub(super) struct NewFile {
    file: File,
    path: PathBuf,
    /// Its name until it is whole.
    partial: Option<PathBuf>,
}

impl NewFile {
    fn create(path: &Path) -> Result<Self, CommandError> {
        let is_special = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
        let partial = (!is_special).then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}.partial", std::process::id()));
            PathBuf::from(name)
        });
        let opened = match &partial {
            Some(partial) => File::create_new(partial),
            None => File::options().write(true).open(path),
        };
        match opened {
            Ok(file) => Ok(Self { file, path: path.to_owned(), partial }),
            Err(error) => Err(unwritable(path, &error)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        self.file.write_all(bytes).map_err(|error| unwritable(&self.path, &error))
    }

    fn finish(&mut self) -> Result<(), CommandError> {
        let Some(partial) = self.partial.take() else { return Ok(()) };
        std::fs::rename(&partial, &self.path).map_err(|error| {
            let _ = std::fs::remove_file(&partial);
            unwritable(&self.path, &error)
        })
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            let _ = std::fs::remove_file(partial);
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> CommandError {
    CommandError::failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_text_only() {
        for (bytes, expected) in [
            (&b"hello\tworld\r\n"[..], true),
            ("grün".as_bytes(), true),
            (b"\x1b[2J", false),
            (b"\xff\xfe", false),
            (b"a\0b", false),
        ] {
            assert_eq!(is_text(bytes), expected, "{bytes:?}");
        }
    }
}
