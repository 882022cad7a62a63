"""Trajectories: ids, masks, log probabilities and rewards of conversations, for training."""

from __future__ import annotations

import io
import math
import random
from array import array
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chatcodec.serve.memory.sqlite import SqliteStore
from chatcodec.serve.memory.trajectories import trajectories
from chatcodec.serve.settings import KEYS as KEYS_VARIABLE
from chatcodec.serve.settings import Settings
from chatcodec.trajectory import COLUMNS, Trajectory, batches, read_table, schema_of
from completions import codec_of
from gateway_here import HI, Here, here
from hypothesis import given, settings
from hypothesis import strategies as st
from rollouts import TOOLS, Desk, respelled, results
from test_cli import call
from test_gateway_memory import AND, SPLIT, STOP
from test_remembered import ACTIONS, HELLO, changed, stores

if TYPE_CHECKING:
    from pathlib import Path

    from rollouts import Message

PATH = "/v1/trajectories"
IDS = [*SPLIT, STOP]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=8), st.integers(0, 1 << 30))
def test_a_trajectory_is_the_last_prompt_and_its_answer(actions: list[str], seed: int) -> None:
    with stores(1 << 24) as made:
        for store in made:
            choose = random.Random(seed)
            desk = Desk(codec_of("qwen3"), choose, store, TOOLS)
            threads: list[list[Message]] = [HELLO]
            for action in actions:
                desk.client = "stranger" if action == "stranger" else ""
                messages = changed(action, threads, choose)
                asked = desk.ask(messages)
                if not desk.client:
                    said = [*messages, respelled(asked.message, choose)]
                    threads.append([*said, *results(asked.message, choose)])
            check(desk, list(trajectories(store, None)))
            own = list(trajectories(store, "stranger"))
            assert {each.key for each in own} <= {"stranger"}
            assert len(own) + len(list(trajectories(store, ""))) == len(
                list(trajectories(store, None))
            )


def check(desk: Desk, found: list[Trajectory]) -> None:
    """Each is a whole sequence of an answer, and every sequence is the beginning of one."""
    whole = [each.prompt + each.sampled for each in desk.asked]
    for each in found:
        ids = each.ids.tolist()
        assert ids in whole
        assert len(each.sampled) == len(each.logprobs) == len(each.message_indices) == len(ids)
        assert {bool(index >= 0) for index in each.message_indices} == {True, False}
        assert [index >= 0 for index in each.message_indices] == [bool(s) for s in each.sampled]
        last = next(asked for asked in desk.asked if asked.prompt + asked.sampled == ids)
        tail = len(last.sampled)
        assert each.sampled[-tail:].tolist() == [1] * tail
        assert each.message_indices[-1] == len(last.messages)
        assert sum(each.sampled) >= tail
        assert each.labels[-tail:].tolist() == last.sampled
        assert all(
            math.isnan(p) == bool(s) for p, s in zip(each.logprobs, each.sampled, strict=True)
        )
    sequences = [each.ids.tolist() for each in found]
    for ids in whole:
        assert any(sequence[: len(ids)] == ids for sequence in sequences)


def conversation(of: Here, count: int, headers: dict[str, str] | None = None) -> list[str]:
    """Ask so many times; give the ids of the answers."""
    messages, ids = list(HI), []
    for _ in range(count):
        answer = of.post(
            "/v1/chat/completions", {"messages": messages}, headers=headers or {}
        ).json()
        ids.append(answer["id"])
        messages = [*messages, answer["choices"][0]["message"], AND]
    return ids


def exported(of: Here, **options: Any) -> Any:  # noqa: ANN401
    answer = of.client.get(of.url + PATH, **options)
    assert answer.status_code == 200, answer.text
    return pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()


def test_a_client_has_its_conversations() -> None:
    with here(lambda _: IDS, memory=1 << 20, trajectories=True) as of:
        assert exported(of).num_rows == 0
        ids = conversation(of, 3)
        body = {"id": ids[1], "reward": 0.5}
        assert of.client.post(of.url + PATH + "/rewards", json=body).json() == {
            "object": "reward",
            "choice": 0,
            **body,
        }
        (found,) = read_table(exported(of))
        assert found.ids.tolist() == [*of.asked[-1]["prompt"], *IDS]
        assert (found.turns, found.reward, found.answer) == (3, 0.5, ids[2])
        assert sum(found.sampled) == 3 * len(IDS)
        assert [i for i in dict.fromkeys(found.message_indices) if i >= 0] == [1, 3, 5]
        # The engine is asked for them although the client does not.
        told = [p for p, s in zip(found.logprobs, found.sampled, strict=True) if s]
        assert not any(map(math.isnan, told))
        assert all(p < 0 for p in told)
        assert any("ids" in note for note in found.notes)
        for columns in COLUMNS:
            table = exported(of, params={"columns": columns})
            assert table.schema == schema_of(columns)
            assert table.to_pylist() == [getattr(found, columns)()]


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"id": "chatcmpl-none", "reward": 1}, 404, "id"),
        ({"reward": 1}, 400, "id"),
        ({"id": "x"}, 400, "reward"),
        ({"id": "x", "reward": True}, 400, "reward"),
        ({"id": "x", "reward": "1"}, 400, "reward"),
        ({"id": "x", "reward": 1, "choice": -1}, 400, "choice"),
    ],
)
def test_what_is_no_reward(body: dict[str, Any], status: int, param: str) -> None:
    with here(lambda _: IDS, memory=1 << 20, trajectories=True) as of:
        answer = of.client.post(of.url + PATH + "/rewards", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
        refused = of.client.get(of.url + PATH, params={"columns": "other"})
        assert refused.status_code == 400


def test_each_client_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS_VARIABLE, "sk-a, sk-b")
    a, b = ({"authorization": f"Bearer sk-{name}"} for name in "ab")
    with here(lambda _: IDS, memory=1 << 20, trajectories=True) as of:
        (answer,) = conversation(of, 1, a)
        assert of.client.get(of.url + PATH).status_code == 401
        assert exported(of, headers=a).num_rows == 1
        assert exported(of, headers=b).num_rows == 0
        body = {"id": answer, "reward": 1.0}
        rewards = of.url + PATH + "/rewards"
        assert of.client.post(rewards, json=body).status_code == 401
        assert of.client.post(rewards, json=body, headers=b).status_code == 404
        assert of.client.post(rewards, json=body, headers=a).status_code == 200


