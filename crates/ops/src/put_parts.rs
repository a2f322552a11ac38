use mooncake_types::{Reply, Tick};

use super::{CallError, MoveError, Op, PartsWrite, Step};

/// One item of a [`PutPartsOp`].
#[derive(Clone, Debug)]
pub struct PartsItem<'a> {
    /// Its place in the caller's batch.
    pub position: usize,
    /// The object's key.
    pub key: &'a str,
    /// What may be written.
    pub write: PartsWrite,
}

/// Writes parts of objects straight to the ranges that were granted for them, without a word to the master.
#[derive(Debug)]
pub struct PutPartsOp<'a> {
    items: Vec<PartsItem<'a>>,
    /// By item, once they are there.
    results: Vec<Option<Vec<Result<(), MoveError>>>>,
    /// Items that are being written, with the number of their ranges.
    writing: Vec<(usize, usize)>,
}

impl<'a> PutPartsOp<'a> {
    /// Writes all of `items`.
    #[must_use]
    pub fn new(items: Vec<PartsItem<'a>>) -> Self {
        let results = vec![None; items.len()];
        Self { items, results, writing: Vec::new() }
    }
}

impl<'a> Op<'a> for PutPartsOp<'a> {
    /// The items, each with the results of its ranges, for [`super::OpenPut::finish`].
    type Output = Vec<(PartsItem<'a>, Vec<Result<(), MoveError>>)>;

    fn next(&mut self, _now: Tick) -> Step<'a> {
        let Some(first) = self.results.iter().position(Option::is_none) else {
            return Step::Done;
        };
        let epoch = self.items[first].write.epoch();
        let mut deposits = Vec::new();
        for (index, item) in self.items.iter().enumerate().skip(first) {
            if self.results[index].is_none() && item.write.epoch() == epoch {
                let ranges = item.write.deposits(item.position, item.key);
                self.writing.push((index, ranges.len()));
                deposits.extend(ranges);
            }
        }
        Step::Write(epoch, deposits)
    }

    fn on_reply(&mut self, _now: Tick, _reply: Result<Reply, CallError>) {
        unreachable!("the master is asked nothing");
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        let mut rest = results.into_iter();
        for (index, ranges) in self.writing.drain(..) {
            self.results[index] = Some(rest.by_ref().take(ranges).collect());
        }
        assert!(rest.next().is_none(), "one result per range");
    }

    fn finish(self) -> Self::Output {
        let results = self.results.into_iter().map(Option::unwrap_or_default);
        self.items.into_iter().zip(results).collect()
    }
}
