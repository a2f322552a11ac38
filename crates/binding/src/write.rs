use mooncake_client::{ErrorCode, PutSource, ReplicateConfig, ShownKey, SliceList};

use crate::pool_client::PoolClient;
use crate::replicate_settings::ReplicateSettings;
use crate::{INVALID_PARAMS, batch, log};

/// What a call does with a key that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The key keeps its value.
    Put,
    /// The key gets the new value.
    Upsert,
}

/// One call that writes objects: the store to write to, and the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The name of the call, for the log.
    pub operation: &'a str,
    /// Whether the call puts or upserts.
    pub verb: Verb,
    /// The store.
    pub client: &'a PoolClient,
    /// The configuration, which is checked with each call.
    pub settings: &'a ReplicateSettings,
}

impl Write<'_> {
    /// Writes one object. Returns 0 or a negative code.
    #[must_use]
    pub fn one(&self, key: &str, src: SliceList) -> i32 {
        if let Err(code) = self.check(key, &src) {
            return code.number();
        }
        let config = match self.settings.for_one(self.operation) {
            Ok(config) => config,
            Err(code) => return code.number(),
        };
        let (group, session) = (self.settings.group(0), self.settings.session(0));
        let results = self.write(&[PutSource { key, src, group, session }], &config);
        results.into_iter().next().map_or(INVALID_PARAMS, batch::stored)
    }

    /// Writes several objects. Returns 0 or a negative code for each.
    pub fn many<'m>(
        &self,
        keys: &[&str],
        slices: impl Iterator<Item = Result<SliceList<'m>, ErrorCode>>,
    ) -> Vec<i32> {
        let config = match self.settings.for_many(self.operation, keys.len()) {
            Ok(config) => config,
            Err(code) => return vec![code.number(); keys.len()],
        };
        let sources = keys.iter().zip(slices).enumerate().map(|(position, (&key, src))| {
            let src = src?;
            self.check(key, &src)?;
            let (group, session) = (self.settings.group(position), self.settings.session(position));
            Ok(PutSource { key, src, group, session })
        });
        let results = batch::run(sources, |sources| self.write(sources, &config));
        results.into_iter().map(batch::stored).collect()
    }

    fn check(&self, key: &str, src: &SliceList) -> Result<(), ErrorCode> {
        if src.total_len() > 0 {
            return Ok(());
        }
        let text = format_args!("the value of {} is empty", ShownKey(key));
        log::warn(self.operation, "empty", text);
        Err(ErrorCode::InvalidParams)
    }

    fn write(
        &self,
        sources: &[PutSource<'_>],
        config: &ReplicateConfig<'_>,
    ) -> Vec<Result<(), ErrorCode>> {
        match self.verb {
            Verb::Put => self.client.put(sources, config),
            Verb::Upsert => self.client.upsert(sources, config),
        }
    }
}
