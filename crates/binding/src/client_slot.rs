use std::sync::{Arc, PoisonError, RwLock};

use crate::log;
use crate::pool_client::PoolClient;
use crate::setup_error::SetupError;

/// The place of the open client of a store object: empty before `setup` and after `close`. `K` is what stays open at
/// least as long as the client.
#[derive(Debug)]
pub struct ClientSlot<K = ()> {
    open: RwLock<Option<Open<K>>>,
}

#[derive(Debug)]
struct Open<K> {
    client: Arc<PoolClient>,
    _kept: K,
}

impl<K> Default for ClientSlot<K> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<K> ClientSlot<K> {
    /// A slot without a client.
    #[must_use]
    pub const fn empty() -> Self {
        Self { open: RwLock::new(None) }
    }

    /// The open client; `None` if the store is not set up.
    pub fn client(&self) -> Option<Arc<PoolClient>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| Arc::clone(&open.client))
    }

    /// The open client. Logs an error for `operation` if the store is not set up.
    pub fn client_for(&self, operation: &str) -> Option<Arc<PoolClient>> {
        let client = self.client();
        if client.is_none() {
            log::error(operation, "closed", format_args!("the store is not set up"));
        }
        client
    }

    /// The open client, for an `operation` that copies through the local buffer. `None`, and an error in the log,
    /// without one.
    pub fn copying_client(&self, operation: &str) -> Option<Arc<PoolClient>> {
        let client = self.client_for(operation)?;
        if !client.allows_copies() {
            let text = format_args!("the store was set up with local_buffer_size=0");
            log::error(operation, "no buffer", text);
        }
        client.allows_copies().then_some(client)
    }

    /// Opens a client, and makes it the open client.
    ///
    /// # Errors
    /// [`SetupError::SetUpAlready`] if a client is open, and the errors of `open`.
    pub fn set_up<E: From<SetupError>>(
        &self,
        open: impl FnOnce() -> Result<(PoolClient, K), E>,
    ) -> Result<(), E> {
        if self.client().is_some() {
            return Err(SetupError::SetUpAlready.into());
        }
        let (client, kept) = open()?;
        self.install(client, kept).map_err(|late| {
            late.close();
            SetupError::SetUpAlready.into()
        })
    }

    /// Makes `client` the open client. Gives it back if another client is open.
    fn install(&self, client: PoolClient, kept: K) -> Result<(), PoolClient> {
        let mut slot = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if slot.is_some() {
            return Err(client);
        }
        *slot = Some(Open { client: Arc::new(client), _kept: kept });
        Ok(())
    }

    /// Takes the open client out. Later calls find the store not set up.
    pub fn take(&self) -> Option<Arc<PoolClient>> {
        let open = self.open.write().unwrap_or_else(PoisonError::into_inner).take();
        open.map(|open| open.client)
    }
}