def test_off_unless_asked_for() -> None:
    with here(lambda _: IDS, memory=1 << 20) as of:
        assert of.client.get(of.url + PATH).status_code == 404
        assert "logprobs" not in of.asked[-1] if of.asked else True
        conversation(of, 1)
        assert "logprobs" not in of.asked[-1]
    with pytest.raises(ValueError, match="`trajectories` needs `memory`"):
        Settings(backend="http://x", trajectories=True)


def test_the_command_writes_parquet(tmp_path: Path) -> None:
    file, output = str(tmp_path / "memory"), str(tmp_path / "out.parquet")
    with here(lambda _: IDS, memory=1 << 20, memory_file=file, trajectories=True) as of:
        ids = conversation(of, 2)
        of.client.post(of.url + PATH + "/rewards", json={"id": ids[1], "reward": 2})
        expected = exported(of)
        ran = call("trajectories", file, "-o", output)
    assert (ran.status, ran.out) == (0, f"{output}: 1 trajectories\n")
    assert pq.read_table(output).to_pylist() == expected.to_pylist()
    assert read_table(pq.read_table(output))[0].reward == 2
    ran = call("trajectories", file, "-o", output, "--columns", "verl", "--key", "nobody")
    assert ran.out.endswith(": 0 trajectories\n")
    assert pq.read_table(output).schema.names == schema_of("verl").names
    assert call("trajectories", str(tmp_path / "none"), "-o", output).status == 2
    (tmp_path / "other").write_text("x")
    assert call("trajectories", str(tmp_path / "other"), "-o", output).status == 2
    assert (tmp_path / "other").read_text() == "x"


def test_rewards_come_to_both_stores() -> None:
    with stores(1 << 20) as made:
        for store in made:
            desk = Desk(codec_of("qwen3"), random.Random(1), store)
            first = desk.ask(HELLO)
            assert not store.reward("", "chatcmpl-none", 0, 1.0)
            (path,) = store.ends(None)
            assert not store.reward("", path[0].answer, 1, 1.0)
            assert not store.reward("other", path[0].answer, 0, 1.0)
            assert store.reward("", path[0].answer, 0, -1.5)
            desk.ask([*HELLO, first.message, *HELLO])
            (found,) = trajectories(store, None)
            assert (found.turns, found.reward) == (2, -1.5)


@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 30), st.booleans(), st.floats(-9, 0, width=16)), max_size=9
    )
)
def test_a_table_has_it_all(items: list[tuple[int, bool, float]]) -> None:
    ids = array("i", [id_ for id_, _, _ in items])
    sampled = array("b", [int(is_sampled) for _, is_sampled, _ in items])
    logprobs = array("f", [told for _, _, told in items])
    made = Trajectory("a", "b", ids, sampled, logprobs, ids, 3, None, ("x: y",), "k", "c", 1.5)
    table = pa.Table.from_batches(batches([made] * 300))
    assert read_table(table) == [made] * 300
    split = made.verl()
    assert [*split["prompt_ids"], *split["response_ids"]] == ids.tolist()
    assert 1 not in sampled[: len(split["prompt_ids"])]
    assert split["response_mask"][:1] in ([], [1])
    assert made.trl()["env_mask"] == split["response_mask"]
    assert made.labels.tolist() == [id_ if s else -100 for id_, s, _ in items]


def test_a_file_may_be_read_while_it_is_written(tmp_path: Path) -> None:
    path = str(tmp_path / "memory")
    with closing(SqliteStore(path, 1 << 20)) as store:
        desk = Desk(codec_of("qwen3"), random.Random(1), store)
        desk.ask(HELLO)
        with closing(SqliteStore.reading(path)) as other:
            ends = other.ends(None)
            first = next(ends)
            desk.ask([{"role": "user", "content": "Another"}])
            assert [first, *ends]
            assert len(list(other.ends(None))) == 2
