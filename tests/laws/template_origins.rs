//! No text of a caller's becomes the template's own: expressions and statements of jinja2, made by chance, over values
//! whose texts, keys and numbers are marked.

use crate::common::{Domain, check};
use chatcodec::{RenderOptions, Template};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Characters that no template of this law spells, and that no change of case gives.
const MARKS: std::ops::RangeInclusive<char> = '\u{4e00}'..='\u{9fff}';

/// Digits of the caller's numbers, which no template of this law spells.
const NUMBER: i64 = 7_777_777;
const DIGITS: &str = "777";

/// How escapes of the marks begin.
const ESCAPES: [&str; 2] = ["\\u4e", "%E4"];

/// Choices of what to write next; the first of each when they are used up.
pub(crate) struct Choices(std::vec::IntoIter<u16>);

impl Choices {
    pub(crate) fn new(choices: Vec<u16>) -> Self {
        Self(choices.into_iter())
    }

    pub(crate) fn below(&mut self, count: usize) -> usize {
        usize::from(self.0.next().unwrap_or(0)) % count
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// One of the patterns, with expressions in its places: `T` a text, `N` a number, `L` a list, `D` a dict, `B` a
    /// condition, `V` any value.
    pub(crate) fn filled(&mut self, patterns: &[&str], depth: usize) -> String {
        let mut filled = String::new();
        for c in self.of(patterns).chars() {
            match c {
                'T' => filled += &self.text(depth),
                'N' => filled += &self.number(depth),
                'L' => filled += &self.list(depth),
                'D' => filled += &self.dict(depth),
                'B' => filled += &self.condition(depth),
                'V' => filled += &self.value(depth),
                c => filled.push(c),
            }
        }
        filled
    }

    fn either(&mut self, atoms: &[&str], patterns: &[&str], depth: usize) -> String {
        if depth == 0 || self.below(4) == 0 {
            return self.of(atoms).to_owned();
        }
        self.filled(patterns, depth - 1)
    }

    fn text(&mut self, depth: usize) -> String {
        self.either(TEXTS, OF_TEXT, depth)
    }

    fn number(&mut self, depth: usize) -> String {
        self.either(NUMBERS, OF_NUMBER, depth)
    }

    fn list(&mut self, depth: usize) -> String {
        self.either(LISTS, OF_LIST, depth)
    }

    fn dict(&mut self, depth: usize) -> String {
        self.either(DICTS, OF_DICT, depth)
    }

    fn condition(&mut self, depth: usize) -> String {
        self.either(CONDITIONS, OF_CONDITION, depth)
    }

    fn value(&mut self, depth: usize) -> String {
        match self.below(5) {
            0 => self.number(depth),
            1 => self.list(depth),
            2 => self.dict(depth),
            _ => self.text(depth),
        }
    }
}

const TEXTS: &[&str] = &[
    "m.content",
    "m.role",
    "m['name']",
    "x",
    "y",
    "call.name",
    "call.id",
    "tools[0].function.name",
    "part.text",
    "messages[1].content",
    "documents[0].title",
    "'<|a|>'",
    "' b\\n c '",
    "bos_token",
    "''",
    "'%s|%5s'",
    "'{}|{:>5}'",
];
const OF_TEXT: &[&str] = &[
    "(T ~ V)",
    "(T + T)",
    "(T * 2)",
    "(T if B else T)",
    "(T or T)",
    "(T and T)",
    "T[0]",
    "T[1:]",
    "T[::-1]",
    "T[:N]",
    "('%s' % T)",
    "('%5s|%-5s' % (T, T))",
    "('%(a)s' % {'a': T})",
    "('%05d|%x' % (N, N))",
    "('%.2f' % N)",
    "(T % T)",
    "('%r' % V)",
    "V|string",
    "V|tojson",
    "V|tojson(indent=1)",
    "V|tojson(indent=T)",
    "V|tojson(sort_keys=true)",
    "V|tojson(separators=(T, T))",
    "V|tojson(ensure_ascii=true)",
    "L|join(T)",
    "L|join(T, attribute=T)",
    "T.join(L)",
    "T|upper",
    "T|lower",
    "T|title",
    "T|capitalize",
    "T|trim",
    "T|trim(T)",
    "T|replace(T, T)",
    "T|replace(T, T, 1)",
    "T|center(20)",
    "T|center(N)",
    "T|indent",
    "T|indent(T)",
    "T|indent(2, true, true)",
    "T|truncate(9, true, T)",
    "T|truncate(9, false, T, 0)",
    "T|escape",
    "T|forceescape",
    "T|safe",
    "T|urlencode",
    "T|reverse",
    "T|first",
    "T|last",
    "T|default(T)",
    "T|d(T, true)",
    "L|first|string",
    "L|last|string",
    "L|min|string",
    "L|max|string",
    "L|random",
    "T|format(V)",
    "'%(a)s'|format(a=T)",
    "'%(a)s'|format(**{'a': T})",
    "'%(é)s'|format(**D)",
    "T.upper()",
    "T.lower()",
    "T.casefold()",
    "T.swapcase()",
    "T.capitalize()",
    "T.title()",
    "T.strip()",
    "T.strip(T)",
    "T.lstrip(T)",
    "T.rstrip()",
    "T.removeprefix(T)",
    "T.removesuffix(T)",
    "T.replace(T, T)",
    "T.replace(T, T, N)",
    "T.center(9, T[0])",
    "T.ljust(9, T[0])",
    "T.rjust(9)",
    "T.zfill(9)",
    "T.format(V, V)",
    "'{a}'.format(a=T)",
    "'{a}'.format(**{'a': T})",
    "'{0.content}{1[0]!r}'.format(m, L)",
    "'{:>9}{:.3}'.format(T, T)",
    "T.split(T)[0]",
    "T.rsplit(T, 1)[-1]",
    "T.partition(T)[2]",
    "T.rpartition(T)[0]",
    "T.splitlines()[0]",
    "mac(T)",
    "mac(a=T)",
    "mac(b=T, **D)",
    "mac(*L)",
    "mac(**{x: y})",
    "cyc.next()",
    "cyc.current",
    "join()",
    "strftime_now(T)",
    "strftime_now(form=T)",
    "(T|e ~ T)",
    "ns.a|string",
    "ns|string",
    "loop.cycle(T, T)",
    "(D|list)|first|string",
    "(V|string)",
    "D[T]|string",
    "D.get(T, T)|string",
    "(L|map('upper')|list)|join",
    "mac.name",
    "T|wordwrap(3)",
    "T|striptags",
    "T|xmlattr",
    "T|urlize",
    "D|xmlattr",
    "T.translate(D)",
    "T.maketrans(D)",
    "T.expandtabs()",
    "T.encode()",
    "'%c' % N",
];
const NUMBERS: &[&str] = &["2", "0", "n", "m.n", "1.5", "loop.index"];
const OF_NUMBER: &[&str] = &[
    "(N + N)",
    "(N - N)",
    "(N * 2)",
    "(N // 3)",
    "(N % 5)",
    "(N / 2)",
    "(-N)",
    "N|abs",
    "N|round",
    "N|round(1, 'floor')",
    "T|length",
    "L|length",
    "L|count",
    "D|length",
    "T|int",
    "T|int(N)",
    "T|float",
    "N|float",
    "T|wordcount",
    "T.find(T)",
    "T.rfind(T)",
    "T.count(T)",
    "T.index(T)",
    "L.index(V)",
    "L.count(V)",
    "L|sum",
    "L|map('length')|sum",
    "(N ** 2)",
    "(N if B else N)",
];
const LISTS: &[&str] = &[
    "messages",
    "m.parts",
    "[x, y, 'c']",
    "tools",
    "['b', x]",
    "range(3)",
    "documents",
    "[n, 2]",
    "[]",
];
const OF_LIST: &[&str] = &[
    "[V, V]",
    "(L + L)",
    "(L * 2)",
    "L[1:]",
    "L[::-1]",
    "(T, T)",
    "D.keys()|list",
    "D.values()|list",
    "D.items()|list",
    "D|list",
    "D|items|list",
    "D|dictsort",
    "D|dictsort(false, 'value')",
    "L|list",
    "T|list",
    "L|reverse|list",
    "L|sort",
    "L|sort(attribute=T)",
    "L|unique|list",
    "L|map('upper')|list",
    "L|map('string')|list",
    "L|map(attribute=T)|list",
    "L|map(attribute='content', default=T)|list",
    "L|select|list",
    "L|select('string')|list",
    "L|reject('in', L)|list",
    "L|selectattr(T)|list",
    "L|selectattr('role', 'eq', T)|list",
    "L|rejectattr('a')|list",
    "L|batch(2, T)|list",
    "L|slice(2, T)|list",
    "L|groupby('role')",
    "L|groupby(T)",
    "L|groupby('role', default=T)",
    "T.split()",
    "T.split(T)",
    "T.splitlines()",
    "T.splitlines(true)",
    "T.rsplit(T)",
    "T.partition(T)",
    "range(N)",
    "L.copy()",
    "L|map('tojson')|list",
    "L|map('replace', T, T)|list",
    "L|map('default', T)|list",
    "L|map('trim', T)|list",
    "L|map('join', T)|list",
    "(L if B else L)",
];
const DICTS: &[&str] =
    &["m", "args", "call", "documents[0]", "{'a': x}", "{x: 'a'}", "tools[0]", "{}", "{n: n}"];
const OF_DICT: &[&str] = &[
    "{T: V}",
    "{T: V, 'a': V}",
    "dict(D)",
    "dict(a=V)",
    "dict(**D)",
    "dict(D, **D)",
    "dict([(T, V)])",
    "dict(D.items())",
    "D.copy()",
    "(D if B else D)",
    "L|first",
    "{'é': T}",
];
const CONDITIONS: &[&str] = &["true", "false", "x", "n", "loop.first"];
const OF_CONDITION: &[&str] = &[
    "T == T",
    "V == V",
    "T in T",
    "T in L",
    "T in D",
    "N < N",
    "not B",
    "(B and B)",
    "(B or B)",
    "V is string",
    "V is defined",
    "V is mapping",
    "T is eq T",
    "T.startswith(T)",
    "T.endswith(T)",
    "T.isupper()",
    "V is none",
    "V",
    "T is in L",
    "join.changed(T)",
    "loop.changed(T)",
    "N is odd",
    "T is lower",
];
pub(crate) const STATEMENTS: &[&str] = &[
    "{{ T }}",
    "{{ V }}",
    "{{ T }}",
    "{{ T ~ V }}",
    "{% if B %}{{ T }}{% else %}<b>{% endif %}",
    "{% for i in L %}{{ i }}<i>{{ loop.index }}{% endfor %}",
    "{% for k, v in D.items() %}{{ k }}={{ v }}{% endfor %}",
    "{% for k in D %}{{ k }}{{ D[k] }}{% endfor %}",
    "{% for i in L if B %}{{ i }}{% else %}{{ T }}{% endfor %}",
    "{% for i in L recursive %}{{ i }}{{ loop(L) if loop.depth < 3 }}{% endfor %}",
    "{% set z = V %}{{ z }}{{ [z, z] }}",
    "{% set z %}{{ T }}<s>{% endset %}{{ z }}{{ z|length }}{{ z|upper }}",
    "{% set z | replace(T, T) %}{{ T }}<s>{% endset %}{{ z }}",
    "{% set ns.a = V %}{{ ns.a }}{{ ns }}",
    "{% set o = namespace(**D) %}{{ o }}{{ o.a }}",
    "{% set o = namespace(D) %}{{ o }}",
    "{% set p, q = (V, V) %}{{ p }}{{ q }}",
    "{% filter upper %}<f>{{ T }}{% endfilter %}",
    "{% filter replace(T, T) %}<f>{{ T }}{% endfilter %}",
    "{% filter indent(T) %}{{ T }}\n{{ T }}{% endfilter %}",
    "{% filter trim | title %}{{ T }}{% endfilter %}",
    "{% macro f(a, b=T) %}[{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{{ kwargs | tojson }}]{% endmacro %}{{ f(V, V, V, c=V, **D) }}",
    "{% macro f(a) %}{{ caller(a) }}{{ caller(V, *L) }}{% endmacro %}{% call(i) f(T) %}<c>{{ i }}{% endcall %}",
    "{% macro f() %}{% for k, v in kwargs.items() %}{{ k }}{{ v }}{% endfor %}{% endmacro %}{{ f(**D) }}{{ f(**{T: V}) }}",
    "{% set j = joiner(T) %}{{ j() }}a{{ j() }}",
    "{% set c = cycler(T, V) %}{{ c.next() }}{{ c.current }}{{ c.next() }}",
    "{% with z = V %}{{ z }}{{ z | tojson }}{% endwith %}",
    "{% generation %}{{ T }}<g>{% endgeneration %}",
    "{{ raise_exception(T) if B and N == 3 }}",
    "{{ T.foo }}{{ V[T] }}",
    "{{ L }}{{ L|string|upper }}",
    "{{ D }}{{ D|tojson }}",
];

/// What each template of the law begins with: names for the caller's values.
pub(crate) const HEAD: &str = "{% set ns = namespace(a=x) %}{% set cyc = cycler(x, 'c') %}{% set join = joiner(y) %}\
    {% macro mac(a='', b='') %}<m>{{ a }}{{ b }}{{ kwargs }}{{ varargs }}{% endmacro %}\
    {% for m in messages %}{% set call = m.calls[0] %}{% set args = call.arguments %}{% set part = m.parts[0] %}";

fn template(choices: Vec<u16>) -> String {
    let mut choices = Choices::new(choices);
    let count = 1 + choices.below(3);
    let body: Vec<String> = (0..count).map(|_| choices.filled(STATEMENTS, 3)).collect();
    format!("{HEAD}{}{{% endfor %}}", body.join("<|t|>"))
}

/// Messages, tools and variables, each of whose texts and keys is marked but for the names of fields.
fn given() -> (Value, Vec<(&'static str, Value)>) {
    let message = |role: &str, one: char, other: char| {
        json!({
            "role": role,
            "content": format!("{one} {other}\n{one}%s{{}}'{other}\""),
            "name": format!("{one}{one}"),
            "n": NUMBER,
            "parts": [{"type": "text", "text": format!(" {other}-{one} ")}, format!("{one}")],
            "calls": [{"id": format!("{other}"), "name": format!("{one}_{other}"), "arguments": {
                format!("{one}"): format!("{other}"), "é": format!("{one},"), format!("{other} b"): [NUMBER, null, true],
            }}],
        })
    };
    let messages = json!([
        message("\u{4e10}", '\u{4e11}', '\u{4e12}'),
        message("\u{4e13}", '\u{4e14}', '\u{4e15}')
    ]);
    let tools = json!([{"type": "\u{4e16}", "function": {"name": "\u{4e17}", "parameters": {"\u{4e18}": "\u{4e19}"}}}]);
    let documents = json!([{"title": "\u{4e1a}%Y", "\u{4e1b}": {"\u{4e1c}": "\u{4e1d}"}}]);
    let variables = vec![
        ("tools", tools),
        ("documents", documents),
        ("x", json!("\u{4e20}%d")),
        ("y", json!(" \u{4e21}\n\u{4e22}")),
        ("n", json!(NUMBER)),
    ];
    (messages, variables)
}

#[test]
fn text_of_the_template_is_the_templates() {
    let (messages, variables) = given();
    let variables: Vec<(&str, &Value)> =
        variables.iter().map(|(name, value)| (*name, value)).collect();
    let own = [("bos_token".to_owned(), "<bos>".to_owned())];
    // As Python does: what is no directive stays.
    let now = |format: &str| Some(format.replace("%Y", "2026").replace("%d", "27"));
    let domain = Domain::default();
    check("origins", 3_000, vec(any::<u16>(), 0..60), |choices| {
        domain.try_one();
        let source = template(choices);
        let options = RenderOptions { add_generation_prompt: true, own: &own, now: &now };
        let rendered = Template::parse(&source)
            .and_then(|template| template.render(&messages, &variables, &options));
        let Ok(rendered) = rendered else { return Ok(()) };
        let mut end = 0;
        for run in rendered.runs() {
            prop_assert_eq!(run.text.start, end, "{}", source);
            end = run.text.end;
            let text = &rendered.text()[run.text];
            let is_marked = text.contains(|c| MARKS.contains(&c))
                || text.contains(DIGITS)
                || ESCAPES.iter().any(|escape| text.contains(escape));
            prop_assert!(
                run.path.is_some() || !is_marked,
                "{:?} of the template in {}",
                text,
                source
            );
        }
        prop_assert_eq!(end, rendered.text().len(), "{}", source);
        domain.is_within();
        Ok(())
    });
    domain.check(40);
}
