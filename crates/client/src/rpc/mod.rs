//! Blocking calls to the master: the caller's own thread sends a request and waits for its reply.

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
pub(crate) use pool::ConnectionPool;
