//! `GET /api/v1/live`: the stream of each viewer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Extension;
use axum::body::Body;
use axum::extract::State as Extract;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::IntoResponse;
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::frames::{Frame, MOST_VIEWERS, event};
use super::told::{Samples, may_know_keys};
use crate::admin::authorize::Granted;
use crate::admin::error::Failure;
use crate::admin::parameters::Parameters;
use crate::admin::state::AdminState;
use crate::hour::Hour;

/// What one viewer has got.
#[derive(Debug, Default)]
struct Viewer {
    may_know_keys: bool,
    has_begun: bool,
    samples: u64,
    segments: Option<u64>,
}

impl Viewer {
    /// The events of this frame that are news to the viewer.
    fn news(&mut self, frame: &Frame, hour: &Hour) -> Bytes {
        let mut news = BytesMut::new();
        if frame.segments.is_some() && (!self.has_begun || self.samples < hour.added()) {
            let samples = Samples::new(hour.since(self.samples), !self.has_begun);
            news.extend_from_slice(&event("samples", &samples));
            (self.has_begun, self.samples) = (true, hour.added());
        }
        if let Some((number, segments)) = &frame.segments
            && self.segments != Some(*number)
        {
            news.extend_from_slice(segments);
            self.segments = Some(*number);
        }
        if let Some(hot) = frame.hot.as_ref().filter(|_| self.may_know_keys) {
            news.extend_from_slice(hot);
        }
        news.extend_from_slice(&frame.now);
        news.freeze()
    }
}

/// `GET /api/v1/live?turns=N`: the pool now, and then every two seconds; with `turns`, so many times.
pub(in crate::admin) async fn live(
    Extract(state): Extract<AdminState>,
    Extension(Granted(rights)): Extension<Granted>,
    parameters: Parameters,
) -> Result<impl IntoResponse, Failure> {
    let turns = match parameters.optional("turns").map(str::parse::<u64>) {
        None => u64::MAX,
        Some(Ok(turns)) => turns,
        Some(Err(_)) => return Err(Failure::bad_request("turns must be a number")),
    };
    let place = state.frames.place().ok_or_else(|| {
        Failure::busy(format!("{MOST_VIEWERS} viewers look at the pool already: close one"))
    })?;
    let viewer = Viewer { may_know_keys: may_know_keys(rights), ..Viewer::default() };
    // A viewer that reads slowly misses frames: one waits for it, and the next is made when that has gone.
    let (send, news) = mpsc::channel(1);
    tokio::spawn(follow((state, turns), viewer, send, place));
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(News(news))))
}

async fn follow(
    (state, turns): (AdminState, u64),
    mut viewer: Viewer,
    send: mpsc::Sender<Result<Bytes, Infallible>>,
    _place: OwnedSemaphorePermit,
) {
    for turn in 0..turns {
        let frame = state.frames.of_now(&state).await;
        let news = viewer.news(&frame, &state.frames.hour.borrow());
        // An error means that the viewer has gone.
        if send.send(Ok(news)).await.is_err() || turn + 1 == turns {
            return;
        }
        tokio::select! {
            () = state.frames.wait(frame.turn) => {}
            () = send.closed() => return,
        }
    }
}

/// The receiving end as a stream of pieces of a body.
struct News(mpsc::Receiver<Result<Bytes, Infallible>>);

impl Stream for News {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(segments: u64) -> Frame {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        Frame {
            turn: 1,
            segments: Some((segments, bytes("event: segments\n\n"))),
            now: bytes("event: now\n\n"),
            hot: Some(bytes("event: hot\n\n")),
        }
    }

    #[test]
    fn a_viewer_gets_what_is_news_to_it() {
        let hour = Hour::default();
        let mut viewer = Viewer::default();
        let mut names = |number| {
            let news = viewer.news(&frame(number), &hour);
            let text = String::from_utf8(news.to_vec()).expect("text");
            text.lines()
                .filter_map(|line| line.strip_prefix("event: "))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(names(1), "samples segments now");
        assert_eq!(names(1), "now");
        assert_eq!(names(2), "segments now");
    }

    #[test]
    fn names_of_keys_go_to_those_who_may_read_them() {
        let mut viewer = Viewer { may_know_keys: true, has_begun: true, ..Viewer::default() };
        let news = viewer.news(&frame(1), &Hour::default());
        assert_eq!(&*news, b"event: segments\n\nevent: hot\n\nevent: now\n\n");
    }

    #[test]
    fn a_standby_tells_its_role_alone() {
        let mut viewer = Viewer { may_know_keys: true, ..Viewer::default() };
        let standby = Frame { segments: None, hot: None, ..frame(1) };
        assert_eq!(&*viewer.news(&standby, &Hour::default()), b"event: now\n\n");
        assert!(viewer.news(&frame(1), &Hour::default()).starts_with(b"event: samples\ndata: {"));
    }
}
