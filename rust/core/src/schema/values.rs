//! The language of values by their schemas, for arguments that are not one JSON object, and for backends without
//! schemas: JSON, values in Python's words, and values between tags, whose strings must not hold what closes them.
//!
//! A subset of JSON Schema is followed: types, `enum`, `const`, `anyOf`, `oneOf` of different types, `allOf`,
//! local references, `items`, `prefixItems`, `properties`, `required`, bounds of numbers, of strings and of
//! lists, `pattern` and `format`. Other keywords that restrict a value are errors with their place.

use std::borrow::Cow;
use std::fmt::Write as _;

use hashbrown::{HashMap, HashSet};
use serde_json::{Map, Value};

use super::in_tags::{Elements, InTags};
use super::numbers::{NUMBER, numbers};
use super::strings::{self, Style};
use super::{Kinds, kinds_of};
use crate::error::{Error, Result};
use crate::expression::{Expression, Part, Rules};
use crate::json::quote_into;
use crate::path::Path;
use chatcodec_vocab::TokenId;

/// The keys of arguments that have names without quotes.
pub(crate) struct Keys<'k> {
    pub(crate) is_key: &'k dyn Fn(&str) -> bool,
    /// A regular expression of keys that no schema names.
    pub(crate) any: &'k str,
    /// The text between a key and its value.
    pub(crate) between: &'k str,
    /// Why a key has no place.
    pub(crate) problem: &'k str,
}

/// Keywords that restrict values and are followed.
const FOLLOWED: [&str; 22] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "oneOf",
    "pattern",
    "prefixItems",
    "properties",
    "required",
    "type",
];
/// Keywords that restrict values and are not followed.
const UNKNOWN: [&str; 17] = [
    "$dynamicRef",
    "$recursiveRef",
    "additionalItems",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "maxProperties",
    "minProperties",
    "multipleOf",
    "not",
    "patternProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
];
/// Keywords that restrict values of one type.
const OF_TYPES: [(&str, &[&str]); 4] = [
    ("string", &strings::KEYWORDS),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
    ("array", &["items", "prefixItems", "minItems", "maxItems"]),
    ("object", &["properties", "required", "additionalProperties"]),
];

/// Texts that a reader takes as a value other than a string, where a value may be either.
pub(crate) const LIKE_JSON: [&str; 2] =
    [r#"\s*[\[{"'0-9+.-].*"#, r"\s*(?i:true|false|null|none|nil|nan|infinity|inf)\s*"];

/// Parts of a schema that are followed, each as often as something refers to it.
const MAX_STEPS: usize = 10_000;
/// Schemas within schemas.
const MAX_DEPTH: usize = 100;
/// Greatest count of a list's items.
const MAX_ITEMS: u64 = 100_000;

/// The words for `true`, `false` and `null`.
pub(crate) type Words = [&'static str; 3];

pub(crate) const JSON: Words = ["true", "false", "null"];
pub(crate) const PYTHON: Words = ["True", "False", "None"];

/// The form of objects whose keys have no quotes, and whose strings are between two control tokens.
struct Bare<'a> {
    quote: TokenId,
    keys: &'a Keys<'a>,
}

/// Builds the languages of values.
pub(crate) struct Values<'a> {
    root: &'a Value,
    pub(crate) rules: &'a mut Rules,
    words: Words,
    /// Without, objects and strings are those of JSON.
    bare: Option<Bare<'a>>,
    /// The tags that objects and lists are made of, beside strings without quotes.
    pub(crate) tags: Option<InTags<'a>>,
    /// Regular expressions that no string may match.
    except: Vec<String>,
    /// The rules of references.
    references: HashMap<String, usize>,
    /// The rule of any value.
    any: Option<usize>,
    steps: usize,
    depth: usize,
}

/// The items of a list: how many, the first ones, and those after them.
pub(crate) struct ListOf {
    pub(crate) least: u32,
    pub(crate) most: Option<u32>,
    pub(crate) first: Vec<Expression>,
    pub(crate) others: Option<Expression>,
}

/// A member of an object: name, schema, and whether it is required.
type Named<'k> = (&'k str, &'k Value, bool);

