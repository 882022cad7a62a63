# /// script
# requires-python = ">=3.11"
# dependencies = ["sentencepiece==0.2.3"]
# ///
"""Train, check and measure the embedded vocabulary.

Training needs the standard library alone; ``sentencepiece`` serves only ``--measure``.

* ``train_embedded_vocab.py SOURCES`` reads the archives listed in ``SOURCES`` below from the
  directory SOURCES, checks the sha256 of each, trains and writes the model.
* ``train_embedded_vocab.py SOURCES --check`` trains again and compares with the written file.
* ``train_embedded_vocab.py SOURCES --measure DIR --against FILE`` prints the table of id counts,
  embedded against the SentencePiece model FILE, over the texts (.txt, .json, .jsonl) in DIR and
  over the part of the standard library that is kept out of the training.

The trainer is byte-pair encoding in the manner of SentencePiece: the text is cut into chunks,
and the most frequent adjacent pair of symbols inside the chunks becomes a piece, repeatedly.
All arithmetic is on integers and every tie is broken by the text of the piece, so the result
depends on nothing but the inputs and this file.  Takes about half a minute.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import heapq
import io
import json
import lzma
import re
import struct
import sys
import tarfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

MODEL = (
    Path(__file__).resolve().parent.parent / "rust" / "vocab" / "src" / "vocab" / "embedded.model"
)

VOCAB_SIZE = 46_000
FIRST_PIECE = 259
MAX_PIECE_CHARS = 16
MAX_HAN_CHARS = 6
MAX_SPACE_CHARS = 33
SPACE = "\u2581"
FORBIDDEN = ("<|", "|>", "[UNUSED_TOKEN", "<s>", "</s>", "<unk>", "<0x", "\0")


# --------------------------------------------------------------------------------------------
# Archives
# --------------------------------------------------------------------------------------------


def tar_files(data: bytes, wanted: str) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of the regular files of a tar whose path matches the regex."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            if member.isfile() and re.search(wanted, member.name):
                handle = tar.extractfile(member)
                if handle is not None:
                    yield member.name, handle.read()


def deb_files(data: bytes, wanted: str) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of the files of a Debian package whose path matches the regex."""
    position = 8  # after the "!<arch>\n" magic
    while position < len(data):
        name = data[position : position + 16].decode("ascii").strip()
        size = int(data[position + 48 : position + 58])
        body = data[position + 60 : position + 60 + size]
        if name.startswith("data.tar"):
            yield from tar_files(lzma.decompress(body), wanted)
        position += 60 + size + size % 2


# --------------------------------------------------------------------------------------------
# Texts of the sources: each reader takes the archive's bytes and gives weighted texts
# --------------------------------------------------------------------------------------------

Texts = Iterator[tuple[str, int]]
"""(text, how many times it counts)"""


def unwrap(text: str) -> str:
    """Join the lines of each paragraph of hard-wrapped prose."""
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(re.sub(r"\s+", " ", part).strip() for part in paragraphs)


def held_out(path: str) -> bool:
    """Tell whether a file of the standard library is kept for measuring only (one in ten)."""
    return zlib.crc32(path.encode()) % 10 == 0


def python_modules(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield (path, source) of the standard library's modules, its tests left out."""
    for path, content in tar_files(data, r"^Python-3\.11\.2/Lib/.*\.py$"):
        if re.search(r"/tests?/|/idle_test/|/lib2to3/|/encodings/|pydoc_data", path):
            continue
        yield path, content.decode("utf-8", "replace")


def python_code(data: bytes) -> Texts:
    """The modules of the standard library."""
    for path, source in python_modules(data):
        if not held_out(path):
            yield source, 1


def python_docs(data: bytes) -> Texts:
    """The manual of Python: English prose, unwrapped, without the change logs."""
    for path, content in tar_files(data, r"^Python-3\.11\.2/Doc/.*\.rst$"):
        if "/whatsnew/changelog" not in path:
            yield unwrap(content.decode("utf-8")), 1


JSON_TYPES = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}


