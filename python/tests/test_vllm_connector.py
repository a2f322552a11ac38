"""The connector for vLLM, without vLLM: keys, options, layouts, and the plan of each step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mooncake.vllm
import pytest
from mooncake.vllm.bad_blocks import BadBlocks
from mooncake.vllm.config import Options, model_tag
from mooncake.vllm.connect import read_config
from mooncake.vllm.key import KeySpace, Shard, Topology
from mooncake.vllm.layout import BlockLayout, Layer, contiguous_pieces
from mooncake.vllm.plan import Load, Save, StepPlan
from mooncake.vllm.scheduler import Rules, Scheduler
from mooncake.vllm.stored import MAX_PLANNED, StoredBlock, StoredBlocks, StoredParts

BLOCK = 4


# Keys


def test_the_form_of_a_key() -> None:
    keys = KeySpace("org@m-01", Shard(head_or_tp_rank=3, pp_rank=1, pcp_rank=0, dcp_rank=2))
    wanted = "org@m-01@pcp0@dcp2@head_or_tp_rank:3@pp_rank:1@00ff"
    assert keys.key(b"\x00\xff") == wanted
    assert keys.keys([b"\x00\xff", b"\x01"]) == [wanted, wanted[:-4] + "01"]


@pytest.mark.parametrize(
    ("topology", "copies", "shards"),
    [
        (Topology(), 1, [Shard(0)]),
        (Topology(tp_size=2, kv_heads=2), 1, [Shard(0), Shard(1)]),
        (Topology(tp_size=4, kv_heads=2), 2, [Shard(0), Shard(1)]),
        (Topology(tp_size=2, kv_heads=1, pp_size=2), 2, [Shard(0, 0), Shard(0, 1)]),
        (Topology(tp_size=2, kv_heads=1, dcp_size=2), 1, [Shard(0, 0, 0, 0), Shard(1, 0, 0, 1)]),
    ],
)
def test_the_parts_of_a_block(topology: Topology, copies: int, shards: list[Shard]) -> None:
    assert (topology.copies, topology.shards()) == (copies, shards)
    ranks = range(topology.tp_size * topology.pp_size)
    for index in range(8):
        writers = [topology.shard(rank) for rank in ranks if topology.writes(rank, index)]
        assert sorted(writers, key=repr) == sorted(shards, key=repr), "each part of a block has one writer"


def test_two_layouts_never_share_a_key() -> None:
    tags = {model_tag("/models/m/", "w", "", {"type": kind}) for kind in ("bfloat16", "float16", "fp8")}
    assert len(tags) == 3
    assert {tag[:2] for tag in tags} == {"m-"}
    assert {len(tag) for tag in tags} == {2 + 32}, "128 bits"
    assert model_tag("org/m", "w", "mine", {}) == "mine@" + model_tag("m", "w", "", {})
    assert model_tag("m", "w", "", {}) != model_tag("m", "other", "", {})


# Options


def test_options() -> None:
    assert Options.from_extra_config({}) == Options()
    assert Options.from_extra_config({"use_layerwise": True, "replica_num": 2}) == Options(
        use_layerwise=True, replica_num=2
    )
    assert [
        Options(use_layerwise=a, load_async=b).loads_between_steps for a in (False, True) for b in (False, True)
    ] == [
        False,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"use_layer_wise": True}, "no option 'use_layer_wise'"),
        ({"use_layerwise": "true"}, "not of type bool"),
        ({"replica_num": True}, "not of type int"),
        ({"replica_num": 0}, "from 1 to 16"),
        ({"lookup_timeout_ms": 60_001}, "from 1 to 60000"),
        ({"lookup_wait_ms": -1}, "from 0 to 60000"),
        ({"save_buffer_mb": 65_537}, "from 0 to 65536"),
        ({"save_wait_ms": 600_001}, "from 0 to 600000"),
        ({"stream_wait_ms": -1}, "from 0 to 600000"),
        ({"recv_threads": 65}, "from 1 to 64"),
    ],
)
def test_options_that_are_wrong(extra: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Options.from_extra_config(extra)


@pytest.mark.parametrize(
    ("role", "to_put", "saves"),
    [
        ("kv_both", False, True),
        ("kv_producer", False, True),
        ("kv_consumer", False, False),
        ("kv_consumer", True, True),
        (None, False, False),
    ],
)
def test_who_stores(role: str | None, to_put: bool, saves: bool) -> None:
    assert Options(consumer_is_to_put=to_put).saves(role) is saves


def test_the_configuration_of_vllm_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mooncake.json"
    path.write_text(
        json.dumps({"master_server_address": "h:1", "mode": "standalone-store", "local_buffer_size": "1MB"})
    )
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", str(path))
    monkeypatch.delenv("MOONCAKE_REQUESTER_LOCAL_HOSTNAME", raising=False)
    config = read_config("10.0.0.1")
    found = (config.local_hostname, config.metadata_server, config.master_server_address, config.local_buffer_size)
    assert found == ("10.0.0.1", "P2PHANDSHAKE", "h:1", 1 << 20)
    monkeypatch.setenv("MOONCAKE_REQUESTER_LOCAL_HOSTNAME", "10.0.0.2")
    assert read_config("10.0.0.1").local_hostname == "10.0.0.2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "Missing required config field: master_server_address"),
        ("[]", "must hold a JSON object"),
        ("{", "not JSON"),
        ('{"master_server_address": "h:1", "global_segment_size": "-1"}', "global_segment_size"),
    ],
)
def test_a_configuration_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    path = tmp_path / "mooncake.json"
    path.write_text(text)
    monkeypatch.setenv("MOONCAKE_CONFIG_PATH", str(path))
    with pytest.raises(ValueError, match=message):
        read_config("localhost")


def test_the_package_needs_vllm_only_for_its_class() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = mooncake.vllm.Nothing
    assert mooncake.vllm.__all__ == ["MooncakeStoreConnector"]


# Layouts


@pytest.mark.parametrize(
    ("shape", "strides", "pieces"),
    [
        ([3, 2], [2, 1], [(0, 6)]),
        ([2, 3], [1, 2], [(0, 6)]),
        ([2, 2], [8, 1], [(0, 2), (8, 2)]),
        ([2, 1, 2], [8, 99, 1], [(0, 2), (8, 2)]),
        ([2, 2, 2], [100, 10, 1], [(0, 2), (10, 2), (100, 2), (110, 2)]),
        ([], [], [(0, 1)]),
    ],
)
def test_contiguous_pieces(shape: list[int], strides: list[int], pieces: list[tuple[int, int]]) -> None:
    assert contiguous_pieces(shape, strides) == pieces


def test_a_block_in_too_many_pieces() -> None:
    with pytest.raises(ValueError, match="4097 pieces"):
        contiguous_pieces([4097, 2], [4, 1])


@pytest.mark.parametrize(
    ("shape", "strides", "blocks", "layer"),
    [
        # [blocks, heads, tokens, content], and the same with each block split in two by the kernel.
        ([10, 2, 4, 8], [64, 32, 8, 1], 10, Layer(1000, 128, ((0, 128),))),
        ([20, 2, 2, 8], [32, 16, 8, 1], 10, Layer(1000, 128, ((0, 128),))),
        # The blocks of several layers are adjacent.
        ([10, 2, 4, 8], [192, 32, 8, 1], 10, Layer(1000, 384, ((0, 128),))),
        # Keys and values come first, as in older versions.
        ([2, 10, 4, 8], [320, 32, 8, 1], 10, Layer(1000, 64, ((0, 64), (640, 64)))),
        # In memory, tokens come before heads.
        ([10, 2, 4, 8], [64, 8, 16, 1], 10, Layer(1000, 128, ((0, 128),))),
    ],
)
def test_the_layout_of_a_layer(shape: list[int], strides: list[int], blocks: int, layer: Layer) -> None:
    assert Layer.of(1000, shape, strides, 2, blocks) == layer


@pytest.mark.parametrize(("shape", "blocks"), [([10, 8], 7), ([10, 8], 11), ([10, 8], 0), ([], 1)])
def test_a_layer_without_its_blocks(shape: list[int], blocks: int) -> None:
    with pytest.raises(ValueError, match="no axis"):
        Layer.of(0, shape, [1] * len(shape), 2, blocks)


def test_an_object_is_its_layers_one_after_the_other() -> None:
    split = Layer(10_000, 64, ((0, 8), (32, 8)))
    layout = BlockLayout({"l.10": split, "l.9": Layer(0, 100, ((0, 100),)), "l.11": split})
    assert (layout.index, layout.block_bytes) == ({"l.9": 0, "l.10": 1, "l.11": 1}, 116)
    assert layout.buffers(3) == ([300, 10_192, 10_224], [100, 8, 8])
    assert layout.layer_buffers(0, 3) == ([300], [100], [0])
    assert layout.layer_buffers(1, 3) == ([10_192, 10_224], [8, 8], [100, 108])
    with pytest.raises(ValueError, match="no KV cache"):
        BlockLayout({})


# Plans


@dataclass
class Request:
    """A prompt of `num_prompt_tokens` tokens; `num_tokens` grows with the output."""

    request_id: str
    num_prompt_tokens: int
    output_tokens: int = 0
    name: str = "h"
    lora_request: object = None

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + self.output_tokens

    @property
    def all_token_ids(self) -> range:
        return range(self.num_tokens)

    @property
    def block_hashes(self) -> list[bytes]:
        return [hash_of(i, self.name) for i in range(self.num_tokens // BLOCK)]


def hash_of(index: int, name: str = "h") -> bytes:
    return f"{name}{index}".encode()


def hashes(first: int, end: int) -> tuple[bytes, ...]:
    return tuple(hash_of(index) for index in range(first, end))


@dataclass
class Step:
    """A scheduler's output. `new`: ids, blocks and computed tokens. `cached`: also whether it was resumed."""

    scheduled: dict[str, int]
    new: list[tuple[str, list[int], int]] = field(default_factory=list)
    cached: list[tuple[str, list[int] | None, int, bool]] = field(default_factory=list)
    preempted: set[str] | None = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    is_old: bool = False

    def output(self) -> SimpleNamespace:
        cached: dict[str, Any] = {
            "req_ids": [request_id for request_id, *_ in self.cached],
            "new_block_ids": [None if blocks is None else (blocks,) for _, blocks, *_ in self.cached],
            "num_computed_tokens": [computed for _, _, computed, _ in self.cached],
        }
        resumed = [is_resumed for *_, is_resumed in self.cached]
        if self.is_old:
            cached["resumed_from_preemption"] = resumed
        else:
            cached["resumed_req_ids"] = {row[0] for row, again in zip(self.cached, resumed, strict=True) if again}
        found: dict[str, Any] = {
            "scheduled_new_reqs": [
                SimpleNamespace(req_id=request_id, block_ids=(blocks,), num_computed_tokens=computed)
                for request_id, blocks, computed in self.new
            ],
            "scheduled_cached_reqs": SimpleNamespace(**cached),
            "num_scheduled_tokens": self.scheduled,
            "finished_req_ids": self.finished,
        }
        return SimpleNamespace(**found) if self.is_old else SimpleNamespace(**found, preempted_req_ids=self.preempted)