/// The members of an object.
pub(crate) enum Members<'k> {
    /// These, in this order.
    Named(Vec<Named<'k>>),
    /// Any, by this schema.
    Any(&'k Value),
}

impl<'a> Values<'a> {
    pub(crate) fn new(
        root: &'a Value,
        rules: &'a mut Rules,
        words: Words,
        except: Vec<String>,
    ) -> Self {
        let references = HashMap::new();
        let (bare, tags, any) = (None, None, None);
        Self { root, rules, words, bare, tags, except, references, any, steps: 0, depth: 0 }
    }

    /// The same with objects and lists in nested tags, and strings without quotes.
    pub(crate) fn with_tags(self, elements: &'a Elements<'a>) -> Self {
        let tags = InTags { elements, kinds: Kinds::OBJECT };
        Self { tags: Some(tags), ..self }
    }

    /// The same, with strings between two control tokens, bare keys, and no spaces.
    pub(crate) fn with_bare_keys(self, quote: TokenId, keys: &'a Keys<'a>) -> Self {
        Self { bare: Some(Bare { quote, keys }), ..self }
    }

    fn comma(&self) -> Expression {
        Expression::literal(if self.bare.is_some() { "," } else { ", " })
    }

    /// A key of the schema, with the separator before its value.
    fn key(&self, name: &str, path: Path<'_>) -> Result<Expression> {
        match &self.bare {
            None => {
                let mut key = String::with_capacity(name.len() + 4);
                quote_into(name, &mut key);
                key.push_str(": ");
                Ok(Expression::literal(key))
            }
            Some(bare) => bare.keys.key(name, path),
        }
    }

    /// Any key, with the separator before its value.
    fn any_key(&self) -> Expression {
        match &self.bare {
            None => Expression::sequence([self.any_string(), Expression::literal(": ")]),
            Some(bare) => bare.keys.any_key(),
        }
    }

    /// The keywords of the arguments themselves, which are an object.
    ///
    /// # Errors
    /// A keyword that cannot be followed.
    pub(crate) fn arguments(&mut self, path: Path<'_>) -> Result<Cow<'a, Map<String, Value>>> {
        let keys = match self.root {
            Value::Object(keys) => self.flat(keys, path)?,
            _ => Cow::Owned(Map::new()),
        };
        check(&keys, path)?;
        match ["anyOf", "oneOf", "enum", "const"].into_iter().find(|key| keys.contains_key(*key)) {
            Some(keyword) => Err(unknown(keyword, path)),
            None => Ok(keys),
        }
    }

    /// The language of a value by its schema, which is at `path`.
    ///
    /// # Errors
    /// A keyword that cannot be followed.
    pub(crate) fn value(&mut self, schema: &Value, path: Path<'_>) -> Result<Expression> {
        self.steps += 1;
        self.depth += 1;
        if self.steps > MAX_STEPS || self.depth > MAX_DEPTH {
            let problem = format!(
                "is a part of a schema that is too large, expected at most {MAX_STEPS} parts, {MAX_DEPTH} deep"
            );
            return Err(Error::message(path, problem));
        }
        let made = match schema {
            Value::Object(keys) if !keys.is_empty() => self.of_keys(keys, path),
            Value::Object(_) | Value::Bool(true) => Ok(self.any()),
            _ => Err(Error::message(path, "allows no value, expected a schema of some")),
        };
        self.depth -= 1;
        made
    }

    fn of_keys(&mut self, keys: &Map<String, Value>, path: Path<'_>) -> Result<Expression> {
        if let Some(pointer) = keys.get("$ref")
            && restricting(keys).count() == 1
        {
            return self.reference(pointer, path);
        }
        let keys = &*self.flat(keys, path)?;
        check(keys, path)?;
        if let Some(values) = self.listed(keys, path)? {
            let mut all = values;
            return Ok(if all.len() == 1 { all.remove(0) } else { Expression::Choice(all) });
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(parts) = keys.get(keyword).and_then(Value::as_array) {
                return self.alternatives(keys, parts, keyword, path);
            }
        }
        match keys.get("type") {
            Some(Value::Array(kinds)) => {
                let all = kinds.iter().map(|kind| self.of_type(kind, keys, path));
                Ok(Expression::choice(all.collect::<Result<Vec<_>>>()?))
            }
            Some(kind) => self.of_type(kind, keys, path),
            None => {
                let is_of = |(_, keywords): &&(&str, &[&str])| {
                    keywords.iter().any(|keyword| keys.contains_key(*keyword))
                };
                match OF_TYPES.iter().find(is_of) {
                    Some((kind, _)) => self.of_type(&Value::from(*kind), keys, path),
                    None => Ok(self.any()),
                }
            }
        }
    }

    /// The values that `const` and `enum` list, as they are written, each once; those of the type that is asked for.
    fn listed(&self, keys: &Map<String, Value>, path: Path<'_>) -> Result<Option<Vec<Expression>>> {
        let listed = match (keys.get("const"), keys.get("enum").and_then(Value::as_array)) {
            (None, None) => return Ok(None),
            (Some(value), None) => vec![value],
            (None, Some(values)) => values.iter().collect(),
            (Some(value), Some(values)) => values.iter().filter(|other| *other == value).collect(),
        };
        let others = restricting(keys).find(|key| !matches!(*key, "const" | "enum" | "type"));
        if let Some(keyword) = others {
            let problem = "cannot be followed beside listed values, expected a schema without it; \
                           `strict=False` takes any arguments";
            return Err(Error::message(path.key(keyword), problem));
        }
        let listed = listed
            .into_iter()
            .filter(|value| keys.get("type").is_none_or(|kind| is_of(value, kind)));
        let mut known = HashSet::new();
        let listed = listed.filter(|value| known.insert(value.to_string()));
        let listed = listed.map(|value| self.written(value, path));
        let listed: Vec<Expression> = listed.collect::<Result<_>>()?;
        if listed.is_empty() {
            return Err(Error::message(path, "lists no value of its type, expected one"));
        }
        Ok(Some(listed))
    }

    /// The keywords of a schema together with those of what it refers to, and of all in `allOf`.
    ///
    /// # Errors
    /// A keyword that several of them have, with values that are not one.
    pub(crate) fn flat<'k>(
        &mut self,
        keys: &'k Map<String, Value>,
        path: Path<'_>,
    ) -> Result<Cow<'k, Map<String, Value>>>
    where
        'a: 'k,
    {
        if !keys.contains_key("$ref") && !keys.contains_key("allOf") {
            return Ok(Cow::Borrowed(keys));
        }
        self.steps += 1;
        self.depth += 1;
        if self.steps > MAX_STEPS || self.depth > MAX_DEPTH {
            let problem = "refers to itself without an end, expected a schema of finite values";
            return Err(Error::message(path, problem));
        }
        let mut all = restrictions(keys);
        let parts = match all.shift_remove("allOf") {
            Some(Value::Array(parts)) => parts,
            _ => Vec::new(),
        };
        if let Some(pointer) = all.shift_remove("$ref")
            && let Value::Object(part) = self.resolve(&pointer, path)?
        {
            let part = self.flat(part, path)?;
            merge(&mut all, &part, path)?;
        }
        for part in &parts {
            match part {
                Value::Object(part) => {
                    let part = self.flat(part, path)?.into_owned();
                    merge(&mut all, &part, path)?;
                }
                Value::Bool(true) => {}
                _ => {
                    return Err(Error::message(path, "allows no value, expected a schema of some"));
                }
            }
        }
        self.depth -= 1;
        Ok(Cow::Owned(all))
    }

    /// One of several schemas, each combined with the keywords beside them.
    fn alternatives(
        &mut self,
        keys: &Map<String, Value>,
        parts: &[Value],
        keyword: &str,
        path: Path<'_>,
    ) -> Result<Expression> {
        // Where no value follows two of them, `oneOf` has become `anyOf`.
        if keyword == "oneOf" && parts.len() > 1 {
            let problem = "has schemas that one value may follow, which cannot be told apart, expected `anyOf`; \
                           `strict=False` takes any arguments";
            return Err(Error::message(path.key(keyword), problem));
        }
        let is_alone = restricting(keys).count() == 1;
        let list = path.key(keyword);
        let mut all = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let place = list.item(at);
            if is_alone {
                all.push(self.value(part, place)?);
                continue;
            }
            let mut merged = restrictions(keys);
            merged.shift_remove(keyword);
            if let Value::Object(part) = part {
                let part = self.flat(part, place)?.into_owned();
                merge(&mut merged, &part, place)?;
            }
            match part {
                Value::Bool(false) => {}
                _ => all.push(self.value(&Value::Object(merged), place)?),
            }
        }
        Ok(Expression::choice(all))
    }

    fn of_type(
        &mut self,
        kind: &Value,
        keys: &Map<String, Value>,
        path: Path<'_>,
    ) -> Result<Expression> {
        let kind = kind.as_str().unwrap_or_default();
        match kind {
            "string" => self.string(keys, path),
            "integer" | "number" => numbers(kind == "integer", keys).map_err(|keyword| {
                Error::message(path.key(keyword), "has too many digits, expected at most 40")
            }),
            "boolean" => {
                let [yes, no, _] = self.words;
                Ok(Expression::choice([yes, no].map(Expression::literal)))
            }
            "null" => Ok(Expression::literal(self.words[2])),
            "array" => self.array(keys, path),
            "object" => self.object(keys, path),
            kind => {
                let problem = format!("is {kind:?}, expected a type of JSON Schema");
                Err(Error::message(path.key("type"), problem))
            }
        }
    }

    /// A string in quotes.
    fn string(&self, keys: &Map<String, Value>, path: Path<'_>) -> Result<Expression> {
        if let Some(tags) = &self.tags {
            return tags.string(keys, self.except.clone(), path);
        }
        if !strings::KEYWORDS.iter().any(|keyword| keys.contains_key(*keyword)) {
            return Ok(self.any_string());
        }
        let style = if self.bare.is_some() { Style::Bare } else { Style::Json };
        let (regex, also) = restricted(style, keys, path)?;
        let text = Expression::part(Part::Regex { regex, also, except: self.except.clone() });
        Ok(match &self.bare {
            None => text,
            Some(bare) => quoted(bare.quote, text),
        })
    }

    fn any_string(&self) -> Expression {
        if let Some(bare) = &self.bare {
            let text = Expression::part(Part::Any { except: self.except.clone() });
            return quoted(bare.quote, text);
        }
        let regex = strings::any(Style::Json);
        Expression::part(Part::Regex { regex, also: Vec::new(), except: self.except.clone() })
    }

    /// The items of a list.
    pub(crate) fn list_of(&mut self, keys: &Map<String, Value>, path: Path<'_>) -> Result<ListOf> {
        let count = |key: &'static str| match keys.get(key).map(Value::as_u64) {
            None => Ok(None),
            Some(Some(count)) if count <= MAX_ITEMS => Ok(Some(count as u32)),
            Some(_) => {
                let problem = format!("is greater than {MAX_ITEMS}, expected less");
                Err(Error::message(path.key(key), problem))
            }
        };
        let least = count("minItems")?.unwrap_or(0);
        let mut most = count("maxItems")?;
        let known = keys.get("prefixItems").and_then(Value::as_array);
        let known = known.map_or(&[][..], Vec::as_slice);
        let count = known.len() as u32;
        let others = match keys.get("items") {
            Some(Value::Bool(false)) => {
                most = Some(most.unwrap_or(count).min(count));
                None
            }
            _ if most.is_some_and(|most| most <= count) => None,
            None => Some(self.any()),
            Some(items) => Some(self.value_within(items, path.key("items"))?),
        };
        if most.is_some_and(|most| most < least) {
            let problem = "is less than the items that `minItems` asks for, expected more";
            return Err(Error::message(path.key("maxItems"), problem));
        }
        let mut first = Vec::new();
        let list = path.key("prefixItems");
        for (at, item) in known.iter().enumerate().take(most.unwrap_or(count) as usize) {
            first.push(self.value_within(item, list.item(at))?);
        }
        Ok(ListOf { least, most, first, others })
    }

    /// A member of an object, or an item of a list.
    pub(crate) fn value_within(&mut self, schema: &Value, path: Path<'_>) -> Result<Expression> {
        let kinds = kinds_of(schema, self.root);
        let outer = self.tags.as_mut().map(|tags| std::mem::replace(&mut tags.kinds, kinds));
        let value = self.value(schema, path);
        if let (Some(tags), Some(kinds)) = (&mut self.tags, outer) {
            tags.kinds = kinds;
        }
        value
    }

    fn array(&mut self, keys: &Map<String, Value>, path: Path<'_>) -> Result<Expression> {
        if let Some(tags) = self.tags {
            return self.array_in_tags(tags, keys, path);
        }
        let ListOf { least, most, first: items, others } = self.list_of(keys, path)?;
        let count = items.len() as u32;
        let written_comma = self.comma();
        let comma = || written_comma.clone();
        let mut inner = Expression::EMPTY;
        if let Some(others) = others {
            let others = self.rules.share(others);
            let repeated = |written: u32| {
                let next = Expression::sequence([comma(), others.clone()]);
                let most = most.map(|most| most.saturating_sub(written));
                if most == Some(0) {
                    return Expression::EMPTY;
                }
                Expression::Repeat(Box::new(next), least.saturating_sub(written), most)
            };
            inner = if items.is_empty() {
                Expression::sequence([others.clone(), repeated(1)])
            } else {
                repeated(count)
            };
            if items.is_empty() && least == 0 {
                inner = inner.optional();
            }
        }
        for (at, item) in items.into_iter().enumerate().rev() {
            let item = if at == 0 { item } else { Expression::sequence([comma(), item]) };
            inner = Expression::sequence([item, self.rules.share(inner)]);
            if least as usize <= at {
                inner = inner.optional();
            }
        }
        Ok(Expression::sequence([Expression::literal("["), inner, Expression::literal("]")]))
    }

    pub(crate) fn object(
        &mut self,
        keys: &Map<String, Value>,
        path: Path<'_>,
    ) -> Result<Expression> {
        if let Some(tags) = self.tags {
            return self.object_in_tags(tags, keys, path);
        }
        let inner = self.members_of(None, keys, path)?;
        Ok(Expression::sequence([Expression::literal("{"), inner, Expression::literal("}")]))
    }

    /// The language of arguments with keys that have no quotes.
    ///
    /// # Errors
    /// A keyword of the schema that cannot be followed, or a key that is not allowed.
    pub(crate) fn arguments_by_key(
        &mut self,
        form: &Keys<'_>,
        path: Path<'_>,
    ) -> Result<Expression> {
        let keys = self.arguments(path)?;
        self.members_of(Some(form), &keys, path)
    }

    /// The members of an object, with keys in this form, or in that of all objects.
    fn members_of(
        &mut self,
        form: Option<&Keys<'_>>,
        keys: &Map<String, Value>,
        path: Path<'_>,
    ) -> Result<Expression> {
        match members(keys, path)? {
            Members::Any(others) => {
                let value = self.value(others, path.key("additionalProperties"))?;
                let key = form.map_or_else(|| self.any_key(), Keys::any_key);
                Ok(self.any_list(Expression::sequence([key, value])))
            }
            Members::Named(named) => {
                let mut members = Vec::new();
                let properties = path.key("properties");
                for (name, part, is_required) in named {
                    let place = properties.key(name);
                    let key =
                        form.map_or_else(|| self.key(name, place), |form| form.key(name, place))?;
                    let value = self.value(part, place)?;
                    members.push((Expression::sequence([key, value]), is_required));
                }
                Ok(self.list(members))
            }
        }
    }

    /// Members with commas between them, in this order; optional members may be missing.
    ///
    /// Its size is linear: the continuation after each member is a shared rule.
    fn list(&mut self, members: Vec<(Expression, bool)>) -> Expression {
        let written_comma = self.comma();
        let comma = || written_comma.clone();
        // What the list may begin with, from its last member to its first.
        let mut starts = vec![Expression::EMPTY];
        let mut next = Expression::EMPTY;
        for (member, is_required) in members.into_iter().rev() {
            let member = self.rules.share(member);
            let alone = Expression::sequence([member.clone(), next.clone()]);
            let after = Expression::sequence([comma(), member]);
            if is_required {
                starts.clear();
                next = Expression::sequence([after, next]);
            } else {
                next = Expression::sequence([after.optional(), next]);
            }
            starts.push(alone);
            next = self.rules.share(next);
        }
        starts.reverse();
        if starts.len() == 1 { starts.remove(0) } else { Expression::Choice(starts) }
    }

    /// Any number of members with commas between.
    fn any_list(&mut self, member: Expression) -> Expression {
        let member = self.rules.share(member);
        let next = Expression::sequence([self.comma(), member.clone()]);
        Expression::sequence([member, Expression::Repeat(Box::new(next), 0, None)]).optional()
    }

    /// Any value.
    pub(crate) fn any(&mut self) -> Expression {
        if let Some(number) = self.any {
            return Expression::Rule(number);
        }
        let number = self.rules.reserve();
        self.any = Some(number);
        let value = || Expression::Rule(number);
        if let Some(tags) = &self.tags {
            self.rules.set(number, tags.any(&value(), self.except.clone()));
            return value();
        }
        let written_comma = self.comma();
        let comma = || written_comma.clone();
        let list = |item: Expression| {
            let next = Expression::sequence([comma(), item.clone()]);
            Expression::sequence([item, Expression::Repeat(Box::new(next), 0, None)]).optional()
        };
        let member = Expression::sequence([self.any_key(), value()]);
        let around = |open: &str, inner: Expression, close: &str| {
            Expression::sequence([Expression::literal(open), inner, Expression::literal(close)])
        };
        let words = self.words.map(Expression::literal);
        let all = [
            self.any_string(),
            Expression::part(Part::regex(NUMBER)),
            around("[", list(value()), "]"),
            around("{", list(member), "}"),
        ];
        self.rules.set(number, Expression::choice(all.into_iter().chain(words)));
        value()
    }

    /// Any value except a string.
    pub(crate) fn any_but_string(&mut self) -> Expression {
        let Expression::Rule(number) = self.any() else { return Expression::EMPTY };
        match self.rules.get(number) {
            Expression::Choice(all) => {
                let string = self.any_string();
                Expression::choice(all.into_iter().filter(|part| *part != string))
            }
            other => other,
        }
    }

    fn reference(&mut self, pointer: &Value, path: Path<'_>) -> Result<Expression> {
        let mut key = pointer.as_str().unwrap_or_default().to_owned();
        if let Some(tags) = &self.tags {
            // Text is told from other values by the kinds of all that may stand here.
            let _ = write!(key, " {:?}", tags.kinds);
        }
        if let Some(&number) = self.references.get(&key) {
            return Ok(Expression::Rule(number));
        }
        let schema = self.resolve(pointer, path)?;
        let number = self.rules.reserve();
        self.references.insert(key, number);
        let value = self.value(schema, path)?;
        if begins_with(&value, number, self.rules, &mut HashSet::new()) {
            let problem = "refers to itself without an end, expected a schema of finite values";
            return Err(Error::message(path.key("$ref"), problem));
        }
        self.rules.set(number, value);
        Ok(Expression::Rule(number))
    }

    fn resolve(&self, pointer: &Value, path: Path<'_>) -> Result<&'a Value> {
        let found = pointer
            .as_str()
            .and_then(|pointer| pointer.strip_prefix('#'))
            .and_then(|pointer| self.root.pointer(pointer));
        found.ok_or_else(|| {
            let problem = format!(
                "is {pointer}, expected the place of a schema in this one, as `#/$defs/a`; \
                 `strict=False` takes any arguments"
            );
            Error::message(path.key("$ref"), problem)
        })
    }

    /// A value that a schema lists.
    fn written(&self, value: &Value, path: Path<'_>) -> Result<Expression> {
        if let Some(tags) = &self.tags {
            return tags.listed(value, path);
        }
        let Some(bare) = &self.bare else { return Ok(Expression::literal(self.literal(value))) };
        let around = |open: &str, inner: Vec<Expression>, close: &str| {
            let mut all = vec![Expression::literal(open)];
            for (at, part) in inner.into_iter().enumerate() {
                all.extend((at > 0).then(|| self.comma()));
                all.push(part);
            }
            all.push(Expression::literal(close));
            Expression::sequence(all)
        };
        Ok(match value {
            Value::String(text) => quoted(bare.quote, Expression::literal(text)),
            Value::Array(items) => {
                let items = items.iter().map(|item| self.written(item, path));
                around("[", items.collect::<Result<_>>()?, "]")
            }
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| {
                    let value = self.written(value, path)?;
                    Ok(Expression::sequence([self.key(name, path)?, value]))
                });
                around("{", members.collect::<Result<_>>()?, "}")
            }
            value => Expression::literal(self.literal(value)),
        })
    }

    /// A written value.
    pub(crate) fn literal(&self, value: &Value) -> String {
        let [yes, no, none] = self.words;
        match value {
            Value::Bool(true) => yes.to_owned(),
            Value::Bool(false) => no.to_owned(),
            Value::Null => none.to_owned(),
            Value::Array(items) => {
                let items: Vec<String> = items.iter().map(|item| self.literal(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Value::Object(members) => {
                let members = members.iter();
                let members: Vec<String> = members
                    .map(|(key, value)| format!("{}: {}", Value::from(&**key), self.literal(value)))
                    .collect();
                format!("{{{}}}", members.join(", "))
            }
            value => value.to_string(),
        }
    }
}

impl Keys<'_> {
    /// A key and what is between it and its value.
    fn key(&self, name: &str, path: Path<'_>) -> Result<Expression> {
        if !(self.is_key)(name) {
            return Err(Error::message(path, self.problem));
        }
        Ok(Expression::literal(format!("{name}{}", self.between)))
    }

    /// Any key, with the separator before its value.
    fn any_key(&self) -> Expression {
        let key = Expression::part(Part::regex(self.any));
        Expression::sequence([key, Expression::literal(self.between)])
    }
}

/// The members of an object: those that the schema names, and those that it requires.
///
/// # Errors
/// A member that is required and not allowed.
pub(crate) fn members<'k>(keys: &'k Map<String, Value>, path: Path<'_>) -> Result<Members<'k>> {
    let properties = keys.get("properties").and_then(Value::as_object);
    let others = keys.get("additionalProperties").unwrap_or(&Value::Bool(true));
    let required = keys.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    let is_required: HashSet<&str> = required.iter().copied().collect();
    let named = properties.into_iter().flatten();
    let mut all: Vec<Named<'k>> =
        named.map(|(name, part)| (&**name, part, is_required.contains(&**name))).collect();
    let mut known: HashSet<&str> = all.iter().map(|(name, ..)| *name).collect();
    for name in required {
        if !known.insert(name) {
            continue;
        }
        if *others == Value::Bool(false) {
            let problem = format!(
                "asks for `{name}`, which the schema does not allow, expected a property of it"
            );
            return Err(Error::message(path.key("required"), problem));
        }
        all.push((name, others, true));
    }
    let is_any = all.is_empty() && *others != Value::Bool(false);
    Ok(if is_any { Members::Any(others) } else { Members::Named(all) })
}

/// A text between two control tokens.
fn quoted(quote: TokenId, text: Expression) -> Expression {
    let quote = || Expression::Ids(vec![quote]);
    Expression::sequence([quote(), text, quote()])
}

/// What the keywords of a schema leave of the strings.
pub(crate) fn restricted(
    style: Style,
    keys: &Map<String, Value>,
    path: Path<'_>,
) -> Result<(String, Vec<String>)> {
    strings::restricted(style, keys).map_err(|(keyword, problem)| {
        let problem = format!("{problem}; `strict=False` takes any arguments");
        Error::message(path.key(keyword), problem)
    })
}

/// Whether no value follows both of two schemas: by their types, or by a property that both require.
pub(crate) fn are_apart(one: &Value, other: &Value, root: &Value) -> bool {
    if !kinds_of(one, root).meets(kinds_of(other, root)) {
        return true;
    }
    let (one, other) = (resolved(one, root), resolved(other, root));
    let listed = |schema: &Value, name: &str| -> Option<Vec<Value>> {
        let required = schema.get("required")?.as_array()?;
        let property = resolved(schema.get("properties")?.get(name)?, root);
        let values = match property.get("const") {
            Some(value) => vec![value.clone()],
            None => property.get("enum")?.as_array()?.clone(),
        };
        required.iter().any(|known| known == name).then_some(values)
    };
    let are_objects =
        [one, other].iter().all(|schema| schema.get("type").is_some_and(|kind| kind == "object"));
    let names = one.get("properties").and_then(Value::as_object).into_iter().flatten();
    are_objects
        && names.into_iter().any(|(name, _)| match (listed(one, name), listed(other, name)) {
            (Some(own), Some(others)) => !own.iter().any(|value| others.contains(value)),
            _ => false,
        })
}

/// A schema, or the one that it refers to.
/// Whether a schema admits a value that is no number, string, object or list, by the keywords that say so.
pub(crate) fn admits(schema: &Value, value: &Value, root: &Value) -> bool {
    admits_within(schema, value, root, MAX_ADMITS)
}

/// How deep a schema is looked into for a value; deeper, it admits none.
const MAX_ADMITS: usize = 16;

fn admits_within(schema: &Value, value: &Value, root: &Value, depth: usize) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let schema = resolved(schema, root);
    let Value::Object(keys) = schema else { return *schema == Value::Bool(true) };
    let inner = |part: &Value| admits_within(part, value, root, depth);
    let any = |parts: &Value| parts.as_array().is_some_and(|parts| parts.iter().any(inner));
    let all = |parts: &Value| parts.as_array().is_some_and(|parts| parts.iter().all(inner));
    keys.iter().all(|(key, said)| match key.as_str() {
        "type" => is_of(value, said),
        "const" => said == value,
        "enum" => said.as_array().is_some_and(|listed| listed.contains(value)),
        "anyOf" | "oneOf" => any(said),
        "allOf" => all(said),
        "$ref" => false,
        _ => true,
    })
}

