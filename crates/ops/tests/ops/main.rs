//! The operations against a scripted master and scripted nodes: what is sent, in what order, and what is answered.

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
