//! The operations against a scripted master and scripted nodes: each request, their order, and the result.

mod dropping;
mod get;
mod keyed;
mod prefix_len;
mod put;
mod put_session;
mod ranges;
mod room;
mod scan;
mod script;
mod task;
mod time;
mod upsert;
