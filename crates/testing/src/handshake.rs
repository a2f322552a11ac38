use std::io::{self, Read, Write};

use mooncake_connection::{Answered, Challenge, on_answer};
use mooncake_wire::{
    Expected, HEADER_LEN, Header, Hello, Kind, Refusal, Welcome, decode_hello, decode_proof,
    encode_challenge, encode_hello, encode_proof, encode_refusal, encode_welcome,
};

/// Reads one frame's header and body.
///
/// # Errors
/// Those of the stream.
pub fn read_frame(stream: &mut impl Read) -> io::Result<(Header, Vec<u8>)> {
    let mut head = [0; HEADER_LEN];
    stream.read_exact(&mut head)?;
    let header = Header::decode(&head).map_err(io::Error::other)?;
    let mut body = vec![0; header.body_len as usize];
    stream.read_exact(&mut body)?;
    Ok((header, body))
}

/// Greets a server, and proves that this side knows the token in the hello if the server asks. Returns the last answer, a
/// welcome or a refusal.
///
/// # Errors
/// Those of the stream.
pub fn greet(stream: &mut (impl Read + Write), hello: &Hello) -> io::Result<(Header, Vec<u8>)> {
    let mut out = Vec::new();
    encode_hello(&mut out, 7, hello);
    stream.write_all(&out)?;
    let (header, body) = read_frame(stream)?;
    if header.kind != Kind::Challenge {
        return Ok((header, body));
    }
    let answer = on_answer(hello, (header.kind, body.into())).map_err(other)?;
    let Answered::Asked(asked) = answer else { unreachable!("a challenge asks") };
    out.clear();
    encode_proof(&mut out, 8, &asked.proof);
    stream.write_all(&out)?;
    read_frame(stream)
}

/// Greets a client as a server of the pool with this name and this token, or none. Returns its hello.
///
/// # Errors
/// Those of the stream, or the refusal that the client got.
pub fn admit(
    stream: &mut (impl Read + Write),
    (cluster_id, auth_token): (&str, &str),
    welcome: &Welcome,
) -> io::Result<Hello> {
    let (header, body) = read_frame(stream)?;
    let hello = decode_hello(&body).map_err(io::Error::other)?;
    let expected = Expected { cluster_id, auth_token, roles: &[] };
    let (mut out, mut id, mut mac) = (Vec::new(), header.request_id, None);
    let challenge = match Challenge::draw(&hello, &expected) {
        Ok(challenge) => challenge,
        Err(refusal) => return refuse(stream, id, refusal),
    };
    if let Some(challenge) = challenge {
        encode_challenge(&mut out, id, challenge.nonce());
        stream.write_all(&out)?;
        out.clear();
        let (header, body) = read_frame(stream)?;
        id = header.request_id;
        let proof = decode_proof(&body).map_err(io::Error::other)?;
        match challenge.check(&proof, &expected) {
            Ok(admitted) => mac = admitted.mac,
            Err(refusal) => return refuse(stream, id, refusal),
        }
    }
    encode_welcome(&mut out, id, &Welcome { mac, ..welcome.clone() });
    stream.write_all(&out)?;
    Ok(hello)
}

fn refuse(stream: &mut impl Write, id: u64, refusal: Refusal) -> io::Result<Hello> {
    let mut out = Vec::new();
    encode_refusal(&mut out, id, &refusal);
    stream.write_all(&out)?;
    Err(io::Error::other(refusal))
}

fn other(fault: mooncake_connection::Fault) -> io::Error {
    io::Error::other(fault.to_string())
}
