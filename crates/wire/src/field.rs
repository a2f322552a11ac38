/// A field of `proto/mooncake.proto` that `shape.rs` counts: a message, or a list of messages, bytes or strings.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    /// Most occurrences of the field in one message.
    pub(crate) limit: usize,
    /// The counted fields of the messages that the field holds.
    pub(crate) fields: &'static [Field],
}
