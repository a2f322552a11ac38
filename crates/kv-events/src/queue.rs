//! The queue of events for the publisher's thread.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::event::Event;

/// A bounded queue. If it is full, a new event replaces the oldest.
#[derive(Debug)]
pub(crate) struct Queue {
    capacity: usize,
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    /// Events dropped since the last take.
    dropped: u64,
    is_closed: bool,
}

/// The events of one take.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) events: Vec<Event>,
    /// Events that were dropped before these.
    pub(crate) dropped: u64,
}

impl Queue {
    pub(crate) fn new(capacity: usize) -> Queue {
        let capacity = capacity.max(1);
        Queue { capacity, waiting: Mutex::default(), filled: Notify::new() }
    }

    pub(crate) fn push(&self, events: impl IntoIterator<Item = Event>) {
        let mut waiting = self.lock();
        for event in events {
            if waiting.events.len() >= self.capacity {
                waiting.events.pop_front();
                waiting.dropped += 1;
            }
            waiting.events.push_back(event);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// Ends the queue: [`Queue::take`] returns `None` once it is empty.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }

    /// Waits for events, and takes at most `limit` of them. `None` once the queue is closed and empty.
    pub(crate) async fn take(&self, limit: usize) -> Option<Taken> {
        loop {
            {
                let mut waiting = self.lock();
                if !waiting.events.is_empty() {
                    let count = limit.min(waiting.events.len());
                    let events = waiting.events.drain(..count).collect();
                    return Some(Taken { events, dropped: std::mem::take(&mut waiting.dropped) });
                }
                if waiting.is_closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
