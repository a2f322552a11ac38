"""The classes by which callers describe parallelism: the axes of a shard, and the target of a read."""

from __future__ import annotations

from collections.abc import Iterable

from mooncake._values.tensor.argument import small, text

MODES = ("as_stored", "shard", "full")


class ParallelAxis:
    """One axis of a shard's identity: rank `rank` of `size` ranks along the axis `kind` ("tp", "dp", "ep" or "pp").

    A tp axis needs `split_dim`, an ep axis `expert_id`, a pp axis `stage_id`. Setting an attribute to a value of a
    wrong type raises TypeError. Contradicting values are found by the method that gets the axis.
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
        """A copy of this axis."""
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
        """The axes, as a new list. Changing an axis has an effect; to add or remove axes, assign a new list."""
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
        """A copy, with copies of the axes."""
        parallelism = TensorParallelism()
        parallelism.axes = self._axes
        return parallelism


class ReadTarget:
    """The target of a read: the object "as_stored", the "shard" that `parallelism` identifies, or the "full" tensor."""

    __slots__ = ("_mode", "_parallelism")

    def __init__(self) -> None:
        self._mode = "as_stored"
        self._parallelism: TensorParallelism | None = None

    @property
    def mode(self) -> str:
        """One of "as_stored", "shard" and "full". Upper and lower case are accepted; raises RuntimeError for other
        texts.
        """
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
