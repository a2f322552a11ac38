/// A field of a message, as `proto/mooncake.proto` has it: a message, or a list of elements with a length each.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
    /// How often it may stand in its message.
    pub(crate) limit: usize,
    /// The fields of this kind in the messages that it holds.
    pub(crate) fields: &'static [Field],
}