def describe_function(node: ast.FunctionDef) -> dict[str, object]:
    """Describe one function as a tool: name, description and parameters in a JSON schema."""
    properties: dict[str, object] = {}
    required: list[str] = []
    arguments = node.args.posonlyargs + node.args.args
    defaults = [None] * (len(arguments) - len(node.args.defaults)) + node.args.defaults
    for argument, default in zip(arguments, defaults, strict=True):
        if argument.arg in ("self", "cls"):
            continue
        entry: dict[str, object] = {"type": "string"}
        if default is None:
            required.append(argument.arg)
        elif isinstance(default, ast.Constant):
            value = default.value
            entry["type"] = JSON_TYPES.get(type(value).__name__, "object")
            if not isinstance(value, bytes | complex) and value is not ...:
                entry["default"] = value
        properties[argument.arg] = entry
    doc = ast.get_docstring(node) or ""
    return {
        "name": node.name,
        "description": re.sub(r"\s+", " ", doc)[:300],
        "parameters": {"type": "object", "properties": properties, "required": required},
    }


def python_json(data: bytes) -> Texts:
    """JSON made of the standard library: functions as tools, calls of them, four layouts."""
    layouts: tuple[dict[str, Any], ...] = (
        {},
        {"indent": 2},
        {"indent": 4},
        {"separators": (",", ":")},
    )
    number = 0
    for path, source in python_modules(data):
        if held_out(path):
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.FunctionDef) or not ast.get_docstring(node):
                continue
            tool = describe_function(node)
            properties = tool["parameters"]["properties"]  # type: ignore[index]
            call = {
                "name": tool["name"],
                "arguments": {key: value.get("default", key) for key, value in properties.items()},
            }
            layout = layouts[number % len(layouts)]
            number += 1
            yield json.dumps([{"type": "function", "function": tool}], **layout), 1
            yield json.dumps(call, **layout), 1


def english_books(data: bytes) -> Texts:
    """Alice and the constitution of the United States, from the examples of wordcloud."""
    for _, content in tar_files(data, r"/examples/(alice|constitution)\.txt$"):
        yield unwrap(content.decode("utf-8-sig")), 1


def austen(data: bytes) -> Texts:
    """The six novels of Jane Austen, read from R's serialisation of character vectors."""
    for _, content in deb_files(data, r"/janeaustenr/data/Rdata\.rdb$"):
        rest = content
        while rest:
            inflater = zlib.decompressobj()  # each vector: its size in four bytes, then zlib
            stream = inflater.decompress(rest[4:])
            rest = inflater.unused_data
            encoding_size = struct.unpack_from(">i", stream, 14)[0]
            position = 18 + encoding_size
            count = struct.unpack_from(">i", stream, position + 4)[0]
            position += 8
            lines = []
            for _ in range(count):
                size = max(0, struct.unpack_from(">i", stream, position + 4)[0])
                lines.append(stream[position + 8 : position + 8 + size].decode("utf-8"))
                position += 8 + size
            yield unwrap("\n".join(lines)).replace("_", ""), 1


def web_bible(data: bytes) -> Texts:
    """The World English Bible, its markup removed."""
    files = {path[-6:]: content for path, content in deb_files(data, r"/[on]t\.bz[sz]$")}
    for part in ("ot", "nt"):
        for offset, size, _ in struct.iter_unpack("<III", files[f"{part}.bzs"]):
            block = files[f"{part}.bzz"][offset : offset + size]
            text = zlib.decompressobj().decompress(block).decode("utf-8")
            text = re.sub(r"(?s)<note.*?</note>", "", text)
            text = re.sub(r"</?(p|lg|l|chapter|verse|div|milestone)\b[^>]*>", " ", text)
            text = re.sub(r"<[^>]*>", "", text)
            yield re.sub(r"\s+", " ", text), 1


def dictionary(data: bytes) -> Texts:
    """A dictionary of dictd (the Jargon File, the Devil's Dictionary)."""
    for _, content in deb_files(data, r"\.dict\.dz$"):
        yield unwrap(gzip.decompress(content).decode("utf-8", "replace")), 1


def lu_xun(data: bytes) -> Texts:
    """Call to Arms by Lu Xun, from the examples of wordcloud."""
    for _, content in tar_files(data, r"/wc_cn/CalltoArms\.txt$"):
        text = content.decode("utf-8", "replace")
        yield "\n".join(line.strip("\u3000 \t\r") for line in text.splitlines()), 1


