"""The reference of the Python package: a page for each task, from the stubs and docstrings.

What goes in: `TASKS`, which says what is on which page; `_core.pyi` and the modules of the package.
What comes out: pages of Markdown by file name. Public names alone: those of a module's `__all__`.
Each public name is on one page; `missing` lists those that are on none.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

PACKAGE = Path(__file__).parent.parent / "python" / "chatcodec"
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Task:
    """A page: what one does with the names on it."""

    title: str
    about: str
    """Markdown: what the page is for, and where it is explained."""
    words: str
    """Classes and functions of `chatcodec`, members of `Codec`, or modules."""

    @property
    def names(self) -> list[str]:
        """The names, in their order on the page."""
        return self.words.split()


TASKS = {
    "models": Task(
        "Open a model",
        "A codec from a model's files, and what is known of the model: [any model](any-model.md).",
        """
        Codec Codec.from_pretrained Codec.describe Codec.format Codec.template
        Codec.vocab Codec.read_by Codec.unread Codec.text_parts Codec.stop_ids
        Codec.generation_prompt_ids Codec.response_template Codec.derived_turns
        Codec.text_boundaries Vocab VocabReport hub doctor
        """,
    ),
    "encode": Task(
        "Messages to ids",
        "Prompts, and what an encoding knows of each id: [cookbook](cookbook.md).",
        """
        Codec.encode Codec.encode_batch Codec.count Codec.fit Codec.canonical Encoding
        Batch TextBatch IntArray Neutralized Collision Dropped Placeholder options
        """,
    ),
    "read": Task(
        "Ids to messages",
        "Completions, whole or as they come: [servers](servers.md).",
        """
        Codec.parse Codec.decode Codec.stream Parsed Stream StreamPool ToolTypes Text
        Reasoning ActionStart ActionDelta ActionEnd TurnStart TurnEnd Media Notice
        collect
        """,
    ),
    "next-turn": Task(
        "The next turn",
        "Prompts that begin with the ids that a model saw: [rollouts](training.md#rollouts).",
        """
        Codec.extend Codec.adopt Note prefix trajectory
        """,
    ),
    "train": Task(
        "Training data",
        "Tables, files and batches to ids and labels: [training](training.md), [data](data.md).",
        """
        Codec.encode_table Codec.mapper EncodedTable pack pack_table mapper rows prepare
        """,
    ),
    "constrain": Task(
        "Structured output",
        "What a model may generate: [structured output](constrain.md).",
        """
        Codec.constrain Constraint
        """,
    ),
    "serve": Task(
        "Requests and responses",
        "Requests of OpenAI's and Anthropic's clients, and their events: [servers](servers.md).",
        """
        adapters.openai_chat adapters.openai_responses adapters.openai_completions
        adapters.anthropic adapters.plain adapters.run adapters.sse adapters.stops
        """,
    ),
    "formats": Task(
        "Formats and templates",
        "What writes and reads: [format files](formats.md), [templates](templates.md).",
        """
        Format formats Witness Template Rendered ResponseTemplate proof response check
        """,
    ),
    "audit": Task(
        "Audits",
        "What a caller can forge: [an audit](safety.md#an-audit).",
        """
        Codec.audit audit
        """,
    ),
    "transformers": Task(
        "transformers",
        "[A safe tokenizer](transformers.md).",
        """
        hf
        """,
    ),
    "errors": Task(
        "Errors",
        "Bad input raises one of these; model output never raises.",
        """
        errors
        """,
    ),
}
"""What is on the page of each task."""

TOP = "_core.pyi"


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


def file_of(module: str) -> Path:
    """The file of a module below `chatcodec`."""
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def exported(tree: ast.Module) -> list[str] | None:
    """The names of `__all__`; None without one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found: list[str] = ast.literal_eval(node.value)
            return found
    return None


def definitions(path: Path) -> dict[str, ast.ClassDef | Function]:
    """The classes and functions of a file, and of its folder where it is a package's."""
    files = sorted(path.parent.glob("*.py")) if path.name == "__init__.py" else []
    found: dict[str, ast.ClassDef | Function] = {}
    for file in [*files, path]:
        for node in tree_of(file).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found[node.name] = node
    return found


