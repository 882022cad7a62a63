"""Templates are untrusted: whatever one does, it ends soon and in little memory, with a text or a typed error."""

# Templates are long lines.
# ruff: noqa: E501
from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import data
import jinja2
import pytest
import template_oracle as oracle
from chatcodec import Codec, Template, Vocab
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 256 << 20
"""Bytes of memory beside what a process has when it has loaded the library."""

HANG = 60
"""Seconds after which a template hangs; on a quiet machine each ends in one."""

WORKER = """
import json, resource, sys
from chatcodec import Codec, Template, Vocab
from chatcodec.errors import ChatCodecError
VOCAB = Vocab.embedded()
def run(source, content, binds):
    messages = [{"role": "user", "content": content}]
    template = Template(source, bos_token="<s>", eos_token="<|im_end|>")
    if not binds:
        return template.render(messages).text
    codec = Codec(template, vocab=VOCAB)
    return codec.encode(messages).text
run("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}", "a", True)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
for line in sys.stdin:
    try:
        answer = ["text", run(*json.loads(line))]
    except ChatCodecError as error:
        answer = [type(error).__name__, str(error)]
    print(json.dumps(answer), flush=True)
"""


class Worker:
    """A process in which a template may do its worst."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER.replace("BYTES", str(LIMIT))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
        )
        return self.process

    def run(self, source: str, content: str = "q", *, binds: bool = False) -> list[str]:
        """What becomes of a template: `text` or the name of an error, and its text."""
        process = self.process or self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        answers: queue.Queue[str] = queue.Queue()
        process.stdin.write(json.dumps([source, content, binds]) + "\n")
        process.stdin.flush()
        reads = threading.Thread(target=lambda: answers.put(process.stdout.readline()), daemon=True)  # type: ignore[union-attr]
        reads.start()
        try:
            answer = answers.get(timeout=HANG)
        except queue.Empty:
            self.stop()
            return ["hang", ""]
        if not answer:
            code, text = process.wait(), process.stderr.read() if process.stderr else ""
            self.stop()
            return [f"exit {code}", text]
        found: list[str] = json.loads(answer)
        return found

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()
            self.process = None


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    if sys.platform != "linux":
        pytest.skip("limits of memory are Linux's")
    started = Worker()
    yield started
    started.stop()


WRITES = "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"

NEST = "{% set ns = namespace(x=[]) %}{% for a in range(100000) %}{% set ns.x = WHAT %}{% endfor %}"
SHARE = "{% set ns = namespace(x=E, y=E) %}{% for a in range(60) %}{% set ns.x = X %}{% set ns.y = Y %}{% endfor %}"
PAIRS = {"list": ("[]", "[N, N]"), "tuple": ("()", "(N, N)"), "dict": ("{}", "{'a': N, 'b': N}")}
LONG = "{% set s = 'a' * 4000000 %}{% for i in range(100000) %}{% set x = WHAT %}{% endfor %}"
MANY = "{% set l = range(100000)|list %}{% for i in range(100000) %}{% set x = WHAT %}{% endfor %}"
DICT = "{% set d = dict(range(100000)|batch(2)|list) %}{% for i in range(100000) %}{% set x = WHAT %}{% endfor %}"


def shared(kind: str, what: str) -> str:
    empty, pair = PAIRS[kind]
    made = SHARE.replace("X", pair.replace("N", "ns.x")).replace("Y", pair.replace("N", "ns.y"))
    return made.replace("E", empty) + "{{ " + what + " }}"


NESTS = """[ns.x]  (ns.x,)  {'a': ns.x}  [{'a': (ns.x,)}]  {1: ns.x}.items()  [ns.x]|map('d')  [ns.x.count]
cycler(ns.x)  joiner(ns.x)  [ns.x][:1]  [ns.x]|batch(1)|list  dict(a=ns.x)  [ns.x]|reverse  ([ns.x])|groupby(0)"""

SHARES = """ns.x == ns.y  ns.x != ns.y  ns.x < ns.y  ns.x in [ns.y]  [ns.y].count(ns.x)  [ns.y].index(ns.x)
ns.x is eq ns.y  [ns.x, ns.y]|sort  [ns.x, ns.y]|min  [[ns.x], [ns.y]]|groupby(0)  ns.x  ns.x|tojson  ns.x|string
'%s' % [ns.x]  '{}'.format(ns.x)  ns.x ~ ''  [ns.x]|join  ns.x|upper  ns.x|tojson(indent=1000)  ns.x|e  ns.x|trim
[ns.x]|select('in', [ns.y])|list  raise_exception(ns.x)  [ns.x, ns.y]|unique|list  {ns.x: 1, ns.y: 2}|length
dict([(ns.x, 1), (ns.y, 2)])|length  '%r' % [ns.x]"""

LONGS = """s[-1]  s[-1:]  s[3000000]  s|last  s|first  s[:1]  s[1:]  s|length  s == s  s in s  s|reverse  s.find('b')
s.count('a')  s|upper  s|lower  s|title  s[::-1]  s.strip('b')  s|int  s|float  s.split('a', 1)  s ~ 'a'  s + 'a'
s.startswith(s)  s.rfind('b')  s|urlencode  s|e  s.replace('b', 'c')  s|replace('', 'b')  s|wordcount  s|truncate(3)
s|indent  s|tojson  s|list  [s]|join  '%s' % s  '{}'.format(s)  s.zfill(4000001)  s.isalpha()  s.partition('b')
[s, s]|sort  {s: 1}[s]  s|attr(s)  x[s]  dict(**{s: 1})  s.splitlines()  [1]|map(attribute=s)|list  strftime_now(s)
[1, 2]|sort(attribute='a,' * 1000000)  range(100000)|groupby('a.' * 1000000)  range(9)|map(attribute='a.' * 1000000)|list"""

MANIES = """l[1:]  l|reverse  l|list  l == l[:]  l[-1]  l|last  l + l  l * 2  -1 in l  l.count(1)  l|sum  l|max  l|sort
l|unique|list  l|batch(2)|list  l|slice(2)|list  l|join  l|string  l|tojson  l|map('string')|list  l|select|list
l|select('in', l)|list  l.index(99999)  l|slice(1000000000)|list  cycler(*l)  '%d' * 100000 % l|list  l|map('default', *l)|list"""

DICTS = "d.items()  d.values()  d == dict(d)  d|dictsort  d|list  d|tojson  d|string  d.get(5)  -5 in d  dict(d)"


def each(words: str) -> list[str]:
    return [word for line in words.split("\n") for word in line.split("  ")]


MACROS = "".join(f"{{% macro a{i}() %}}{{% endmacro %}}" for i in range(25000))
PARAMETERS = ",".join(f"a{i}=1" for i in range(5000))

HOSTILE = {
    **{f"nest {what}": NEST.replace("WHAT", what) for what in each(NESTS)},
    **{f"share {kind} {what}": shared(kind, what) for kind in PAIRS for what in each(SHARES)},
    **{f"long {what}": LONG.replace("WHAT", what) for what in each(LONGS)},
    **{f"many {what}": MANY.replace("WHAT", what) for what in each(MANIES)},
    **{f"dict {what}": DICT.replace("WHAT", what) for what in each(DICTS)},
    "namespaces in namespaces": "{% set ns = namespace(x=0) %}{% for a in range(99999) %}{% set ns.x = namespace(y=ns.x) %}{% endfor %}",
    "a namespace in itself": "{% set ns = namespace(a=1) %}{% set ns.x = [ns, ns] %}{{ ns }}",
    "macros in macros": "{% set ns = namespace(x=0) %}{% macro f(p) %}{% macro g() %}{% endmacro %}{% set ns.x = g %}{% endmacro %}"
    "{% for a in range(99999) %}{% set q = f(ns.x) %}{% endfor %}",
    "call blocks": "{% set ns = namespace(x=0) %}{% macro f(p) %}{% set ns.x = caller %}{% endmacro %}"
    "{% for a in range(99999) %}{% set p = ns.x %}{% call f(1) %}{{ p }}{% endcall %}{% endfor %}",
    "loops in loops": "{% set ns = namespace(x=0) %}{% macro f(p) %}{% for a in [1] recursive %}{% set ns.x = loop %}{% endfor %}{% endmacro %}"
    "{% for a in range(99999) %}{% set q = f(ns.x) %}{% endfor %}",
    "a loop that has changed": "{% for b in range(99999) %}{% set x = loop.changed(loop) %}{% endfor %}",
    "macros that call themselves": "{% macro f(n) %}{% if n > 1 %}{{ f(n - 1) }}{{ f(n - 2) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "loops that call themselves": "{% for x in [[1, [2]]] recursive %}{{ loop([[1]]) }}{{ loop([[1]]) }}{% endfor %}",
    "many macros": MACROS,
    "macros in a loop": "{% for i in range(100000) %}{% macro a() %}{% endmacro %}{% endfor %}",
    "many parameters": f"{{% macro f({PARAMETERS}) %}}{{% endmacro %}}{{% for i in range(100000) %}}{{{{ f({PARAMETERS}) }}}}{{% endfor %}}",
    "many characters": "{% for c in 'a' * 4000000 %}{% endfor %}",
    "many words": "{{ ('a ' * 2000000).split()|length }}",
    "a long text": "{{ 'é' * 2000000 }}",
    "many runs": "{% for i in range(100000) %}{% for m in messages %}{{ m.content }}a{% endfor %}{% endfor %}",
    "a text that doubles": "{% set ns = namespace(c='a') %}{% for i in range(99) %}{% set ns.c = ns.c ~ ns.c %}{% endfor %}",
    "many sets": "".join(f"{{% set a{i} = 1 %}}" for i in range(60000)),
    "many words to look for": "{% if x in ["
    + ",".join(f"'s{i}'" for i in range(80000))
    + "] %}{% endif %}",
    "a long name": "{% for i in range(100000) %}{{ messages[0]." + "a" * 900000 + " }}{% endfor %}",
    "a long chain": "{{ a" + ".b" * 200000 + " }}",
    "a long sum": "{{ a" + "+a" * 200000 + " }}",
    "many prints": "{{a}}" * 150000,
    "numbers that are none": "{{ ([('nan'|float), 1, 2, 3, ('nan'|float), 0] * 100)|sort|length }}",
    "an indent of JSON": "{{ [[[[1]]]]|tojson(indent='a' * 3000000) }}",
    "digits": "{% for a in range(99999) %}{% set x = '%.300f' % 2.5 ~ 1.2|round(300) %}{% endfor %}",
    "times": "{% for a in range(99999) %}{% set x = strftime_now('%A %B %d %Y') %}{% endfor %}",
}

ENDS = {"text", "TemplateError", "MessageError", "FormatError"}


def chosen() -> list[str]:
    """All hostile templates in a long run, else some of each kind."""
    return (
        list(HOSTILE)
        if data.LONG
        else [
            name
            for nth, name in enumerate(HOSTILE)
            if nth % 3 == 0 or " " not in name or name.startswith(("nest", "ma", "a "))
        ]
    )


@pytest.mark.parametrize("name", chosen())
def test_a_hostile_template_ends_and_leaves_the_process_alive(worker: Worker, name: str) -> None:
    end, text = worker.run(HOSTILE[name] + WRITES)
    assert end in ENDS, text
    assert end == "text" or len(text) < 1000


@pytest.mark.parametrize(
    "name",
    ["nest [ns.x]", "share list ns.x == ns.y", "share dict ns.x|tojson", "many macros", "a long text", "long s|urlencode",
     "many runs", "macros in macros", "a loop that has changed", "many l|unique|list"],
)  # fmt: skip
def test_a_codec_of_a_hostile_template_is_made_or_refused(worker: Worker, name: str) -> None:
    end, text = worker.run(HOSTILE[name] + WRITES, binds=True)
    assert end in ENDS, text


@pytest.mark.parametrize("what", ["c[-1]", "c[-1:]", "c[4000000]", "c|last", "c|upper", "c[1:]", "c|length"])  # fmt: skip
def test_the_text_of_a_caller_is_charged_too(worker: Worker, what: str) -> None:
    source = f"{{% set c = messages[0].content %}}{{% for i in range(20000) %}}{{% set x = {what} %}}{{% endfor %}}"
    end, text = worker.run(source, "x" * 8_000_000)
    assert end in ENDS, text


def test_a_slow_template_still_has_a_codec() -> None:
    slow = "{% for i in range(20000) %}{% set x = [i] %}{% endfor %}"
    turns = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    prompt = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    template = Template(slow + turns + prompt, eos_token="<|im_end|>")  # noqa: S106
    codec = Codec(template, vocab=Vocab.embedded())
    encoding = codec.encode([{"role": "user", "content": "hi"}])
    assert encoding.text == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"


def test_long_conversations_are_far_from_the_bounds() -> None:
    source = (
        "{% set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}{% endfor %}"
        + WRITES
    )
    messages = [{"role": "user", "content": "word " * 16}] * 10_000
    assert Template(source).render(messages).text.count("<|im_end|>") == 10_000
    whole = "{{ messages[0].content|trim|replace('b', 'c')|upper|lower }}"
    assert (
        Template(whole).render([{"role": "user", "content": "a" * 8_000_000}]).text
        == "a" * 8_000_000
    )


def test_ranges_are_made_again_and_again() -> None:
    source = "{% for m in messages %}{% for j in range(loop.index0, -1, -1) %}{% endfor %}{% endfor %}{{ 'x' }}"
    assert Template(source).render([{"role": "user", "content": "q"}] * 3000).text == "x"


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read as Linux shows it")
@pytest.mark.parametrize(
    "source",
    [
        "{% macro f() %}{% endmacro %}",
        "{% set ns = namespace(m=messages) %}{% set ns.x = ns %}",
        "{% for m in messages %}{% set x = loop.changed(loop) %}{% endfor %}",
        "{% macro f() %}{{ caller() }}{% endmacro %}{% set m = messages %}{% call f() %}{% endcall %}",
        "{% for m in messages recursive %}{% set l = loop %}{% endfor %}",
    ],
)
def test_nothing_of_a_rendering_stays(source: str) -> None:
    template = Template(source)
    messages = [{"role": "user", "content": "x" * 8_000_000}]

    def held() -> int:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    template.render(messages)
    before = held()
    for _ in range(20):
        template.render(messages)
    assert held() - before < 80 << 20


INTERRUPTED = """
import os, signal, threading
from chatcodec import Template