def jieba_words(data: bytes) -> Texts:
    """Words of modern Chinese with their frequencies."""
    for _, content in tar_files(data, r"/jieba/dict\.txt$"):
        for line in content.decode("utf-8").splitlines():
            word, count, _ = line.split(" ")
            yield word, int(count)


@dataclass(frozen=True)
class Source:
    """One text source: its archive, the reader of it and its share of the training, in 1/1000."""

    archive: str
    sha256: str
    reader: Callable[[bytes], Texts]
    share: int


CPYTHON = (
    "Python-3.11.2.tgz",
    "2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849",
)
WORDCLOUD = (
    "wordcloud-1.9.6.tar.gz",
    "df17c468ff903bd0aba4f87c6540745d13a4931220dd4937cb363ad85a4771b9",
)
AUSTEN = (
    "r-cran-janeaustenr_1.0.0-1_all.deb",
    "df6bddf211906d1ff404f8ff662c21b34e6660e7f54a311084e749050c019c95",
)
WEB = (
    "sword-text-web_426.0-1_all.deb",
    "930b23670b352f0829a306501de4bebb5e654a2df02cde2cbe86b802177868e1",
)
JARGON = (
    "dict-jargon_4.4.7-3.1_all.deb",
    "405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1",
)
DEVIL = (
    "dict-devil_1.0-13.1_all.deb",
    "6a535684def2a1f70cd42da16d12d43f0e9dc3e54e4a329178eebab3170e3154",
)
JIEBA = (
    "jieba-0.42.1.tar.gz",
    "055ca12f62674fafed09427f176506079bc135638a14e23e25be909131928db2",
)
SOURCES = (
    Source(*CPYTHON, python_code, 75),
    Source(*CPYTHON, python_json, 45),
    Source(*CPYTHON, python_docs, 200),
    Source(*WORDCLOUD, english_books, 20),
    Source(*AUSTEN, austen, 120),
    Source(*WEB, web_bible, 50),
    Source(*JARGON, dictionary, 180),
    Source(*DEVIL, dictionary, 35),
    Source(*WORDCLOUD, lu_xun, 65),
    Source(*JIEBA, jieba_words, 210),
)
"""The mix; EMBEDDED.md beside the model gives the origin and the licence of each."""


# --------------------------------------------------------------------------------------------
# Chunks
# --------------------------------------------------------------------------------------------


def han_characters() -> set[str]:
    """The Han characters of GB 2312, of Big5's frequent level and of JIS X 0208's first level."""

    def table(codec: str, rows: range, cells: Iterable[int]) -> set[str]:
        pairs = [bytes((row, cell)) for row in rows for cell in cells]
        return {char for pair in pairs for char in pair.decode(codec, "ignore")}

    big5_cells = (*range(0x40, 0x7F), *range(0xA1, 0xFF))
    return (
        table("gb2312", range(0xB0, 0xF8), range(0xA1, 0xFF))
        | table("big5", range(0xA4, 0xC7), big5_cells)
        | table("euc_jp", range(0xB0, 0xD0), range(0xA1, 0xFF))
    )


def alphabet() -> set[str]:
    """Every character that gets a piece of its own; the others are spelt in bytes."""
    ranges = (
        (0x21, 0x7E),  # ASCII
        (0xA1, 0xAC),  # Latin-1, without the soft hyphen
        (0xAE, 0x17F),
        (0x391, 0x3C9),  # Greek
        (0x401, 0x401),  # Cyrillic
        (0x410, 0x451),
        (0x2010, 0x2027),  # punctuation
        (0x2190, 0x2193),  # arrows
        (0x2460, 0x2469),  # circled digits
        (0x2500, 0x2503),  # box drawing
        (0x3000, 0x3011),  # CJK punctuation, kana
        (0x3014, 0x3017),
        (0x3041, 0x3096),
        (0x30A0, 0x30FF),
        (0xFF01, 0xFF5E),  # full-width forms
    )
    found = {chr(code) for first, last in ranges for code in range(first, last + 1)}
    extra = {"\t", "\n", SPACE} | set("€™≤≥≠≈∞√■□●○★☆♪")
    return {char for char in found if char.isprintable()} | extra | han_characters()


