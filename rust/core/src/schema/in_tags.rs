//! The language of nested tags: objects and lists are tags, strings are bare, other values are JSON.
//!
//! `<days>5</days><places><item>Rome</item></places>` is `{"days": 5, "places": ["Rome"]}`. A closing tag repeats the key
//! of its opening tag. Where a schema names no keys, a language cannot say so, and the key of a closing tag is free: a
//! reader closes the innermost value there.

use serde_json::{Map, Value};

use super::Kinds;
use super::strings::{KEYWORDS, Style as TextStyle};
use super::values::{LIKE_JSON, ListOf, Members, Values, members, restricted};
use crate::error::{Error, Result};
use crate::expression::{Expression, Part, escape_regex};
use crate::path::Path;
use chatcodec_vocab::TokenId;

/// Keys that no schema names.
const KEY: &str = "[A-Za-z_][A-Za-z0-9_]{0,63}";

/// The tags of members and items: a token, the key, and a text.
pub(crate) struct Elements<'a> {
    pub(crate) open: TokenId,
    pub(crate) open_end: &'a str,
    pub(crate) close: TokenId,
    pub(crate) close_end: &'a str,
    /// The key of the items of lists.
    pub(crate) item: &'a str,
    /// Whether a tag can hold a key.
    pub(crate) is_key: &'a dyn Fn(&str) -> bool,
    /// Whether a text is read as a string where these kinds are allowed.
    pub(crate) is_string: &'a dyn Fn(&str, Kinds) -> bool,
}

/// The form of values in nested tags.
#[derive(Clone, Copy)]
pub(crate) struct InTags<'a> {
    pub(crate) elements: &'a Elements<'a>,
    /// The kinds of the value that is described.
    pub(crate) kinds: Kinds,
}

impl Elements<'_> {
    /// A value between the tags of a key.
    fn element(&self, key: &Expression, value: Expression) -> Expression {
        Expression::sequence([
            Expression::Ids(vec![self.open]),
            key.clone(),
            Expression::literal(self.open_end),
            value,
            Expression::Ids(vec![self.close]),
            key.clone(),
            Expression::literal(self.close_end),
        ])
    }

    /// An item of a list.
    fn item(&self, value: Expression) -> Expression {
        self.element(&Expression::literal(self.item), value)
    }

    /// Any key; `except_items`: but that of items.
    fn any_key(&self, except_items: bool) -> Expression {
        let except = except_items.then(|| escape_regex(self.item)).into_iter().collect();
        Expression::part(Part::Regex { regex: KEY.to_owned(), also: Vec::new(), except })
    }
}

impl InTags<'_> {
    /// A string without quotes that matches none of some expressions.
    pub(super) fn string(
        &self,
        keys: &Map<String, Value>,
        mut except: Vec<String>,
        path: Path<'_>,
    ) -> Result<Expression> {
        // Texts that are no strings where the value may be something else.
        let others: &[&str] = if self.kinds == Kinds::STRING { &[] } else { &LIKE_JSON };
        except.extend(others.iter().map(|text| (*text).to_owned()));
        if !KEYWORDS.iter().any(|keyword| keys.contains_key(*keyword)) {
            return Ok(Expression::part(Part::Any { except }));
        }
        let (regex, also) = restricted(TextStyle::Bare, keys, path)?;
        Ok(Expression::part(Part::Regex { regex, also, except }))
    }

    /// Any value, where `value` is one; no text matches one of some expressions.
    pub(super) fn any(&self, value: &Expression, except: Vec<String>) -> Expression {
        let some = |element| Expression::Repeat(Box::new(element), 1, None);
        Expression::choice([
            Expression::part(Part::Any { except }),
            some(self.elements.element(&self.elements.any_key(true), value.clone())),
            some(self.elements.item(value.clone())),
        ])
    }

    /// A value that a schema lists.
    pub(super) fn listed(&self, value: &Value, path: Path<'_>) -> Result<Expression> {
        let problem = match value {
            Value::Array(_) | Value::Object(_) => {
                "lists an object or a list, which cannot be followed in tags"
            }
            Value::String(text) if !(self.elements.is_string)(text, self.kinds) => {
                "lists a text that reads as another value between tags"
            }
            Value::String(text) => return Ok(Expression::literal(&**text)),
            other => return Ok(Expression::literal(other.to_string())),
        };
        let problem =
            format!("{problem}, expected other values; `strict=False` takes any arguments");
        Err(Error::message(path, problem))
    }
}

impl Values<'_> {
    /// The language of arguments in nested tags.
    ///
    /// # Errors
    /// A keyword of the schema that cannot be followed, or a key that is not allowed.
    pub(crate) fn arguments_in_tags(mut self, path: Path<'_>) -> Result<Expression> {
        let keys = self.arguments(path)?;
        self.object(&keys, path)
    }

    /// An object: its members in the order of the schema.
    pub(super) fn object_in_tags(
        &mut self,
        InTags { elements, kinds }: InTags<'_>,
        keys: &Map<String, Value>,
        path: Path<'_>,
    ) -> Result<Expression> {
        let may_be_list = kinds.meets(Kinds::ARRAY);
        match members(keys, path)? {
            Members::Any(schema) => {
                let value = self.value_within(schema, path.key("additionalProperties"))?;
                let element = elements.element(&elements.any_key(may_be_list), value);
                Ok(Expression::Repeat(Box::new(element), 0, None))
            }
            Members::Named(named) => {
                let properties = path.key("properties");
                let mut all = Vec::new();
                for (name, part, is_required) in named {
                    if !(elements.is_key)(name) || may_be_list && name == elements.item {
                        let problem =
                            "is the name of a property that no tag can hold, expected another";
                        return Err(Error::message(properties.key(name), problem));
                    }
                    let value = self.value_within(part, properties.key(name))?;
                    let element = elements.element(&Expression::literal(name), value);
                    all.push(if is_required { element } else { element.optional() });
                }
                Ok(Expression::sequence(all))
            }
        }
    }

    /// A list: its items.
    pub(super) fn array_in_tags(
        &mut self,
        InTags { elements, kinds }: InTags<'_>,
        keys: &Map<String, Value>,
        path: Path<'_>,
    ) -> Result<Expression> {
        let ListOf { mut least, most, first, others } = self.list_of(keys, path)?;
        if kinds.meets(Kinds::OBJECT) {
            // Without items it reads as an object.
            least = least.max(1).min(most.unwrap_or(1));
        }
        let count = first.len() as u32;
        let mut inner = match others {
            Some(others) => Expression::Repeat(
                Box::new(elements.item(others)),
                least.saturating_sub(count),
                most.map(|most| most.saturating_sub(count)),
            ),
            None => Expression::EMPTY,
        };
        for (at, item) in first.into_iter().enumerate().rev() {
            inner = Expression::sequence([elements.item(item), self.rules.share(inner)]);
            if least as usize <= at {
                inner = inner.optional();
            }
        }
        Ok(inner)
    }
}