ticks = 0
def tick():
    global ticks
    while not done.wait(0.01):
        ticks += 1
        if ticks == 20:
            os.kill(os.getpid(), signal.SIGINT)

done = threading.Event()
# So many values have many steps: ten seconds.
messages = [{"role": "user", "content": "q"}] * 200_000
source = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
template = Template(source)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=tick, daemon=True).start()
try:
    template.render(messages)
except KeyboardInterrupt:
    print("interrupted after", 20 <= ticks < 1000)
done.set()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_a_rendering_hears_an_interrupt_and_lets_other_threads_work() -> None:
    # In a process of its own: others of this one may hear signals.
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "interrupted after True\n", done.stderr


# Structures that double and nest, long texts and ranges, with any operation of the language on them.

ATOMS = st.sampled_from(
    ["1", "'a'", "''", "[]", "()", "{}", "ns.x", "ns.y", "s", "l", "d", "messages", "range(1000)", "none", "2.5", "undefined_", "'%s'", "true", "ns", "loop"]
)  # fmt: skip
FILTERS = st.sampled_from(
    ["abs", "capitalize", "count", "dictsort", "e", "escape", "first", "float", "forceescape", "int", "items", "join", "last", "length", "list", "lower", "max", "min", "reverse", "round", "safe", "sort", "string", "sum", "title", "tojson", "trim", "unique", "upper", "urlencode", "wordcount", "batch(2)", "slice(3)", "center(9)", "replace('a','bb')", "indent", "default(1)", "truncate(3)", "map('string')|list", "select|list", "reject('odd')|list", "groupby(0)", "map(attribute='a')|list", "attr('a')", "format(1)", "tojson(indent=2)", "sort(reverse=true)"]
)  # fmt: skip
METHODS = st.sampled_from(
    ["upper()", "split()", "split('a')", "strip()", "items()", "keys()", "values()", "count('a')", "index(1)", "find('a')", "join(l)", "get('a')",
     "replace('a', 'aa')", "startswith('a')", "title()", "splitlines()", "zfill(50)", "copy()", "x", "a", "changed(1)", "format(1)"]
)  # fmt: skip
OPERATORS = st.sampled_from(["+", "-", "*", "~", "==", "!=", "<", "in", "%", "//", "and", "or"])
SLICES = st.sampled_from(["[-1]", "[0]", "[1:]", "[:-1]", "[::-1]", "['a']", "[1:3]", "[::2]"])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.builds("({}|{})".format, inner, FILTERS)
        | st.builds("({}).{}".format, inner, METHODS)
        | st.builds("({} {} {})".format, inner, OPERATORS, inner)
        | st.builds("({}){}".format, inner, SLICES)
        | st.builds("[{}, {}]".format, inner, inner)
        | st.builds("({}, {})".format, inner, inner)
        | st.builds("{{'a': {}, 'b': {}}}".format, inner, inner)
        | st.builds("namespace(a={})".format, inner)
        | st.builds("({} if {} else {})".format, inner, inner, inner)
    )