def chunk_pattern(letters: set[str]) -> re.Pattern[str]:
    """Build the regex that cuts escaped text into chunks; a piece never crosses a chunk.

    The chunks: a run of Han, of kana, a single digit, a word with at most one sign or space
    before it, a run of signs (single spaces inside) with the line ends and the indentation that
    follow, a run of white space.  Characters without a piece match nothing and part the chunks.
    """
    han = "".join(sorted(char for char in letters if "\u4e00" <= char <= "\u9fff"))
    kana = "\u3041-\u3096\u30a1-\u30fa\u30fc"
    word = "".join(
        re.escape(char)
        for char in sorted(letters)
        if char.isalpha() and char not in han and not re.match(f"[{kana}]", char)
    )
    sign = "".join(
        re.escape(char)
        for char in sorted(letters)
        if not char.isalnum() and char not in f"\n\t{SPACE}" and not re.match(f"[{kana}]", char)
    )
    return re.compile(
        rf"(?P<han>[{han}]+)"
        rf"|[{kana}]+"
        rf"|[{SPACE}._\"'(\[<{{/@#$=&-]?[{word}]+"
        rf"|{SPACE}?[{sign}]+(?:{SPACE}[{sign}]+)*\n*[{SPACE}\t]*(?![{word}])"
        rf"|{SPACE}?[{sign}]+"
        rf"|[0-9]"
        rf"|[\n]+[{SPACE}\t]*"
        rf"|[{SPACE}\t]+(?={SPACE}[{word}{sign}])"
        rf"|[{SPACE}\t]+"
    )


def count_chunks(texts: Texts, pattern: re.Pattern[str]) -> Counter[str]:
    """Count the chunks of the texts."""
    counts: Counter[str] = Counter()
    for text, times in texts:
        escaped = text.replace(SPACE, "").replace("\r", "").replace(" ", SPACE)
        if times == 1:
            counts.update(match[0] for match in pattern.finditer(escaped))
        else:
            for match in pattern.finditer(escaped):
                counts[match[0]] += times
    return counts


