//! `GET /get_all_keys` and `GET /query_by_regex`: lists of keys, sent while the walk over all objects goes on.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State as Extract;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use bytes::Bytes;
use futures_core::Stream;
use mooncake_types::{ScanAction, ScanPage};
use tokio::sync::mpsc;

use super::error::Failure;
use super::keys::KeyReplicas;
use super::parameters::Parameters;
use super::scan::AdminScan;
use super::state::AdminState;

/// Most pages that wait for a slow reader.
const PAGES_AHEAD: usize = 4;

/// How the keys are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One on each line, as the C++ store does. A key may contain line ends itself.
    Lines,
    /// One object with a list.
    Json,
    /// One object with a map from key to where its object lies.
    Located,
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
        Self::with(format, parameters)
    }

    fn with(format: Format, parameters: &Parameters) -> Result<KeyListRequest, Failure> {
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
            Format::Json | Format::Located => "application/json",
        }
    }

    fn head(&self) -> &'static str {
        match self.format {
            Format::Lines => "",
            Format::Json => r#"{"success":true,"data":["#,
            Format::Located => r#"{"success":true,"data":{"#,
        }
    }

    fn tail(&self) -> &'static str {
        match self.format {
            Format::Lines => "",
            Format::Json => "]}",
            Format::Located => "}}",
        }
    }

    /// The wanted ones of these objects, as text.
    fn page(&mut self, found: ScanPage) -> String {
        let mut page = String::new();
        let ScanPage { objects, segments, .. } = found;
        for (key, located) in objects.into_iter().filter(|(key, _)| key.starts_with(&self.prefix)) {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            if self.format == Format::Lines {
                page.extend([key.as_str(), "\n"]);
                continue;
            }
            if std::mem::replace(&mut self.has_begun, true) {
                page.push(',');
            }
            page += &serde_json::Value::from(key).to_string();
            if self.format == Format::Located {
                page.push(':');
                page += &KeyReplicas::of(&located, &segments).to_json();
            }
        }
        page
    }
}

/// `GET /get_all_keys?format=F&prefix=P&limit=N`: all keys, or those with a prefix, one on each line or as JSON.
pub(super) async fn get_all_keys(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<impl IntoResponse, Failure> {
    let wanted = KeyListRequest::read(&parameters)?;
    answer(state, AdminScan::of_all(Some(parameters.tenant()?), ScanAction::List), wanted).await
}

/// `GET /query_by_regex?regex=R&prefix=P&limit=N`: where the objects lie whose keys the regular expression finds. It
/// grants no lease.
pub(super) async fn query_by_regex(
    Extract(state): Extract<AdminState>,
    parameters: Parameters,
) -> Result<impl IntoResponse, Failure> {
    let wanted = KeyListRequest::with(Format::Located, &parameters)?;
    answer(state, AdminScan::by_regex(&parameters, ScanAction::List)?, wanted).await
}

async fn answer(
    state: AdminState,
    scan: AdminScan,
    wanted: KeyListRequest,
) -> Result<impl IntoResponse, Failure> {
    let content_type = wanted.content_type();
    // Asked before the answer begins, so that a master that does not serve can reply with an error.
    let first = scan.page(&state, 0).await?;
    let (pages, read) = mpsc::channel(PAGES_AHEAD);
    tokio::spawn(walk((state, scan), first, wanted, pages));
    Ok(([(CONTENT_TYPE, content_type)], Body::from_stream(Pages(read))))
}

async fn walk(
    (state, scan): (AdminState, AdminScan),
    first: ScanPage,
    mut wanted: KeyListRequest,
    pages: mpsc::Sender<Result<Bytes, BrokenOff>>,
) {
    let mut page = wanted.head().to_owned();
    let mut found = first;
    loop {
        let next_cursor = found.next_cursor;
        page += &wanted.page(found);
        if !page.is_empty() && pages.send(Ok(std::mem::take(&mut page).into())).await.is_err() {
            // The reader has gone.
            return;
        }
        let Some(cursor) = next_cursor.filter(|_| wanted.left > 0) else { break };
        let Ok(next) = scan.page(&state, cursor).await else {
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
