//! The list of all keys, sent as the walk over them goes on.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State as Extract;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_core::Stream;
use mooncake_types::{ClientId, Reply, Request, Scan, ScanAction};
use tokio::sync::mpsc;

use super::error::Failure;
use super::parameters::Parameters;
use super::server::State;
use crate::ask::NotServing;
use crate::owner::SCAN_PAGE_OBJECTS;

/// Pages that are read ahead of a slow reader.
const PAGES_AHEAD: usize = 4;

/// How the keys are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One a line, as the C++ store does. A key may hold line ends itself.
    Lines,
    /// One object with a list.
    Json,
}

/// What of the keys is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    format: Format,
    /// Only keys that begin so.
    prefix: String,
    /// How many more keys are to come.
    left: u64,
    /// Whether one was written already.
    has_begun: bool,
}

impl Wanted {
    fn read(parameters: &Parameters) -> Result<Wanted, Failure> {
        let format = match parameters.optional("format") {
            None | Some("text") => Format::Lines,
            Some("json") => Format::Json,
            Some(other) => {
                let reason = format!("format is '{other}'; it must be text or json");
                return Err(Failure::bad_request(reason));
            }
        };
        let left = match parameters.optional("limit") {
            None => u64::MAX,
            Some(text) => text.parse().map_err(|_| {
                Failure::bad_request(format!("limit is '{text}'; it must be a number of keys"))
            })?,
        };
        let prefix = parameters.optional("prefix").unwrap_or_default().to_owned();
        Ok(Wanted { format, prefix, left, has_begun: false })
    }

    fn content_type(&self) -> &'static str {
        match self.format {
            Format::Lines => "text/plain; charset=utf-8",
            Format::Json => "application/json",
        }
    }

    fn head(&self) -> &'static str {
        if self.format == Format::Json { r#"{"success":true,"data":["# } else { "" }
    }

    fn tail(&self) -> &'static str {
        if self.format == Format::Json { "]}" } else { "" }
    }

    /// Those of the keys that are wanted, written down.
    fn page(&mut self, keys: impl Iterator<Item = String>) -> String {
        let mut page = String::new();
        for key in keys.filter(|key| key.starts_with(&self.prefix)) {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            match self.format {
                Format::Lines => page.extend([key.as_str(), "\n"]),
                Format::Json => {
                    let comma = if std::mem::replace(&mut self.has_begun, true) { "," } else { "" };
                    let quoted = serde_json::Value::from(key).to_string();
                    page.extend([comma, &quoted]);
                }
            }
        }
        page
    }
}

/// `GET /get_all_keys?format=F&prefix=P&limit=N`.
pub(super) async fn get_all_keys(
    Extract(state): Extract<State>,
    parameters: Parameters,
) -> Result<impl IntoResponse, Failure> {
    let wanted = Wanted::read(&parameters)?;
    let content_type = wanted.content_type();
    let (pages, read) = mpsc::channel(PAGES_AHEAD);
    tokio::spawn(walk(state, wanted, pages));
    Ok(([(CONTENT_TYPE, content_type)], Body::from_stream(Pages(read))))
}

async fn walk(state: State, mut wanted: Wanted, pages: mpsc::Sender<Result<Bytes, NotServing>>) {
    let mut next = Some(0);
    let mut page = wanted.head().to_owned();
    while let Some(cursor) = next.filter(|_| wanted.left > 0) {
        let scan =
            Scan { pattern: None, action: ScanAction::List, cursor, limit: SCAN_PAGE_OBJECTS };
        let look = move |owner: &mut crate::owner::Owner| {
            owner.handle(ClientId::OPERATOR, &Request::Scan(scan))
        };
        let Ok(Reply::Scanned(found)) = state.asker.ask(look).await else {
            // The answer breaks off, so a reader does not take it for the whole list. A reader that has gone needs none.
            let _ = pages.send(Err(NotServing)).await;
            return;
        };
        next = found.next_cursor;
        page += &wanted.page(found.objects.into_iter().map(|(key, _)| key));
        if !page.is_empty() && pages.send(Ok(std::mem::take(&mut page).into())).await.is_err() {
            // The reader has gone.
            return;
        }
    }
    page += wanted.tail();
    // If the reader has gone, so be it.
    let _ = pages.send(Ok(page.into())).await;
}

/// The receiving end as a stream of pieces of a body.
struct Pages(mpsc::Receiver<Result<Bytes, NotServing>>);

impl Stream for Pages {
    type Item = Result<Bytes, NotServing>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}
