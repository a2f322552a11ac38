use std::sync::Arc;
use std::time::Duration;

use super::keys::Keys;
use super::script;
use super::term::RedisTerm;
use crate::backend::{Backend, Claim, Claimed, Won};
use crate::location::RedisServer;
use crate::{CoordinatorError, LeaderView, Options, boot_time};

/// The keys of a cluster of masters in a Redis server.
#[derive(Debug)]
pub(crate) struct RedisBackend {
    keys: Arc<Keys>,
    options: Options,
}

impl RedisBackend {
    pub(crate) fn new(server: RedisServer, options: &Options) -> Self {
        Self { keys: Arc::new(Keys::new(server, options)), options: options.clone() }
    }
}

impl Backend for RedisBackend {
    fn claim(&self, claim: &Claim) -> Result<Claimed, CoordinatorError> {
        if let Some(holder) = self.keys.holder()? {
            return Ok(Claimed::Held(Some(holder.view())));
        }
        let (stamp, text) = self.keys.stored()?;
        let record = self.keys.decode_record(text.as_deref())?.succeed(claim.now);
        let text = self.keys.encode_record(&record)?;
        let holder = claim.holder(record.epoch());
        let ttl_ms = self.options.ttl.as_millis().to_string();
        let asked_at = boot_time::now();
        let arguments = [&*stamp, &holder.encode(), &ttl_ms, &text];
        let answer = self.keys.run(script::TAKE, &arguments)?;
        // This is also true if an attempt whose answer was lost has done it.
        if answer.holder.as_ref() == Some(&holder) {
            let term = RedisTerm::new(Arc::clone(&self.keys), holder, answer.stamp);
            return Ok(Claimed::Won(Won { term: Box::new(term), record, asked_at }));
        }
        Ok(Claimed::Held(answer.holder.map(|holder| holder.view())))
    }

    fn leader(&self) -> Result<Option<LeaderView>, CoordinatorError> {
        Ok(self.keys.holder()?.map(|holder| holder.view()))
    }

    fn poll_every(&self) -> Duration {
        self.options.poll_every()
    }
}