class Pool:
    """Answers look-ups. `in_pool` is how many leading blocks of any prompt it holds, None if it does not answer yet."""

    def __init__(self, in_pool: int | None) -> None:
        self.in_pool = in_pool
        self.forgotten: list[str] = []
        self.steps = 0

    def begin_step(self) -> None:
        self.steps += 1

    def count(self, request_id: str, hashes: Sequence[bytes], first: int) -> int | None:
        return None if self.in_pool is None else min(self.in_pool, len(hashes))

    def forget(self, request_id: str) -> None:
        self.forgotten.append(request_id)


def scheduler(in_pool: int | None = 0, saves: bool = True, decode: bool = False, between: bool = True) -> Scheduler:
    return Scheduler(Rules(BLOCK, saves, decode, between), Pool(in_pool))


@pytest.mark.parametrize(
    ("tokens", "computed", "in_pool", "hit"),
    [
        (17, 0, 0, 0),
        (17, 0, 3, 12),
        (17, 8, 3, 4),
        (17, 12, 3, 0),
        (17, 16, 9, 0),
        # The last token is always computed, so of a prompt of whole blocks the last block is not loaded.
        (16, 0, 9, 12),
        (17, 0, 9, 16),
        (3, 0, 9, 0),
    ],
)
def test_how_much_is_loaded(tokens: int, computed: int, in_pool: int, hit: int) -> None:
    for between in (True, False):
        found = scheduler(in_pool, between=between).matched(Request("r", tokens), computed)
        assert found == (hit, between and hit > 0)