fn resolved<'v>(mut schema: &'v Value, root: &'v Value) -> &'v Value {
    for _ in 0..16 {
        let pointer = schema.get("$ref").and_then(Value::as_str);
        let pointer = pointer.and_then(|pointer| pointer.strip_prefix('#'));
        match pointer.and_then(|pointer| root.pointer(pointer)) {
            Some(found) => schema = found,
            None => break,
        }
    }
    schema
}

/// Why a pattern of strings cannot be followed, if it cannot.
pub(crate) fn wrong_pattern(pattern: &str) -> Option<String> {
    strings::check_pattern(pattern).err()
}

/// The keywords of a schema that restrict a value.
pub(crate) fn restricting(keys: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let known = |key: &&str| FOLLOWED.contains(key) || UNKNOWN.contains(key);
    keys.keys().map(String::as_str).filter(known)
}

/// The keywords of a schema that restrict a value, with what they say.
fn restrictions(keys: &Map<String, Value>) -> Map<String, Value> {
    restricting(keys).map(|key| (key.to_owned(), keys[key].clone())).collect()
}

/// Whether a value is of a type, or of one in a list.
fn is_of(value: &Value, kind: &Value) -> bool {
    match (kind, value) {
        (Value::Array(kinds), _) => kinds.iter().any(|kind| is_of(value, kind)),
        (Value::String(kind), Value::Number(number)) => match &**kind {
            "integer" => number.as_f64().is_some_and(|number| number.fract() == 0.0),
            kind => kind == "number",
        },
        (Value::String(kind), Value::Null) => kind == "null",
        (Value::String(kind), Value::Bool(_)) => kind == "boolean",
        (Value::String(kind), Value::String(_)) => kind == "string",
        (Value::String(kind), Value::Array(_)) => kind == "array",
        (Value::String(kind), Value::Object(_)) => kind == "object",
        _ => false,
    }
}

