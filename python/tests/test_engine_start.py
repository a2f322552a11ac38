"""The measurement of an engine's start, with memory of its own and beside a daemon, small."""

from __future__ import annotations

import pytest
from cluster import MIB
from engine_start import measure


@pytest.mark.parametrize("on_double", [False, True], ids=["host", "gpu"])
def test_a_start_is_measured_with_own_memory_and_beside_a_daemon(on_double: bool) -> None:
    _, own, beside = measure(256 * MIB, 64 * MIB, on_double)
    assert (own[0], beside[0]) == ("the engine", "a daemon beside it")
    assert all(float(cell) > 0 for row in (own, beside) for cell in row[1:])
