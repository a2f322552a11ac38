"""The plan that the scheduler sends to the workers for one step. Plain data, counted in blocks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Load:
    """Blocks of a request to load from the pool: one id and one hash per block."""

    block_ids: tuple[int, ...]
    hashes: tuple[bytes, ...]
    between_steps: bool


@dataclass(frozen=True)
class Save:
    """Blocks of a request to save, which are complete after this step.

    `block_ids` has all blocks of the request, up to the last one to save. `hashes` has the hashes of the blocks from
    `first_block` on. The blocks from `computed_from` on were computed since the request's last save, from the blocks
    before them.
    """

    first_block: int
    block_ids: tuple[int, ...]
    hashes: tuple[bytes, ...]
    computed_from: int


@dataclass
class StepPlan:
    """Loads and saves by request id. The saves of `preempted` requests must have ended before the step begins.

    `held` are requests that have ended. Their blocks stay until each worker has reported that their saves have ended.
    """

    loads: dict[str, Load] = field(default_factory=dict)
    saves: dict[str, Save] = field(default_factory=dict)
    preempted: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
