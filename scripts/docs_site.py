"""Builds the site of the documents into target/site: `make docs`.

Pages are docs/*.md, those that programs write into docs/generated, the changelog, and pages that
this script makes: the reference, from the stubs and docstrings; and the glossary, from
ARCHITECTURE.md. Needs no network. A link to a page or a heading that does not exist ends the build.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import reference

ROOT = Path(__file__).parent.parent
SITE = ROOT / "target" / "site"

SECTIONS = {
    "Start": [
        ("Home", "index.md"),
        ("Quickstarts", "quickstart.md"),
        ("快速入门", "quickstart.zh.md"),
        ("Tour", "tour.md"),
        ("Concepts", "concepts.md"),
        ("Cookbook", "cookbook.md"),
        ("Questions", "faq.md"),
        ("It does not give my ids", "ids.md"),
    ],
    "Why": [
        ("Why not X", "why.md"),
        ("Safety", "safety.md"),
        ("Migration", "migrate.md"),
        ("Benchmarks", "benchmarks.md"),
    ],
    "Models": [
        ("Models and formats", "models.md"),
        ("Which format", "which-format.md"),
        ("Any model", "any-model.md"),
        ("Chat templates", "templates.md"),
        ("Response templates", "response-template.md"),
        ("Format files", "formats.md"),
    ],
    "Serving": [
        ("Gateway", "gateway.md"),
        ("What was tried", "compatibility.md"),
        ("Deployment", "deploy.md"),
        ("Agents", "agents.md"),
        ("Prefixes", "prefixes.md"),
        ("vLLM", "vllm.md"),
        ("SGLang", "sglang.md"),
        ("LMDeploy, Lagent", "lmdeploy.md"),
        ("transformers", "transformers.md"),
        ("Servers", "servers.md"),
        ("Structured output", "constrain.md"),
        ("Leniency", "leniency.md"),
    ],
    "Training": [
        ("Training", "training.md"),
        ("Trainers", "trainers.md"),
        ("Datasets", "data.md"),
        ("Clusters", "clusters.md"),
    ],
    "Inside": [
        ("Encoder", "encoder.md"),
    ],
    "Tables": [
        ("All formats", "all-formats.md"),
        ("All templates", "all-templates.md"),
        ("Losses", "losses.md"),
        ("Keys of format files", "format-keys.md"),
        ("What a caller can forge", "forgeries.md"),
        ("Gateway under load", "gateway-load.md"),
        ("Commands", "commands.md"),
        ("Metrics", "metrics.md"),
    ],
    "Reference": [
        ("Reference", "reference.md"),
        *((task.title, f"reference-{name}.md") for name, task in reference.TASKS.items()),
        ("Glossary", "glossary.md"),
        ("Changelog", "changelog.md"),
    ],
}
"""The titles and the files of the pages; pages of docs/ that are not listed come last."""

NAVIGATION = [entry for entries in SECTIONS.values() for entry in entries]

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LINK_OR_CODE = re.compile(
    r"^```.*?^```$|(?P<label>!?\[[^\]\n]*\])\((?P<target>[^)\s]+)\)|`[^`\n]+`",
    re.MULTILINE | re.DOTALL,
)
"""Links, and the blocks and spans of code in which there are none."""


MADE = {
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md#words": "glossary.md",
    "python/chatcodec/_core.pyi": "reference.md",
    "rust/core/src/format/models.toml": "which-format.md",
}
"""Pages of the site, by the files that a repository's reader is led to."""

TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
ESCAPED_BAR = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")


def glossary() -> str:
    """The words that ARCHITECTURE.md explains."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    words = text.partition("\n## Words\n")[2]
    return f"# Glossary\n{words}"


def models_by_name() -> str:
    """The built-in format of each model, by words of the model's name."""
    path = ROOT / "rust" / "core" / "src" / "format" / "models.toml"
    known = tomllib.loads(path.read_text(encoding="utf-8"))["models"]
    rows = [
        f"| `{words}` | {f'`{name}`' if name else 'none: [any model](any-model.md)'} |"
        for words, name in sorted(known.items())
    ]
    return "\n".join(
        [
            "# Which format for a model\n",
            "For people who have a model's name. The search of this site finds the name, too.\n",
            "A row holds for names with all of its words, in their order; the longest row decides.",
            "`chatcodec formats --for MODEL` answers the same question,",
            "and `Codec.from_pretrained` compares the model's own template.\n",
            "| words of the name | format |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def documents() -> list[Path]:
    """The files of the documents; the pages of docs/generated are beside the others in the site."""
    return sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "generated").glob("*.md")])


def plain(path: str) -> str:
    """A path as the site has it: from its root, or from that of the project."""
    return re.sub(r"^(\.\./)*(docs/)?(generated/)?", "", path)


