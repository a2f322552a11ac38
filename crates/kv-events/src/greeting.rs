//! How two sockets of ZeroMQ greet each other: without security, or by a password in the clear (ZMTP's mechanism PLAIN,
//! rfc.zeromq.org/spec/24).

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::zmtp::{COMMAND, MAX_MESSAGE_BYTES, read_frame, wrong};

/// How long a peer may take for the greeting.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(5);

const GREETING_BYTES: usize = 64;
/// How much of a greeting says only which version of the protocol it is of.
const VERSION_BYTES: usize = 12;
/// Where a greeting says whether its sender is the one that asks for a password.
const AS_SERVER: usize = 32;
const NULL: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const PLAIN: &[u8; 20] = b"PLAIN\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

const HELLO: &[u8] = b"\x05HELLO";
const WELCOME: &[u8] = b"\x07WELCOME";
const INITIATE: &[u8] = b"\x08INITIATE";
const READY: &[u8] = b"\x05READY";
const REFUSAL: &[u8] = b"\x05ERROR\x0ewrong password";

/// Who shows a password.
#[derive(Clone, Copy)]
pub(crate) enum Security<'a> {
    /// Nobody.
    Open,
    /// The peer, if this admits it.
    Ask(&'a dyn Fn(&[u8]) -> bool),
    /// This side, if the peer asks for one.
    Show(&'a [u8]),
}

/// Greets a peer as a socket of type `own`.
///
/// # Errors
/// If the peer is gone, does not speak this protocol, shows no right password, wants one that this side does not have, or
/// has none of the socket types in `peers`.
pub(crate) async fn greet(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    own: &str,
    peers: &[&str],
    security: Security<'_>,
) -> io::Result<()> {
    let mechanism = agree(stream, security).await?;
    let mut about_own = b"\x0bSocket-Type".to_vec();
    about_own.extend((own.len() as u32).to_be_bytes());
    about_own.extend(own.as_bytes());
    let theirs = match (security, mechanism) {
        (Security::Ask(admits), PLAIN) => {
            let hello = read_command(stream, HELLO).await?;
            if !password(&hello).is_some_and(admits) {
                write_command(stream, &[REFUSAL]).await?;
                return Err(wrong("its password is no token of this pool"));
            }
            write_command(stream, &[WELCOME]).await?;
            let theirs = read_command(stream, INITIATE).await?;
            write_command(stream, &[READY, &about_own]).await?;
            theirs
        }
        (Security::Show(shown), PLAIN) => {
            let len = [u8::try_from(shown.len()).map_err(|_| wrong("the token is too long"))?];
            write_command(stream, &[HELLO, &[0], &len, shown]).await?;
            read_command(stream, WELCOME).await?;
            write_command(stream, &[INITIATE, &about_own]).await?;
            read_command(stream, READY).await?
        }
        _ => {
            write_command(stream, &[READY, &about_own]).await?;
            read_command(stream, READY).await?
        }
    };
    match socket_type(&theirs) {
        Some(kind) if peers.contains(&kind) => Ok(()),
        Some(kind) => Err(wrong(&format!("a {own} socket serves no {kind} socket"))),
        None => Err(wrong("it does not say what kind of socket it is")),
    }
}

/// Exchanges greetings, which name the mechanism. Who could show a password looks first whether the peer asks for one.
async fn agree(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    security: Security<'_>,
) -> io::Result<&'static [u8; 20]> {
    let asks = matches!(security, Security::Ask(_));
    let mut mechanism = if asks { PLAIN } else { NULL };
    let mut greeting = [0; GREETING_BYTES];
    (greeting[0], greeting[8], greeting[9], greeting[10]) = (0xff, 1, 0x7f, 3);
    greeting[AS_SERVER] = u8::from(asks);
    stream.write_all(&greeting[..VERSION_BYTES]).await?;
    let mut theirs = [0; GREETING_BYTES];
    if let Security::Show(_) = security {
        stream.read_exact(&mut theirs).await?;
        if theirs[12..32] == *PLAIN {
            mechanism = PLAIN;
        }
    }
    greeting[12..32].copy_from_slice(mechanism);
    stream.write_all(&greeting[VERSION_BYTES..]).await?;
    if !matches!(security, Security::Show(_)) {
        stream.read_exact(&mut theirs).await?;
    }
    if (theirs[0], theirs[9]) != (0xff, 0x7f) || theirs[10] < 3 {
        return Err(wrong("it does not speak ZeroMQ, or a version before 4.0"));
    }
    match (&theirs[12..32] == mechanism, security) {
        (true, _) => Ok(mechanism),
        (false, Security::Ask(_)) => {
            Err(wrong("it shows no password: a token of the pool, by ZeroMQ's mechanism PLAIN"))
        }
        (false, _) if theirs[12..32] == *PLAIN => Err(wrong("it asks for a token of its pool")),
        (false, _) => Err(wrong("it wants encryption or a password, which are not served")),
    }
}