EXPRESSIONS = st.recursive(ATOMS, grown, max_leaves=5)


def block(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    bodies = st.lists(inner, min_size=1, max_size=3).map("".join)
    counts = st.sampled_from(["range(3)", "range(60)", "range(100000)", "l", "ns.x", "s"])
    return (
        st.builds("{{% for a in {} %}}{}{{% endfor %}}".format, counts, bodies)
        | st.builds("{{% if {} %}}{}{{% endif %}}".format, EXPRESSIONS, bodies)
        | st.builds("{{% set s %}}{}{{% endset %}}".format, bodies)
        | st.builds("{{% macro f(p) %}}{}{{% endmacro %}}{{{{ f(ns.x) }}}}".format, bodies)
        | st.builds("{{% macro f(p) %}}{{{{ caller() }}}}{{% endmacro %}}{{% call f(1) %}}{}{{% endcall %}}".format, bodies)
    )  # fmt: skip


STATEMENTS = (
    st.builds("{{% set ns.x = {} %}}".format, EXPRESSIONS)
    | st.builds("{{% set ns.y = {} %}}".format, EXPRESSIONS)
    | st.builds("{{{{ {} }}}}".format, EXPRESSIONS)
)
TEMPLATES = st.lists(st.recursive(STATEMENTS, block, max_leaves=6), max_size=4).map("".join)

HEAD = "{% set ns = namespace(x=[1], y=['a']) %}{% set s = 'aB é' * SIZE %}{% set l = range(SIZE)|list %}{% set d = dict(l|batch(2)|list) %}"


def of_jinja(source: str, messages: list[dict[str, Any]]) -> str | None:
    """What jinja2 writes; none where it fails or takes long."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 3)
    try:
        return oracle.environment().from_string(source).render(messages=messages, **oracle.OWN)
    except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    except (AttributeError, MemoryError, RecursionError, TimeoutError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@settings(
    max_examples=600 if data.LONG else 60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(TEMPLATES, st.sampled_from(["10", "1000", "100000"]))
def test_any_template_ends_with_the_text_of_jinja_or_an_error(
    worker: Worker, source: str, size: str
) -> None:
    source = HEAD.replace("SIZE", size) + source
    end, text = worker.run(source)
    assert end in ENDS, (end, text, source)
    if end == "text" and size == "10" and "range(100000)" not in source:
        expected = of_jinja(source, [{"role": "user", "content": "q"}])
        assert expected is None or text == expected, source
