"""What the scheduler tells the workers to do in one step. Plain data, counted in blocks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Load:
    """Blocks of a request to fill from the pool; one id and one hash each."""

    block_ids: tuple[int, ...]
    hashes: tuple[bytes, ...]
    between_steps: bool


@dataclass(frozen=True)
class Save:
    """Blocks of a request that are complete after this step.

    `block_ids` are all blocks of the request up to the last one to save, `hashes` those of the blocks from
    `first_block` on. Blocks from `computed_from` on were computed since the request's last save, by reading those
    before them.
    """

    first_block: int
    block_ids: tuple[int, ...]
    hashes: tuple[bytes, ...]
    computed_from: int


@dataclass
class StepPlan:
    """Loads and saves by request id. The saves of `preempted` requests must be over before the step begins.

    `held` are requests that are over, and whose blocks stay until each worker reports that their saves are.
    """

    loads: dict[str, Load] = field(default_factory=dict)
    saves: dict[str, Save] = field(default_factory=dict)
    preempted: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