/// Adds the keywords of a schema to those of another, so that both are followed.
///
/// # Errors
/// A keyword that both have, with values that are not one.
fn merge(all: &mut Map<String, Value>, part: &Map<String, Value>, path: Path<'_>) -> Result<()> {
    for (one, other) in [(&*all, part), (part, &*all)] {
        let names =
            |keys: &Map<String, Value>| keys.get("properties").and_then(Value::as_object).cloned();
        let is_open =
            one.get("additionalProperties").is_none_or(|others| *others == Value::Bool(true));
        let own = names(one).unwrap_or_default();
        let is_new = names(other).unwrap_or_default().keys().any(|name| !own.contains_key(name));
        if is_new && !is_open {
            let problem = "restricts the properties of a schema beside it, which cannot be followed, expected one \
                           schema of all; `strict=False` takes any arguments";
            return Err(Error::message(path.key("additionalProperties"), problem));
        }
    }
    for (key, value) in part {
        if !FOLLOWED.contains(&&**key) && !UNKNOWN.contains(&&**key) {
            continue;
        }
        let Some(known) = all.get_mut(key) else {
            all.insert(key.clone(), value.clone());
            continue;
        };
        if known == value {
            continue;
        }
        match (&**key, known, value) {
            ("required", Value::Array(known), Value::Array(names)) => {
                for name in names {
                    if !known.contains(name) {
                        known.push(name.clone());
                    }
                }
            }
            ("properties", Value::Object(known), Value::Object(named)) => {
                for (name, part) in named {
                    match known.get_mut(name) {
                        None => {
                            known.insert(name.clone(), part.clone());
                        }
                        Some(known) if known == part => {}
                        Some(known) => {
                            *known = serde_json::json!({"allOf": [known.clone(), part]});
                        }
                    }
                }
            }
            ("minimum" | "exclusiveMinimum" | "minLength" | "minItems", known, value) => {
                if value.as_f64() > known.as_f64() {
                    *known = value.clone();
                }
            }
            ("maximum" | "exclusiveMaximum" | "maxLength" | "maxItems", known, value) => {
                if value.as_f64() < known.as_f64() {
                    *known = value.clone();
                }
            }
            ("type", known, value) => {
                let kinds = |value: &Value| match value {
                    Value::Array(kinds) => kinds.clone(),
                    kind => vec![kind.clone()],
                };
                let (own, others) = (kinds(known), kinds(value));
                let has = |kinds: &[Value], kind: &Value| {
                    kinds.contains(kind)
                        || *kind == "integer" && kinds.iter().any(|kind| *kind == "number")
                };
                let both = own.iter().filter(|kind| has(&others, kind));
                let both =
                    both.chain(others.iter().filter(|kind| has(&own, kind) && !own.contains(kind)));
                let both: Vec<Value> = both.cloned().collect();
                if both.is_empty() {
                    return Err(Error::message(path, "allows no value, expected a schema of some"));
                }
                *known = if both.len() == 1 { both[0].clone() } else { Value::Array(both) };
            }
            _ => {
                let problem = "is in two schemas that a value has to follow, which cannot be told together, \
                               expected one of them; `strict=False` takes any arguments";
                return Err(Error::message(path.key(key), problem));
            }
        }
    }
    Ok(())
}

