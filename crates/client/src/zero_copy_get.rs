use mooncake_memory::{Buffer, RawSlice};
use mooncake_transfer::View;

/// The bytes of one object, for the caller to read and write: a copy, or a view of a segment of this host. They are
/// those of one version for as long as this lives, even if the object is removed or replaced, its node dies, or the
/// store is closed. Writes to them change nothing else.
#[derive(Debug)]
pub struct ObjectBytes(Bytes);

#[derive(Debug)]
enum Bytes {
    Copied(Buffer),
    Seen(View),
}

impl ObjectBytes {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Copied(buffer) => buffer.len(),
            Bytes::Seen(view) => view.len(),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, which stay at this address for as long as this lives.
    #[must_use]
    pub fn raw(&self) -> RawSlice<'_> {
        match &self.0 {
            Bytes::Copied(buffer) => buffer.raw(),
            Bytes::Seen(view) => view.raw(),
        }
    }

    /// Whether they are still shown in a segment, and not copied.
    #[must_use]
    pub fn is_seen(&self) -> bool {
        matches!(&self.0, Bytes::Seen(view) if !view.is_detached())
    }
}

impl From<Buffer> for ObjectBytes {
    fn from(copy: Buffer) -> Self {
        Self(Bytes::Copied(copy))
    }
}

impl From<View> for ObjectBytes {
    fn from(view: View) -> Self {
        Self(Bytes::Seen(view))
    }
}
