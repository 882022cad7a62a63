"""`return_token_ids`: the ids of the prompt and of the answer, in the answer of each API.

Chat completions have them as vLLM does: `prompt_token_ids` of the completion and of the first
chunk, `token_ids` of a choice. The other APIs have both beside the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.adapters import Chunk

__all__ = ["TokenIds"]


class TokenIds:
    """The ids of one answer, of all choices."""

    def __init__(self, prompt: Sequence[int], choices: int) -> None:
        """Take the ids of the prompt."""
        self.prompt = list(prompt)
        self.all: list[list[int]] = [[] for _ in range(choices)]
        self._told = [0] * choices
        self._begun = False

    def add(self, choice: int, ids: Sequence[int]) -> None:
        """Append what was generated for a choice."""
        self.all[choice] += ids

    def whole(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Give an answer with its ids."""
        for choice in answer.get("choices", ()):
            choice["token_ids"] = self.all[choice["index"]]
        told = {"prompt_token_ids": self.prompt}
        return {**answer, **told} | ({} if "choices" in answer else {"token_ids": self.all[0]})

    def piece(self, chunk: Chunk) -> Chunk:
        """Give a chunk or an event with the ids that are new."""
        if "choices" in chunk:
            for choice in chunk["choices"]:
                number = choice["index"]
                choice["token_ids"] = self.all[number][self._told[number] :]
                self._told[number] = len(self.all[number])
            first, self._begun = not self._begun, True
            return {**chunk, "prompt_token_ids": self.prompt} if first else chunk
        match chunk["type"]:
            case "response.completed" | "response.incomplete":
                return {**chunk, "response": self.whole(chunk["response"])}
            case "message_delta":
                return self.whole(chunk)
        return chunk
