"""`return_token_ids`: the ids of the prompt and of the answer, in the answer of each API.

Chat completions have them as vLLM does: `prompt_token_ids` of the completion and of the first
chunk, `token_ids` of a choice. Completions of a text have both in each choice, and the other APIs
beside the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chatcodec.adapters import Chunk

__all__ = ["TokenIds"]


class TokenIds:
    """The ids of one answer, of all choices."""

    def __init__(self, prompts: Sequence[list[int]], choices: int) -> None:
        """Take the ids of the prompts, which have as many choices each."""
        self.prompts = prompts
        self.prompt = [id_ for prompt in prompts for id_ in prompt]
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
        if answer.get("object") == "text_completion":
            self._with_prompts(answer)
            return answer
        told = {"prompt_token_ids": self.prompt}
        return {**answer, **told} | ({} if "choices" in answer else {"token_ids": self.all[0]})

    def _with_prompts(self, chunk: Chunk) -> None:
        """Tell each choice of a text's completion the prompt that it goes on from."""
        each = len(self.all) // len(self.prompts)
        for choice in chunk["choices"]:
            choice["prompt_token_ids"] = self.prompts[choice["index"] // each]

    def piece(self, chunk: Chunk) -> Chunk:
        """Give a chunk or an event with the ids that are new."""
        if "choices" in chunk:
            for choice in chunk["choices"]:
                number = choice["index"]
                choice["token_ids"] = self.all[number][self._told[number] :]
                self._told[number] = len(self.all[number])
            if chunk["object"] == "text_completion":
                self._with_prompts(chunk)
                return chunk
            first, self._begun = not self._begun, True
            return {**chunk, "prompt_token_ids": self.prompt} if first else chunk
        match chunk["type"]:
            case "response.completed" | "response.incomplete":
                return {**chunk, "response": self.whole(chunk["response"])}
            case "message_delta":
                return self.whole(chunk)
        return chunk
