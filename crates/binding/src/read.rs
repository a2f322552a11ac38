use mooncake_client::{ErrorCode, GetTarget, SliceList};

use crate::batch;
use crate::pool_client::PoolClient;

/// Reads the objects into their targets. Returns for each key the length in bytes or a negative code.
pub fn get_many<'m>(
    client: &PoolClient,
    keys: &[&str],
    targets: impl Iterator<Item = Result<SliceList<'m>, ErrorCode>>,
) -> Vec<i64> {
    let targets = keys.iter().zip(targets).map(|(&key, dst)| Ok(GetTarget { key, dst: dst? }));
    let results = batch::run(targets, |targets| client.get_into(targets));
    results.into_iter().map(batch::counted).collect()
}
