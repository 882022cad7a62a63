//! Response templates: how the authors of a model say that its completions are read, in the `response_template` of
//! `tokenizer_config.json`.
//!
//! In: version 1 of the template, as transformers defines it. Out: a reader of streams. An anchor that spells a control
//! token is its id, so text that spells it opens and closes nothing.

mod reader;
mod search;
mod value;

use std::sync::Arc;

use chatcodec_vocab::{TokenId, Vocab};
use regex_syntax::hir::Hir;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::event::Part;
pub(crate) use reader::ResponseState;
use search::Pattern;
use value::{Dialect, Parser, placeholder};

/// Most bytes of a response template, as JSON.
const MAX_BYTES: usize = 1 << 20;

/// Most fields of a response template.
const MAX_FIELDS: usize = 64;

/// Deepest nesting of value parsers.
const MAX_DEPTH: usize = 8;

/// Fields of a message whose text is reasoning.
const REASONING: [&str; 5] = ["reasoning_content", "reasoning", "thinking", "thought", "analysis"];

/// A response template: fields of a message, with the texts and patterns that open and close them.
///
/// ```
/// use chatcodec::ResponseTemplate;
///
/// let source = r#"{
///     "version": 1,
///     "start_anchor": "<|im_start|>assistant\n",
///     "fields": {"content": {"close": "<|im_end|>"}}
/// }"#;
/// let template = ResponseTemplate::parse(source)?;
/// assert_eq!(template.fields().collect::<Vec<_>>(), ["content"]);
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ResponseTemplate {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: String,
    start: Hir,
    fields: Vec<Field>,
    /// The field that text belongs to where none is open.
    implicit: Option<usize>,
}

#[derive(Debug)]
struct Field {
    name: String,
    open: Option<Hir>,
    close: Option<Hir>,
    /// The part of a message; none for fields that messages do not have.
    part: Option<Part>,
    content: String,
    arguments: Map<String, Value>,
    join: Option<String>,
    is_required: bool,
    transform: Option<Value>,
    is_each: bool,
}

fn error(key: &str, problem: impl Into<String>) -> Error {
    Error::Format { file: "response_template".into(), key: key.into(), problem: problem.into() }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The members of an object. An unknown key is an error.
fn keys<'v>(value: &'v Value, at: &str, known: &[&str]) -> Result<&'v Map<String, Value>> {
    let Value::Object(keys) = value else {
        return Err(error(at, format!("is {}, expected an object", kind(value))));
    };
    match keys.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => {
            let known = known.join("`, `");
            let key = chatcodec_vocab::place(key);
            Err(error(at, format!("has the key `{key}`, expected keys among `{known}`")))
        }
        None => Ok(keys),
    }
}

/// The value of a key, if it is there and not null.
fn given<'v>(keys: &'v Map<String, Value>, key: &str) -> Option<&'v Value> {
    keys.get(key).filter(|value| !value.is_null())
}

fn flag(keys: &Map<String, Value>, at: &str, key: &str, default: bool) -> Result<bool> {
    match given(keys, key) {
        None => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(other) => {
            Err(error(&format!("{at}.{key}"), format!("is {}, expected a boolean", kind(other))))
        }
    }
}

fn text(keys: &Map<String, Value>, at: &str, key: &str) -> Result<Option<String>> {
    match given(keys, key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => {
            Err(error(&format!("{at}.{key}"), format!("is {}, expected a string", kind(other))))
        }
    }
}

