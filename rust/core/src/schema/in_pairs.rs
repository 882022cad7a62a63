//! The language of tagged pairs: the keys of a schema with their values. Strings are bare, other values are JSON.
//!
//! `<parameter=days>5</parameter><parameter=city>Rome</parameter>` is `{"days": 5, "city": "Rome"}`.

use std::borrow::Cow;

use hashbrown::HashSet;
use serde_json::{Map, Value};

use super::strings::{self, Style};
use super::values::{self, JSON, LIKE_JSON, Members, Values, members, restricted, restricting};
use super::{Kinds, kinds_of};
use crate::error::{Error, Result};
use crate::expression::{Expression, Part, Rules, escape_regex, shortest, spelling_between};
use crate::path::Path;
use crate::word::is_word_byte;

/// The words with which a tag says what a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KindWords {
    /// Whether the value is a string: `true`, `false`.
    IsString,
    /// The type of the value, as JSON Schema names it; numbers have one.
    Types,
}

impl KindWords {
    /// Each word with the kinds of value that it names.
    pub(crate) fn all(self) -> &'static [(&'static str, Kinds)] {
        match self {
            Self::IsString => &[("true", Kinds::STRING), ("false", Kinds::OTHER)],
            Self::Types => &[
                ("string", Kinds::STRING),
                ("number", Kinds::NUMBER),
                ("boolean", Kinds::BOOLEAN),
                ("null", Kinds::NULL),
                ("object", Kinds::OBJECT),
                ("array", Kinds::ARRAY),
            ],
        }
    }

    /// The words that name one of these kinds.
    pub(crate) fn of(self, kinds: Kinds) -> impl Iterator<Item = (&'static str, Kinds)> {
        self.all().iter().copied().filter(move |(_, known)| known.meets(kinds))
    }
}

