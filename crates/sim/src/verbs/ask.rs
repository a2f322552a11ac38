use mooncake_ops::{CallError, MoveError, Op, Step};
use mooncake_types::{Reply, Request, Tick};

/// One request to the master, for uses that have no operation of their own.
pub(crate) struct Ask {
    request: Option<Request<'static>>,
    reply: Option<Result<Reply, CallError>>,
}

impl Ask {
    pub(crate) fn new(request: Request<'static>) -> Self {
        Self { request: Some(request), reply: None }
    }
}

impl Op<'static> for Ask {
    type Output = Result<Reply, CallError>;

    fn next(&mut self, _now: Tick) -> Step<'static> {
        self.request.take().map_or(Step::Done, Step::Call)
    }

    fn on_reply(&mut self, reply: Result<Reply, CallError>) {
        self.reply = Some(reply);
    }

    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {
        unreachable!("a question moves no bytes");
    }

    fn finish(self) -> Self::Output {
        self.reply.expect("it was answered")
    }
}

/// A pause of a thread.
pub(crate) struct Rest {
    pub(crate) until: Tick,
}

impl Op<'static> for Rest {
    type Output = ();

    fn next(&mut self, now: Tick) -> Step<'static> {
        if now < self.until { Step::Wait(self.until) } else { Step::Done }
    }

    fn on_reply(&mut self, _reply: Result<Reply, CallError>) {
        unreachable!("who rests asks nothing");
    }

    fn on_transfer(&mut self, _results: Vec<Result<(), MoveError>>) {
        unreachable!("who rests moves no bytes");
    }

    fn finish(self) {}
}