def test_a_look_up_without_an_answer_is_made_again_in_a_later_step_if_vllm_can_do_that() -> None:
    pool = Pool(None)
    plans = Scheduler(Rules(BLOCK, True, False, True), pool)
    request = Request("r", 17)
    assert plans.matched(request, 0) == (None, False)
    assert plans.plan(Step({}).output()) == StepPlan()
    pool.in_pool = 3
    assert plans.matched(request, 0) == (12, True)
    plans.finished("r")
    assert (pool.steps, pool.forgotten) == (1, ["r"])
    assert Scheduler(Rules(BLOCK, True, False, True, can_defer=False), Pool(None)).matched(request, 0) == (0, False)


def test_a_prompt_that_nobody_computed_is_saved_as_its_chunks_complete_blocks() -> None:
    plans = scheduler()
    plans.allocated(Request("r", 18), [7, 8], 0)
    steps = [
        (Step({"r": 6}, new=[("r", [7, 8], 0)]), Save(0, (7,), hashes(0, 1), 0)),
        (Step({"r": 1}, cached=[("r", None, 6, False)]), None),
        (Step({"r": 6}, cached=[("r", [9, 10], 7, False)]), Save(1, (7, 8, 9), hashes(1, 3), 1)),
        (Step({"r": 5}, cached=[("r", [11], 13, False)]), Save(3, (7, 8, 9, 10), hashes(3, 4), 3)),
        (Step({"r": 1}, cached=[("r", None, 18, False)]), None),
    ]
    for number, (step, save) in enumerate(steps):
        assert plans.plan(step.output()) == StepPlan(saves={"r": save} if save else {}), f"step {number}"
    assert (plans.finished("r"), plans.finished("r")) == (True, False)
    assert [plans.plan(Step({}).output()) for _ in range(2)] == [StepPlan(held={"r"}), StepPlan()]


