//! A short reference implementation of S3-FIFO, for a pool of blocks of one size.

use std::collections::VecDeque;

use mooncake_workload::Trace;

/// The queue that holds a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Out,
    Small,
    Main,
}

/// A small queue for a tenth of the pool, a main queue, and as many ghosts as the main queue has blocks.
struct S3Fifo {
    place: Vec<Place>,
    uses: Vec<u8>,
    ghost: Vec<u32>,
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    ghosts: VecDeque<u32>,
    small_len: usize,
    main_len: usize,
}

/// The hits in a pool under S3-FIFO.
pub(crate) fn s3_fifo_hits(trace: &Trace, capacity: usize) -> u64 {
    let small_len = (capacity / 10).max(1);
    let mut cache = S3Fifo {
        place: vec![Place::Out; trace.hash_ids.len()],
        uses: vec![0; trace.hash_ids.len()],
        ghost: vec![0; trace.hash_ids.len()],
        small: VecDeque::new(),
        main: VecDeque::new(),
        ghosts: VecDeque::new(),
        small_len,
        main_len: capacity - small_len,
    };
    let mut hits = 0;
    for blocks in &trace.requests {
        let is_kept = |block: u32| cache.place[block as usize] != Place::Out;
        hits += blocks.iter().take_while(|&&block| is_kept(block)).count() as u64;
        blocks.iter().for_each(|&block| cache.touch(block));
    }
    hits
}

impl S3Fifo {
    fn touch(&mut self, block: u32) {
        let at = block as usize;
        if self.place[at] != Place::Out {
            self.uses[at] = (self.uses[at] + 1).min(3);
            return;
        }
        if self.small.len() + self.main.len() >= self.small_len + self.main_len {
            self.evict();
        }
        self.uses[at] = 0;
        if self.ghost[at] > 0 {
            self.place[at] = Place::Main;
            self.main.push_back(block);
        } else {
            self.place[at] = Place::Small;
            self.small.push_back(block);
        }
    }

    fn evict(&mut self) {
        while self.small.len() >= self.small_len || self.main.is_empty() {
            let block = self.small.pop_front().expect("a full pool");
            let at = block as usize;
            if self.uses[at] < 2 {
                self.place[at] = Place::Out;
                self.ghost[at] += 1;
                self.ghosts.push_back(block);
                if self.ghosts.len() > self.main_len {
                    let forgotten = self.ghosts.pop_front().expect("there are ghosts");
                    self.ghost[forgotten as usize] -= 1;
                }
                return;
            }
            (self.place[at], self.uses[at]) = (Place::Main, 0);
            self.main.push_back(block);
            if self.main.len() > self.main_len {
                return self.evict_main();
            }
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some(block) = self.main.pop_front() {
            let at = block as usize;
            if self.uses[at] == 0 {
                self.place[at] = Place::Out;
                return;
            }
            self.uses[at] -= 1;
            self.main.push_back(block);
        }
    }
}
