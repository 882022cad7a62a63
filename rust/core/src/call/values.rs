//! The language of values by their schemas, for arguments that are not one JSON object: values in Python's
//! words, and values between tags, whose strings must not hold what closes them.
//!
//! A subset of JSON Schema is followed: types, `enum`, `const`, `anyOf`, local references, `items`,
//! `properties`, and bounds of numbers. Other keywords that restrict a value are errors.

use std::sync::Arc;

use hashbrown::HashMap;
use serde_json::{Map, Value, json};

use super::schema::kinds_of;
use crate::expression::{Expression, Part, Rules};

/// A string of JSON. Half of a surrogate pair is no text.
const STRING: &str = r#""([^"\\\x00-\x1f\x7f]|\\(["/\\bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*""#;
const INTEGER: &str = "-?(0|[1-9][0-9]{0,17})";
const NUMBER: &str = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,17})?([eE][+-]?[0-9]{1,2})?";
/// A key of keyword arguments.
const NAME: &str = "[A-Za-z_][A-Za-z0-9_]{0,63}";

/// Keywords that restrict strings.
const OF_STRINGS: [&str; 4] = ["minLength", "maxLength", "pattern", "format"];
/// Keywords that restrict values and are not followed.
const UNKNOWN: [&str; 16] = [
    "not",
    "if",
    "allOf",
    "uniqueItems",
    "contains",
    "prefixItems",
    "propertyNames",
    "patternProperties",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
];

/// The words for `true`, `false` and `null`.
pub(crate) type Words = [&'static str; 3];

pub(crate) const JSON: Words = ["true", "false", "null"];
pub(crate) const PYTHON: Words = ["True", "False", "None"];

/// Makes the languages of values.
pub(crate) struct Values<'a> {
    root: &'a Value,
    rules: &'a mut Rules,
    words: Words,
    /// What no string may match, as regular expressions.
    except: Vec<String>,
    /// The rules of references.
    references: HashMap<String, usize>,
    /// The rule of any value.
    any: Option<usize>,
}

impl<'a> Values<'a> {
    pub(crate) fn new(
        root: &'a Value,
        rules: &'a mut Rules,
        words: Words,
        except: Vec<String>,
    ) -> Self {
        Self { root, rules, words, except, references: HashMap::new(), any: None }
    }

