"""Names of the C++ package for hardware that this build does not support. They exist, and return an error code."""

from __future__ import annotations

NOT_SUPPORTED = -1012
"""The error code that every method here returns."""


class MooncakeDistributedNoFRegister:
    """In the C++ package, registers NVMe-over-Fabrics targets with the pool. Not supported in this build."""

    def real_register(
        self, nqn: str, nsid: int, traddr: str, trsvcid: int, base: int, size: int, master_server_addr: str
    ) -> int:
        """Returns -1012 (not supported)."""
        return _refuse(f"{nqn} at {traddr}:{trsvcid} is not registered")

    def real_unregister_by_endpoint(
        self, nqn: str, nsid: int, traddr: str, trsvcid: int, master_server_addr: str
    ) -> int:
        """Returns -1012 (not supported)."""
        return _refuse(f"{nqn} at {traddr}:{trsvcid} is not unregistered")


def _refuse(what: str) -> int:
    import logging

    logging.getLogger("mooncake").error("%s: NVMe over Fabrics is not supported in this build", what)
    return NOT_SUPPORTED
