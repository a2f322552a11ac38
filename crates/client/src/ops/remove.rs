use mooncake_types::{ErrorCode, Reply, Request, Tick};

use super::dropping::Dropping;
use super::{CallError, Keyed, MoveError, Op, Step, Verb};

/// Removal of objects by key. It is over when no reader can find any of them, whatever route it has.
#[derive(Debug)]
pub struct RemoveOp<'a> {
    keyed: Keyed<'a, Remove>,
    dropping: Option<Dropping>,
}

/// See [`RemoveOp`].
#[derive(Clone, Copy, Debug)]
struct Remove {
    force: bool,
}

impl<'a> RemoveOp<'a> {
    /// Removes `keys`, leased ones only if `force` is set.
    #[must_use]
    pub fn new(keys: &'a [&'a str], force: bool) -> Self {
        Self { keyed: Keyed::with(Remove { force }, keys), dropping: None }
    }
}

impl<'a> Verb<'a> for Remove {
    type Answer = ();

    fn request(&self, keys: Vec<&'a str>) -> Request<'a> {
        Request::Remove { keys, force: self.force }
    }

    fn answers(&self, _: Tick, reply: Reply) -> Result<Vec<Result<(), ErrorCode>>, Reply> {
        match reply {
            Reply::Statuses(answers) => Ok(answers),
            other => Err(other),
        }
    }
}

impl<'a> Op<'a> for RemoveOp<'a> {
    type Output = Vec<Result<(), ErrorCode>>;

    fn next(&mut self, now: Tick) -> Step<'a> {
        if let Some(dropping) = &mut self.dropping {
            if let Some(step) = dropping.next(now) {
                return step;
            }
            if let Err(code) = dropping.verdict() {
                self.keyed.fail_good(code);
            }
            self.dropping = None;
        }
        self.keyed.next(now)
    }

    fn on_reply(&mut self, now: Tick, reply: Result<Reply, CallError>) {
        if let Some(dropping) = &mut self.dropping {
            return dropping.on_told(reply.is_ok());
        }
        let reply = reply.map(|reply| match reply {
            Reply::Remaining { results, remains } => {
                self.dropping = Some(Dropping::new(&remains, now));
                Reply::Statuses(results)
            }
            other => other,
        });
        self.keyed.on_reply(now, reply);
    }

    fn on_transfer(&mut self, results: Vec<Result<(), MoveError>>) {
        let dropping = self.dropping.as_mut();
        dropping.expect("nothing else is done at nodes").on_dropped(&results);
    }

    fn finish(self) -> Self::Output {
        self.keyed.finish()
    }
}