/// An anchor: a text, one of several texts, or a pattern.
fn anchor(keys: &Map<String, Value>, at: &str, key: &str) -> Result<Option<Hir>> {
    let place = |key: &str| if at.is_empty() { key.to_owned() } else { format!("{at}.{key}") };
    let by_pattern = format!("{key}_pattern");
    match (given(keys, key), given(keys, &by_pattern)) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(error(&place(key), format!("is given beside `{by_pattern}`, expected one of them")))
        }
        (Some(texts), None) => {
            let texts = match texts {
                Value::Array(texts) => texts.iter().collect(),
                text => vec![text],
            };
            let texts: Option<Vec<String>> = texts
                .into_iter()
                .map(|text| text.as_str().filter(|text| !text.is_empty()).map(str::to_owned))
                .collect();
            if let Some(texts) = texts.filter(|texts| !texts.is_empty()) {
                return Ok(Some(search::one_of(&texts)));
            }
            let problem =
                "has no text, expected a string of one character at least, or a list of them";
            Err(error(&place(key), problem))
        }
        (None, Some(Value::String(pattern))) => {
            search::parse(pattern).map(Some).map_err(|problem| error(&place(&by_pattern), problem))
        }
        (None, Some(other)) => {
            Err(error(&place(&by_pattern), format!("is {}, expected a string", kind(other))))
        }
    }
}

impl Field {
    fn read(name: &str, value: &Value) -> Result<Self> {
        const KEYS: [&str; 11] = [
            "open",
            "open_pattern",
            "close",
            "close_pattern",
            "content",
            "content_args",
            "repeats",
            "join",
            "optional",
            "transform",
            "transform_each",
        ];
        let at = format!("fields.{}", chatcodec_vocab::place(name));
        let keys = keys(value, &at, &KEYS)?;
        let empty = Value::Object(Map::new());
        let arguments = match given(keys, "content_args").unwrap_or(&empty) {
            Value::Object(arguments) => arguments.clone(),
            other => {
                let problem = format!("is {}, expected an object", kind(other));
                return Err(error(&format!("{at}.content_args"), problem));
            }
        };
        let join = text(keys, &at, "join")?;
        let repeats = flag(keys, &at, "repeats", false)?;
        if join.is_some() && !repeats {
            return Err(error(&format!("{at}.join"), "is given without `repeats`, expected both"));
        }
        let transform = given(keys, "transform").cloned();
        let is_each = flag(keys, &at, "transform_each", false)?;
        if let Some(transform) = &transform {
            check_placeholders(transform, &format!("{at}.transform"))?;
        } else if is_each {
            let problem = "is given without `transform`, expected both";
            return Err(error(&format!("{at}.transform_each"), problem));
        }
        let part = match name {
            "content" => Some(Part::Text),
            "tool_calls" => Some(Part::Action(0)),
            name if REASONING.contains(&name) => Some(Part::Reasoning),
            _ => None,
        };
        Ok(Self {
            open: anchor(keys, &at, "open")?,
            close: anchor(keys, &at, "close")?,
            part,
            content: text(keys, &at, "content")?.unwrap_or_else(|| "text".to_owned()),
            arguments,
            join,
            is_required: !flag(keys, &at, "optional", true)?,
            transform,
            is_each,
            name: name.to_owned(),
        })
    }

    fn at(&self) -> String {
        format!("fields.{}", chatcodec_vocab::place(&self.name))
    }
}

/// A string is a placeholder or has none.
fn check_placeholders(transform: &Value, at: &str) -> Result<()> {
    match transform {
        Value::Object(members) => {
            members.values().try_for_each(|value| check_placeholders(value, at))
        }
        Value::Array(items) => items.iter().try_for_each(|item| check_placeholders(item, at)),
        Value::String(text) if placeholder(text).is_none() && has_placeholder(text) => {
            let text = chatcodec_vocab::place(text);
            let problem = format!(
                "has text beside a placeholder in `{text}`, expected a placeholder alone, or text without one"
            );
            Err(error(at, problem))
        }
        _ => Ok(()),
    }
}

fn has_placeholder(text: &str) -> bool {
    text.match_indices('{').any(|(at, _)| {
        text[at..].find('}').is_some_and(|end| placeholder(&text[at..=at + end]).is_some())
    })
}

