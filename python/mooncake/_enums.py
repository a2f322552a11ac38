"""The enumerations of `mooncake.store` and `mooncake.engine`.

Processes send these numbers to each other: they must never change.
"""

from enum import Enum, IntEnum


class _Named(IntEnum):
    """An integer that prints as its name on every version of Python, and equals no member of another enumeration."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __eq__(self, other: object) -> bool:
        return int(self) == other if type(other) is type(self) or not isinstance(other, Enum) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = IntEnum.__hash__


class SoftPinAction(_Named):
    """How a put or an upsert changes an object's soft pin: PRESERVE keeps it, ENABLE sets it, DISABLE removes it."""

    PRESERVE = 0
    ENABLE = 1
    DISABLE = 2


class ObjectDataType(_Named):
    """The kind of data in an object. The pool stores it and does not act on it."""

    UNKNOWN = 0
    KVCACHE = 1
    TENSOR = 2
    WEIGHT = 3
    SAMPLE = 4
    ACTIVATION = 5
    GRADIENT = 6
    OPTIMIZER_STATE = 7
    METADATA = 8
    GENERAL = 9


class ReplicaStatus(_Named):
    """The state of a replica."""

    UNDEFINED = 0
    INITIALIZED = 1
    PROCESSING = 2
    COMPLETE = 3
    REMOVED = 4
    FAILED = 5


class TaskType(_Named):
    """What a task does with a replica."""

    REPLICA_COPY = 0
    REPLICA_MOVE = 1


class TaskStatus(_Named):
    """The state of a task."""

    PENDING = 0
    PROCESSING = 1
    FAILED = 2
    SUCCESS = 3


class ScatterTransferCompletionStatus(_Named):
    """The state of a `ScatterTransferTicket` of `mooncake.engine`.

    COMPLETED: all bytes are in place. FAILED_DRAINED: it failed, and touches no memory any more. COMPLETION_UNKNOWN: it
    has not ended.
    """

    COMPLETED = 0
    FAILED_DRAINED = 1
    COMPLETION_UNKNOWN = 2
