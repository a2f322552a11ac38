use std::path::PathBuf;

/// Longest line that is read, in bytes.
pub(crate) const MAX_LINE_BYTES: u64 = 16 << 20;
/// Most blocks in one request; with 512-token blocks, 8 million tokens.
pub(crate) const MAX_REQUEST_BLOCKS: usize = 16_384;

/// Why a trace cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// There is no such file, or it may not be read.
    #[error("cannot open the trace {}: {reason}; --trace names another", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The file broke off.
    #[error("cannot read line {line} of the trace {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What the system or the archive says.
        reason: String,
    },
    /// A line is no request.
    #[error("line {line} of the trace {}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// There is not one request.
    #[error("the trace {} holds no request", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong with one line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// It is no JSON object with the fields of a request.
    #[error("{message} (column {column})")]
    NotARequest {
        /// What is wrong.
        message: String,
        /// Where, counted from 1.
        column: usize,
    },
    /// The request has no blocks.
    #[error("hash_ids is empty")]
    NoBlocks,
    /// The request has too many blocks.
    #[error("{count} hash_ids, at most {MAX_REQUEST_BLOCKS} are allowed")]
    TooManyBlocks {
        /// How many it has.
        count: usize,
    },
    /// A prompt would contain itself.
    #[error("hash_ids holds {id} twice; an id stands for a block and all blocks before it")]
    RepeatedBlock {
        /// The id.
        id: u64,
    },
    /// The trace has too many blocks.
    #[error("more than {most} distinct blocks so far")]
    TooManyDistinctBlocks {
        /// How many there may be.
        most: u32,
    },
    /// A record is of a kind that is not known.
    #[error("the schema is {schema:?}, expected \"dynamo.request.trace.v1\"")]
    NoRecord {
        /// What it says of itself.
        schema: String,
    },
    /// A request has another number of blocks than its length asks for.
    #[error(
        "input_length {tokens} in blocks of {block_tokens} makes {expected} input_sequence_hashes, not {found}"
    )]
    BlockCount {
        /// Tokens of the prompt.
        tokens: u64,
        /// Tokens of a block.
        block_tokens: u32,
        /// Blocks that these are.
        expected: u64,
        /// Blocks that are named.
        found: usize,
    },
    /// Requests of a log have blocks of several lengths.
    #[error(
        "blocks of {second} tokens after blocks of {first}; convert the files of one model alone"
    )]
    BlockTokens {
        /// Of the requests before.
        first: u32,
        /// Of this one.
        second: u32,
    },
    /// Requests of a log are for several models.
    #[error("a request for the model {second:?} after one for {first:?}; --model chooses one")]
    Models {
        /// Of the requests before.
        first: String,
        /// Of this one.
        second: String,
    },
    /// The line has no end in sight.
    #[error("longer than {MAX_LINE_BYTES} bytes")]
    TooLong,
}