impl ResponseTemplate {
    /// Reads a response template, as JSON.
    ///
    /// # Errors
    /// [`Error::Format`] with the key that is wrong.
    pub fn parse(source: &str) -> Result<Self> {
        const KEYS: [&str; 5] =
            ["version", "defaults", "fields", "start_anchor", "start_anchor_pattern"];
        if source.len() > MAX_BYTES {
            let problem = format!("has {} bytes, expected at most {MAX_BYTES}", source.len());
            return Err(error("", problem));
        }
        let spec: Value = serde_json::from_str(source)
            .map_err(|problem| error("", format!("is no JSON: {problem}")))?;
        let keys = keys(&spec, "", &KEYS)?;
        if let Some(version) = given(keys, "version").filter(|version| version.as_i64() != Some(1))
        {
            return Err(error("version", format!("is {version}, expected 1")));
        }
        if let Some(defaults) = given(keys, "defaults").filter(|defaults| !defaults.is_object()) {
            return Err(error("defaults", format!("is {}, expected an object", kind(defaults))));
        }
        let fields = match keys.get("fields") {
            Some(Value::Object(fields)) if !fields.is_empty() => fields,
            _ => return Err(error("fields", "has no field, expected an object of one at least")),
        };
        if fields.len() > MAX_FIELDS {
            let problem = format!("has {} fields, expected at most {MAX_FIELDS}", fields.len());
            return Err(error("fields", problem));
        }
        let read = fields.iter().map(|(name, field)| Field::read(name, field));
        let fields = read.collect::<Result<Vec<_>>>()?;
        let mut implicit = fields.iter().enumerate().filter(|(_, field)| field.open.is_none());
        let first = implicit.next().map(|(at, _)| at);
        if let Some((_, second)) = implicit.next() {
            let problem = "has no `open`, as another field; expected one such field at most";
            return Err(error(&second.at(), problem));
        }
        let Some(start) = anchor(keys, "", "start_anchor")? else {
            let problem = "is missing, expected the text with which an answer begins";
            return Err(error("start_anchor", problem));
        };
        let source = source.to_owned();
        Ok(Self { inner: Arc::new(Inner { source, start, fields, implicit: first }) })
    }

    /// The template, as JSON.
    pub fn source(&self) -> &str {
        &self.inner.source
    }

    /// The names of its fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.inner.fields.iter().map(|field| field.name.as_str())
    }
}

/// A response template whose anchors are ids of one vocabulary.
#[derive(Debug)]
pub(crate) struct BoundResponse {
    template: ResponseTemplate,
    vocab: Vocab,
    /// Ids that stop the model: they mean nothing where no anchor has them.
    stops: Vec<TokenId>,
    start: Pattern,
    opens: Vec<Option<Pattern>>,
    closes: Vec<Option<Pattern>>,
    parsers: Vec<Parser>,
}

impl BoundResponse {
    /// # Errors
    /// [`Error::Format`] with the key of a pattern or a parser that is not supported.
    pub(crate) fn new(
        template: &ResponseTemplate,
        vocab: &Vocab,
        stops: Vec<TokenId>,
    ) -> Result<Self> {
        let compile = |hir: &Option<Hir>, key: String| {
            let made = hir.as_ref().map(|hir| Pattern::new(hir, vocab));
            made.transpose().map_err(|problem| error(&key, problem))
        };
        let Inner { fields, start, .. } = &*template.inner;
        let each = |key: &'static str| {
            move |field: &Field| {
                let hir = if key == "open" { &field.open } else { &field.close };
                compile(hir, format!("{}.{key}", field.at()))
            }
        };
        let parser = |field: &Field| {
            let at = format!("{}.content_args", field.at());
            parser(&field.content, &field.arguments, &at, vocab, MAX_DEPTH)
        };
        Ok(Self {
            start: Pattern::new(start, vocab).map_err(|problem| error("start_anchor", problem))?,
            opens: fields.iter().map(each("open")).collect::<Result<_>>()?,
            closes: fields.iter().map(each("close")).collect::<Result<_>>()?,
            parsers: fields.iter().map(parser).collect::<Result<_>>()?,
            template: template.clone(),
            vocab: vocab.clone(),
            stops,
        })
    }

    /// The template.
    pub(crate) fn template(&self) -> &ResponseTemplate {
        &self.template
    }

    fn fields(&self) -> &[Field] {
        &self.template.inner.fields
    }
}