/// How pairs are spelled.
pub(crate) struct Pairs<'a> {
    /// The tags before a key, between the key and its value, and after the value.
    pub(crate) open: Expression,
    pub(crate) between: Expression,
    pub(crate) close: Expression,
    /// The text of tags right before a value, and right after it.
    pub(crate) before: String,
    pub(crate) after: String,
    /// The tag that closes a value, if it is a text.
    pub(crate) closer: Option<&'a str>,
    /// The tags that end a value where they begin a line.
    pub(crate) line_tags: Vec<&'a str>,
    /// The first such tag in a text.
    pub(crate) tag_in: &'a dyn Fn(&str) -> Option<&'a str>,
    /// A key as it is written, if a tag can hold the key.
    pub(crate) key: &'a dyn Fn(&str) -> Option<String>,
    /// A string as it is written.
    pub(crate) string: &'a dyn Fn(&str) -> String,
    /// The text before the word that says what a value is, and the words.
    pub(crate) kind: Option<(&'a str, KindWords)>,
    /// The texts around some strings, and the texts in a string that call for them.
    pub(crate) wrap: Option<([&'a str; 2], &'a [String])>,
    /// Words for true, false and null that are no JSON, with what they mean.
    pub(crate) words: Vec<(&'static str, &'static str)>,
}

/// The language of the arguments that follow a schema, which is at `path`.
///
/// # Errors
/// A keyword of the schema that cannot be followed.
pub(crate) fn arguments_in_pairs(
    style: &Pairs<'_>,
    schema: &Value,
    rules: &mut Rules,
    path: Path<'_>,
) -> Result<Expression> {
    let ends: Vec<String> = rules.ends().to_vec();
    let ends_between = |open: &str, close: &str| {
        let before = [&*style.before, open].concat();
        let after = [close, &*style.after].concat();
        let texts = style.closer.into_iter().chain(ends.iter().map(String::as_str));
        spelling_between(texts, &before, &after)
    };
    let in_json = ends_between("\"", "\"");
    // A tag at the beginning of a line also ends a value.
    let tags = shortest(style.line_tags.iter().map(|tag| escape_regex(tag)).collect());
    let on_line = (!tags.is_empty()).then(|| format!(r"(.*\n)?[ \t]*({}).*", tags.join("|")));
    let mut in_text = ends_between("", "");
    in_text.extend(on_line.clone());
    // The text in a wrap may hold what closes the wrap: only the end of the value closes it.
    let mut in_wrap = Vec::new();
    if let Some(([open, close], when)) = style.wrap {
        in_wrap = ends_between(open, close);
        in_wrap.extend(on_line);
        in_text.extend(when.iter().map(|when| format!(".*{}.*", escape_regex(when))));
    }
    let values = Values::new(schema, rules, JSON, in_json);
    let mut language = Language { style, schema, values, ends, in_text, in_wrap };
    let keys = language.values.arguments(path)?;
    match members(&keys, path)? {
        Members::Any(schema) => {
            let in_keys = language.ends.iter().filter(|end| end.bytes().all(is_word_byte));
            let except = spelling_between(in_keys.map(String::as_str), "", "");
            let regex = "[A-Za-z_][A-Za-z0-9_]{0,63}".to_owned();
            let key = Expression::part(Part::Regex { regex, also: Vec::new(), except });
            let pair = language.pair_of(key, schema, path.key("additionalProperties"))?;
            Ok(Expression::Repeat(Box::new(pair), 0, None))
        }
        Members::Named(named) => {
            let mut pairs = Vec::new();
            let properties = path.key("properties");
            for (name, part, is_required) in named {
                let is_key = |written: &String| {
                    !language.ends.iter().any(|end| written.contains(end.as_str()))
                        && !written.contains(['"', '\'', '<', '>', '\n'])
                };
                let Some(written) = (style.key)(name).filter(is_key) else {
                    let problem =
                        "is the name of a property that no tag can hold, expected another";
                    return Err(Error::message(properties.key(name), problem));
                };
                let pair =
                    language.pair_of(Expression::literal(written), part, properties.key(name))?;
                pairs.push(if is_required { pair } else { pair.optional() });
            }
            Ok(Expression::sequence(pairs))
        }
    }
}

struct Language<'a, 'p> {
    style: &'a Pairs<'p>,
    schema: &'a Value,
    values: Values<'a>,
    /// The texts that end a call.
    ends: Vec<String>,
    /// The expressions that no bare text may match.
    in_text: Vec<String>,
    /// The expressions that no text in a wrap may match.
    in_wrap: Vec<String>,
}

impl Language<'_, '_> {
    /// A pair; where the tag of the key says whether the value is a string, a choice of these.
    fn pair_of(&mut self, key: Expression, part: &Value, path: Path<'_>) -> Result<Expression> {
        let Some((attribute, kind_words)) = self.style.kind else {
            let value = self.value(part, path)?;
            self.check_listed(&value, path)?;
            return Ok(self.pair(key, value));
        };
        let mut ways = Vec::new();
        for (kinds, value) in self.typed_values(part, path)? {
            self.check_listed(&value, path)?;
            for (word, _) in kind_words.of(kinds) {
                let attribute = Expression::literal([attribute, word].concat());
                let between = self.style.between.clone();
                let key = Expression::sequence([key.clone(), attribute, between]);
                let value = match kinds {
                    Kinds::OTHER if kind_words == KindWords::Types => self.of_type(word, path)?,
                    _ => value.clone(),
                };
                ways.push(self.pair_after(key, value));
            }
        }
        Ok(Expression::choice(ways))
    }

    /// Checks that no text which a schema lists ends the value or the call.
    fn check_listed(&self, value: &Expression, path: Path<'_>) -> Result<()> {
        let texts = self.ends.iter().map(String::as_str);
        let texts: Vec<&str> = texts.chain(self.style.closer).collect();
        match spelled(value, &texts, self.values.rules, &mut HashSet::new()) {
            None => Ok(()),
            Some(end) => Err(ending(end, path)),
        }
    }

    /// What a reader would end a text at: a tag that begins a line of the text, or a marker that the text spells, or
    /// spells together with the tags beside it.
    fn end_in(&self, text: &str) -> Option<&str> {
        let style = self.style;
        let whole = [&*style.before, text, &*style.after].concat();
        let end = self.ends.iter().find(|end| whole.contains(end.as_str()));
        end.map(String::as_str).or_else(|| (style.tag_in)(text))
    }

    /// Any value of a type.
    fn of_type(&mut self, word: &str, path: Path<'_>) -> Result<Expression> {
        self.values.value(&serde_json::json!({ "type": word }), path)
    }

    /// The values by a schema with their kinds, strings and others apart.
    fn typed_values(&mut self, part: &Value, path: Path<'_>) -> Result<Vec<(Kinds, Expression)>> {
        let kinds = kinds_of(part, self.schema);
        if !kinds.meets(Kinds::STRING) {
            return Ok(vec![(kinds, self.values.value(part, path)?)]);
        }
        let flat = match part {
            Value::Object(keys) => self.values.flat(keys, path)?,
            _ => Cow::Owned(Map::new()),
        };
        let keys = flat.into_owned();
        values::check(&keys, path)?;
        if kinds == Kinds::STRING {
            return Ok(vec![(kinds, self.text(&keys, path)?)]);
        }
        let text = Expression::part(Part::Any { except: self.in_text.clone() });
        if restricting(&keys).next().is_none() {
            return Ok(vec![(Kinds::STRING, text), (Kinds::OTHER, self.values.any_but_string())]);
        }
        let mut all = Vec::new();
        let are_apart = each_way(&keys, path, &mut |part, place| {
            all.extend(self.typed_values(part, place)?);
            Ok(())
        })?;
        if are_apart {
            return Ok(all);
        }
        let problem = "is a schema of strings and other values, expected their types in `type`, `anyOf` or `oneOf`; \
                       `strict=False` takes any arguments";
        Err(Error::message(path, problem))
    }

    fn pair(&self, key: Expression, value: Expression) -> Expression {
        self.pair_after(Expression::sequence([key, self.style.between.clone()]), value)
    }

    /// A pair, with a key and the tags after it.
    fn pair_after(&self, key: Expression, value: Expression) -> Expression {
        let value = closed(value, &self.style.close);
        Expression::sequence([self.style.open.clone(), key, value])
    }

    /// A value by its schema.
    fn value(&mut self, part: &Value, path: Path<'_>) -> Result<Expression> {
        let kinds = kinds_of(part, self.schema);
        if !kinds.meets(Kinds::STRING) {
            let value = self.values.value(part, path)?;
            return Ok(self.with_words(value, kinds, part));
        }
        let flat = match part {
            Value::Object(keys) => self.values.flat(keys, path)?,
            _ => Cow::Owned(Map::new()),
        };
        let keys = &*flat;
        values::check(keys, path)?;
        if kinds == Kinds::STRING {
            return self.text(keys, path);
        }
        // Text that is not JSON is a string.
        let mut except = self.in_text.clone();
        except.extend(LIKE_JSON.map(str::to_owned));
        let text = Expression::choice(
            [Expression::part(Part::Any { except })].into_iter().chain(self.wrapped(any_except)),
        );
        if restricting(keys).next().is_none() {
            let other = self.values.any_but_string();
            return Ok(Expression::choice([text, self.with_words(other, kinds, part)]));
        }
        let mut all = Vec::new();
        let are_types = keys.get("type").is_some_and(Value::is_array);
        let are_apart = each_way(keys, path, &mut |part, place| {
            if kinds_of(part, self.schema) != Kinds::STRING {
                all.push(self.value(part, place)?);
                return Ok(());
            }
            if are_types {
                check(keys, path)?;
            } else {
                self.check_any_string(part, place)?;
            }
            all.push(text.clone());
            Ok(())
        })?;
        if are_apart {
            return Ok(Expression::choice(all));
        }
        let problem = "is a schema of strings and other values, which are spelled alike between tags, expected one type; \
                       `strict=False` takes any arguments";
        Err(Error::message(path, problem))
    }

    /// Checks that a schema of strings admits all of them: what else restricts a string would be lost.
    fn check_any_string(&mut self, part: &Value, path: Path<'_>) -> Result<()> {
        let Value::Object(keys) = part else { return Ok(()) };
        let keys = self.values.flat(keys, path)?;
        let other = restricting(&keys).find(|key| *key != "type");
        other.map_or(Ok(()), |keyword| Err(unfollowed(keyword, path)))
    }

    /// A value of some kinds, or a word of the format for one of these kinds, where the schema admits what the word
    /// means.
    fn with_words(&self, value: Expression, kinds: Kinds, part: &Value) -> Expression {
        let is_admitted = |json: &str| {
            let meant = serde_json::from_str(json).unwrap_or_default();
            kinds.meets(Kinds::of_json(json)) && values::admits(part, &meant, self.schema)
        };
        let own = self.style.words.iter().filter(|(_, meant)| is_admitted(meant));
        let words = own.map(|(word, _)| Expression::literal(*word));
        Expression::choice([value].into_iter().chain(words))
    }

    /// A string without quotes.
    fn text(&self, keys: &Map<String, Value>, path: Path<'_>) -> Result<Expression> {
        let listed = keys.get("enum").and_then(Value::as_array).cloned();
        let constant = keys.get("const").map(|value| vec![value.clone()]);
        if let Some(values) = constant.or(listed) {
            let others = restricting(keys).find(|key| !matches!(*key, "const" | "enum" | "type"));
            if let Some(keyword) = others {
                return Err(unfollowed(keyword, path));
            }
            let texts = values.iter().filter_map(Value::as_str);
            let texts: Vec<String> = texts.map(self.style.string).collect();
            if let Some(end) = texts.iter().find_map(|text| self.end_in(text)) {
                return Err(ending(end, path));
            }
            let texts: Vec<Expression> = texts.into_iter().map(Expression::literal).collect();
            if !texts.is_empty() {
                return Ok(Expression::choice(texts));
            }
        }
        let is_own = |key: &&str| *key == "type" || strings::KEYWORDS.contains(key);
        if let Some(keyword) = restricting(keys).find(|key| !is_own(key)) {
            return Err(unfollowed(keyword, path));
        }
        if keys.keys().all(|key| !strings::KEYWORDS.contains(&&**key)) {
            return Ok(self.bare_or_wrapped(any_except));
        }
        let (regex, also) = restricted(Style::Bare, keys, path)?;
        Ok(self.bare_or_wrapped(|except| {
            let (regex, also) = (regex.clone(), also.clone());
            Expression::part(Part::Regex { regex, also, except })
        }))
    }

    /// A text, given the expressions that it may not match: bare, or in the wrap.
    fn bare_or_wrapped(&self, text: impl Fn(Vec<String>) -> Expression) -> Expression {
        let bare = text(self.in_text.clone());
        Expression::choice([bare].into_iter().chain(self.wrapped(text)))
    }

    /// A text in the wrap, if there is one.
    fn wrapped(&self, text: impl Fn(Vec<String>) -> Expression) -> Option<Expression> {
        let ([open, close], _) = self.style.wrap?;
        let inside = text(self.in_wrap.clone());
        let [open, close] = [open, close].map(Expression::literal);
        Some(Expression::sequence([open, inside, close]))
    }
}

/// Calls `way` with the schema of each kind of value, where `type`, `anyOf` or `oneOf` tells them apart; returns whether
/// one of them does.
fn each_way(
    keys: &Map<String, Value>,
    path: Path<'_>,
    way: &mut dyn FnMut(&Value, Path<'_>) -> Result<()>,
) -> Result<bool> {
    if let Some(Value::Array(types)) = keys.get("type") {
        for kind in types {
            let mut keys = keys.clone();
            keys.insert("type".to_owned(), kind.clone());
            way(&Value::Object(keys), path)?;
        }
        return Ok(true);
    }
    let several = ["anyOf", "oneOf"].into_iter().find(|keyword| keys.contains_key(*keyword));
    if let Some(keyword) = several
        && let Some(Value::Array(parts)) = keys.get(keyword)
        && restricting(keys).count() == 1
    {
        let list = path.key(keyword);
        for (at, part) in parts.iter().enumerate() {
            way(part, list.item(at))?;
        }
        return Ok(true);
    }
    Ok(false)
}

/// The first of some texts that a literal text of a language spells. `seen` are the rules that were looked at.
fn spelled<'t>(
    language: &Expression,
    texts: &[&'t str],
    rules: &Rules,
    seen: &mut HashSet<usize>,
) -> Option<&'t str> {
    let spells = |literal: &str| texts.iter().copied().find(|text| literal.contains(text));
    match language {
        Expression::Sequence(all) | Expression::Choice(all) => {
            all.iter().find_map(|inner| spelled(inner, texts, rules, seen))
        }
        Expression::Repeat(inner, ..) => spelled(inner, texts, rules, seen),
        Expression::Rule(number) if seen.insert(*number) => {
            spelled(&rules.get(*number), texts, rules, seen)
        }
        Expression::Literal(text) => spells(text),
        Expression::Text(parts) => parts.iter().find_map(|part| match part {
            Part::Literal(text) => spells(text),
            _ => None,
        }),
        _ => None,
    }
}

/// Any text that matches none of some expressions.
fn any_except(except: Vec<String>) -> Expression {
    Expression::part(Part::Any { except })
}

/// A value with the tags that close it. Text and the tags are one terminal: a lexer takes the longest text.
fn closed(value: Expression, close: &Expression) -> Expression {
    match value {
        Expression::Choice(all) => {
            Expression::choice(all.into_iter().map(|value| closed(value, close)))
        }
        value => Expression::sequence([value, close.clone()]),
    }
}

/// Checks that no keyword restricts a bare string.
fn check(keys: &Map<String, Value>, path: Path<'_>) -> Result<()> {
    let is_own = |key: &&str| {
        ["enum", "const", "allOf", "not"].contains(key) || strings::KEYWORDS.contains(key)
    };
    let found = restricting(keys).find(is_own);
    found.map_or(Ok(()), |keyword| Err(unfollowed(keyword, path)))
}

fn ending(end: &str, path: Path<'_>) -> Error {
    let problem = format!(
        "lists a text with {end:?}, where a reader would end it, expected other values; \
         `strict=False` takes any arguments"
    );
    Error::message(path, problem)
}

fn unfollowed(keyword: &str, path: Path<'_>) -> Error {
    let problem = "is a keyword that strings without quotes cannot follow here, expected a schema without it; \
                   `strict=False` takes any arguments";
    Error::message(path.key(keyword), problem)
}
