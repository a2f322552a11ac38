use std::ops::Deref;

use bytes::Bytes;
use mooncake_wire::Header;

use crate::Inbox;

/// A frame that arrived.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Its kind, its body's length, and the request it answers.
    pub header: Header,
    /// Its body.
    pub body: Body<'a>,
}

/// The body of a frame, in the receive buffer of the connection.
#[derive(Debug)]
pub struct Body<'a> {
    /// Its last bytes are those that were taken last.
    pub(crate) inbox: &'a mut Inbox,
    pub(crate) len: usize,
}

impl Body<'_> {
    /// The body in memory of its own. A long one is not copied.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.inbox.taken_bytes(self.len)
    }
}

impl Deref for Body<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.inbox.taken(self.len)
    }
}
