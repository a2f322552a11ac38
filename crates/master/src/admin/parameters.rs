use std::collections::HashMap;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;

use super::error::Failure;

/// The parameters behind the question mark, decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters(HashMap<String, String>);

impl Parameters {
    /// A parameter that must be given and not be empty.
    pub(super) fn required(&self, name: &str) -> Result<&str, Failure> {
        self.optional(name)
            .ok_or_else(|| Failure::bad_request(format!("Missing {name} query parameter")))
    }

    /// A parameter, if it is given and not empty.
    pub(super) fn optional(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A truth value; false if it is not given.
    pub(super) fn truth(&self, name: &str) -> Result<bool, Failure> {
        match self.optional(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => {
                Err(Failure::bad_request(format!("{name} is '{other}'; it must be true or false")))
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Parameters {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query = Query::<HashMap<String, String>>::from_request_parts(parts, state).await;
        match query {
            Ok(Query(map)) => Ok(Parameters(map)),
            Err(rejection) => Err(Failure::bad_request(rejection.body_text())),
        }
    }
}
