"""What a plug-in needs of an engine, declared in a table and checked before anything is registered.

Engines have no stable interface for what plug-ins do, so a plug-in names each module, each name in
it and each parameter that it relies on. `missing` compares a table with an engine: modules that are
loaded by their objects, others by their source, so that a check imports nothing heavy.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chatcodec.errors import PluginError
from chatcodec.plugins.declared import Declared, Source, Sources

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Contract", "Need", "missing", "require"]


@dataclass(frozen=True, slots=True)
class Need:
    """One name of an engine that a plug-in relies on."""

    module: str
    """The module, as it is imported."""
    name: str
    """The name in the module; a member of a class follows a dot."""
    use: str
    """What the plug-in uses it for."""
    parameters: tuple[str, ...] | None = None
    """Parameters that the plug-in gives, or that the engine gives to the plug-in's own method."""
    overridden: bool = False
    """Whether the engine calls the plug-in's own method, which takes these parameters alone."""
    returns: str | None = None
    """The annotation of what it returns. An engine's function without one is not checked."""

    def __str__(self) -> str:
        """Return the place and the use."""
        return f"{self.module}: `{self.name}` ({self.use})"


@dataclass(frozen=True, slots=True)
class Contract:
    """All that a plug-in needs of an engine."""

    engine: str
    """The engine's name, as its users write it."""
    package: str
    """The package with the attribute `__version__`."""
    tried: str
    """The versions that the plug-in was tried with."""
    needs: tuple[Need, ...]


def require(contract: Contract) -> None:
    """Raise `PluginError` with everything that an engine lacks."""
    found = missing(contract.needs)
    if not found:
        return
    version = getattr(sys.modules.get(contract.package), "__version__", "of unknown version")
    lines = "".join(f"\n  {line}" for line in found)
    raise PluginError(
        f"chatcodec's plug-in: {contract.engine} {version} lacks what the plug-in needs; it was "
        f"tried with {contract.tried}. Install that version, or use the gateway before the "
        f"unchanged server (docs/gateway.md). What was found:{lines}",
        engine=contract.engine,
        found=tuple(found),
    )


def missing(needs: Iterable[Need], root: Path | None = None) -> list[str]:
    """Return a line for each need that is not met.

    `root` is a folder of packages whose sources are compared, nothing is imported; without it,
    the packages are those that an import finds.
    """
    sources = Sources(lambda module: _source(root, module))
    lines = []
    for need in needs:
        declared = None if root else _live(need)
        problem = _problem(need, declared or sources.find(need.module, need.name))
        if problem:
            lines.append(f"{need}: {problem}")
    return lines


def _problem(need: Need, declared: Declared | None) -> str | None:
    """Return what is wrong with what an engine declares under a needed name."""
    if declared is None:
        return "not found"
    given, theirs = need.parameters, declared.parameters
    if given is not None and theirs is not None:
        lacking = [] if declared.takes_any else [name for name in given if name not in theirs]
        if lacking:
            return f"has no parameter {_listed(lacking)}; it has {_listed(theirs) or 'none'}"
        unknown = [name for name in theirs if name not in given]
        if not need.overridden:
            unknown = [name for name in unknown if theirs[name]]
        if unknown:
            return f"has the parameter {_listed(unknown)}, which the plug-in does not know"
    if need.returns is not None and declared.returns is not None:
        expected, found = _annotation(need.returns), _annotation(declared.returns)
        if expected != found:
            return f"returns `{declared.returns}`, expected `{need.returns}`"
    return None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _annotation(text: str) -> str:
    """Return an annotation in one spelling: `Optional[X]` is `X | None`, `List` is `list`."""
    text = re.sub(r"[\"'\s]|\b(?:\w+\.)+", "", text)
    text = re.sub(r"\b(List|Dict|Tuple|Type)\[", lambda found: found[0].lower(), text)
    while (plain := re.sub(r"Optional\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", r"\1|None", text)) != text:
        text = plain
    return text


def _live(need: Need) -> Declared | None:
    """Return what a module that is loaded has; None where its source has to say it."""
    module = sys.modules.get(need.module)
    if module is None or getattr(module.__spec__, "_initializing", False):
        return None
    value: Any = module
    for part in need.name.split("."):
        if not hasattr(value, part):
            # A field of a class may be no attribute of the class.
            return None
        value = getattr(value, part)
    if need.parameters is None and need.returns is None:
        return Declared()
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return Declared()
    return Declared.of(signature, is_method="." in need.name)


def _installed(module: str) -> Path | None:
    """Return the folder that holds the package of a module, which is not imported."""
    top = module.partition(".")[0]
    try:
        places = getattr(sys.modules.get(top), "__path__", None) or _places(top)
    except (ImportError, ValueError):
        return None
    return Path(places[0]).parent if places else None


def _places(package: str) -> list[str]:
    spec = importlib.util.find_spec(package)
    return list((spec and spec.submodule_search_locations) or ())


def _source(root: Path | None, module: str) -> Source | None:
    """Read a module below a folder of packages, by default below the installed one."""
    folder = root or _installed(module)
    if folder is None:
        return None
    path = folder.joinpath(*module.split("."))
    for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if file.is_file():
            return Source(file.read_text(encoding="utf-8"), file.name == "__init__.py")
    return None
