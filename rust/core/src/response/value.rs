//! The value of a field's text: its content parser, its transform, and the calls in it.
//!
//! In: the symbols between a field's open and close. Out: a value; of the field `tool_calls` the calls. JSON stays as
//! the model wrote it.

use chatcodec_vocab::Vocab;
use hashbrown::HashMap;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::search::{self, Pattern, Symbol, text_of};
use crate::json::quote_into;
use crate::schema::{Kinds, ToolTypes};

/// A content parser, bound to a vocabulary.
#[derive(Debug)]
pub(super) enum Parser {
    Text { is_stripped: bool },
    Int,
    Float,
    Bool,
    Json(Dialect),
    Tags { pattern: Pattern, value: Option<Box<Parser>>, merges: bool },
    Lines { line: String, pair: String, is_stripped: bool, value: Option<Box<Parser>> },
}

/// How JSON differs from the standard's.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    pub(super) has_bare_keys: bool,
    /// What opens and closes a string, beside quotes.
    pub(super) strings: Vec<(Vec<Symbol>, Vec<Symbol>)>,
    /// Whether text that is no JSON is a string.
    pub(super) is_lax: bool,
}

/// A value. JSON is kept as text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Text(String),
    Json(String),
    List(Vec<Data>),
    Map(Vec<(String, Data)>),
}

/// What a call says.
#[derive(Debug, PartialEq)]
pub(super) struct Called {
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) id: Option<String>,
}

/// JSON's members or items, as texts.
struct Parts(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Parts;

            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("an object or a list")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Parts, A::Error> {
                let mut parts = Members::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    parts.set(key, value.get().to_owned());
                }
                Ok(Parts(parts.list))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parts, A::Error> {
                let mut parts = Vec::new();
                while let Some(value) = list.next_element::<&RawValue>()? {
                    parts.push((String::new(), value.get().to_owned()));
                }
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// Members by their keys. The last value of a key counts, at the place of the first.
struct Members<T> {
    list: Vec<(String, T)>,
    places: HashMap<String, usize>,
}

impl<T> Members<T> {
    fn new() -> Self {
        Self { list: Vec::new(), places: HashMap::new() }
    }

    fn get_mut(&mut self, key: &str) -> Option<&mut T> {
        let place = self.places.get(key)?;
        self.list.get_mut(*place).map(|(_, value)| value)
    }

    fn set(&mut self, key: String, value: T) {
        if let Some(known) = self.get_mut(&key) {
            *known = value;
            return;
        }
        self.places.insert(key.clone(), self.list.len());
        self.list.push((key, value));
    }
}

impl Data {
    fn of_json(text: &str) -> Option<Self> {
        let text = text.trim();
        serde_json::from_str::<&RawValue>(text).ok()?;
        Some(Self::Json(text.to_owned()))
    }

    /// The members of an object.
    fn members(&self) -> Option<Vec<(String, Self)>> {
        match self {
            Self::Map(members) => Some(members.clone()),
            Self::Json(text) if text.starts_with('{') => {
                let parts = serde_json::from_str::<Parts>(text).ok()?;
                Some(parts.0.into_iter().map(|(key, value)| (key, Self::Json(value))).collect())
            }
            _ => None,
        }
    }

    fn get(&self, key: &str) -> Option<Self> {
        self.members()?.into_iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    fn items(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) => Some(items.clone()),
            Self::Json(text) if text.starts_with('[') => {
                let parts = serde_json::from_str::<Parts>(text).ok()?;
                Some(parts.0.into_iter().map(|(_, value)| Self::Json(value)).collect())
            }
            _ => None,
        }
    }

    fn as_text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Json(text) => serde_json::from_str(text).ok(),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Json(text) if text == "null")
    }

    fn write(&self, out: &mut String) {
        let list = |out: &mut String, ends: [char; 2], parts: &mut dyn Iterator<Item = String>| {
            out.push(ends[0]);
            out.push_str(&parts.collect::<Vec<_>>().join(", "));
            out.push(ends[1]);
        };
        match self {
            Self::Text(text) => quote_into(text, out),
            Self::Json(text) => out.push_str(text),
            Self::List(items) => list(out, ['[', ']'], &mut items.iter().map(Self::json)),
            Self::Map(members) => {
                let mut members = members.iter().map(|(key, value)| {
                    let mut text = String::new();
                    quote_into(key, &mut text);
                    text.push_str(": ");
                    value.write(&mut text);
                    text
                });
                list(out, ['{', '}'], &mut members);
            }
        }
    }

    /// The value as JSON.
    fn json(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }
}

