use mooncake_memory::SliceList;

/// One object to put: the bytes of all slices in `src`, in order. The memory must not change until the put returns.
#[derive(Clone, Debug)]
pub struct PutSource<'a> {
    /// Its key.
    pub key: &'a str,
    /// Its bytes. Their number is the object's length, which must not be zero.
    pub src: SliceList<'a>,
    /// The group that the object belongs to for good; empty for none. Objects of one group are leased and evicted
    /// together.
    pub group: &'a str,
    /// The session that the object belongs to, for those who follow KV events; empty for none.
    pub session: &'a str,
}

impl<'a> PutSource<'a> {
    /// An object of no group and no session.
    #[must_use]
    pub const fn new(key: &'a str, src: SliceList<'a>) -> Self {
        Self { key, src, group: "", session: "" }
    }
}

/// One object to get, and the memory for it. Nothing touches the memory after the get has returned.
#[derive(Clone, Debug)]
pub struct GetTarget<'a> {
    /// Its key.
    pub key: &'a str,
    /// The memory for it; may be longer than the object.
    pub dst: SliceList<'a>,
}

/// The state of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The master answered the last ping.
    Ok,
    /// The last ping failed, or the store is closed.
    MasterUnreachable,
    /// A thread of this process panicked ([`mooncake_memory::broken_thread`]): the process should be replaced.
    Broken,
}