def signature(node: Function) -> str:
    """The signature of a function, without quotes around its annotations."""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{node.name}({ast.unparse(node.args)}){returns}"
    line = re.sub(r"(: |-> )'((?:[^'\\]|\\.)*)'", r"\1\2", line)
    return line.replace("(self, /, ", "(").replace("(self, /)", "()")


def members(node: ast.ClassDef) -> dict[str, str]:
    """The public methods and properties of a class, as Markdown."""
    found = {}
    for member in node.body:
        if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if member.name.startswith("_") or (doc := ast.get_docstring(member)) is None:
            continue
        names = {ast.unparse(decorator) for decorator in member.decorator_list}
        is_value = "property" in names and member.returns is not None
        code = f"{member.name}: {ast.unparse(member.returns)}" if is_value else signature(member)  # type: ignore[arg-type]
        found[member.name] = f"#### `{node.name}.{member.name}`\n\n```py\n{code}\n```\n\n{doc}\n"
    return found


def shown(node: ast.ClassDef | Function, *, alone: bool = False) -> str:
    """A class with its members, or a function; `alone` leaves the members out."""
    doc = ast.get_docstring(node) or ""
    if not isinstance(node, ast.ClassDef):
        return f"### `{node.name}`\n\n```py\n{signature(node)}\n```\n\n{doc}\n"
    inner = [] if alone else members(node).values()
    return "\n".join([f"### `{node.name}`\n\n{doc}\n", *inner])


def module(name: str) -> str:
    """The public names of a module."""
    path = file_of(name)
    tree, known = tree_of(path), definitions(path)
    names = exported(tree) or [each for each in known if not each.startswith("_")]
    parts = [f"## `chatcodec.{name}`\n", (ast.get_docstring(tree) or "") + "\n"]
    return "\n".join([*parts, *(shown(known[each]) for each in names if each in known)])


def page(task: Task) -> str:
    """The page of a task."""
    core = definitions(PACKAGE / TOP)
    codec = core["Codec"]
    assert isinstance(codec, ast.ClassDef)  # noqa: S101
    of_codec = members(codec)
    parts = [f"# {task.title}\n", task.about + "\n", "## `chatcodec`\n"]
    for name in task.names:
        if name == "Codec":
            parts.append(shown(codec, alone=True))
        elif name.startswith("Codec."):
            parts.append(of_codec[name.removeprefix("Codec.")])
        elif name in core:
            parts.append(shown(core[name]))
        else:
            parts.append(module(name))
    text = "\n".join(parts)
    return text.replace("## `chatcodec`\n\n## ", "## ")


def missing() -> set[str]:
    """Public names that no page has."""
    core = definitions(PACKAGE / TOP)
    listed = {name for task in TASKS.values() for name in task.names}
    codec = core["Codec"]
    assert isinstance(codec, ast.ClassDef)  # noqa: S101
    public = {f"Codec.{name}" for name in members(codec)}
    public |= {name for name in core if not name.startswith("_")}
    adapters = (PACKAGE / "adapters").glob("*.py")
    public |= {f"adapters.{path.stem}" for path in adapters if not path.stem.startswith("_")}
    return public - listed


def linked(name: str, file: str) -> str:
    """A link to the heading of a name."""
    is_module = not (name.startswith("Codec.") or name in definitions(PACKAGE / TOP))
    whole = f"chatcodec.{name}" if is_module else name
    return f"[`{whole}`]({file}#{re.sub(r'[^a-z0-9_]', '', whole.lower())})"


def pages() -> dict[str, str]:
    """The first page, which lists the names of each task, and the pages of the tasks."""
    if found := missing():
        raise SystemExit(f"names on no page of the reference: {sorted(found)}; see `TASKS`")
    rows = []
    for file, task in TASKS.items():
        names = ", ".join(linked(name, f"reference-{file}.md") for name in task.names)
        rows.append(f"| [{task.title}](reference-{file}.md) | {names} |")
    head = "# Reference\n\nThe public names, by what one does with them; the search finds each.\n"
    table = "\n".join(["| task | names |", "|---|---|", *rows])
    also = "On the command line: [commands](commands.md). Words: [glossary](glossary.md).\n"
    first = {"reference.md": f"{head}\n{table}\n\n{also}"}
    return first | {f"reference-{file}.md": page(task) for file, task in TASKS.items()}
