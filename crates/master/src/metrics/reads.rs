//! What clients read. They report it with their pings, since most reads never reach the master.

use std::collections::HashMap;

use mooncake_types::{ClientId, ReadCounts, ReadReport, Reply, Request, limits};

/// The sum over all clients, and the last report of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reads {
    sum: ReadCounts,
    last: HashMap<ClientId, ReportedReads>,
    /// How many reports arrived.
    reports: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct ReportedReads {
    run: u64,
    counts: ReadCounts,
    /// The number of the report.
    report: u64,
}

impl Reads {
    /// Notes the report of a request, if the master accepted the request: only then does the client count it as
    /// confirmed.
    pub(crate) fn record(&mut self, from: ClientId, request: &Request<'_>, reply: &Reply) {
        match (request, reply) {
            (Request::Ping { reads: Some(report), .. }, Reply::Pong(_)) => self.note(from, report),
            (Request::Leave { reads: Some(report) }, Reply::Done(Ok(()))) => {
                self.note(from, report);
            }
            _ => {}
        }
    }

    /// Counts reads since the client's last report here, or else since the last report that any master confirmed.
    fn note(&mut self, from: ClientId, report: &ReadReport) {
        self.make_room();
        self.reports += 1;
        let last = self.last.get(&from).filter(|last| last.run == report.run);
        let before = last.map_or(report.confirmed, |last| last.counts);
        self.sum = self.sum.plus(&report.counts.since(&before));
        // A report that arrives late has lower counts.
        let counts = last.map_or(report.counts, |last| last.counts.max(&report.counts));
        self.last.insert(from, ReportedReads { run: report.run, counts, report: self.reports });
    }

    /// If there are too many clients, forgets the half with the oldest reports.
    fn make_room(&mut self) {
        if self.last.len() < limits::MAX_CLIENTS {
            return;
        }
        let mut reports: Vec<u64> = self.last.values().map(|told| told.report).collect();
        let middle = reports.len() / 2;
        let (_, &mut median, _) = reports.select_nth_unstable(middle);
        self.last.retain(|_, told| told.report >= median);
    }

    pub(crate) fn sum(&self) -> &ReadCounts {
        &self.sum
    }
}

#[cfg(test)]
mod tests {
    use mooncake_types::{ErrorCode, Pong};

    use super::*;

    const ALICE: ClientId = ClientId(1);

    fn hits(get_hits: u64) -> ReadCounts {
        ReadCounts { get_hits, ..ReadCounts::default() }
    }

    fn report(run: u64, counts: u64, confirmed: u64) -> ReadReport {
        ReadReport { run, counts: hits(counts), confirmed: hits(confirmed) }
    }

    #[test]
    fn a_report_that_is_lost_or_arrives_twice_changes_no_sum() {
        let mut reads = Reads::default();
        for (told, sum, case) in [
            (report(1, 5, 0), 5, "the first"),
            (report(1, 5, 0), 5, "its answer was lost"),
            (report(1, 9, 0), 9, "again with more"),
            (report(1, 30, 9), 30, "two before it were lost"),
            (report(1, 20, 9), 30, "one that was overtaken"),
            (report(1, 31, 30), 31, "the next after it"),
            (report(2, 4, 0), 35, "another process under the same id"),
        ] {
            reads.note(ALICE, &told);
            assert_eq!(*reads.sum(), hits(sum), "{case}");
        }
        reads.note(ClientId(2), &report(1, 100, 90));
        assert_eq!(*reads.sum(), hits(45), "what another master was told is not counted again");
    }

    #[test]
    fn a_request_that_was_refused_is_not_counted() {
        let pong = Pong {
            need_remount: false,
            epoch: mooncake_types::Epoch(1),
            has_tasks: false,
            has_drops: false,
            client_ttl_ms: 1,
            routes_ms: 0,
            is_unreached: false,
        };
        let ping = |reads| Request::Ping { segments: vec![], unreachable: vec![], reads };
        let refused = || Reply::Refused(ErrorCode::UnavailableInCurrentStatus);
        let mut reads = Reads::default();
        for (request, reply, sum) in [
            (ping(None), Reply::Pong(pong), 0),
            (ping(Some(Box::new(report(1, 5, 0)))), refused(), 0),
            (ping(Some(Box::new(report(1, 5, 0)))), Reply::Pong(pong), 5),
            (Request::Leave { reads: Some(Box::new(report(1, 7, 5))) }, refused(), 5),
            (Request::Leave { reads: Some(Box::new(report(1, 7, 5))) }, Reply::Done(Ok(())), 7),
        ] {
            reads.record(ALICE, &request, &reply);
            assert_eq!(*reads.sum(), hits(sum), "{request:?}");
        }
    }

    #[test]
    fn no_more_clients_are_remembered_than_the_limit_and_wild_numbers_end_at_the_bound() {
        let mut reads = Reads::default();
        for client in 0..limits::MAX_CLIENTS as u128 + 10 {
            reads.note(ClientId(client), &report(1, 1, 0));
        }
        assert!(reads.last.len() <= limits::MAX_CLIENTS);
        reads.note(ClientId(u128::MAX), &report(1, u64::MAX, 0));
        assert_eq!(*reads.sum(), hits(u64::MAX));
    }
}
