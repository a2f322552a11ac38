use std::ops::Deref;

use bytes::Bytes;
use mooncake_wire::Header;

/// A frame that arrived.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Its kind, its body's length, and the request it answers.
    pub header: Header,
    /// Its body.
    pub body: Body<'a>,
}

/// The body of a frame.
#[derive(Debug)]
pub enum Body<'a> {
    /// In the receive buffer of the connection.
    Short(&'a [u8]),
    /// In a buffer of its own.
    Long(Vec<u8>),
}

impl Body<'_> {
    /// The body in a buffer of its own.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Body::Short(body) => Bytes::copy_from_slice(body),
            Body::Long(body) => body.into(),
        }
    }
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Short(body) => body,
            Body::Long(body) => body,
        }
    }
}
