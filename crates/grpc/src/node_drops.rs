//! Has nodes drop what was removed, before a removal is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use mooncake_connection::{AsyncConnection, Fault};
use mooncake_ops::MoveError;
use mooncake_types::limits::MAX_FRAME_RANGES;
use mooncake_types::{ErrorCode, NodeDrop, RangeDrop, Seal};
use mooncake_wire::{Kind, decode_results, encode_drop};

use crate::link::Link;

/// How long a node may take to connect, and to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Has each node drop its entries. Returns a result for each drop, in order.
pub(crate) async fn drop_at_nodes(link: &Link, drops: &[NodeDrop]) -> Vec<Result<(), MoveError>> {
    let mut by_node: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, drop) in drops.iter().enumerate() {
        by_node.entry(&drop.endpoint).or_default().push(at);
    }
    let dialer = link.node_dialer().await;
    let mut results = vec![Err(MoveError::Broken); drops.len()];
    for (endpoint, positions) in by_node {
        let Ok((mut node, _)) = dialer.dial_async(endpoint, PATIENCE).await else { continue };
        for some in positions.chunks(MAX_FRAME_RANGES) {
            let sealed = |&at: &usize| (drops[at].range, drops[at].seal);
            let ranges: Vec<(RangeDrop, Seal)> = some.iter().map(sealed).collect();
            let Ok(dropped) = ask(&mut node, &ranges).await else { break };
            for (&at, result) in some.iter().zip(dropped) {
                results[at] = result.map_err(meaning);
            }
        }
    }
    results
}

async fn ask(
    node: &mut AsyncConnection,
    ranges: &[(RangeDrop, Seal)],
) -> Result<Vec<Result<(), ErrorCode>>, Fault> {
    let encode = |out: &mut Vec<u8>, id| encode_drop(out, id, ranges);
    let body = node.call(encode, Kind::DropReply, PATIENCE).await?;
    Ok(decode_results(&body)?)
}

fn meaning(code: ErrorCode) -> MoveError {
    match code {
        // The node has no connection left for this client.
        ErrorCode::UnavailableInCurrentStatus => MoveError::Broken,
        code => MoveError::Refused(code),
    }
}
