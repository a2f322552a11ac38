use clap::Args;

/// The flag of a command that asks the admin HTTP servers of masters.
#[derive(Debug, Args)]
pub(crate) struct MasterHttpFlag {
    /// Where the masters serve admin HTTP, with commas between them; the leader is found among them.
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9003",
        value_delimiter = ',',
        alias = "master_http"
    )]
    pub(crate) master_http: Vec<String>,
}
