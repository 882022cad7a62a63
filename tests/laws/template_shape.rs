//! The control tokens of a template are a function of the conversation's shape, but where a note says that they depend
//! on a text: templates made by chance, with two conversations of one shape.

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
