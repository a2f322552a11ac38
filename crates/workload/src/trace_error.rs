use std::path::PathBuf;

/// Most bytes of a line that are read.
pub(crate) const MAX_LINE_BYTES: u64 = 16 << 20;
/// Most blocks in one request: 8 million tokens with blocks of 512.
pub(crate) const MAX_REQUEST_BLOCKS: usize = 16_384;

/// Why a trace could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file does not exist, or cannot be opened.
    #[error("cannot open {}: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// Reading the file failed, or its archive is cut off.
    #[error("cannot read line {line} of the trace {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The error message of the system or of the archive.
        reason: String,
    },
    /// A line is not a request.
    #[error("line {line} of the trace {}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The problem of the line.
        problem: LineProblem,
    },
    /// The file has no request.
    #[error("the trace {} holds no request", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Why a line is not a request.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// It is not a JSON object with the fields of a request.
    #[error("{message} (column {column})")]
    NotARequest {
        /// The parser's error message.
        message: String,
        /// The column of the error, from 1.
        column: usize,
    },
    /// The request has no blocks.
    #[error("hash_ids is empty")]
    NoBlocks,
    /// The request has too many blocks.
    #[error("{count} hash_ids, at most {MAX_REQUEST_BLOCKS} are allowed")]
    TooManyBlocks {
        /// How many blocks the request has.
        count: usize,
    },
    /// The request names a block twice, so its prompt would contain itself.
    #[error("hash_ids holds {id} twice; an id stands for a block and all blocks before it")]
    RepeatedBlock {
        /// The id of the block.
        id: u64,
    },
    /// The trace has too many distinct blocks.
    #[error("more than {most} distinct blocks so far")]
    TooManyDistinctBlocks {
        /// The limit.
        most: u32,
    },
    /// The record has an unknown schema.
    #[error("the schema is {schema:?}, expected \"dynamo.request.trace.v1\"")]
    NoRecord {
        /// The schema that the record names.
        schema: String,
    },
    /// The request names more or fewer blocks than its length needs.
    #[error(
        "input_length {tokens} in blocks of {block_tokens} makes {expected} input_sequence_hashes, not {found}"
    )]
    BlockCount {
        /// How many tokens the prompt has.
        tokens: u64,
        /// How many tokens a block has.
        block_tokens: u32,
        /// How many blocks the prompt needs.
        expected: u64,
        /// How many blocks the request names.
        found: usize,
    },
    /// The requests of a log have blocks of different lengths.
    #[error(
        "blocks of {second} tokens after blocks of {first}; convert the files of one model alone"
    )]
    BlockTokens {
        /// The length in the earlier requests, in tokens.
        first: u32,
        /// The length in this request, in tokens.
        second: u32,
    },
    /// The requests of a log are for several models.
    #[error("a request for the model {second:?} after one for {first:?}; --model chooses one")]
    Models {
        /// The model of the earlier requests.
        first: String,
        /// The model of this request.
        second: String,
    },
    /// The line is longer than the limit.
    #[error("longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
}
