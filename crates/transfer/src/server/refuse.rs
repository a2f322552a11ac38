use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use mooncake_wire::{Refusal, encode_refusal};

use crate::stream;

/// How long a refused peer has to read why.
const LINGER: Duration = Duration::from_secs(1);

/// Sends the refusal, and ends the connection. For a moment it reads what the peer still sends: a close with unread
/// bytes would reset the connection, and the refusal might be lost.
pub(super) fn refuse(stream: &TcpStream, request_id: u64, refusal: &Refusal) {
    let mut frame = Vec::new();
    encode_refusal(&mut frame, request_id, refusal);
    let deadline = Instant::now() + LINGER;
    let _ = stream.set_write_timeout(Some(LINGER));
    if stream::send_all(stream, &frame, &[], false).is_err()
        || stream.shutdown(Shutdown::Write).is_err()
    {
        return;
    }
    let mut waste = vec![0; 64 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        let mut stream = stream;
        if !matches!(stream.read(&mut waste), Ok(1..)) {
            return;
        }
    }
}
