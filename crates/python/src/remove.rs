//! The methods that remove objects.

use mooncake_binding::{INVALID_PARAMS, batch, log};
use mooncake_client::ShownKey;
use pyo3::prelude::*;

use crate::argument::argument;
use crate::codes::Codes;
use crate::store::MooncakeDistributedStore;

#[pymethods]
impl MooncakeDistributedStore {
    /// Removes the object `key`. With `force`, also an object under a lease.
    ///
    /// Returns 0, or a negative code:
    ///
    /// - -704 if there is no such object;
    /// - -706 if it has a lease and `force` is false;
    /// - -703 if its put has not ended, also with `force`;
    /// - -901 if not all nodes confirmed in time: the object may or may not be gone.
    #[pyo3(signature = (key, force=None), text_signature = "($self, key, force=False)")]
    fn remove(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        force: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i32> {
        let key = argument("remove", "key").text(key)?;
        let force = flag("remove", force)?;
        let Some(store) = self.store_for("remove") else { return Ok(INVALID_PARAMS) };
        let results = py.detach(|| store.remove(&[key], force));
        Ok(results.into_iter().next().map_or(INVALID_PARAMS, batch::done))
    }

    /// Removes several objects in one round trip. Returns a list with the result of `remove` per key.
    #[pyo3(signature = (keys, force=None), text_signature = "($self, keys, force=False)")]
    fn batch_remove(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        force: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Codes<i32>> {
        let held = argument("batch_remove", "keys").texts(keys)?;
        let keys = held.strs()?;
        let force = flag("batch_remove", force)?;
        let Some(store) = self.store_for("batch_remove") else {
            return Ok(Codes::same(INVALID_PARAMS, keys.len()));
        };
        Ok(py.detach(|| {
            let results = store.remove(&keys, force);
            results.into_iter().map(batch::done).collect()
        }))
    }

    /// Removes the objects whose keys contain a match of the regular expression; objects under a lease only with
    /// `force`.
    ///
    /// Returns the number of objects removed; -600 if the expression is refused, which the log explains; or another
    /// negative code, after which some objects may have been removed.
    #[pyo3(signature = (regex_pattern, force=None), text_signature = "($self, regex_pattern, force=False)")]
    fn remove_by_regex(
        &self,
        py: Python<'_>,
        regex_pattern: &Bound<'_, PyAny>,
        force: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<i64> {
        let pattern = argument("remove_by_regex", "regex_pattern").text(regex_pattern)?;
        let force = flag("remove_by_regex", force)?;
        let Some(store) = self.store_for("remove_by_regex") else {
            return Ok(i64::from(INVALID_PARAMS));
        };
        let result = py.detach(|| store.remove_by_regex(pattern, force));
        if let Err(code) = result {
            let text = format_args!("{}: {code}", ShownKey(pattern));
            log::warn_of_call("remove_by_regex", code.name(), text);
        }
        Ok(batch::counted(result))
    }

    /// Removes all objects; those under a lease only with `force`. Returns the number of objects removed, or a
    /// negative code, after which some may have been removed.
    #[pyo3(signature = (force=None), text_signature = "($self, force=False)")]
    fn remove_all(&self, py: Python<'_>, force: Option<&Bound<'_, PyAny>>) -> PyResult<i64> {
        let force = flag("remove_all", force)?;
        let Some(store) = self.store_for("remove_all") else {
            return Ok(i64::from(INVALID_PARAMS));
        };
        Ok(batch::counted(py.detach(|| store.remove_all(force))))
    }
}

fn flag(function: &'static str, force: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    force.map_or(Ok(false), |force| argument(function, "force").flag(force))
}
