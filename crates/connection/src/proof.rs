//! How both sides of a new connection show that they know a token, without sending it. The side that accepts asks with a
//! nonce; the other answers it, and asks in turn. An answer is worthless for any other connection, and to whoever got it.

use std::io;

use bytes::Bytes;
use mooncake_types::{Access, ErrorCode};
use mooncake_wire::{
    Expected, Hello, Kind, Mac, Nonce, PROTOCOL_VERSION, Proof, Refusal, Role, Welcome,
    decode_challenge, decode_welcome, same_secret,
};
use ring::hmac;

use crate::Fault;

const CLIENT: &[u8] = b"mooncake client\0";
const SERVER: &[u8] = b"mooncake server\0";

/// What the sender of a hello has to prove.
#[derive(Debug)]
pub struct Challenge {
    hello: Hello,
    nonce: Nonce,
}

/// What the sender of a hello may do, and how this side proves that it knows the same token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// What it may do.
    pub access: Access,
    /// For [`Welcome::mac`]. None in a pool without secrets.
    pub mac: Option<Mac>,
}

impl Admitted {
    /// What everybody may do in a pool without secrets.
    pub const BY_ALL: Self = Self { access: Access::ALL, mac: None };
}

impl Challenge {
    /// A challenge for the sender of this hello; none if the pool has no secret.
    ///
    /// # Errors
    /// The hello is of another pool or version, or the system has no random numbers.
    pub fn draw(hello: &Hello, expected: &Expected<'_>) -> Result<Option<Self>, Refusal> {
        hello.check(expected)?;
        if expected.is_open() {
            return Ok(None);
        }
        let nonce = draw_nonce().map_err(|error| Refusal::new(ErrorCode::InternalError, error))?;
        Ok(Some(Self { hello: hello.clone(), nonce }))
    }

    /// What to send.
    #[must_use]
    pub fn nonce(&self) -> &Nonce {
        &self.nonce
    }

    /// Checks the answer.
    ///
    /// # Errors
    /// The sender knows no token of the pool.
    pub fn check(&self, proof: &Proof, expected: &Expected<'_>) -> Result<Admitted, Refusal> {
        let nonces = [self.nonce, proof.nonce];
        // All are tried, so that the time says nothing about where the right one stands.
        let found = expected.tokens().fold(None, |found, (token, access)| {
            let is_right = same_secret(&mac(token, CLIENT, nonces, &self.hello), &proof.mac);
            if is_right { found.or(Some((token, access))) } else { found }
        });
        let (token, access) = found
            .ok_or_else(|| refusal("the auth token of the client is not that of the server"))?;
        Ok(Admitted { access, mac: Some(mac(token, SERVER, nonces, &self.hello)) })
    }
}

/// What follows on the first answer to a hello.
#[derive(Debug)]
pub enum Answered {
    /// The other side asks for no proof.
    Welcomed(Welcome),
    /// The other side asks for this proof.
    Asked(Asked),
}

/// The proof that the other side asked for, and what it has to prove in turn.
#[derive(Debug)]
pub struct Asked {
    /// What to send.
    pub proof: Proof,
    expected: Mac,
}

/// Understands the first answer to a hello: [`Kind::Welcome`] or [`Kind::Challenge`].
///
/// # Errors
/// One side has a token and the other has none, the answer cannot be read, or the system has no random numbers.
pub fn on_answer(hello: &Hello, (kind, body): (Kind, Bytes)) -> Result<Answered, Fault> {
    match (kind, hello.auth_token.is_empty()) {
        (Kind::Challenge, true) => {
            Err(Fault::Refused(refusal("the server asks for an auth token, the client has none")))
        }
        (Kind::Challenge, false) => {
            let (nonce, token) = (draw_nonce()?, &hello.auth_token);
            let nonces = [decode_challenge(&body)?, nonce];
            let proof = Proof { nonce, mac: mac(token, CLIENT, nonces, hello) };
            Ok(Answered::Asked(Asked { proof, expected: mac(token, SERVER, nonces, hello) }))
        }
        (_, true) => Ok(Answered::Welcomed(decode_welcome(&body)?)),
        (_, false) => {
            Err(Fault::Refused(refusal("the client has an auth token, the server has none")))
        }
    }
}

impl Asked {
    /// Takes the answer to the proof.
    ///
    /// # Errors
    /// It is no welcome, or does not prove that the other side knows the token.
    pub fn on_welcome(&self, body: &[u8]) -> Result<Welcome, Fault> {
        let welcome = decode_welcome(body)?;
        match welcome.mac.is_some_and(|mac| same_secret(&mac, &self.expected)) {
            true => Ok(welcome),
            false => Err(Fault::Refused(refusal("the server does not know the auth token"))),
        }
    }
}