async fn write_command(stream: &mut (impl AsyncWrite + Unpin), parts: &[&[u8]]) -> io::Result<()> {
    let body = parts.concat();
    let head = match u8::try_from(body.len()) {
        Ok(len) => vec![COMMAND, len],
        Err(_) => [&[COMMAND | 2][..], &(body.len() as u64).to_be_bytes()].concat(),
    };
    stream.write_all(&[head, body].concat()).await
}

/// Reads a command of this name. Returns what follows the name.
async fn read_command(stream: &mut (impl AsyncRead + Unpin), name: &[u8]) -> io::Result<Vec<u8>> {
    let (flags, body) = read_frame(stream, MAX_MESSAGE_BYTES).await?;
    match body.strip_prefix(name).filter(|_| flags & COMMAND != 0) {
        Some(rest) => Ok(rest.to_vec()),
        None if body == REFUSAL => Err(wrong("the token is none of its pool")),
        None => Err(wrong("it greets in another way")),
    }
}

/// The password in what follows a HELLO. The name of the user is not looked at.
fn password(hello: &[u8]) -> Option<&[u8]> {
    let (&len, rest) = hello.split_first()?;
    let (_, rest) = rest.split_at_checked(usize::from(len))?;
    let (&len, rest) = rest.split_first()?;
    (rest.len() == usize::from(len)).then_some(rest)
}

/// The socket type among a peer's properties.
fn socket_type(mut properties: &[u8]) -> Option<&str> {
    while !properties.is_empty() {
        let (&len, rest) = properties.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(len))?;
        let (len, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            return std::str::from_utf8(value).ok();
        }
        properties = rest;
    }
    None
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// How a subscriber and a publisher find each other, the subscriber first.
    fn meet(showing: Security<'_>, asking: Security<'_>) -> [Option<String>; 2] {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (mut one, mut other) = duplex(4096);
        let met = runtime.block_on(async {
            // Who gives up closes the connection.
            let subscriber = async move { greet(&mut one, "SUB", &["PUB"], showing).await };
            let publisher = async move { greet(&mut other, "PUB", &["SUB"], asking).await };
            tokio::join!(subscriber, publisher)
        });
        [met.0, met.1].map(|met| met.err().map(|error| error.to_string()))
    }

    #[test]
    fn who_shows_a_token_of_the_pool_is_admitted_and_nobody_else() {
        let admits = |password: &[u8]| password == b"right";
        let ask = Security::Ask(&admits);
        assert_eq!(meet(Security::Open, Security::Open), [None, None]);
        assert_eq!(meet(Security::Show(b"right"), ask), [None, None]);
        assert_eq!(meet(Security::Show(b"any"), Security::Open), [None, None]);
        let said = |met: [Option<String>; 2]| met.map(Option::unwrap_or_default);
        let [subscriber, publisher] = said(meet(Security::Show(b"wrong"), ask));
        assert!(subscriber.contains("none of its pool"), "{subscriber}");
        assert!(publisher.contains("no token of this pool"), "{publisher}");
        let [subscriber, publisher] = said(meet(Security::Open, ask));
        assert!(subscriber.contains("asks for a token"), "{subscriber}");
        assert!(publisher.contains("shows no password"), "{publisher}");
        let [subscriber, _] = said(meet(Security::Show(&[b'x'; 300]), ask));
        assert!(subscriber.contains("too long"), "{subscriber}");
    }

    #[test]
    fn a_password_has_its_length_before_it() {
        assert_eq!(password(b"\x02me\x03abc"), Some(&b"abc"[..]));
        for hello in [&b""[..], b"\x02m", b"\x02me", b"\x02me\x04abc", b"\x02me\x02abc"] {
            assert_eq!(password(hello), None, "{hello:?}");
        }
    }
}
