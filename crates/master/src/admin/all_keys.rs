//! `GET /get_all_keys`: the list of all keys, sent while the walk over them goes on.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State as Extract;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_core::Stream;
use mooncake_types::{ClientId, Reply, Request, Scan, ScanAction, ScanPage};
use tokio::sync::mpsc;

use super::error::Failure;
use super::parameters::Parameters;
use super::state::AdminState;
use crate::owner::SCAN_PAGE_OBJECTS;

/// Most pages that wait for a slow reader.
const PAGES_AHEAD: usize = 4;

/// How the keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One on each line, as the C++ store does. A key may contain line ends itself.
    Lines,
    /// One object with a list.
    Json,
}

/// Which keys the request wants, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyListRequest {
    format: Format,
    /// Only keys that begin with this.
    prefix: String,
    /// How many more keys to send.
    left: u64,
    /// Whether a key was written already.
    has_begun: bool,
}

impl KeyListRequest {
    fn read(parameters: &Parameters) -> Result<KeyListRequest, Failure> {
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
        Ok(KeyListRequest { format, prefix, left, has_begun: false })
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

    /// The wanted ones of these keys, as text.
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
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<impl IntoResponse, Failure> {
    let wanted = KeyListRequest::read(&parameters)?;
    let content_type = wanted.content_type();
    // Asked before the answer begins, so that a master that does not serve can reply with an error.
    let first = list(&state, 0).await?;
    let (pages, read) = mpsc::channel(PAGES_AHEAD);
    tokio::spawn(walk(state, first, wanted, pages));
    Ok(([(CONTENT_TYPE, content_type)], Body::from_stream(Pages(read))))
}

/// The keys from a cursor on, as many as one scan request covers.
async fn list(state: &AdminState, cursor: u64) -> Result<ScanPage, Failure> {
    let scan = Scan { pattern: None, action: ScanAction::List, cursor, limit: SCAN_PAGE_OBJECTS };
    let look = move |owner: &mut crate::owner::Owner| {
        owner.handle(ClientId::OPERATOR, &Request::Scan(scan))
    };
    match state.asker.ask(look).await? {
        Reply::Scanned(found) => Ok(found),
        Reply::Refused(code) => Err(Failure::internal(code, code.name())),
        other => unreachable!("a scan is answered by {other:?}"),
    }
}

async fn walk(
    state: AdminState,
    first: ScanPage,
    mut wanted: KeyListRequest,
    pages: mpsc::Sender<Result<Bytes, BrokenOff>>,
) {
    let mut page = wanted.head().to_owned();
    let mut found = first;
    loop {
        page += &wanted.page(found.objects.into_iter().map(|(key, _)| key));
        if !page.is_empty() && pages.send(Ok(std::mem::take(&mut page).into())).await.is_err() {
            // The reader has gone.
            return;
        }
        let Some(cursor) = found.next_cursor.filter(|_| wanted.left > 0) else { break };
        let Ok(next) = list(&state, cursor).await else {
            // The error tells the reader that the list is incomplete. Sending fails if the reader has gone.
            let _ = pages.send(Err(BrokenOff)).await;
            return;
        };
        found = next;
    }
    // An error means that the reader has gone.
    let _ = pages.send(Ok(wanted.tail().into())).await;
}

/// The master stopped serving in the middle of the list.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the list of keys broke off: this master serves no more")]
struct BrokenOff;

/// The receiving end as a stream of pieces of a body.
struct Pages(mpsc::Receiver<Result<Bytes, BrokenOff>>);

impl Stream for Pages {
    type Item = Result<Bytes, BrokenOff>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}
