//! Hits on the requests of a trace, in percent of all blocks, by the size of the pool.
//!
//! `cargo bench -p mooncake-meta --bench eviction [-- TRACE...]`: traces in the format of the one in `data`, which is
//! taken if none is named. A hit is a block of the longest prefix of a request that is there.

#[allow(dead_code, reason = "the test uses it too")]
#[path = "../tests/eviction/trace.rs"]
mod trace;

use std::path::Path;

use trace::{Trace, best_hits, lru_hits, meta_hits, s3_fifo_hits};

const PERCENTS: [usize; 5] = [1, 5, 10, 20, 40];

fn print(name: &str, trace: &Trace) {
    let row = |label: &str, hits: &dyn Fn(usize) -> usize| {
        let cells = PERCENTS.map(|percent| {
            format!(" {:.2} |", trace.percent(hits(trace.distinct * percent / 100)))
        });
        println!("| {name} | {label} |{}", cells.concat());
    };
    row("LRU", &|capacity| lru_hits(trace, capacity));
    row("S3-FIFO", &|capacity| s3_fifo_hits(trace, capacity));
    row("this, one segment", &|capacity| meta_hits(trace, capacity, 1));
    row("this, 16 segments", &|capacity| meta_hits(trace, capacity, 16));
    row("optimum", &|capacity| best_hits(trace, capacity));
}

fn main() {
    println!("| trace | policy | 1 % | 5 % | 10 % | 20 % | 40 % |");
    println!("|---|---|---|---|---|---|---|");
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if named.is_empty() {
        print("conversation", &Trace::shipped());
    }
    for path in &named {
        let path = Path::new(path);
        let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
        print(&name, &Trace::read(path));
    }
}