/// A content parser by its name.
fn parser(
    name: &str,
    arguments: &Map<String, Value>,
    at: &str,
    vocab: &Vocab,
    depth: usize,
) -> Result<Parser> {
    let is_stripped = || flag(arguments, at, "strip", true);
    let value = || match given(arguments, "value_parser") {
        None => Ok(None),
        Some(_) if depth == 0 => {
            Err(error(at, format!("nests more than {MAX_DEPTH} parsers, expected fewer")))
        }
        Some(value) => {
            let at = format!("{at}.value_parser");
            let keys = keys(value, &at, &["name", "args"])?;
            let name = text(keys, &at, "name")?.unwrap_or_else(|| "text".to_owned());
            let empty = Map::new();
            let arguments = given(keys, "args").and_then(Value::as_object).unwrap_or(&empty);
            parser(&name, arguments, &format!("{at}.args"), vocab, depth - 1)
                .map(|p| Some(p.into()))
        }
    };
    Ok(match name {
        "text" => Parser::Text { is_stripped: is_stripped()? },
        "int" => Parser::Int,
        "float" => Parser::Float,
        "bool" => Parser::Bool,
        "json" => {
            let mut dialect = Dialect {
                has_bare_keys: flag(arguments, at, "unquoted_keys", false)?,
                is_lax: flag(arguments, at, "allow_non_json", false)?,
                strings: Vec::new(),
            };
            let strings = given(arguments, "string_delims");
            let pairs: Option<Vec<(&str, &str)>> = match strings {
                None => Some(Vec::new()),
                Some(Value::Array(pairs)) => pairs
                    .iter()
                    .map(|pair| {
                        let pair = pair.as_array().filter(|pair| pair.len() == 2)?;
                        let text = |at: usize| pair[at].as_str().filter(|text| !text.is_empty());
                        Some((text(0)?, text(1)?))
                    })
                    .collect(),
                Some(_) => None,
            };
            let Some(pairs) = pairs else {
                let problem = "is no list of pairs, expected what opens and closes strings";
                return Err(error(&format!("{at}.string_delims"), problem));
            };
            for (open, close) in pairs {
                let symbols = |text| search::spelled(text, vocab);
                dialect.strings.push((symbols(open), symbols(close)));
            }
            Parser::Json(dialect)
        }
        "xml-inline" => {
            let place = format!("{at}.tag_pattern");
            let Some(pattern) = text(arguments, at, "tag_pattern")? else {
                return Err(error(&place, "is missing, expected a pattern with the group `key`"));
            };
            let hir = search::parse(&pattern).map_err(|problem| error(&place, problem))?;
            let pattern = Pattern::new(&hir, vocab).map_err(|problem| error(&place, problem))?;
            let merges = flag(arguments, at, "merge_duplicates", false)?;
            Parser::Tags { pattern, value: value()?, merges }
        }
        "kv-lines" => Parser::Lines {
            line: text(arguments, at, "line_sep")?.unwrap_or_else(|| "\n".to_owned()),
            pair: text(arguments, at, "kv_sep")?.unwrap_or_else(|| ":".to_owned()),
            is_stripped: is_stripped()?,
            value: value()?,
        },
        other => {
            let known = "`text`, `int`, `float`, `bool`, `json`, `xml-inline`, `kv-lines`";
            let other = chatcodec_vocab::place(other);
            let at = at.trim_end_matches("_args");
            return Err(error(at, format!("is `{other}`, expected one of {known}")));
        }
    })
}
