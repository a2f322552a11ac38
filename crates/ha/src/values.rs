use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::json;

use crate::etcd::{Gateway, RangeAnswer, encode};
use crate::location::Location;
use crate::redis::{RedisClient, Reply};
use crate::{AddressError, CoordinatorError};

/// Values under keys of an etcd cluster or a Redis server. Nobody is elected, and nothing expires.
#[derive(Debug)]
pub struct Values {
    server: ValuesServer,
    /// The first server, `host:port`.
    endpoint: String,
}

#[derive(Debug)]
enum ValuesServer {
    Etcd(Gateway),
    Redis(RedisClient),
}

/// What an address of Redis may leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValuesLogin {
    /// The password.
    pub password: Option<String>,
    /// The number of the database.
    pub database: Option<u32>,
}

impl Values {
    /// The values at an address: `etcd://[user:password@]host[:port];...` or
    /// `redis://[[user]:password@]host[:port][/database]`. Sends no request yet. `within` is how long one request may
    /// take. `login` applies to Redis, where the address does not say otherwise.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn connect(
        address: &str,
        login: &ValuesLogin,
        within: Duration,
    ) -> Result<Values, AddressError> {
        match address.parse()? {
            Location::Etcd(cluster) => {
                let endpoint = cluster.endpoints[0].clone();
                // All members together get twice the time of one.
                let server = ValuesServer::Etcd(Gateway::new(&cluster, within / 2));
                Ok(Values { server, endpoint })
            }
            Location::Redis(mut redis) => {
                redis.password = redis.password.or_else(|| login.password.clone());
                if redis.database == 0 {
                    redis.database = login.database.unwrap_or(0);
                }
                let endpoint = redis.endpoint.clone();
                let server = ValuesServer::Redis(RedisClient::new(redis, within));
                Ok(Values { server, endpoint })
            }
            Location::Kubernetes { .. } | Location::File { .. } => Err(AddressError::Address {
                address: mooncake_types::without_password(address),
                reason: "only etcd:// and redis:// keep values".to_owned(),
            }),
        }
    }

    /// The address of the first server, `host:port`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The value of a key, if there is one.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`].
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>, CoordinatorError> {
        match &self.server {
            ValuesServer::Etcd(gateway) => {
                let body = json!({"key": encode(key.as_bytes())});
                let mut found: RangeAnswer = gateway.call("/v3/kv/range", &body)?;
                Ok(found.kvs.pop().map(|found| found.value))
            }
            ValuesServer::Redis(client) => match call(client, &["GET", key])? {
                Reply::Text(value) => Ok(Some(value)),
                Reply::Nil => Ok(None),
                _ => Err(odd(client)),
            },
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`].
    pub fn put(&self, key: &str, value: &str) -> Result<(), CoordinatorError> {
        match &self.server {
            ValuesServer::Etcd(gateway) => {
                let (key, value) = (encode(key.as_bytes()), encode(value.as_bytes()));
                let body = json!({"key": key, "value": value});
                gateway.call::<IgnoredAny>("/v3/kv/put", &body).map(|_| ())
            }
            ValuesServer::Redis(client) => match call(client, &["SET", key, value])? {
                Reply::Text(_) => Ok(()),
                _ => Err(odd(client)),
            },
        }
    }

    /// Removes a key, if it is there.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`].
    pub fn remove(&self, key: &str) -> Result<(), CoordinatorError> {
        match &self.server {
            ValuesServer::Etcd(gateway) => {
                let body = json!({"key": encode(key.as_bytes())});
                gateway.call::<IgnoredAny>("/v3/kv/deleterange", &body).map(|_| ())
            }
            ValuesServer::Redis(client) => match call(client, &["DEL", key])? {
                Reply::Number(_) => Ok(()),
                _ => Err(odd(client)),
            },
        }
    }
}

fn call(client: &RedisClient, words: &[&str]) -> Result<Reply, CoordinatorError> {
    let failed = |reason: String| CoordinatorError::unavailable(format!("{client:?}"), reason);
    match client.call(words).map_err(|error| failed(error.to_string()))? {
        Reply::Refused(reason) => Err(failed(reason)),
        reply => Ok(reply),
    }
}

fn odd(client: &RedisClient) -> CoordinatorError {
    CoordinatorError::unavailable(format!("{client:?}"), "an odd answer")
}
