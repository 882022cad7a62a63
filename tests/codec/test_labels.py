"""`Encoding.labels` and `Batch.labels`: what is trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from chatcodec import Codec
from hypothesis import given
from hypothesis import strategies as st
from strategies import conversations

if TYPE_CHECKING:
    from collections.abc import Iterable

CODEC = Codec("internlm2", vocab="embedded")

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "1"},
    {"role": "user", "content": "Two?"},
    {"role": "assistant", "content": "2"},
]


def shown(codec: Codec, labels: Iterable[int]) -> str:
    return codec.vocab.decode([id_ for id_ in labels if id_ != -100], control="spell")


@given(messages=conversations(CODEC))
def test_labels_are_the_ids_that_a_model_generates(messages: list[dict[str, Any]]) -> None:
    encoding = CODEC.encode(messages, boundary="isolated")
    labels = np.asarray(encoding.labels())
    mask = np.asarray(encoding.assistant_mask).astype(bool)
    assert labels.dtype == np.int32
    assert np.array_equal(labels, np.where(mask, np.asarray(encoding.ids), -100))


@given(several=st.lists(conversations(CODEC), max_size=4))
def test_a_batch_has_those_of_each(several: list[list[dict[str, Any]]]) -> None:
    batch = CODEC.encode_batch(several)
    choices: list[dict[str, Any]] = [
        {},
        {"roles": ["user"], "last_only": True},
        {"ignore_index": -1},
    ]
    for options in choices:
        labels = np.asarray(batch.labels(**options))
        assert len(labels) == len(batch.ids)
        for at in range(len(batch)):
            own = labels[batch.offsets[at] : batch.offsets[at + 1]]
            assert own.tolist() == batch[at].labels(**options).tolist()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "1<|im_end|>2<|im_end|>"),
        ({"last_only": True}, "2<|im_end|>"),
        ({"roles": ["user"]}, "One?Two?"),
        ({"roles": ["user"], "last_only": True}, "Two?"),
        ({"roles": ["system", "assistant"]}, "Be brief.1<|im_end|>2<|im_end|>"),
        ({"roles": ["system", "assistant"], "last_only": True}, "2<|im_end|>"),
        ({"roles": ["developer"]}, "Be brief."),
        ({"roles": ["tool"]}, ""),
        ({"roles": []}, ""),
    ],
)
def test_roles(embedded: Codec, options: dict[str, Any], expected: str) -> None:
    encoding = embedded.encode(MESSAGES, boundary="isolated")
    assert shown(embedded, encoding.labels(**options)) == expected


def test_what_is_passed_over(embedded: Codec) -> None:
    encoding = embedded.encode(MESSAGES)
    labels = encoding.labels(ignore_index=-7)
    assert set(np.asarray(labels)[~np.asarray(encoding.assistant_mask).astype(bool)]) == {-7}


def test_roles_that_there_are_not(embedded: Codec) -> None:
    with pytest.raises(ValueError, match='`roles` holds "critic"'):
        embedded.encode(MESSAGES).labels(roles=["critic"])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        embedded.encode(MESSAGES).labels(roles="assistant")  # type: ignore[arg-type]