def mixed_counts(archives: dict[str, bytes], pattern: re.Pattern[str]) -> Counter[str]:
    """Count the chunks of all sources, each source scaled to its share of the characters."""
    scale = 1_000_000_000
    total: Counter[str] = Counter()
    for source in SOURCES:
        counts = count_chunks(source.reader(archives[source.archive]), pattern)
        size = sum(len(chunk) * count for chunk, count in counts.items())
        weight = max(1, source.share * scale // size)
        print(f"  {source.reader.__name__:15} {size:>11,} characters", file=sys.stderr)
        for chunk, count in counts.items():
            total[chunk] += count * weight
    return total


# --------------------------------------------------------------------------------------------
# Byte-pair encoding
# --------------------------------------------------------------------------------------------


def allowed(piece: str) -> bool:
    """Tell whether a merge may become a piece."""
    if not piece.strip(f"{SPACE}\n\t"):
        return len(piece) <= MAX_SPACE_CHARS
    if any(text in piece for text in FORBIDDEN):
        return False
    return len(piece) <= (MAX_HAN_CHARS if "\u4e00" <= piece[-1] <= "\u9fff" else MAX_PIECE_CHARS)


def train(counts: Counter[str], size: int) -> list[str]:
    """Give the first `size` merges of byte-pair encoding over the counted chunks."""
    chunks = sorted(chunk for chunk in counts if len(chunk) > 1)
    weights = [counts[chunk] for chunk in chunks]
    words = [list(chunk) for chunk in chunks]
    pairs: dict[tuple[str, str], int] = defaultdict(int)
    places: dict[tuple[str, str], set[int]] = defaultdict(set)
    for index, word in enumerate(words):
        for pair in pairwise(word):
            pairs[pair] += weights[index]
            places[pair].add(index)
    heap = [(-count, left + right, left) for (left, right), count in pairs.items()]
    heapq.heapify(heap)
    merges: dict[str, None] = {}
    while heap and len(merges) < size:
        negative, piece, left = heapq.heappop(heap)
        pair = (left, piece[len(left) :])
        count = pairs.get(pair, 0)
        if count != -negative or count <= 0:
            if count > 0:
                heapq.heappush(heap, (-count, piece, left))
            continue
        if not allowed(piece):
            continue
        merges[piece] = None
        grown: set[tuple[str, str]] = set()
        for index in places.pop(pair):
            merge_word(words[index], pair, piece, weights[index], index, pairs, places, grown)
        pairs.pop(pair, None)
        for key in grown:
            heapq.heappush(heap, (-pairs[key], key[0] + key[1], key[0]))
    return list(merges)


def merge_word(
    word: list[str],
    pair: tuple[str, str],
    piece: str,
    weight: int,
    index: int,
    pairs: dict[tuple[str, str], int],
    places: dict[tuple[str, str], set[int]],
    grown: set[tuple[str, str]],
) -> None:
    """Replace the pair by the piece in one word, keeping the counts of the pairs up to date."""
    left, right = pair
    at = 0
    while at < len(word) - 1:
        if word[at] != left or word[at + 1] != right:
            at += 1
            continue
        if at > 0:
            pairs[word[at - 1], left] -= weight
            key = (word[at - 1], piece)
            pairs[key] += weight
            places[key].add(index)
            grown.add(key)
        if at + 2 < len(word):
            pairs[right, word[at + 2]] -= weight
            key = (piece, word[at + 2])
            pairs[key] += weight
            places[key].add(index)
            grown.add(key)
        word[at : at + 2] = [piece]
        at += 1


def make_pieces(archives: dict[str, bytes]) -> list[str]:
    """Give the pieces from id 259 on: the merges in order, then the characters by frequency."""
    letters = alphabet()
    counts = mixed_counts(archives, chunk_pattern(letters))
    merges = train(counts, VOCAB_SIZE - FIRST_PIECE - len(letters))
    frequency: Counter[str] = Counter()
    for chunk, count in counts.items():
        for char in chunk:
            frequency[char] += count
    return merges + sorted(letters, key=lambda char: (-frequency[char], char))


# --------------------------------------------------------------------------------------------
# The file
# --------------------------------------------------------------------------------------------

UNKNOWN, CONTROL, BYTE = 2, 3, 6


def varint(value: int) -> bytes:
    """Encode a protobuf varint; negative numbers take ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode an integer field."""
    return varint(field << 3) + varint(value)


def blob(field: int, value: bytes) -> bytes:
    """Encode a length-delimited field."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def piece_message(text: str, score: float, kind: int | None) -> bytes:
    """Encode one piece; the normal type is the default and is not written."""
    body = blob(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score)
    return blob(1, body + (number(3, kind) if kind else b""))


def model_bytes(pieces: list[str]) -> bytes:
    """Encode the SentencePiece model: specials, bytes, then the pieces."""
    parts = [piece_message("<unk>", 0.0, UNKNOWN)]
    parts += [piece_message(text, 0.0, CONTROL) for text in ("<s>", "</s>")]
    parts += [piece_message(f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)]
    parts += [piece_message(text, -float(rank), None) for rank, text in enumerate(pieces)]
    trainer = [
        number(3, 2),  # model_type: BPE
        number(4, FIRST_PIECE + len(pieces)),  # vocab_size
        number(25, 1),  # split_digits
        number(26, 1),  # allow_whitespace_only_pieces
        number(35, 1),  # byte_fallback
        number(40, 0),  # unk_id
        number(41, 1),  # bos_id
        number(42, 2),  # eos_id
        number(43, -1),  # pad_id
    ]
    normalizer = [
        blob(1, b"identity"),
        number(3, 0),  # add_dummy_prefix
        number(4, 0),  # remove_extra_whitespaces
        number(5, 1),  # escape_whitespaces
    ]
    return b"".join(parts) + blob(2, b"".join(trainer)) + blob(3, b"".join(normalizer))


def check_pieces(pieces: list[str]) -> None:
    """Raise ValueError if a piece is there twice, spells a control token or cannot be reached."""
    known = set(pieces)
    if len(known) != len(pieces):
        raise ValueError("a piece occurs twice")
    for piece in pieces:
        if any(text in piece for text in FORBIDDEN):
            raise ValueError(f"forbidden in a piece: {piece!r}")
        halves = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        if halves and not any(left in known and right in known for left, right in halves):
            raise ValueError(f"no merge gives {piece!r}")


# --------------------------------------------------------------------------------------------
# Measuring
# --------------------------------------------------------------------------------------------


def measured_texts(directory: Path, archives: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """Yield (name, texts) of what is measured: the files in the directory, then Python source."""
    han = re.compile(r"[\u4e00-\u9fff]")
    for path in sorted(directory.iterdir()):
        if path.suffix == ".txt":
            yield path.name, [path.read_text(encoding="utf-8")]
            continue
        if path.suffix not in (".json", ".jsonl"):
            continue
        raw = path.read_text(encoding="utf-8")
        data = [json.loads(line) for line in raw.splitlines()] if path.suffix == ".jsonl" else None
        strings = list(message_strings(data if data is not None else json.loads(raw)))
        prose = [text for text in strings if not text.lstrip().startswith(("{", "["))]
        values = [text for text in strings if text.lstrip().startswith(("{", "["))]
        chinese = [text for text in prose if len(han.findall(text)) * 3 > len(text)]
        if sum(map(len, chinese)) * 3 > sum(map(len, prose)):
            yield f"{path.name}: Chinese messages", chinese
        else:
            yield f"{path.name}: messages", prose
        if values:
            yield f"{path.name}: JSON in messages", values
        if path.suffix == ".json":
            yield f"{path.name}: the file", [raw]
    cpython = archives[CPYTHON[0]]
    modules = [(path, source) for path, source in python_modules(cpython) if held_out(path)]
    yield "standard library, held out", [source for _, source in modules]


def message_strings(value: object) -> Iterator[str]:
    """Yield the text of messages, in whatever shape the file has: value, content, text, turns."""
    if isinstance(value, list):
        for item in value:
            yield from message_strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("value", "content", "text", "query") and isinstance(item, str):
                yield item
            elif key == "turns":
                yield from item
            elif isinstance(item, list | dict):
                yield from message_strings(item)


def measure(directory: Path, against: Path, archives: dict[str, bytes]) -> None:
    """Print a table: characters, ids of both models and the ratio, for each text."""
    from sentencepiece import SentencePieceProcessor

    embedded = SentencePieceProcessor(model_file=str(MODEL))
    other = SentencePieceProcessor(model_file=str(against))
    print("| text | characters | embedded | other | ratio |")
    print("|---|---:|---:|---:|---:|")
    for name, texts in measured_texts(directory, archives):
        ours = sum(len(embedded.encode(text)) for text in texts)
        theirs = sum(len(other.encode(text)) for text in texts)
        size = sum(map(len, texts))
        print(f"| {name} | {size:,} | {ours:,} | {theirs:,} | {ours / theirs:.3f} |")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sources", type=Path, help="directory with the source archives")
    parser.add_argument("--check", action="store_true", help="train, compare, write nothing")
    parser.add_argument("--measure", type=Path, metavar="DIR", help="count ids over these texts")
    parser.add_argument("--against", type=Path, metavar="FILE", help="the model to compare with")
    options = parser.parse_args()

    archives: dict[str, bytes] = {}
    for source in SOURCES:
        if source.archive not in archives:
            data = (options.sources / source.archive).read_bytes()
            if hashlib.sha256(data).hexdigest() != source.sha256:
                raise SystemExit(f"{source.archive}: the sha256 is not {source.sha256}")
            archives[source.archive] = data
    if options.measure:
        if not options.against:
            parser.error("--measure needs --against")
        measure(options.measure, options.against, archives)
        return
    pieces = make_pieces(archives)
    check_pieces(pieces)
    model = model_bytes(pieces)
    digest = hashlib.sha256(model).hexdigest()
    print(f"{FIRST_PIECE + len(pieces)} ids, {len(model)} bytes, sha256 {digest}")
    if options.check:
        if MODEL.read_bytes() != model:
            raise SystemExit("the written file differs")
        return
    MODEL.parent.mkdir(parents=True, exist_ok=True)
    MODEL.write_bytes(model)


if __name__ == "__main__":
    main()
