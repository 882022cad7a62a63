"""A dataset type of axolotl: conversations to ids and labels by the codec.

    datasets:
      - path: chats.jsonl
        type: chatcodec.plugins.axolotl

`load` is what axolotl looks for. It was written for axolotl 0.19. The rows are in any schema that
`Codec.encode_table` reads. The variable `CHATCODEC_FORMAT` names a format; by default the model's
folder decides.
"""

from __future__ import annotations

import importlib
from typing import Any

from chatcodec.plugins import reading

__all__ = ["load"]


def load(tokenizer: Any, cfg: Any, ds_cfg: Any = None) -> Any:  # noqa: ANN401
    """Make the strategy of a dataset.

    `field_messages` of the dataset's configuration names the column of messages, `roles_to_train`
    the roles, and `sequence_len` of the whole one the most ids of a row: `excess_length_strategy`
    is `drop`, `truncate` or `raise`, as in axolotl. Raises what loading the codec raises.
    """
    module = importlib.import_module("axolotl.prompt_tokenizers")
    base: Any = module.PromptTokenizingStrategy
    dataset = ds_cfg or {}
    options: dict[str, Any] = {"labels": True, "columns": ["input_ids", "attention_mask", "labels"]}
    for key, name in (("field_messages", "messages"), ("field_tools", "tools")):
        if dataset.get(key):
            options[name] = dataset[key]
    if dataset.get("roles_to_train"):
        options["roles"] = list(dataset["roles_to_train"])
    on_long = {"drop": "drop", "truncate": "cut", "raise": "error"}
    strategy = cfg.get("excess_length_strategy") or "drop"
    options |= {"max_length": cfg.get("sequence_len"), "on_long": on_long[strategy]}
    codec = reading.codec_of(str(cfg.get("base_model") or tokenizer.name_or_path))
    mapped = codec.mapper(**options)

    class Strategy(base):  # type: ignore[misc]
        supports_batched = True

        def tokenize_prompt(self, prompt: Any) -> dict[str, list[Any]]:  # noqa: ANN401
            made = mapped(prompt)
            columns = options["columns"]
            rows = list(zip(*(made[name] for name in columns), strict=True))
            rows = [row for row in rows if row[0] is not None and len(row[0])]
            return {name: [row[at] for row in rows] for at, name in enumerate(columns)}

    return Strategy(None, tokenizer, sequence_len=cfg.get("sequence_len") or 2048)
