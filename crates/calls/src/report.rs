use std::sync::Arc;
use std::time::Duration;

use mooncake_types::CallId;

use crate::current::{Noted, noted, take_slowest};
use crate::span::Fact;
use crate::stage::Stage;
use crate::watch::Side;

/// The peer that a call has waited for longest.
#[derive(Debug)]
pub(crate) struct SlowestPeer {
    pub(crate) endpoint: Arc<str>,
    pub(crate) took: Duration,
}

/// What a call was, and where its time went.
#[derive(Debug)]
pub(crate) struct CallReport {
    id: Option<CallId>,
    name: &'static str,
    /// Keys or ranges.
    items: usize,
    bytes: u64,
    requests: u32,
    took: Duration,
    stages: [Duration; Stage::COUNT],
    slowest: Option<SlowestPeer>,
}

impl CallReport {
    /// Of the call that this thread has just ended.
    pub(crate) fn of_thread((name, items): (&'static str, usize), took: Duration) -> Self {
        let Noted { id, stages, bytes, requests } = noted();
        Self { id, name, items, bytes, requests, took, stages, slowest: take_slowest() }
    }

    /// Of a request that was not handled on one thread alone, with its stages.
    pub(crate) fn of_request(
        id: Option<CallId>,
        (name, items): (&'static str, usize),
        (took, spent): (Duration, &[(Stage, Duration)]),
    ) -> Self {
        let mut stages = [Duration::ZERO; Stage::COUNT];
        spent.iter().for_each(|&(stage, took)| stages[stage as usize] += took);
        Self { id, name, items, bytes: 0, requests: 0, took, stages, slowest: None }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn took(&self) -> Duration {
        self.took
    }

    /// What spans tell of it.
    pub(crate) fn facts(&self) -> Vec<(&'static str, Fact)> {
        let number = |name, value: u64| (value > 0).then_some((name, Fact::Number(value)));
        let slowest = self.slowest.as_ref();
        let facts = [
            self.id.map(|id| ("mooncake.request", Fact::Text(id.to_string()))),
            number("mooncake.items", self.items as u64),
            number("mooncake.bytes", self.bytes),
            slowest.map(|peer| ("mooncake.slowest_peer", Fact::Text(peer.endpoint.to_string()))),
        ];
        facts.into_iter().flatten().collect()
    }

    /// The time that no stage accounts for.
    fn rest(&self) -> Duration {
        self.took.saturating_sub(self.stages.iter().sum())
    }

    /// Logs a line, which says how many were left out before it.
    pub(crate) fn log(&self, side: Side, further: u64) {
        let ms = |stage: Stage| shown(self.stages[stage as usize]);
        let slowest = self.slowest.as_ref();
        tracing::warn!(
            request = self.id.map(tracing::field::display),
            call = self.name,
            items = self.items,
            bytes = Some(self.bytes).filter(|&bytes| bytes > 0),
            took_ms = self.took.as_millis() as u64,
            master_ms = ms(Stage::Master),
            master_requests = Some(self.requests).filter(|&requests| requests > 0),
            connection_ms = ms(Stage::Connection),
            own_process_ms = ms(Stage::Own),
            same_host_ms = ms(Stage::Host),
            fabric_ms = ms(Stage::Fabric),
            tcp_ms = ms(Stage::Tcp),
            drop_ms = ms(Stage::Drop),
            room_ms = ms(Stage::Room),
            pause_ms = ms(Stage::Pause),
            disk_ms = ms(Stage::Disk),
            record_ms = ms(Stage::Record),
            other_ms = shown(self.rest()),
            slowest_peer = slowest.map(|peer| &*peer.endpoint),
            slowest_peer_ms = slowest.and_then(|peer| shown(peer.took)),
            further,
            "{}",
            side.line()
        );
    }
}

/// Milliseconds, if there is at least one.
fn shown(time: Duration) -> Option<u64> {
    u64::try_from(time.as_millis()).ok().filter(|&ms| ms > 0)
}
