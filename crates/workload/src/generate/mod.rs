//! Synthetic traffic from a seed, in the shapes of published traces. Sizes and policies can then be compared on more
//! than one trace.
//!
//! Lengths and popularities follow these papers roughly. They were not checked against each of them:
//!
//! - *LMSYS-Chat-1M* (Zheng and others, ICLR 2024): two turns on average, answers of 215 tokens. *WildChat* (Zhao and others, ICLR
//!   2024): 2.5 turns, with a long tail of long conversations.
//! - *Mooncake* (Qin and others, FAST 2025): prompts of 12,000 tokens on average in its conversations, 7 requests in two seconds.
//! - *Preble* (Srivatsa and others, 2024): 85 % of the tokens of tool users are a prompt that many share.
//! - *RAGCache* (Jin and others, 2024): documents of 3,700 tokens; 3 % of the documents are 60 % of what is retrieved.
//! - *BurstGPT* (Wang and others, 2024): requests in bursts, at rates that change by the hour.

mod dice;
mod prompt;
mod session;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use self::dice::{Dice, Zipf};
use self::prompt::Blocks;
use self::session::{Session, Source};
use crate::trace::{Trace, TraceBuilder};
use crate::trace_error::MAX_REQUEST_BLOCKS;

/// A shape of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Conversations of several turns. Some continue after a long pause.
    Chat,
    /// Agents that work in steps. Each begins with one of some hundred prompts that describe tools.
    Agents,
    /// Questions, each about two documents of a large collection. Few documents are popular.
    Retrieval,
    /// Conversations, and jobs that read thousands of records once, faster than people ask. The same job runs again
    /// later.
    Scan,
    /// At first mostly conversations. In the second half agents, and questions about documents, of which other ones
    /// are popular.
    Noon,
}

impl Workload {
    /// All shapes.
    pub const ALL: [Self; 5] = [Self::Chat, Self::Agents, Self::Retrieval, Self::Scan, Self::Noon];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Agents => "agents",
            Self::Retrieval => "retrieval",
            Self::Scan => "scan",
            Self::Noon => "noon",
        }
    }

    /// The kind of a session that begins when `progress`, a share of all requests, has been generated.
    fn source(self, dice: &mut Dice, progress: f64) -> Source {
        let drawn = dice.share();
        match self {
            Self::Chat => Source::Chat,
            Self::Agents => Source::Agent,
            Self::Retrieval => Source::Question { shift: 0 },
            // One session in 150 is a job of a few hundred requests.
            Self::Scan if drawn < 1.0 / 150.0 => Source::Job,
            Self::Scan => Source::Chat,
            Self::Noon if progress < 0.5 => match drawn {
                ..0.85 => Source::Chat,
                _ => Source::Question { shift: 0 },
            },
            Self::Noon => match drawn {
                ..0.2 => Source::Chat,
                ..0.5 => Source::Agent,
                _ => Source::Question { shift: 5_000 },
            },
        }
    }
}

/// The popularity of shared texts.
struct Popularity {
    systems: Zipf,
    tools: Zipf,
    documents: Zipf,
}

/// Generates requests of a shape. The same seed gives the same trace.
#[must_use]
pub fn generate(workload: Workload, seed: u64, requests: usize) -> Trace {
    let popularity = Popularity {
        systems: Zipf::new(20, 1.2),
        tools: Zipf::new(300, 1.0),
        documents: Zipf::new(20_000, 1.05),
    };
    let mut dice = Dice::new(seed);
    let mut blocks = Blocks::default();
    let mut builder = TraceBuilder::new(u32::MAX);
    // The next request of each session, by time. Sessions have numbers, so that the order never depends on their
    // content.
    let mut due = BinaryHeap::new();
    let mut sessions: BTreeMap<u64, Session> = BTreeMap::new();
    let (mut next_start, mut started) = (0.0f64, 0u64);
    while builder.trace.requests.len() < requests {
        let progress = builder.trace.requests.len() as f64 / requests as f64;
        if due.peek().is_none_or(|&Reverse((at, _))| at as f64 >= next_start) {
            let source = workload.source(&mut dice, progress);
            sessions.insert(started, Session::begin(source, &mut dice, &popularity, &mut blocks));
            due.push(Reverse((next_start as u64, started)));
            started += 1;
            next_start += source.gap_ms(&mut dice);
            continue;
        }
        let Some(Reverse((at, number))) = due.pop() else { continue };
        let session = sessions.get_mut(&number).expect("a session lasts as long as it is due");
        let ids = session.request(&mut blocks);
        builder.push(at, &ids).expect("a generated request is sound");
        match session.go_on(&mut dice, &mut blocks) {
            Some(pause) if session.len() < MAX_REQUEST_BLOCKS / 64 => {
                due.push(Reverse((at + pause as u64, number)));
            }
            _ => drop(sessions.remove(&number)),
        }
    }
    builder.trace
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{infinite_hits, lru_hits};

    #[test]
    fn a_seed_makes_one_trace_and_another_seed_another() {
        for workload in Workload::ALL {
            let trace = generate(workload, 1, 500);
            assert_eq!(trace, generate(workload, 1, 500), "{workload:?}");
            assert_ne!(trace, generate(workload, 2, 500), "{workload:?}");
            assert_eq!(trace.requests.len(), 500);
            assert!(trace.arrivals_ms.is_sorted());
        }
    }

    /// If all blocks are hit, or none, all policies are equal.
    #[test]
    fn every_shape_has_hits_that_depend_on_the_size_of_the_pool() {
        for workload in Workload::ALL {
            let trace = generate(workload, 3, 10_000);
            let percent = |hits: u64| hits as f64 * 100.0 / trace.blocks() as f64;
            let all = percent(infinite_hits(&trace, 10_000));
            let lru = percent(lru_hits(&trace, 10_000, trace.hash_ids.len() / 20));
            assert!((15.0..96.0).contains(&all), "{workload:?}: {all:.1}");
            assert!(lru > 2.0 && lru < all - 2.0, "{workload:?}: {lru:.1} of {all:.1}");
        }
    }
}
