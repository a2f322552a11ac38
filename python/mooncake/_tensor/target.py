"""What callers say about parallelism: the axes that identify a shard, and what a read is to return."""

from __future__ import annotations

from collections.abc import Iterable

from mooncake._tensor.argument import small, text

MODES = ("as_stored", "shard", "full")


class ParallelAxis:
    """One axis of a shard's identity: rank `rank` of `size` along the axis `kind` ("tp", "dp", "ep" or "pp").

    A tp axis needs `split_dim`, an ep axis `expert_id`, a pp axis `stage_id`. Values of a wrong type are TypeErrors;
    values that contradict each other are found by the call that is given the axis.
    """

    __slots__ = ("expert_id", "kind", "rank", "size", "split_dim", "stage_id")

    kind: str
    rank: int
    size: int
    split_dim: int | None
    expert_id: int | None
    stage_id: int | None

    def __init__(self) -> None:
        self.kind = ""
        self.rank = 0
        self.size = 1
        self.split_dim = None
        self.expert_id = None
        self.stage_id = None

    def __setattr__(self, name: str, value: object) -> None:
        checked: object = value
        if name == "kind":
            checked = text("ParallelAxis", name, value)
        elif name in ("rank", "size") or (value is not None and name in self.__slots__):
            checked = small("ParallelAxis", name, value)
        object.__setattr__(self, name, checked)

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in ("kind", "rank", "size"))
        others = ("split_dim", "expert_id", "stage_id")
        extra = "".join(f", {n}={getattr(self, n)}" for n in others if getattr(self, n) is not None)
        return f"<ParallelAxis {values}{extra}>"

    def copy(self) -> ParallelAxis:
        """An equal axis of its own."""
        axis = ParallelAxis()
        for name in self.__slots__:
            setattr(axis, name, getattr(self, name))
        return axis


class TensorParallelism:
    """The axes that together identify a shard, at most one of each kind."""

    __slots__ = ("_axes",)

    def __init__(self) -> None:
        self._axes: list[ParallelAxis] = []

    @property
    def axes(self) -> list[ParallelAxis]:
        """A list of the axes. Changes of an axis count, changes of the list do not: assign a list instead."""
        return list(self._axes)

    @axes.setter
    def axes(self, value: Iterable[ParallelAxis]) -> None:
        axes = list(value)
        if not all(isinstance(axis, ParallelAxis) for axis in axes):
            raise TypeError("TensorParallelism(): 'axes' must be a list of ParallelAxis")
        self._axes = [axis.copy() for axis in axes]

    def __repr__(self) -> str:
        return f"<TensorParallelism {self._axes!r}>"

    def copy(self) -> TensorParallelism:
        """An equal one with axes of its own."""
        parallelism = TensorParallelism()
        parallelism.axes = self._axes
        return parallelism


class ReadTarget:
    """What a read returns: the object "as_stored", the "shard" that `parallelism` names, or the "full" tensor."""

    __slots__ = ("_mode", "_parallelism")

    def __init__(self) -> None:
        self._mode = "as_stored"
        self._parallelism: TensorParallelism | None = None

    @property
    def mode(self) -> str:
        """One of "as_stored", "shard" and "full"; set in any case of letters."""
        return self._mode

    @mode.setter
    def mode(self, value: str) -> None:
        mode = text("ReadTarget", "mode", value).lower()
        if mode not in MODES:
            raise RuntimeError("Unsupported ReadTarget mode")
        self._mode = mode

    @property
    def parallelism(self) -> TensorParallelism | None:
        """The axes of the shard, or None."""
        return self._parallelism

    @parallelism.setter
    def parallelism(self, value: TensorParallelism | None) -> None:
        if value is not None and not isinstance(value, TensorParallelism):
            raise TypeError("ReadTarget(): 'parallelism' must be a TensorParallelism or None")
        self._parallelism = None if value is None else value.copy()

    def __repr__(self) -> str:
        return f"<ReadTarget mode={self._mode!r} parallelism={self._parallelism!r}>"
