//! Scans with a pattern. A regular expression may take seconds for a few keys, so another thread matches them. The
//! owner hands out the keys of a page, serves others meanwhile, and then lists or removes what matched.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mooncake_meta::{MatchedKeys, Patterns, UnmatchedKeys};
use mooncake_types::{ClientId, ErrorCode, Reply, Scan};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::owner::Deposed;
use crate::shell::Shell;

/// How long the keys of one page are matched at most, but for the key at which this time is over. Then the page ends,
/// and the next scan has its turn.
const TURN: Duration = Duration::from_millis(10);

/// Matches the keys of one page at a time, in the order in which the pages came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matcher(Arc<Mutex<Patterns>>);

impl Matcher {
    pub(crate) async fn pick(
        &self,
        pattern: &str,
        page: UnmatchedKeys,
    ) -> Result<MatchedKeys, ErrorCode> {
        let pattern = pattern.to_owned();
        let mut patterns = Arc::clone(&self.0).lock_owned().await;
        let matching = spawn_blocking(move || {
            let begun = Instant::now();
            patterns.pick(&pattern, page, || begun.elapsed() < TURN)
        });
        // The thread ends without a result only while the master stops.
        matching.await.unwrap_or(Err(ErrorCode::UnavailableInCurrentStatus))
    }
}

/// Answers one page of a scan with a pattern.
pub(crate) async fn answer(
    shell: &Shell,
    from: ClientId,
    (scan, pattern): (&Scan<'_>, &str),
) -> Result<Reply, Deposed> {
    let begun = shell.owner.borrow_mut().begin_scan(from, scan)?;
    let matched = match begun {
        Ok(keys) => shell.matcher.pick(pattern, keys).await,
        Err(code) => Err(code),
    };
    shell.owner.borrow_mut().end_scan(from, scan, matched)
}
