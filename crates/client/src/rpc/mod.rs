//! Blocking calls to the master: a request goes out and its reply comes in on the caller's own thread.

mod call;
mod dial;
mod dial_error;
mod masters;
mod pool;
#[cfg(test)]
mod tests;

pub(crate) use call::{call, call_meanwhile};
pub(crate) use dial::Dialer;
pub(crate) use dial_error::DialError;
pub(crate) use masters::Masters;
pub(crate) use pool::Pool;
