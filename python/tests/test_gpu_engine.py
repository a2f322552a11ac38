"""The small engine of `bench/`: with a pool, it says the same as without, on the processor and on a double of a GPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("device", ["cpu", "double"])
def test_conversations_are_the_same_with_a_pool_and_use_it(device: str) -> None:
    from gpu_engine import SHAPES, compare

    # Matrices this small take longer on several threads.
    torch.set_num_threads(1)
    found = compare(device, SHAPES["tiny"])
    hits = {name: outcome.hits for name, outcome in found.items()}
    assert hits.pop("no pool") == 0
    assert min(hits.values()) > 0, hits
