//! What tests share that walk through all doors of a pool with secrets: who comes, with which secrets, and what a port
//! makes of a frame.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use mooncake_types::ErrorCode;
use mooncake_wire::{Header, Kind, decode_refusal};

use crate::certificates::{Authority, CertificateFiles};
use crate::read_frame;

/// What the tokens of those allow who come. The last is the secret of the pool, which stands in no file.
pub const CALLERS: [&str; 6] = ["read", "write", "read,write", "metrics", "admin", "all"];

/// The token of one of these, or of nobody.
#[must_use]
pub fn token_of(caller: &str) -> String {
    format!("token-{caller}")
}

/// A folder with the secrets of a pool. It goes with this.
#[derive(Debug)]
pub struct Secrets {
    folder: PathBuf,
    /// A file with a line for each caller but the last.
    pub roles: PathBuf,
    /// Of a member on loopback.
    pub certificates: CertificateFiles,
}

impl Secrets {
    /// Writes them into a folder of this name and this process.
    ///
    /// # Panics
    /// The folder for temporary files cannot be written.
    #[must_use]
    pub fn write(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("mooncake-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for tests");
        let [callers @ .., _] = CALLERS;
        let lines = callers.map(|caller| format!("{caller} {}\n", token_of(caller)));
        let roles = folder.join("roles");
        fs::write(&roles, lines.concat()).expect("a folder for tests");
        fs::set_permissions(&roles, fs::Permissions::from_mode(0o600)).expect("our own file");
        let certificates = Authority::new().write(&folder, &["127.0.0.1"]);
        Self { folder, roles, certificates }
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        // Whatever is left of it lies in the folder for temporary files.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What a port makes of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It refuses the frame and closes the connection.
    Refused {
        /// The code of the refusal.
        code: ErrorCode,
        /// Its message.
        message: String,
    },
    /// It answers by a frame of this kind.
    Answered(Kind),
    /// It neither answers nor closes the connection for a moment, as for frames without an answer.
    Silent,
    /// It closes the connection without a word.
    Closed,
}

/// Sends a frame of this kind without a body.
///
/// # Errors
/// Those of the stream, and of an answer that is no frame.
pub fn verdict_on(stream: &mut (impl Read + Write), kind: Kind) -> io::Result<Verdict> {
    stream.write_all(&Header { kind, flags: 0, body_len: 0, request_id: 9 }.encode())?;
    match read_frame(stream) {
        Ok((Header { kind: Kind::Refusal, .. }, body)) => {
            let refusal = decode_refusal(&body).map_err(io::Error::other)?;
            Ok(Verdict::Refused { code: refusal.code, message: refusal.message })
        }
        Ok((header, _)) => Ok(Verdict::Answered(header.kind)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(Verdict::Silent),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => Ok(Verdict::Closed),
            _ => Err(error),
        },
    }
}
