use std::sync::{Mutex, MutexGuard, PoisonError};

use mooncake_memory::Place;
use mooncake_types::ErrorCode;

use crate::pointer;
use crate::registry::{Checked, Registry};

/// Memory of the caller that transfers may use: address ranges of the host and of devices that do not overlap.
#[derive(Debug, Default)]
pub struct RegisteredBuffers(Mutex<Registry>);

impl RegisteredBuffers {
    /// Registers `len` bytes from address `ptr` on.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for a null pointer, no bytes, an overlap with a registered buffer, or what is neither all
    /// memory of the host nor all memory of one device, as a warning in the log says.
    pub fn register(&self, ptr: usize, len: usize) -> Result<(), ErrorCode> {
        let place = pointer::place_of_buffer(ptr, len)?;
        self.lock().register(ptr, len, place)
    }

    /// Forgets the buffer that was registered with this start.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] if there is none.
    pub fn unregister(&self, ptr: usize) -> Result<(), ErrorCode> {
        self.lock().unregister(ptr)
    }

    /// Where this memory lies, if a transfer may use it: all of it inside of one registered buffer, or begun outside of all.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidParams`] for a null pointer, no bytes, bytes that run past the end of the registered
    /// buffer that they begin in, or that begin outside of all and not in host memory.
    pub fn check(&self, ptr: usize, len: usize) -> Result<Place, ErrorCode> {
        let checked = self.lock().check(ptr, len)?;
        match checked {
            Checked::Registered(place) => Ok(place),
            Checked::Unregistered => pointer::check_start(ptr).map(|()| Place::Host),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
