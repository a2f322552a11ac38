"""Runs one user of the store (an engine's client code) in this process, so that `callers.py` can record its calls.

Usage: caller.py NAME MASTER_ADDRESS. The exit status is 1 if a check does not hold.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from outcome import Outcome


def call(name: str, pool: Any) -> Outcome:
    outcome = Outcome(name)
    if name == "vllm_ec":
        from vllm_embeddings import embeddings

        embeddings(outcome, Path(os.environ["MOONCAKE_CONFIG_PATH"]))
    elif name.startswith("sglang"):
        import sglang_store

        runs = sglang_store.Runs(outcome, Path(), pool)
        if name == "sglang":
            runs.layout("page_first", {"enable_group_semantics": True})
        else:
            runs.layer_wise()
    else:
        import lmcache_store

        chunks = lmcache_store.Runs(outcome, pool)
        chunks.connector(save_chunk_meta=name == "lmcache_meta")
        chunks.lookup()
    return outcome


if __name__ == "__main__":
    outcome = call(sys.argv[1], SimpleNamespace(master_address=sys.argv[2]))
    sys.stdout.flush()
    os._exit(0 if all(check.holds for check in outcome.checks) else 1)
