"""Batches over a slow link, with and without a delay.

The test needs `tc` and network namespaces with a rate: root, or a kernel that permits user namespaces to every user.
Without them it fails with a message; `make test ARGS="--ignore=python/tests/test_link.py"` leaves it out.
"""

import shutil
import sys

import link
import pytest
from wire import Wire, WireError

# The link is slower than any test machine, so it is the bottleneck.
RATE_MBIT = 400
TRIES = 5


@pytest.mark.parametrize("delay_ms", [0, 2])
def test_batches_of_1_mib_use_nine_tenths_of_a_slow_link(delay_ms: float) -> None:
    try:
        wire = Wire(RATE_MBIT, delay_ms)
    except WireError as error:
        pytest.fail(f"{error}\n{__doc__}")
    best = {"put": 0.0, "get": 0.0}
    with wire:
        # Other processes can only slow a batch down, so one fast batch of each kind is enough.
        for _ in range(TRIES):
            load = link.Load(batch=16, rounds=2, takes_best=True)
            shares = link.shares(wire, "rust_tcp", load, python=sys.executable)
            best = {work: max(best[work], share) for work, share in shares.items()}
            if min(best.values()) >= link.GOAL:
                break
    assert min(best.values()) >= link.GOAL, f"{best} with a delay of {delay_ms} ms by {wire.delayed_by}"
    # A share above 1 would mean that the bytes did not use the link.
    assert max(best.values()) <= 1.02, best


def test_a_link_without_its_tools_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "tc" else tool)
    with pytest.raises(WireError, match="tc not found; on Debian and Ubuntu: apt-get install iproute2"):
        Wire(RATE_MBIT, 0)


def test_a_link_that_cannot_be_made_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Wire] = []

    def refuse(wire: Wire, enter: tuple[str, ...], with_delay: bool) -> None:
        started.append(wire)
        raise WireError("no rate here")

    monkeypatch.setattr(Wire, "shape", refuse)
    with pytest.raises(WireError, match="no rate here"):
        Wire(RATE_MBIT, 0)
    assert [process.poll() is None for process in started[0].processes] == [False, False]
