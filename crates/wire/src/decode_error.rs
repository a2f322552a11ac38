/// A body that is not a message of its kind. Nothing of it may be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body is not protobuf.
    #[error("byte {at} of the body does not begin a whole protobuf field")]
    Malformed {
        /// Where the field begins, in bytes from the start of the body.
        at: usize,
    },
    /// The body is protobuf, of another schema.
    #[error("the body does not fit its schema: {0}")]
    Schema(#[from] prost::DecodeError),
    /// A field that must be there is not.
    #[error("`{what}` is missing")]
    Missing {
        /// The field.
        what: &'static str,
    },
    /// A list is longer than the limit.
    #[error("`{what}` has more than {limit} elements")]
    TooMany {
        /// The list.
        what: &'static str,
        /// The most that it may hold.
        limit: usize,
    },
    /// An id, or a column of a table, is longer or shorter than it must be.
    #[error("`{what}` has length {found} instead of {expected}")]
    Length {
        /// The id or the column.
        what: &'static str,
        /// The length that it must have: bytes for an id, elements for a column.
        expected: usize,
        /// The length that it has.
        found: usize,
    },
    /// A key is not text.
    #[error("key {index} is not UTF-8")]
    NotUtf8 {
        /// Which key, from 0.
        index: usize,
    },
    /// The name of a group is not text.
    #[error("the name of a group is not UTF-8")]
    GroupNotUtf8,
    /// A number means nothing where it stands.
    #[error("`{what}` cannot be {value}")]
    OutOfRange {
        /// The field.
        what: &'static str,
        /// The number.
        value: i64,
    },
}