/// Whether a language begins with a rule that is not yet defined. `seen` are the rules that were looked at.
fn begins_with(
    language: &Expression,
    rule: usize,
    rules: &Rules,
    seen: &mut HashSet<usize>,
) -> bool {
    let mut begins = |inner: &Expression| begins_with(inner, rule, rules, seen);
    match language {
        Expression::Rule(number) if *number == rule => true,
        Expression::Rule(number) => {
            seen.insert(*number) && begins_with(&rules.get(*number), rule, rules, seen)
        }
        Expression::Choice(all) => all.iter().any(begins),
        Expression::Sequence(parts) => parts.first().is_some_and(begins),
        Expression::Repeat(inner, ..) => begins(inner),
        _ => false,
    }
}

/// Checks that a schema has no keyword that cannot be followed.
pub(crate) fn check(keys: &Map<String, Value>, path: Path<'_>) -> Result<()> {
    let found = keys.iter().find(|(keyword, value)| {
        UNKNOWN.contains(&&***keyword)
            && (*keyword != "uniqueItems" || **value != Value::Bool(false))
    });
    found.map_or(Ok(()), |(keyword, _)| Err(unknown(keyword, path)))
}

fn unknown(keyword: &str, path: Path<'_>) -> Error {
    let problem = "is a keyword that arguments of this format, or of this backend, cannot follow, expected a schema \
                   without it; `strict=False` takes any arguments";
    Error::message(path.key(keyword), problem)
}