def test_a_hit_is_loaded_into_the_blocks_behind_the_local_one_and_the_rest_is_saved() -> None:
    for between in (True, False):
        plans = scheduler(in_pool=3, between=between)
        request = Request("r", 18)
        assert plans.matched(request, 4) == (8, between)
        plans.allocated(request, [5, 6, 7, 8], 8)
        load = Load((6, 7), hashes(1, 3), between)
        if between:
            assert plans.plan(Step({}).output()) == StepPlan(loads={"r": load})
            plans.allocated(request, [5, 6, 7, 8, 9], 0)
        step = Step({"r": 6}, new=[("r", [5, 6, 7, 8, 9], 12)])
        wanted = StepPlan(loads={} if between else {"r": load}, saves={"r": Save(0, (5, 6, 7, 8), hashes(0, 4), 3)})
        assert plans.plan(step.output()) == wanted


def test_a_request_that_lost_its_load_is_not_loaded_again() -> None:
    plans = scheduler(in_pool=3)
    request = Request("r", 18)
    assert plans.matched(request, 0) == (12, True)
    plans.allocated(request, [1, 2, 3], 12)
    assert set(plans.plan(Step({}).output()).loads) == {"r"}
    assert plans.matched(request, 0) == (0, False)
    assert plans.plan(Step({}, preempted={"r"}).output()) == StepPlan()
    assert plans.matched(request, 0) == (12, True)


