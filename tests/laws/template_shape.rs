//! The control tokens of a template are a function of the conversation's shape, but where a note says that they depend
//! on a text: templates made by chance, with two conversations of one shape. A conversation whose shape came before
//! is written as one of a new shape.

use std::sync::LazyLock;

use crate::common::{Domain, check};
use crate::template_origins::{Choices, HEAD, STATEMENTS};
use chatcodec::{
    Codec, EncodeOptions, Encoding, Error, Format, NoteKind, OnDependent, Owned, ReadOptions,
    Reader, Template, TemplateOptions, TokenId, Vocab,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Statements that write control tokens, under what they look at.
const CONTROL: &[&str] = &[
    "{% if B %}<|im_end|>{% endif %}",
    "{{ '<|im_end|>' if B else '<|im_start|>' }}",
    "{% for i in L %}<|im_end|>{% endfor %}",
    "{% for i in L if B %}<|im_end|>{% else %}<|im_start|>{% endfor %}",
    "{% for i in L if i == T %}<|im_end|>{% endfor %}",
    "{% for i in T %}{{ '<|im_end|>' if loop.last and B }}{% endfor %}",
    "{{ '<|im_end|>' * N }}",
    "{{ T | replace(T, '<|im_end|>') }}",
    "{{ L | join('<|im_end|>') }}",
    "{{ T | indent('<|im_end|>') }}",
    "{{ T | truncate(5, true, '<|im_end|>', 0) }}",
    "<|im_{{ T }}end|>",
    "<|im_{{ T[N:] }}end|>",
    "<|im_{{ T | trim(T) }}end|>",
    "<|im_{{ T.strip() }}end|>",
    "{{ '<|im_end|>'[:N] }}{{ '<|im_end|>' | truncate(N, true, '', 0) }}",
    "{{ D.get(T, '<|im_end|>') }}{{ {T: 'a'}[T] or '<|im_end|>' }}",
    "{{ ['<|im_end|>', 'a'] | sort | first }}{{ [T, '<|im_end|>'] | min }}",
    "{{ {'a': '<|im_end|>'}[T] }}{{ {'a': '<|im_end|>'}.get(T) }}",
    "{{ ('<|im_end|>' ~ T).split(T)[0] }}{{ ('<|im_end|>' ~ T).strip(T) }}",
    "{{ ('<|IM_END|>' ~ T) | lower }}{{ T.join(['<|im_', 'end|>']) }}",
    "{{ '%s<|im_end|>' % T }}{{ '{}<|im_end|>'.format(T) }}",
    "{{ dict(D, a='<|im_end|>').a }}{% for k, v in dict(D, **D) | dictsort %}<|im_end|>{% endfor %}",
    "{% for g in L | groupby('role') %}<|im_end|>{% endfor %}{% for x in L | unique %}<|im_end|>{% endfor %}",
    "{% for x in D %}{% if D[x] == T or x in L %}<|im_end|>{% endif %}{% endfor %}",
    "{% set a, b = (T, T) %}{{ '<|im_end|>' if a != b }}{{ '<|im_end|>' if loop.changed(T) }}",
    "{% macro g(a='<|im_end|>') %}{{ a }}{% endmacro %}{{ g(**D) }}{{ g(*L) }}",
    "{% set n2 = namespace(**D) %}{{ n2.a or '<|im_end|>' }}",
    "{% if messages[0] == messages[1] or T == T %}<|im_end|>{% endif %}",
    "{% if B and V %}<|im_end|>{% endif %}{{ '<|im_end|>' if not V }}",
    "{% for c in L | batch(2) %}{{ '<|im_end|>' if T in c }}{% endfor %}",
    "{{ '<|im_end|>' if L | select('eq', T) | list }}{{ '<|im_end|>' if L | map('lower') | select('in', T) | list }}",
    "{{ range(N) | map('string') | join('<|im_end|>') }}{{ '<|im_end|>' if N }}",
    "{{ V | default('<|im_end|>', true) }}{{ '<|im_end|>' if T | int }}",
    "{{ '<|im_end|>' if T in (L | map('string')) }}",
    "{{ '<|im_end|>' if T is eq(other=T) }}{{ '<|im_end|>' if [T] | select('in', seq=T) | list }}",
];

fn template(choices: &mut Choices) -> String {
    let mut body = choices.filled(CONTROL, 2);
    if choices.below(2) == 1 {
        body += &choices.filled(STATEMENTS, 2);
        body += &choices.filled(CONTROL, 1);
    }
    format!("{HEAD}{body}{{% endfor %}}")
}

/// Texts that templates of this law may look for, and others. None is a word of a closed set, which would be structure.
const TEXTS: &[&str] = &[
    "a",
    "b",
    "c",
    "A",
    "<|a|>",
    " b\n c ",
    "%s|%5s",
    "{}",
    "3",
    "0",
    "7",
    "role",
    "content",
    "<|im_end|>",
    "<|im_start|>",
    "x\ny",
    "  ",
    "\n",
    "é",
    "É",
    "ß",
    "name",
    "Σ",
    "qxz",
    "zzzzzzzzz",
    "a b c d e f",
    "\"",
    "'",
    "lower",
    "items",
    "get",
    "upper",
    "%Y",
    "title",
    "<b>",
    "-1",
    "1e3",
    "a,b",
    "get a",
    "<f>",
];

/// A conversation of the one shape that this law has, with texts and numbers by choice.
fn given(choices: &mut Choices) -> (Value, Value, Vec<(String, Owned)>) {
    let mut key = 0;
    let text = |choices: &mut Choices| TEXTS[choices.below(TEXTS.len())].to_owned();
    let mut name = |choices: &mut Choices| {
        // Names of one object differ.
        key += 1;
        format!("{}{}", TEXTS[choices.below(TEXTS.len())], " ".repeat(key % 3))
    };
    let number = |choices: &mut Choices| [1, 2, 3, 7, -1, 40][choices.below(6)];
    // In these objects some names are those of fields.
    let other_names = [(); 3].map(|()| format!("{}-", name(choices)));
    let mut message = |choices: &mut Choices| {
        json!({
            "role": if choices.below(2) == 0 { "critic".to_owned() } else { text(choices) },
            "content": text(choices), "name": text(choices), "n": number(choices),
            "parts": [{"type": "text", "text": text(choices)}, text(choices)],
            "calls": [{"id": text(choices), "name": text(choices), "arguments": {
                name(choices): text(choices), name(choices): text(choices), name(choices): [number(choices), null, true],
            }}],
        })
    };
    let messages = json!([message(choices), message(choices)]);
    let [parameter, outer, inner] = other_names;
    let tools = json!([{"type": text(choices), "function": {
        "name": text(choices), "parameters": { parameter: text(choices) },
    }}]);
    let documents = json!([{"title": text(choices), outer: { inner: text(choices) }}]);
    let own = |value: &Value| Owned::new("x", value).unwrap_or(Owned::Null);
    let variables = vec![
        ("documents".to_owned(), own(&documents)),
        ("x".to_owned(), own(&json!(text(choices)))),
        ("y".to_owned(), own(&json!(text(choices)))),
        ("n".to_owned(), own(&json!(number(choices)))),
    ];
    (messages, tools, variables)
}

fn encode(
    codec: &Codec,
    choices: &mut Choices,
    on_dependent: OnDependent,
) -> Result<Encoding, Error> {
    let (messages, tools, variables) = given(choices);
    let conversation = codec.read_conversation(&messages, Some(&tools), ReadOptions::default())?;
    let template = TemplateOptions { variables, on_dependent, ..TemplateOptions::default() };
    let options =
        EncodeOptions { add_generation_prompt: Some(false), template, ..EncodeOptions::default() };
    codec.encode_conversation(conversation, &options)
}

fn control(encoding: &Encoding) -> Vec<TokenId> {
    let ids = encoding.ids().iter().zip(encoding.is_control());
    ids.filter(|(_, is_control)| *is_control == 1).map(|(id, _)| *id).collect()
}

fn is_dependent(encoding: &Encoding) -> bool {
    encoding.notes().iter().any(|note| note.kind == NoteKind::Dependent)
}

static PARTS: LazyLock<(Format, Vocab)> = LazyLock::new(|| {
    let format = Format::built_in("internlm2").unwrap_or_else(|e| panic!("internlm2: {e}"));
    (format, Vocab::embedded())
});

#[test]
fn control_is_a_function_of_the_shape_or_noted() {
    let (format, vocab) = &*PARTS;
    let (both, quiet) = (Domain::default(), Domain::default());
    let choices = || vec(any::<u16>(), 0..60);
    check("shape", 2_000, (choices(), choices(), choices()), |(written, one, other)| {
        both.try_one();
        let source = template(&mut Choices::new(written));
        let Ok(template) = Template::parse(&source) else { return Ok(()) };
        let codec = Codec::with_reader(&template, &[], format, vocab, &Reader::Named);
        let codec = codec.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let encoded = |choices: &Vec<u16>, on_dependent| {
            encode(&codec, &mut Choices::new(choices.clone()), on_dependent)
        };
        let report = OnDependent::Template;
        let (Ok(first), Ok(second)) = (encoded(&one, report), encoded(&other, report)) else {
            return Ok(());
        };
        both.is_within();
        quiet.try_one();
        for (choices, encoding) in [(&one, &first), (&other, &second)] {
            let is_refused = encoded(choices, OnDependent::Error).is_err();
            prop_assert_eq!(is_refused, is_dependent(encoding), "{}", source);
        }
        if !is_dependent(&first) && !is_dependent(&second) {
            quiet.is_within();
            prop_assert_eq!(control(&first), control(&second), "{}", source);
        }
        // Where a text is hidden from the template, control is that of the shape too.
        let (first, second) =
            (encoded(&one, OnDependent::Text), encoded(&other, OnDependent::Text));
        let (Ok(first), Ok(second)) = (first, second) else {
            return Err(TestCaseError::fail(source));
        };
        if !is_dependent(&first) && !is_dependent(&second) {
            prop_assert_eq!(control(&first), control(&second), "{}", source);
        }
        Ok(())
    });
    both.check(30);
    quiet.check(30);
}

/// Statements of published templates that search a content, or take the white space from its ends.
const SEARCHES: &[&str] = &[
    "{{ m.content }}",
    "{{ m.content | trim }}",
    "{{ m.content.strip() }}<|im_end|>",
    "{{ m.content.lstrip('\\n') }}",
    "{{ m.content.rstrip('ab') }}",
    "{{ (' ' ~ m.content ~ '\\n') | trim }}",
    "{{ m.content.split('<f>')[-1].lstrip('\\n') }}",
    "{{ m.content | replace('<b>', '') }}",
    "{{ '{}'.replace('{}', m.content) }}",
    "{{ m.content if m.content is string else 'parts' }}",
    "{% if '<f>' in m.content %}<|im_end|>{% endif %}",
    "{% if m.content.startswith('<|a|>') or m.content.endswith('\"') %}<|im_end|>{% endif %}",
    "{% if m.content == 'lower' %}<|im_end|>{% endif %}",
    "{% if m.content in ['get', 'upper'] %}<|im_end|>{% endif %}",
    "{% if m.content not in D %}<|im_end|>{% endif %}",
    "{% if m.content == messages[1].content %}<|im_end|>{% endif %}",
    "{% set c = m.content | trim %}{% if c and c != 'title' and c.find('%Y') == -1 %}{{ c }}{% endif %}",
    "{% set t = messages[0].content ~ messages[1].content %}{{ '<|im_end|>' if '<f>' in t }}{{ t }}",
    "{% if m.content | length > 0 %}{{ m.content }}{% endif %}",
    "{{ m.content | length }}",
    "{% if 'lower' in (messages | map(attribute='content')) %}<|im_end|>{% endif %}",
    "{% if 'lower' is eq(other=m.content) %}<|im_end|>{% endif %}",
    "{{ m.content | replace([], 'X') }}{{ m.content }}",
    "{{ (m.content | length | string).strip('5') }}{{ m.content }}",
    "{{ (m.name ~ m.content) | length }}{{ m.content }}",
    "{{ [m.name ~ m.content] }}",
    "{{ m.content | upper }}{{ m.content | tojson }}",
    "{{ ('<b>' | safe) + m.content }}",
    "{{ dict([(m.content, 1)]) }}{{ {m.content: 1, 'a': 2} | length }}",
    "{{ [m.content, x] | join(', ') }}{{ [m.content] | first }}",
    "{{ messages | map(attribute='content') | select('equalto', 'items') | list | length }}",
];

/// What some of these find, alone or in two contents.
const SEARCHED: &[&str] = &["<f>", "<", "f>", "<b>", "lower"];

/// A conversation, with other contents in the place of its own, and a variable that no template names.
fn with_contents(
    codec: &Codec,
    given: &(Value, Value, Vec<(String, Owned)>),
    contents: [&str; 2],
    nonce: u32,
) -> Result<String, Error> {
    let (mut messages, tools, mut variables) = given.clone();
    for (at, content) in contents.into_iter().enumerate() {
        messages[at]["content"] = json!(content);
    }
    variables.push(("nonce".to_owned(), Owned::new("nonce", &json!(nonce))?));
    let conversation = codec.read_conversation(&messages, Some(&tools), ReadOptions::default())?;
    let template = TemplateOptions { variables, ..TemplateOptions::default() };
    let options =
        EncodeOptions { add_generation_prompt: Some(false), template, ..EncodeOptions::default() };
    let encoding = codec.encode_conversation(conversation, &options)?;
    let paths: Vec<String> =
        encoding.sources().into_iter().map(|source| encoding.path(source)).collect();
    Ok(format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        encoding.text(),
        encoding.ids(),
        encoding.is_control(),
        encoding.offsets(),
        paths,
        encoding.assistant_mask(),
        encoding.dropped(),
        encoding.notes(),
    ))
}