def adapted(text: str) -> str:
    """A document with its links as they are in the site; files that are no pages are not linked."""

    def link(found: re.Match[str]) -> str:
        label, target = found.groups()
        if label is None:
            return found[0]
        path, _, anchor = target.partition("#")
        name = plain(path)
        if "://" in target or not path:
            return found[0]
        name = MADE.get(f"{name}#{anchor}") or MADE.get(name, name)
        anchor = "" if name in MADE.values() and name != "changelog.md" else anchor
        known = {file for _, file in NAVIGATION} | {page.name for page in documents()}
        is_picture = label.startswith("!") and (ROOT / "docs" / name).exists()
        if name in known or is_picture:
            return f"{label}({name}{'#' + anchor if anchor else ''})"
        if not (ROOT / "docs" / name).exists() and not (ROOT / name).exists():
            raise SystemExit(f"link to `{target}`: no such file")
        return f"`{name}`"

    return LINK_OR_CODE.sub(link, text)


def slug(heading: str) -> str:
    """The anchor of a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.replace("`", "").strip().lower())
    return re.sub(r"[\s]+", "-", words)


def anchored(text: str) -> str:
    """A page whose headings that are not ASCII have anchors: the generator drops such letters."""

    def anchor(found: re.Match[str]) -> str:
        return found[0] if found[0].isascii() else f"{found[0]} {{#{slug(found[1])}}}"

    blocks = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        block if block.startswith("```") else HEADING.sub(anchor, block) for block in blocks
    )


def with_bars(text: str) -> str:
    r"""A page whose code in tables has its bars: the generator shows `\|`, which GitHub needs."""

    def code(found: re.Match[str]) -> str:
        content = html.escape(found[1].replace("\\|", "|"), quote=False)
        return f"<code>{content.replace('|', '&#124;')}</code>"

    return TABLE_ROW.sub(lambda row: ESCAPED_BAR.sub(code, row[0]), text)


def check_links(pages: dict[str, str]) -> None:
    """End the build at a link to a page or a heading that does not exist."""
    anchors = {
        name: {slug(heading) for heading in HEADING.findall(text)} for name, text in pages.items()
    }
    wrong = []
    for name, text in pages.items():
        for target in filter(None, (found["target"] for found in LINK_OR_CODE.finditer(text))):
            path, _, anchor = target.partition("#")
            page = path or name
            if "://" in target or (page not in pages and (ROOT / "docs" / page).exists()):
                continue
            if page not in pages or (anchor and anchor not in anchors[page]):
                wrong.append(f"{name}: {target}")
    if wrong:
        raise SystemExit("links to nothing:\n" + "\n".join(wrong))


def pages() -> dict[str, str]:
    """The pages of the site, by file."""
    texts = {path.name: adapted(path.read_text(encoding="utf-8")) for path in documents()}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    texts |= {
        "changelog.md": adapted(changelog),
        "glossary.md": glossary(),
        "which-format.md": models_by_name(),
        **reference.pages(),
    }
    return texts


def address() -> str:
    """The address of the project's repository, from Cargo.toml; empty until there is one."""
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    repository: str = cargo["workspace"]["package"].get("repository", "")
    return repository


def configuration(texts: dict[str, str]) -> str:
    """The configuration of the generator. Fonts are the reader's own: no page makes a request."""
    files = {file for _, file in NAVIGATION}
    others = [(name.removesuffix(".md"), name) for name in texts if name not in files]
    sections = {**SECTIONS, **({"More": others} if others else {})}
    entries = ",\n".join(
        f'  {{ "{section}" = ['
        + ", ".join(f'{{ "{title}" = "{file}" }}' for title, file in pages if file in texts)
        + "] }"
        for section, pages in sections.items()
    )
    repository = address()
    return f"""\
[project]
site_name = "chatcodec"
{f'repo_url = "{repository}"' if repository else ""}
docs_dir = "pages"
site_dir = "html"
use_directory_urls = false
nav = [
{entries}
]

[project.theme]
language = "en"
font = false
features = ["content.code.copy", "navigation.sections", "navigation.top", "search.highlight"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
"""


def main() -> int:
    """Write the pages, check their links, and build the site; the exit code."""
    texts = pages()
    check_links(texts)
    if "--check" in sys.argv:
        return 0
    shutil.rmtree(SITE, ignore_errors=True)
    folder = SITE / "pages"
    folder.mkdir(parents=True)
    for name, text in texts.items():
        (folder / name).write_text(anchored(with_bars(text)), encoding="utf-8")
    for name in ("pictures", "benchmarks"):
        shutil.copytree(ROOT / "docs" / name, folder / name)
    (SITE / "zensical.toml").write_text(configuration(texts), encoding="utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    subprocess.run([zensical, "build"], cwd=SITE, check=True)
    built = {path.stem for path in (SITE / "html").glob("*.html")}
    if missing := [name for name in texts if name.removesuffix(".md") not in built]:
        raise SystemExit(f"pages that were not built: {missing}")
    print(f"{len(texts)} pages in {(SITE / 'html').relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