def test_what_failed_to_load_is_saved_again_when_it_was_computed() -> None:
    plans = scheduler(in_pool=3, between=False)
    request = Request("r", 18)
    assert plans.matched(request, 0) == (12, False)
    plans.allocated(request, [1, 2, 3, 4, 5], 12)
    first = plans.plan(Step({"r": 6}, new=[("r", [1, 2, 3, 4, 5], 12)]).output())
    assert first.saves == {"r": Save(0, (1, 2, 3, 4), hashes(0, 4), 3)}
    again = plans.plan(Step({"r": 14}, cached=[("r", None, 4, False)]).output())
    assert again == StepPlan(saves={"r": Save(1, (1, 2, 3, 4), hashes(1, 4), 1)})


def test_steps_too_small_for_a_block_count_as_computed_with_the_one_that_completes_it() -> None:
    plans = scheduler()
    plans.allocated(Request("r", 8), [1, 2], 0)
    assert plans.plan(Step({"r": 5}, new=[("r", [1, 2], 0)]).output()).saves == {"r": Save(0, (1,), hashes(0, 1), 0)}
    # The request is computed again from token 2 on, in pieces.
    assert plans.plan(Step({"r": 1}, cached=[("r", None, 2, False)]).output()).saves == {}
    assert plans.plan(Step({"r": 5}, cached=[("r", None, 3, False)]).output()).saves == {
        "r": Save(0, (1, 2), hashes(0, 2), 0)
    }


@pytest.mark.parametrize("is_old", [False, True])
def test_a_preempted_request_starts_again(is_old: bool) -> None:
    plans = scheduler()
    request = Request("r", 10)
    plans.allocated(request, [1, 2, 3], 0)
    assert set(plans.plan(Step({"r": 8}, new=[("r", [1, 2, 3], 0)], is_old=is_old).output()).saves) == {"r"}
    assert plans.plan(Step({}, preempted={"r"}, is_old=is_old).output()) == StepPlan(preempted={"r"})
    request.output_tokens = 3
    plans.allocated(request, [4, 5, 6, 7], 0)
    step = Step({"r": 13}, cached=[("r", [4, 5, 6, 7], 0, True)], is_old=is_old)
    assert plans.plan(step.output()) == StepPlan(saves={"r": Save(0, (4, 5), hashes(0, 2), 0)})
    assert plans.finished("r") is True


def test_an_older_vllm_may_leave_a_running_request_out_of_a_step() -> None:
    plans = scheduler()
    plans.allocated(Request("r", 12), [1, 2], 0)
    first = plans.plan(Step({"r": 8}, new=[("r", [1, 2], 0)], is_old=True).output())
    assert first.saves == {"r": Save(0, (1, 2), hashes(0, 2), 0)}
    assert plans.plan(Step({}, is_old=True).output()) == StepPlan(preempted={"r"})
    last = plans.plan(Step({"r": 4}, cached=[("r", [3], 8, False)], is_old=True).output())
    assert last == StepPlan(saves={"r": Save(2, (1, 2, 3), hashes(2, 3), 2)})


def test_a_request_that_ends_while_it_is_loaded_is_not_held_a_second_time() -> None:
    for is_loaded in (False, True):
        plans = scheduler(in_pool=2)
        request = Request("r", 10)
        plans.allocated(request, [1, 2, 3], 0)
        plans.plan(Step({"r": 8}, new=[("r", [1, 2, 3], 0)]).output())
        plans.plan(Step({}, preempted={"r"}).output())
        assert plans.matched(request, 0) == (8, True)
        plans.allocated(request, [4, 5], 8)
        assert set(plans.plan(Step({}).output()).loads) == {"r"}
        if is_loaded:
            plans.loaded({"r"})
        assert plans.finished("r") is is_loaded
        assert plans.plan(Step({}).output()) == StepPlan(held={"r"} if is_loaded else set())


