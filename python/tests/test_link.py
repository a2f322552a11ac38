"""Batches over a slow link, with and without a delay.

It needs network namespaces with a rate: root, or a kernel that lets everybody have user namespaces, and `tc`. Where
there are none it fails and says so; `make test ARGS="--ignore=python/tests/test_link.py"` leaves it out.
"""

import sys

import link
import pytest
from wire import Wire, WireError

# Slow enough for any machine, so that the link is what limits.
RATE_MBIT = 400


@pytest.mark.parametrize("delay_ms", [0, 2])
def test_batches_of_1_mib_use_nine_tenths_of_a_slow_link(delay_ms: float) -> None:
    try:
        wire = Wire(RATE_MBIT, delay_ms)
    except WireError as error:
        pytest.fail(f"{error}\n{__doc__}")
    with wire:
        load = link.Load(batch=16, rounds=3, takes_best=True)
        shares = link.shares(wire, "rust_tcp", load, python=sys.executable)
    assert min(shares.values()) >= link.GOAL, f"{shares} with a delay of {delay_ms} ms by {wire.delayed_by}"
    # More than all of it would say that the bytes went another way.
    assert max(shares.values()) <= 1.02, shares