fn refusal(message: &str) -> Refusal {
    Refusal::new(ErrorCode::IllegalClient, message)
}

fn mac(token: &str, label: &[u8], [of_server, of_client]: [Nonce; 2], hello: &Hello) -> Mac {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let mut signed = hmac::Context::with_key(&key);
    let role = match hello.role {
        Role::Client => 1,
        Role::Node => 2,
    };
    for part in [
        label,
        &of_server,
        &of_client,
        &PROTOCOL_VERSION.to_le_bytes(),
        &[role],
        &hello.client.0.to_be_bytes(),
        hello.cluster_id.as_bytes(),
    ] {
        signed.update(part);
    }
    let mut mac = [0; 32];
    mac.copy_from_slice(signed.sign().as_ref());
    mac
}

fn draw_nonce() -> io::Result<Nonce> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use mooncake_types::{ClientId, Epoch, Rights};
    use mooncake_wire::encode_welcome;

    use super::*;

    fn hello(token: &str) -> Hello {
        Hello { auth_token: token.into(), ..Hello::new(Role::Client, ClientId(7)) }
    }

    fn expected<'a>(auth_token: &'a str, roles: &'a [(String, Access)]) -> Expected<'a> {
        Expected { cluster_id: "", auth_token, roles }
    }

    fn challenge(expected: &Expected<'_>) -> Challenge {
        Challenge::draw(&hello(""), expected).expect("it belongs").expect("the pool has a secret")
    }

    fn asked(challenge: &Challenge, token: &str) -> Asked {
        let mut frame = Vec::new();
        mooncake_wire::encode_challenge(&mut frame, 1, challenge.nonce());
        let body = Bytes::from(frame).slice(mooncake_wire::HEADER_LEN..);
        match on_answer(&hello(token), (Kind::Challenge, body)) {
            Ok(Answered::Asked(asked)) => asked,
            _ => panic!("it was asked"),
        }
    }

    fn welcome(mac: Option<Mac>) -> Vec<u8> {
        let mut frame = Vec::new();
        encode_welcome(&mut frame, 1, &Welcome { mac, ..Welcome::new(Epoch(3)) });
        frame.split_off(mooncake_wire::HEADER_LEN)
    }

    #[test]
    fn both_sides_prove_that_they_know_a_token_of_the_pool() {
        let roles = [("reader".to_owned(), Access::of(Rights::READ))];
        for (token, access) in [("secret", Access::ALL), ("reader", Access::of(Rights::READ))] {
            let expected = expected("secret", &roles);
            let challenge = challenge(&expected);
            let asked = asked(&challenge, token);
            let admitted = challenge.check(&asked.proof, &expected).expect("it knows the token");
            assert_eq!(admitted.access, access);
            assert_eq!(
                asked.on_welcome(&welcome(admitted.mac)).expect("so does the server").epoch,
                Epoch(3)
            );
        }
        assert!(Challenge::draw(&hello(""), &expected("", &[])).expect("it belongs").is_none());
    }

    #[test]
    fn a_proof_of_another_token_or_connection_is_none() {
        let expected = expected("secret", &[]);
        let first = challenge(&expected);
        let code = |checked: Result<Admitted, Refusal>| checked.expect_err("no proof").code;
        for guess in ["secre", "secreT", "secrets", "s"] {
            let guessed = asked(&first, guess).proof;
            assert_eq!(code(first.check(&guessed, &expected)), ErrorCode::IllegalClient);
        }
        let heard = asked(&first, "secret").proof;
        let second = challenge(&expected);
        assert_eq!(code(second.check(&heard, &expected)), ErrorCode::IllegalClient);
        let renamed =
            Challenge { hello: Hello { client: ClientId(8), ..hello("") }, nonce: first.nonce };
        assert_eq!(code(renamed.check(&heard, &expected)), ErrorCode::IllegalClient);
    }

    #[test]
    fn a_server_that_does_not_know_the_token_is_told_nothing_more() {
        let expected = expected("secret", &[]);
        let asked = asked(&challenge(&expected), "secret");
        // What it heard is no answer to what it was asked.
        for mac in [None, Some([0; 32]), Some(asked.proof.mac)] {
            let fault = asked.on_welcome(&welcome(mac)).expect_err("it proves nothing");
            assert_eq!(
                fault.to_string(),
                "the server does not know the auth token (ILLEGAL_CLIENT)"
            );
        }
        let open = on_answer(&hello("secret"), (Kind::Welcome, welcome(None).into()));
        assert!(
            matches!(open, Err(Fault::Refused(refusal)) if refusal.message.contains("the server has none"))
        );
    }
}