@pytest.mark.parametrize(("decode", "blocks"), [(False, 2), (True, 3)])
def test_output_is_saved_if_it_is_to_be(decode: bool, blocks: int) -> None:
    plans = scheduler(decode=decode)
    request = Request("r", 10)
    plans.allocated(request, [1, 2, 3], 0)
    saved = len(plans.plan(Step({"r": 10}, new=[("r", [1, 2, 3], 0)]).output()).saves["r"].hashes)
    for computed in range(10, 14):
        request.output_tokens += 1
        plan = plans.plan(Step({"r": 1}, cached=[("r", None, computed, False)]).output())
        saved += sum(len(save.hashes) for save in plan.saves.values())
    assert saved == blocks


def test_guessed_tokens_are_not_saved() -> None:
    plans = scheduler(decode=True)
    plans.allocated(Request("r", 7), [1, 2], 0)
    plan = plans.plan(Step({"r": 9}, new=[("r", [1, 2, 3], 0)]).output())
    assert plan.saves == {"r": Save(0, (1,), hashes(0, 1), 0)}


def test_a_consumer_loads_and_saves_nothing() -> None:
    plans = scheduler(in_pool=2, saves=False)
    request = Request("r", 10)
    assert plans.matched(request, 0) == (8, True)
    plans.allocated(request, [1, 2], 8)
    assert plans.plan(Step({}).output()) == StepPlan(loads={"r": Load((1, 2), hashes(0, 2), True)})
    plans.allocated(request, [1, 2, 3], 0)
    assert plans.plan(Step({"r": 2}, new=[("r", [1, 2, 3], 8)]).output()) == StepPlan()
    assert plans.finished("r") is False


# Blocks that must not be stored


def test_what_was_computed_from_a_failed_load_is_refused_until_it_is_computed_again() -> None:
    bad = BadBlocks()
    bad.fail([3, 4])
    assert (bad.take_failed(), bad.take_failed()) == ({3, 4}, set())
    none = ()
    rows = [
        ("another request", Save(0, (8, 9), none, 0), True),
        ("computed behind them", Save(2, (2, 3, 5), none, 2), False),
        ("computed behind what was", Save(3, (2, 5, 6), none, 2), False),
        ("computed again, from them on", Save(1, (2, 3, 5, 6), none, 1), True),
        ("computed behind that", Save(4, (2, 3, 5, 6, 7), none, 4), True),
        ("computed behind the other one", Save(1, (4, 10), none, 1), False),
    ]
    for name, save, admitted in rows:
        assert bad.admit(save) is admitted, name
    bad.load([4])
    assert bad.admit(Save(1, (4, 10), none, 1)) is True


# Events of stored blocks


def test_a_block_is_told_of_once_when_all_its_parts_are_stored() -> None:
    stored = StoredBlocks(BLOCK, 2)
    request = Request("r", 3 * BLOCK)
    hashes = tuple(request.block_hashes)
    stored.plan(request, Save(1, (0, 1, 2), hashes[1:], 1))
    stored.note([hashes[1], hashes[2], b"another's"])
    assert stored.take() == []
    stored.note([hashes[2]])
    wanted = StoredBlock(hashes[2], hashes[1], tuple(range(2 * BLOCK, 3 * BLOCK)), None, None)
    assert stored.take() == [wanted]
    stored.note([hashes[2], hashes[2]])
    assert stored.take() == []
    stored.clear()
    stored.note([hashes[1]])
    assert stored.take() == []


def test_what_is_never_stored_is_forgotten_at_last() -> None:
    stored = StoredBlocks(BLOCK, 1)
    request = Request("r", BLOCK)
    first, last = b"first", b"last"
    stored.plan(request, Save(0, (0,), (first,), 0))
    for number in range(MAX_PLANNED):
        stored.plan(request, Save(0, (0,), (number.to_bytes(4, "big"),), 0))
    stored.plan(request, Save(0, (0,), (last,), 0))
    stored.note([first, last])
    assert [block.block_hash for block in stored.take()] == [last]


def test_a_worker_notes_hashes_by_the_ends_of_keys() -> None:
    parts, keys = StoredParts(), KeySpace("org@m", Shard(0)).keys([b"\x00\xff", b"\x01"])
    parts.add(keys)
    assert (parts.take(), parts.take()) == ([b"\x00\xff", b"\x01"], [])
