//! Memory of a device, as a NIC knows it: by a dmabuf, or by its address.

use std::os::fd::AsRawFd;
use std::ptr;

use mooncake_memory::DeviceRegion;

use super::abi::*;
use super::call::{Owned, call_error};
use super::nic::Nic;
use super::symbols::RegDmabufMr;
use crate::call::{CallError, wanted_failure};
use crate::device::{DeviceKnownBy, NicTrial};
use crate::error::DeviceRefusal;
use crate::registration::DevicePiece;

impl Nic {
    /// Registers memory of a device: by its dmabuf, or else by its address, which works where the kernel has nvidia-peermem.
    pub(super) fn register_device(
        &self,
        piece: &DevicePiece<'_>,
        access: u32,
    ) -> Result<(Owned<Mr>, DeviceKnownBy), DeviceRefusal> {
        let not_dmabuf = match self.register_dmabuf(piece, access) {
            Ok(mr) => return Ok((mr, DeviceKnownBy::Dmabuf)),
            Err(reason) => reason,
        };
        let address = ptr::without_provenance_mut(piece.memory.address() + piece.from);
        match self.register(address, piece.len, access) {
            Ok(mr) => Ok((mr, DeviceKnownBy::Peermem { not_dmabuf })),
            Err(peermem) => Err(DeviceRefusal::Nic { dmabuf: not_dmabuf, peermem }),
        }
    }

    fn register_dmabuf(&self, piece: &DevicePiece<'_>, access: u32) -> Result<Owned<Mr>, String> {
        let dmabuf = piece.dmabuf.as_ref().map_err(Clone::clone)?;
        let reg_dmabuf_mr = self.library.reg_dmabuf_mr.ok_or(
            "libibverbs lacks the function ibv_reg_dmabuf_mr: it is older than rdma-core 34",
        )?;
        let offset = dmabuf.offset + piece.from as u64;
        let address = (piece.memory.address() + piece.from) as u64;
        let registered = self.call_reg_dmabuf(
            reg_dmabuf_mr,
            (dmabuf.descriptor.as_raw_fd(), offset),
            (address, piece.len),
            access,
        );
        registered.map_err(|error| error.to_string())
    }

    fn call_reg_dmabuf(
        &self,
        reg_dmabuf_mr: RegDmabufMr,
        (descriptor, offset): (i32, u64),
        (address, len): (u64, usize),
        access: u32,
    ) -> Result<Owned<Mr>, CallError> {
        if self.is_dead() {
            return Err(call_error("ibv_reg_dmabuf_mr", libc::EIO));
        }
        let (pd, access) = (self.pd.as_ptr(), access.cast_signed());
        // SAFETY: the domain lives, and the descriptor is open during the call. The kernel holds the memory behind the dmabuf
        // for as long as the registration lives; the addresses are only names for its bytes.
        unsafe {
            let mr = match wanted_failure("ibv_reg_dmabuf_mr") {
                Some(number) => {
                    *libc::__errno_location() = number;
                    ptr::null_mut()
                }
                None => reg_dmabuf_mr(pd, offset, len, address, descriptor, access),
            };
            Owned::new("ibv_reg_dmabuf_mr", mr, self.library.functions.dereg_mr)
        }
    }

    /// Registers memory of a device, and takes that back.
    pub(super) fn try_device(&self, memory: &DeviceRegion) -> NicTrial {
        let admitted = memory.access().admit_cards();
        let tried = admitted.map_err(|reason| DeviceRefusal::Driver { reason }).and_then(|()| {
            let (dmabuf, len) = (&memory.access().dmabuf(), memory.len());
            let piece = DevicePiece { memory, dmabuf, from: 0, len };
            self.register_device(&piece, IBV_ACCESS_LOCAL_WRITE)
        });
        NicTrial { nic: self.name.clone(), known_by: tried.map(|(_, known_by)| known_by) }
    }
}
