//! `ExistOptions`: what an existence check does beside asking.

use pyo3::prelude::*;

use crate::argument::Argument;

/// What `is_exist` and `batch_is_exist` do beside asking.
#[pyclass(subclass, weakref, module = "mooncake.store")]
#[derive(Default)]
pub(crate) struct ExistOptions {
    prefetch_to_memory: bool,
}

#[pymethods]
impl ExistOptions {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Whether objects that lie on disks only are copied to memory, so that a get that follows is faster. It needs
    /// `enable_ssd_prefetch` in the dict of `setup`. The call does not wait for the copies.
    #[getter]
    pub(crate) fn prefetch_to_memory(&self) -> bool {
        self.prefetch_to_memory
    }

    #[setter]
    fn set_prefetch_to_memory(&mut self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.prefetch_to_memory = Argument::Attribute("prefetch_to_memory").flag(value)?;
        Ok(())
    }

    fn __str__(&self) -> String {
        format!("ExistOptions: {{ prefetch_to_memory: {} }}", u8::from(self.prefetch_to_memory))
    }

    fn __repr__(&self) -> String {
        self.__str__()
    }
}
