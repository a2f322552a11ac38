"""Transfers between registered memory of processes, by address: see `TransferEngine`.

This build moves bytes over TCP. It does not have the RPC interface and the shared segments of the C++ package. Their
names exist here, and raise NotImplementedError when they are used.
"""

from enum import IntEnum
from typing import Any, NoReturn

from mooncake._enums import ScatterTransferCompletionStatus
from mooncake._native import InnerTransferEngine, ScatterTransferTicket, TransferEngine, TransferNotify

SUPPORT_EFA = False
SUPPORT_HIP = False
SUPPORT_MNNVL = False
SUPPORT_MULTI_PROTOCOL = False
SUPPORT_MUSA = False
SUPPORT_INTRA_NVLINK = False
SUPPORT_CUDA = True


class TransferOpcode(IntEnum):
    """The direction of a transfer. Numbers as in the C++ package; its documents also spell the names in capitals."""

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
    """Not in this build: the constructor raises NotImplementedError."""

    def __init__(self) -> None:
        _refuse("RpcInterface")


class ReceivedData:
    """Not in this build: the constructor raises NotImplementedError."""

    def __init__(self) -> None:
        _refuse("ReceivedData")


class ReceivedTensor:
    """Not in this build: the constructor raises NotImplementedError."""

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
    """Memory that several processes share. Not in this build: `supported` returns False, and `create` raises."""

    @staticmethod
    def supported(mmap: bool = True, host_register: bool = False) -> bool:
        """Returns False: this build cannot share memory across processes."""
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
        """Not in this build: raises NotImplementedError."""
        _refuse("SharedSegment")


__all__ = [
    "SUPPORT_CUDA",
    "SUPPORT_EFA",
    "SUPPORT_HIP",
    "SUPPORT_INTRA_NVLINK",
    "SUPPORT_MNNVL",
    "SUPPORT_MULTI_PROTOCOL",
    "SUPPORT_MUSA",
    "CoroRPCInterface",
    "InnerTransferEngine",
    "Read",
    "ReceivedData",
    "ReceivedTensor",
    "RpcInterface",
    "ScatterTransferCompletionStatus",
    "ScatterTransferTicket",
    "SharedSegment",
    "TransferEngine",
    "TransferNotify",
    "TransferOpcode",
    "Write",
    "create_rpc_client",
    "create_rpc_server",
]
