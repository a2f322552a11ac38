use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;

use mooncake_types::{Access, Tenant};

use super::error::Failure;

/// The parameters behind the question mark, decoded, in their order.
#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pairs: Vec<(String, String)>,
    /// What the token of the request allows.
    access: Access,
}

impl Parameters {
    /// A parameter that must be given and not be empty.
    pub(super) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.optional(name)
            .ok_or_else(|| Failure::bad_request(format!("Missing {name} query parameter")))
    }

    /// A parameter, if it is given and not empty. Of several the last one counts.
    pub(super) fn optional(&self, name: &str) -> Option<&str> {
        self.all(name).last().filter(|value| !value.is_empty())
    }

    /// The tenant that `tenant_id` names; the default one if it is not given.
    pub(super) fn tenant(&self) -> Result<Tenant, Failure> {
        self.tenant_named(self.optional("tenant_id").unwrap_or_default())
    }

    /// The tenant of this name, if the token of the request may name it.
    pub(super) fn tenant_named(&self, name: &str) -> Result<Tenant, Failure> {
        let tenant = tenant(name)?;
        match self.access.includes(tenant.name()) {
            true => Ok(tenant),
            false => {
                let access = &self.access;
                Err(Failure::denied(format!("the auth token allows {access}, and not {tenant}")))
            }
        }
    }

    /// All parameters of this name.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.pairs.iter().filter(move |(it, _)| it == name);
        named.map(|(_, value)| value.as_str())
    }

    /// A truth value; false if it is not given, and true if it is given without a value.
    pub(super) fn truth(&self, name: &str) -> Result<bool, Failure> {
        match self.all(name).last() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => {
                Err(Failure::bad_request(format!("{name} is '{other}'; it must be true or false")))
            }
        }
    }
}

/// The tenant of this name.
pub(super) fn tenant(name: &str) -> Result<Tenant, Failure> {
    Tenant::named(name)
        .map_err(|wrong| Failure::bad_request(format!("tenant_id {name:?}: {wrong}")))
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let access = parts.extensions.get().cloned().unwrap_or(Access::ALL);
        let query = Query::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        match query {
            Ok(Query(pairs)) => Ok(Parameters { pairs, access }),
            Err(rejection) => Err(Failure::bad_request(rejection.body_text())),
        }
    }
}