impl Parser {
    /// The value of symbols.
    ///
    /// # Errors
    /// What they are not.
    pub(super) fn parse(&self, symbols: &[Symbol], vocab: &Vocab) -> Result<Data, &'static str> {
        let text = || text_of(symbols, vocab);
        match self {
            Self::Text { is_stripped: true } => Ok(Data::Text(text().trim().to_owned())),
            Self::Text { is_stripped: false } => Ok(Data::Text(text())),
            Self::Int => match text().trim().parse::<i128>() {
                Ok(number) => Ok(Data::Json(number.to_string())),
                Err(_) => Err("no integer"),
            },
            Self::Float => match text().trim().parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Data::Json(number.to_string())),
                _ => Err("no number"),
            },
            Self::Bool => {
                let is_true = ["true", "1"].contains(&text().trim().to_lowercase().as_str());
                Ok(Data::Json(is_true.to_string()))
            }
            Self::Json(dialect) => match Data::of_json(&dialect.standard(symbols, vocab)) {
                Some(value) => Ok(value),
                None if dialect.is_lax => Ok(Data::Text(text().trim().to_owned())),
                None => Err("no JSON"),
            },
            Self::Tags { pattern, value, merges } => {
                let mut members: Members<Data> = Members::new();
                for (_, groups) in search::find_all(pattern, symbols) {
                    let group = |name| groups.get(name).map(|place| &symbols[place.clone()]);
                    let Some(key) = group("key") else { return Err("a tag without a key") };
                    let key = text_of(key, vocab);
                    let read = parsed(value.as_deref(), group("value").unwrap_or(&[]), vocab)?;
                    match members.get_mut(&key) {
                        Some(Data::List(all)) if *merges => all.push(read),
                        // A list takes the next value, even one that a single tag spelled.
                        Some(known) if *merges => {
                            let mut all = known.items().unwrap_or_else(|| vec![known.clone()]);
                            all.push(read);
                            *known = Data::List(all);
                        }
                        _ => members.set(key, read),
                    }
                }
                Ok(Data::Map(members.list))
            }
            Self::Lines { line, pair, is_stripped, value } => {
                let trimmed = |text: &str| {
                    let text = if *is_stripped { text.trim() } else { text };
                    text.to_owned()
                };
                let mut members = Members::new();
                for line in text().split(line.as_str()) {
                    let line = trimmed(line);
                    let Some((key, text)) = line.split_once(pair.as_str()) else { continue };
                    let symbols = search::spelled(&trimmed(text), vocab);
                    members.set(trimmed(key), parsed(value.as_deref(), &symbols, vocab)?);
                }
                Ok(Data::Map(members.list))
            }
        }
    }
}

/// The value of a member, by the parser of members if there is one.
fn parsed(
    parser: Option<&Parser>,
    symbols: &[Symbol],
    vocab: &Vocab,
) -> Result<Data, &'static str> {
    match parser {
        Some(parser) => parser.parse(symbols, vocab),
        None => Ok(Data::Text(text_of(symbols, vocab))),
    }
}

impl Dialect {
    /// The text as JSON of the standard.
    fn standard(&self, symbols: &[Symbol], vocab: &Vocab) -> String {
        let mut out = String::new();
        let mut at = 0;
        let mut plain = at;
        // What closes no string from here on is not looked for again.
        let mut is_over = vec![false; self.strings.len()];
        while at < symbols.len() {
            let delimiters = self.strings.iter().zip(&mut is_over);
            let string = delimiters.into_iter().find_map(|((open, close), is_over)| {
                let inner = symbols[at..].strip_prefix(&open[..]).filter(|_| !*is_over)?;
                let end = inner.windows(close.len()).position(|window| window == &close[..]);
                *is_over = end.is_none();
                let end = end?;
                Some((&inner[..end], open.len() + end + close.len()))
            });
            match string {
                Some((inner, length)) => {
                    self.write_plain(&symbols[plain..at], &mut out, vocab);
                    quote_into(&text_of(inner, vocab), &mut out);
                    at += length;
                    plain = at;
                }
                None => at += 1,
            }
        }
        self.write_plain(&symbols[plain..], &mut out, vocab);
        out
    }

    /// Writes the text between strings that have delimiters of their own.
    fn write_plain(&self, symbols: &[Symbol], out: &mut String, vocab: &Vocab) {
        let text = text_of(symbols, vocab);
        if !self.has_bare_keys {
            out.push_str(&text);
            return;
        }
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', ',']) {
            let (head, tail) = rest.split_at(at + 1);
            out.push_str(head);
            let key = tail.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(tail.len());
            if key > 0 && tail[key..].starts_with(':') {
                quote_into(&tail[..key], out);
                rest = &tail[key..];
            } else {
                rest = tail;
            }
        }
        out.push_str(rest);
    }
}