    /// The members of the arguments, in the order of the schema: name, schema, and whether it is required. `None`
    /// where any name may be one; then with the schema of all.
    ///
    /// # Errors
    /// A keyword that cannot be followed.
    #[expect(clippy::type_complexity, reason = "a list of triples, or one schema")]
    pub(crate) fn members(&self) -> Result<Result<Vec<(&'a str, &'a Value, bool)>, Value>, String> {
        let mut schema = self.root;
        for _ in 0..16 {
            let Some(pointer) = schema.get("$ref") else { break };
            schema = self.resolve(pointer)?;
        }
        let Some(keys) = schema.as_object() else { return Ok(Err(json!({}))) };
        check(keys, "")?;
        for keyword in ["anyOf", "oneOf", "enum", "const", "$ref"] {
            if keys.contains_key(keyword) {
                return Err(unknown(keyword, ""));
            }
        }
        let empty = Map::new();
        let properties = keys.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        if properties.is_empty() {
            let others = keys.get("additionalProperties");
            return match (others, keys.get("properties")) {
                (Some(Value::Bool(false)), _) => Ok(Ok(Vec::new())),
                (Some(schema), _) => Ok(Err(schema.clone())),
                (None, _) => Ok(Err(json!({}))),
            };
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        let all = properties.map(|(name, part)| (&**name, part, is_required(keys, name)));
        Ok(Ok(all.collect()))
    }

    /// The language of a value by its schema. `place` says where the schema is, for errors.
    ///
    /// # Errors
    /// A keyword that cannot be followed, with its place.
    pub(crate) fn value(&mut self, schema: &Value, place: &str) -> Result<Expression, String> {
        let keys = match schema {
            Value::Bool(true) => return Ok(self.any()),
            Value::Object(keys) if keys.is_empty() => return Ok(self.any()),
            Value::Object(keys) => keys,
            _ => return Err(format!("has at `{place}` a schema that allows nothing")),
        };
        check(keys, place)?;
        if let Some(pointer) = keys.get("$ref") {
            return self.reference(pointer, place);
        }
        if let Some(value) = keys.get("const") {
            return Ok(Expression::literal(self.literal(value)));
        }
        if let Some(values) = keys.get("enum").and_then(Value::as_array) {
            if values.is_empty() {
                return Err(format!("has at `{place}` an `enum` without values"));
            }
            return Ok(Expression::choice(
                values.iter().map(|value| Expression::literal(self.literal(value))),
            ));
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(parts) = keys.get(keyword).and_then(Value::as_array) {
                return self.alternatives(parts, keyword, place);
            }
        }
        match keys.get("type") {
            Some(Value::Array(kinds)) => {
                let all = kinds.iter().map(|kind| self.of_type(kind, keys, place));
                Ok(Expression::choice(all.collect::<Result<Vec<_>, _>>()?))
            }
            Some(kind) => self.of_type(kind, keys, place),
            None if keys.contains_key("properties") => self.object(keys, place),
            None if keys.contains_key("items") => self.array(keys, place),
            None => {
                let mut others = OF_STRINGS.iter().chain(&["minimum", "maximum", "multipleOf"]);
                match others.find(|keyword| keys.contains_key(**keyword)) {
                    Some(keyword) => Err(unknown(keyword, place)),
                    None => Ok(self.any()),
                }
            }
        }
    }

    fn alternatives(
        &mut self,
        parts: &[Value],
        keyword: &str,
        place: &str,
    ) -> Result<Expression, String> {
        let kinds: Vec<_> = parts.iter().map(|part| kinds_of(part, self.root)).collect();
        let meets = |at: usize| kinds[..at].iter().any(|other| other.meets(kinds[at]));
        if keyword == "oneOf" && (0..kinds.len()).any(meets) {
            return Err(unknown(keyword, place));
        }
        let all = parts
            .iter()
            .enumerate()
            .map(|(at, part)| self.value(part, &format!("{place}.{keyword}[{at}]")));
        Ok(Expression::choice(all.collect::<Result<Vec<_>, _>>()?))
    }

    fn of_type(
        &mut self,
        kind: &Value,
        keys: &Map<String, Value>,
        place: &str,
    ) -> Result<Expression, String> {
        let kind = kind.as_str().unwrap_or_default();
        match kind {
            "string" => self.string(keys, place),
            "integer" | "number" => {
                let bounds =
                    ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
                let bounded = bounds.iter().filter(|bound| keys.contains_key(**bound));
                let mut schema: Map<String, Value> =
                    bounded.map(|bound| ((*bound).to_owned(), keys[*bound].clone())).collect();
                if schema.is_empty() {
                    let regex = if kind == "integer" { INTEGER } else { NUMBER };
                    return Ok(Expression::part(Part::regex(regex)));
                }
                schema.insert("type".to_owned(), kind.into());
                Ok(Expression::Json(Arc::new(Value::Object(schema))))
            }
            "boolean" => {
                let [yes, no, _] = self.words;
                Ok(Expression::choice([yes, no].map(Expression::literal)))
            }
            "null" => Ok(Expression::literal(self.words[2])),
            "array" => self.array(keys, place),
            "object" => self.object(keys, place),
            kind => Err(format!("has at `{place}` the type {kind:?}, expected one of JSON Schema")),
        }
    }

    /// A string in quotes.
    fn string(&self, keys: &Map<String, Value>, place: &str) -> Result<Expression, String> {
        if let Some(keyword) = OF_STRINGS.iter().find(|keyword| keys.contains_key(**keyword)) {
            if !self.except.is_empty() {
                return Err(unknown(keyword, place));
            }
            let mut keys = keys.clone();
            keys.insert("type".to_owned(), "string".into());
            return Ok(Expression::Json(Arc::new(Value::Object(keys))));
        }
        Ok(self.any_string())
    }

    fn any_string(&self) -> Expression {
        Expression::part(Part::Regex { regex: STRING.to_owned(), except: self.except.clone() })
    }

    fn array(&mut self, keys: &Map<String, Value>, place: &str) -> Result<Expression, String> {
        let item = match keys.get("items") {
            None => self.any(),
            Some(items) => self.value(items, &format!("{place}.items"))?,
        };
        let count =
            |key: &str| keys.get(key).and_then(Value::as_u64).map(|n| n.min(100_000) as u32);
        let (least, most) = (count("minItems").unwrap_or(0), count("maxItems"));
        let item = self.rules.share(item);
        let next = Expression::sequence([Expression::literal(", "), item.clone()]);
        let rest = Expression::Repeat(
            Box::new(next),
            least.saturating_sub(1),
            most.map(|most| most.saturating_sub(1)),
        );
        let mut inner = Expression::sequence([item, rest]);
        if most == Some(0) {
            inner = Expression::EMPTY;
        } else if least == 0 {
            inner = inner.optional();
        }
        Ok(Expression::sequence([Expression::literal("["), inner, Expression::literal("]")]))
    }

    fn object(&mut self, keys: &Map<String, Value>, place: &str) -> Result<Expression, String> {
        let empty = Map::new();
        let properties = keys.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let inner = if properties.is_empty() {
            let others = keys.get("additionalProperties").unwrap_or(&Value::Bool(true));
            if *others == Value::Bool(false) {
                Expression::EMPTY
            } else {
                let value = self.value(others, &format!("{place}.additionalProperties"))?;
                let key = self.any_string();
                let member = Expression::sequence([key, Expression::literal(": "), value]);
                self.any_list(member)
            }
        } else {
            let mut members = Vec::new();
            for (name, part) in properties {
                let value = self.value(part, &format!("{place}.properties.{name}"))?;
                let key = Expression::literal(format!("{}: ", Value::from(&**name)));
                members.push((Expression::sequence([key, value]), is_required(keys, name)));
            }
            self.list(members)
        };
        Ok(Expression::sequence([Expression::literal("{"), inner, Expression::literal("}")]))
    }

    /// Keyword arguments.
    ///
    /// # Errors
    /// A keyword of the schema that cannot be followed, or a name that is none of Python's.
    pub(crate) fn keyword_arguments(
        &mut self,
        is_name: &dyn Fn(&str) -> bool,
    ) -> Result<Expression, String> {
        match self.members()? {
            Err(schema) => {
                let value = self.value(&schema, "additionalProperties")?;
                let name = Expression::part(Part::regex(NAME));
                let member = Expression::sequence([name, Expression::literal("="), value]);
                Ok(self.any_list(member))
            }
            Ok(all) => {
                let mut members = Vec::new();
                for (name, part, is_required) in all {
                    if !is_name(name) {
                        return Err(format!(
                            "has the property `{name}`, expected a name of Python's"
                        ));
                    }
                    let value = self.value(part, &format!("properties.{name}"))?;
                    let key = Expression::literal(format!("{name}="));
                    members.push((Expression::sequence([key, value]), is_required));
                }
                Ok(self.list(members))
            }
        }
    }

    /// Members with commas between, in this order, those that are not required or not.
    ///
    /// Its size is linear: what may follow a member is a shared rule.
    fn list(&mut self, members: Vec<(Expression, bool)>) -> Expression {
        let comma = || Expression::literal(", ");
        let (mut first, mut next) = (Expression::EMPTY, Expression::EMPTY);
        for (member, is_required) in members.into_iter().rev() {
            let member = self.rules.share(member);
            let alone = Expression::sequence([member.clone(), next.clone()]);
            let after = Expression::sequence([comma(), member]);
            if is_required {
                first = alone;
                next = Expression::sequence([after, next]);
            } else {
                first = Expression::choice([alone, first]);
                next = Expression::sequence([after.optional(), next]);
            }
            next = self.rules.share(next);
        }
        first
    }

    /// Any number of members with commas between.
    fn any_list(&mut self, member: Expression) -> Expression {
        let member = self.rules.share(member);
        let next = Expression::sequence([Expression::literal(", "), member.clone()]);
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
        let comma = || Expression::literal(", ");
        let list = |item: Expression| {
            let next = Expression::sequence([comma(), item.clone()]);
            Expression::sequence([item, Expression::Repeat(Box::new(next), 0, None)]).optional()
        };
        let member = Expression::sequence([self.any_string(), Expression::literal(": "), value()]);
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

    /// Any value that is no string.
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

    fn reference(&mut self, pointer: &Value, place: &str) -> Result<Expression, String> {
        let key = pointer.as_str().unwrap_or_default().to_owned();
        if let Some(&number) = self.references.get(&key) {
            return Ok(Expression::Rule(number));
        }
        let schema = self.resolve(pointer)?;
        let number = self.rules.reserve();
        self.references.insert(key, number);
        let value = self.value(schema, place)?;
        if value == Expression::Rule(number) {
            return Err(format!("has at `{place}` a reference to itself, expected a schema"));
        }
        self.rules.set(number, value);
        Ok(Expression::Rule(number))
    }

    fn resolve(&self, pointer: &Value) -> Result<&'a Value, String> {
        let found = pointer
            .as_str()
            .and_then(|pointer| pointer.strip_prefix('#'))
            .and_then(|pointer| self.root.pointer(pointer));
        found.ok_or_else(|| {
            format!("has the reference {pointer}, expected one into the schema itself")
        })
    }

    /// A value as it is written.
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

fn is_required(keys: &Map<String, Value>, name: &str) -> bool {
    let required = keys.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|known| known == name))
}

/// Checks that a schema has no keyword that cannot be followed.
fn check(keys: &Map<String, Value>, place: &str) -> Result<(), String> {
    match UNKNOWN.iter().find(|keyword| keys.contains_key(**keyword)) {
        Some(keyword) => Err(unknown(keyword, place)),
        None => Ok(()),
    }
}

fn unknown(keyword: &str, place: &str) -> String {
    let place = if place.is_empty() { String::new() } else { format!(" at `{place}`") };
    format!(
        "has the keyword `{keyword}`{place}, which arguments of this format cannot follow, expected a schema \
         without it; `strict=False` takes any arguments"
    )
}