#[test]
fn a_shape_that_came_before_is_written_as_a_new_one() {
    let (format, vocab) = &*PARTS;
    let both = Domain::default();
    let choices = || vec(any::<u16>(), 0..60);
    check("known shapes", 1_000, (choices(), choices(), choices()), |(written, one, texts)| {
        both.try_one();
        let mut written = Choices::new(written);
        let mut body = String::new();
        for _ in 0..=written.below(4) {
            body += &match written.below(4) {
                0 => written.filled(STATEMENTS, 1),
                1 => written.filled(CONTROL, 1),
                _ => written.filled(SEARCHES, 1),
            };
        }
        let source = format!("{HEAD}{body}{{% endfor %}}");
        let Ok(template) = Template::parse(&source) else { return Ok(()) };
        let codec = Codec::with_reader(&template, &[], format, vocab, &Reader::Named);
        let codec = codec.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let given = given(&mut Choices::new(one));
        let mut texts = Choices::new(texts);
        let mut text = || match texts.below(2) {
            0 => TEXTS[texts.below(TEXTS.len())],
            _ => SEARCHED[texts.below(SEARCHED.len())],
        };
        for plain in [["a", "c"], ["1", "é"]] {
            let _ = with_contents(&codec, &given, plain, 0);
        }
        for nonce in 1..6 {
            let contents = [text(), text()];
            let known = with_contents(&codec, &given, contents, 0);
            let new = with_contents(&codec, &given, contents, nonce);
            if known.is_ok() {
                both.is_within();
            }
            prop_assert_eq!(known, new, "{}, {:?}", source, contents);
        }
        Ok(())
    });
    both.check(30);
}
