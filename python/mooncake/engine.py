"""Transfers between memory that processes registered, by address: `TransferEngine`.

This build moves bytes over TCP. The RPC interface and the shared segments of the C++ package are not in it: their names
are here, and say so when they are used.
"""

from enum import IntEnum
from typing import Any, NoReturn

from mooncake._native import InnerTransferEngine, TransferEngine, TransferNotify

SUPPORT_EFA = False
SUPPORT_HIP = False
SUPPORT_MNNVL = False
SUPPORT_MUSA = False
SUPPORT_INTRA_NVLINK = False
SUPPORT_CUDA = True


class TransferOpcode(IntEnum):
    """Which way bytes go. The numbers are those of the C++ package, whose documents spell the names in capitals too."""

    Read = 0
    Write = 1
    READ = 0
    WRITE = 1

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


Read = TransferOpcode.Read
Write = TransferOpcode.Write
TransferEngine.TransferOpcode = TransferOpcode


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"mooncake.engine.{name} is not supported in this build")


class RpcInterface:
    """Not in this build: making one raises NotImplementedError."""

    def __init__(self) -> None:
        _refuse("RpcInterface")


class ReceivedData:
    """Not in this build: making one raises NotImplementedError."""

    def __init__(self) -> None:
        _refuse("ReceivedData")


class ReceivedTensor:
    """Not in this build: making one raises NotImplementedError."""

    def __init__(self) -> None:
        _refuse("ReceivedTensor")


CoroRPCInterface = RpcInterface


def create_rpc_client(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    """Not in this build: raises NotImplementedError."""
    _refuse("create_rpc_client")


def create_rpc_server(local_rank: int = 0, world_size: int = 1) -> RpcInterface:
    """Not in this build: raises NotImplementedError."""
    _refuse("create_rpc_server")


class SharedSegment:
    """Memory that several processes share. Not in this build: `supported` says so, and `create` raises."""

    @staticmethod
    def supported(mmap: bool = True, host_register: bool = False) -> bool:
        """False: this build cannot share memory across processes."""
        return False

    @staticmethod
    def create(
        name: str,
        size: int,
        world_size: int,
        rank_id: int,
        owner_rank: int = 0,
        device_id: int = 0,
        mmap: bool = True,
        host_register: bool = False,
    ) -> tuple[Any, str]:
        """Raises NotImplementedError."""
        _refuse("SharedSegment")


__all__ = [
    "SUPPORT_CUDA",
    "SUPPORT_EFA",
    "SUPPORT_HIP",
    "SUPPORT_INTRA_NVLINK",
    "SUPPORT_MNNVL",
    "SUPPORT_MUSA",
    "CoroRPCInterface",
    "InnerTransferEngine",
    "Read",
    "ReceivedData",
    "ReceivedTensor",
    "RpcInterface",
    "SharedSegment",
    "TransferEngine",
    "TransferNotify",
    "TransferOpcode",
    "Write",
    "create_rpc_client",
    "create_rpc_server",
]
