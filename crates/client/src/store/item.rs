use mooncake_memory::SliceList;

/// One object to put: the bytes of `src`, one after the other. The memory stays as it is until the put returns.
#[derive(Clone, Debug)]
pub struct PutSource<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its bytes; their number is the object's length, which is not zero.
    pub src: SliceList,
    /// The group that the object belongs to for good: objects of one group are leased and evicted together. Empty:
    /// none.
    pub group: &'a str,
}

impl<'a> PutSource<'a> {
    /// An object of no group.
    #[must_use]
    pub const fn new(key: &'a str, src: SliceList) -> Self {
        Self { key, src, group: "" }
    }
}

/// One object to get, and where to. Nothing touches the memory after the get has returned.
#[derive(Clone, Debug)]
pub struct GetTarget<'a> {
    /// Its key.
    pub key: &'a str,
    /// Room for it; may be longer than the object.
    pub dst: SliceList,
}

/// How the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The master answered the last ping.
    Ok,
    /// The last ping failed, or the store is closed.
    MasterUnreachable,
    /// A thread of this process panicked ([`mooncake_memory::broken_thread`]): the process should be replaced.
    Broken,
}
