/// Why a body is not a message of its kind. The receiver must use nothing of the body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The body is not protobuf.
    #[error("byte {at} of the body does not begin a whole protobuf field")]
    Malformed {
        /// Where the field begins, in bytes from the start of the body.
        at: usize,
    },
    /// The body is protobuf, but does not fit the schema.
    #[error("the body does not fit its schema: {0}")]
    Schema(#[from] prost::DecodeError),
    /// A required field is missing.
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
        /// Most elements that it may hold.
        limit: usize,
    },
    /// An id, or a column of a table, is longer or shorter than it must be.
    #[error("`{what}` has length {found} instead of {expected}")]
    Length {
        /// The id or the column.
        what: &'static str,
        /// The required length: in bytes for an id, in elements for a column.
        expected: usize,
        /// The actual length.
        found: usize,
    },
    /// A key is not UTF-8.
    #[error("key {index} is not UTF-8")]
    NotUtf8 {
        /// The position of the key, from 0.
        index: usize,
    },
    /// The name of a group or of a session is not UTF-8.
    #[error("the name of a group or of a session is not UTF-8")]
    LabelNotUtf8,
    /// The schema does not define a number for its field.
    #[error("`{what}` cannot be {value}")]
    OutOfRange {
        /// The field.
        what: &'static str,
        /// The number.
        value: i64,
    },
}