/// A transform with the values that its placeholders name: `{content.arguments}`.
///
/// # Errors
/// What a placeholder does not find.
pub(super) fn transformed(
    transform: &Value,
    scope: &[(String, Data)],
) -> Result<Data, &'static str> {
    Ok(match transform {
        Value::Object(members) => {
            let made = members
                .iter()
                .map(|(key, value)| transformed(value, scope).map(|value| (key.clone(), value)));
            Data::Map(made.collect::<Result<_, _>>()?)
        }
        Value::Array(items) => {
            let made = items.iter().map(|item| transformed(item, scope));
            Data::List(made.collect::<Result<_, _>>()?)
        }
        Value::String(text) => {
            let Some(path) = placeholder(text) else { return Ok(Data::Text(text.clone())) };
            let mut keys = path.split('.');
            let root = keys.next().unwrap_or_default();
            let known = scope.iter().find(|(name, _)| name == root);
            let mut value = known.ok_or("a placeholder without a value")?.1.clone();
            for key in keys {
                value = value.get(key).ok_or("a placeholder without a value")?;
            }
            value
        }
        other => Data::Json(other.to_string()),
    })
}

/// The path in a placeholder.
pub(super) fn placeholder(text: &str) -> Option<&str> {
    let path = text.strip_prefix('{')?.strip_suffix('}')?;
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    path.split('.').all(is_word).then_some(path)
}

/// The value of a field: each item of a list separately, if so asked.
///
/// # Errors
/// What it is not.
pub(super) fn of_field(
    content: Data,
    transform: Option<&Value>,
    is_each: bool,
    captures: Vec<(String, Data)>,
) -> Result<Data, &'static str> {
    let Some(transform) = transform else { return Ok(content) };
    if !is_each {
        return transformed(transform, &scope_of(captures, [("content".into(), content)]));
    }
    let items = content.items().ok_or("no list")?;
    let made = items.iter().map(|item| {
        let members = item.members().ok_or("no object")?;
        transformed(transform, &scope_of(captures.clone(), members))
    });
    Ok(Data::List(made.collect::<Result<_, _>>()?))
}

/// Captures, and members that hide captures of their names.
fn scope_of(
    captures: Vec<(String, Data)>,
    members: impl IntoIterator<Item = (String, Data)>,
) -> Vec<(String, Data)> {
    let mut scope = Members::new();
    captures.into_iter().chain(members).for_each(|(key, value)| scope.set(key, value));
    scope.list
}

/// The calls of a value: one, or a list of them.
///
/// # Errors
/// What is no call.
pub(super) fn calls_of(value: &Data, tools: &ToolTypes) -> Result<Vec<Called>, &'static str> {
    if let Some(items) = value.items() {
        return items.iter().map(|item| call_of(item, tools)).collect();
    }
    Ok(vec![call_of(value, tools)?])
}

fn call_of(value: &Data, tools: &ToolTypes) -> Result<Called, &'static str> {
    let function = value.get("function").filter(|function| function.members().is_some());
    let function = function.unwrap_or_else(|| value.clone());
    let name =
        function.get("name").and_then(|name| name.as_text()).ok_or("a call without a name")?;
    let id = value.get("id").and_then(|id| id.as_text());
    let arguments = function.get("arguments").filter(|arguments| !arguments.is_null());
    let arguments = match arguments {
        None => "{}".to_owned(),
        Some(arguments) => match arguments.as_text() {
            Some(text) => text,
            None => typed(arguments, &name, tools).json(),
        },
    };
    Ok(Called { name, arguments, id })
}

/// The arguments with texts of other types than text, where the tool's schema asks for them.
fn typed(arguments: Data, name: &str, tools: &ToolTypes) -> Data {
    let (Some(types), Some(members)) = (tools.of(name), arguments.members()) else {
        return arguments;
    };
    let mut is_other = false;
    let members = members
        .into_iter()
        .map(|(key, value)| {
            let read = value.as_text().and_then(|text| coerced(&text, types.kinds(&key)));
            is_other |= read.is_some();
            (key, read.unwrap_or(value))
        })
        .collect();
    if is_other { Data::Map(members) } else { arguments }
}

/// A text as a value of one of these kinds; none if it is text.
fn coerced(text: &str, kinds: Kinds) -> Option<Data> {
    if kinds == Kinds::ANY || kinds == Kinds::STRING {
        return None;
    }
    let word = text.trim();
    let lower = word.to_lowercase();
    let read = match (lower.as_str(), word) {
        ("true" | "1", _) if kinds.have("true") && !kinds.have(word) => "true".to_owned(),
        ("false" | "0", _) if kinds.have("true") && !kinds.have(word) => "false".to_owned(),
        (_, "None" | "null") if kinds.have("null") => "null".to_owned(),
        _ if kinds.have(word) => word.to_owned(),
        // A whole number that is written as `3.0`.
        _ if kinds.have("1") => match word.parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && number.abs() < 9e15 => format!("{number:.0}"),
            _ => return None,
        },
        _ => return None,
    };
    Data::of_json(&read)
}
