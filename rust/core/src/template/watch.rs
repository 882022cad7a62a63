//! Which operations of a rendering look at what the caller's texts say.
//!
//! A rendering in which no operation looks takes the same branches, and writes the same text of the template, for
//! every conversation of its shape: copying, joining, escaping and printing a text do not look. An operation looks
//! if it gives another outcome than it would give for a harmless word in the text's place, so that `'<b>' in text`
//! looks only where it is true. What is not listed here looks whenever a text of the caller's is in it.
//!
//! [`super::shape`] says which values are the caller's texts, and what a harmless word is.

use super::ast::{Comparison, Operator};
use super::functions::Function;
use super::given::Named;
use super::shape::{has_word, is_word_letter};
use super::text::{Origin, Text};
use super::value::{Number, Outcome, Value};
use std::rc::Rc;

/// The first value that an operation looked at; none if it looked at nothing.
pub(super) type Looked = Option<Origin>;

/// Values that are searched for a caller's texts at most; a larger value counts as one that holds some.
const MAX_SEARCHED: usize = 10_000;

/// A caller's text, name or number within a value.
pub(super) fn content(value: &Value) -> Looked {
    search(value, &mut { MAX_SEARCHED })
}

fn search(value: &Value, left: &mut usize) -> Looked {
    let Some(fewer) = left.checked_sub(1) else { return Some(Origin::TEMPLATE) };
    *left = fewer;
    match value {
        Value::Int(_, origin) | Value::Float(_, origin) => {
            Some(*origin).filter(|it| it.is_content())
        }
        Value::Str(text) => text.content(),
        Value::List(list) => list.items.iter().find_map(|item| search(item, left)),
        Value::Dict(dict) => {
            let mut members = dict.members.iter();
            members.find_map(|(key, value)| search(key, left).or_else(|| search(value, left)))
        }
        Value::Namespace(attributes) => {
            let attributes = attributes.borrow();
            attributes
                .iter()
                .find_map(|(name, value)| name.content().or_else(|| search(value, left)))
        }
        Value::Generator(items) => items.borrow().iter().find_map(|item| search(item, left)),
        Value::Undefined(_)
        | Value::None
        | Value::Bool(_)
        | Value::Loop(_)
        | Value::Callable(_) => None,
    }
}

fn any<'a>(values: impl IntoIterator<Item = &'a Value>) -> Looked {
    values.into_iter().find_map(content)
}

fn of_text(value: &Value) -> Looked {
    match value {
        Value::Str(text) => text.content(),
        _ => None,
    }
}

/// Whether a text of the template's may be found in harmless words, or across the border of one.
fn may_be_in_words(text: &str) -> bool {
    let at_end = |c: Option<char>| c.is_none_or(is_word_letter);
    at_end(text.chars().next()) || at_end(text.chars().next_back()) || has_word(text)
}

/// `one == other`
pub(super) fn equality(one: &Value, other: &Value) -> Looked {
    equal(one, other, &mut { MAX_SEARCHED })
}

fn equal(one: &Value, other: &Value, left: &mut usize) -> Looked {
    let Some(fewer) = left.checked_sub(1) else { return Some(Origin::TEMPLATE) };
    *left = fewer;
    match (one, other) {
        (Value::Str(one), Value::Str(other)) => equal_texts(one, other),
        (Value::List(one), Value::List(other)) => {
            if Rc::ptr_eq(one, other) || one.items.len() != other.items.len() {
                return None;
            }
            for (one, other) in one.items.iter().zip(&other.items) {
                let looked = equal(one, other, left);
                if looked.is_some() || !one.equals(other) {
                    return looked;
                }
            }
            None
        }
        (Value::Dict(one), Value::Dict(other)) => {
            if Rc::ptr_eq(one, other) || one.members.len() != other.members.len() {
                return None;
            }
            for (key, value) in &one.members {
                if let Some(looked) = of_text(key) {
                    return Some(looked);
                }
                let (known, found) = other.member(key)?;
                let looked = of_text(known).or_else(|| equal(value, found, left));
                if looked.is_some() || !value.equals(found) {
                    return looked;
                }
            }
            None
        }
        (one, other) if one.number().is_some() && other.number().is_some() => numbers(one, other),
        _ => None,
    }
}

/// A comparison of two numbers. That a number is above 0 belongs to the shape: harmless ones are, and lengths of texts.
fn numbers(one: &Value, other: &Value) -> Looked {
    let looked = content(one).or_else(|| content(other))?;
    let float = |value: &Value| value.number().map_or(f64::NAN, Number::float);
    let is_known = |number: &Value, zero: &Value| {
        content(zero).is_none() && float(zero) == 0.0 && float(number) > 0.0
    };
    if is_known(one, other) || is_known(other, one) { None } else { Some(looked) }
}

pub(super) fn equal_texts(one: &Text, other: &Text) -> Looked {
    let is_equal = one.as_str() == other.as_str();
    if is_equal && one.is_empty() {
        return None;
    }
    match (one.content(), other.content()) {
        (None, None) => None,
        (Some(_), Some(_)) if one.is_same(other) => None,
        // Harmless words differ from each other.
        (Some(_), Some(_)) if !is_equal && one.is_whole() && other.is_whole() => None,
        (Some(looked), Some(_)) => Some(looked),
        (Some(looked), None) => Some(looked).filter(|_| is_equal || has_word(other.as_str())),
        (None, Some(looked)) => Some(looked).filter(|_| is_equal || has_word(one.as_str())),
    }
}

/// `item in container`, which is true or false.
pub(super) fn membership(item: &Value, container: &Value, is_found: bool) -> Looked {
    match (item, container) {
        (Value::Str(part), Value::Str(whole)) => match (part.content(), whole.content()) {
            (None, None) => None,
            (None, looked) => looked.filter(|_| is_found || may_be_in_words(part.as_str())),
            (looked, None) => looked.filter(|_| is_found || has_word(whole.as_str())),
            (looked, _) => looked.filter(|_| !part.is_same(whole)),
        },
        (_, Value::Str(_)) => content(item).or_else(|| of_text(container)),
        (key, Value::Dict(dict)) => match dict.member(key) {
            Some((known, _)) => same_key(key, known),
            None => missed(key),
        },
        (_, Value::List(list)) => {
            let mut left = MAX_SEARCHED;
            for known in &list.items {
                let looked = equal(known, item, &mut left);
                if looked.is_some() || known.equals(item) {
                    return looked;
                }
            }
            None
        }
        _ => content(item).or_else(|| content(container)),
    }
}

/// A key that was found: one of the caller's is looked at, unless it is looked for by itself.
fn same_key(key: &Value, known: &Value) -> Looked {
    match (key, known) {
        (Value::Str(key), Value::Str(known)) if key.is_same(known) => None,
        _ => content(key).or_else(|| content(known)),
    }
}

/// A key that was not found: a harmless word is found nowhere either.
fn missed(key: &Value) -> Looked {
    if matches!(key, Value::Str(_)) { None } else { content(key) }
}

/// `left < right` and its kind.
pub(super) fn comparison(left: &Value, sign: Comparison, right: &Value, holds: bool) -> Looked {
    match sign {
        Comparison::Equal | Comparison::NotEqual => equality(left, right),
        Comparison::In => membership(left, right, holds),
        Comparison::NotIn => membership(left, right, !holds),
        _ if left.number().is_some() && right.number().is_some() => numbers(left, right),
        _ => content(left).or_else(|| content(right)),
    }
}

/// `value is name(given)`
pub(super) fn test(name: &str, value: &Value, given: &[Value], holds: bool) -> Looked {
    match name {
        // What kind of value it is belongs to the shape.
        "defined" | "undefined" | "none" | "boolean" | "true" | "false" | "integer" | "float"
        | "number" | "string" | "mapping" | "iterable" | "sequence" | "callable" | "escaped" => {
            None
        }
        "eq" | "equalto" | "==" | "ne" => given.first().and_then(|other| equality(value, other)),
        "in" => given.first().and_then(|container| membership(value, container, holds)),
        _ => content(value).or_else(|| any(given)),
    }
}

/// `object[index]`
pub(super) fn item(object: &Value, index: &Value, found: &Value) -> Looked {
    match object {
        Value::Dict(dict) => match dict.member(index) {
            Some((known, _)) => same_key(index, known),
            // A method is found by its name.
            None if matches!(found, Value::Undefined(_)) => missed(index),
            None => content(index),
        },
        Value::Str(text) => text.content().or_else(|| content(index)),
        _ => content(index),
    }
}

/// `object.name`
pub(super) fn attribute(object: &Value, name: &str) -> Looked {
    let Value::Dict(dict) = object else { return None };
    let known = if dict.has_content { dict.member_of(name) } else { None };
    known.and_then(|(key, _)| of_text(key))
}

/// The value at a path of attributes, `function.name`.
pub(super) fn path(value: &Value, path: &Value) -> Looked {
    let Value::Str(path) = path else { return content(path) };
    if let Some(looked) = path.content() {
        return Some(looked);
    }
    let mut value = value;
    for name in path.as_str().split('.') {
        value = match value {
            Value::Dict(dict) => {
                let (key, member) = dict.member_of(name)?;
                if let Some(looked) = of_text(key) {
                    return Some(looked);
                }
                member
            }
            Value::List(list) => list.items.get(name.parse::<usize>().ok()?)?,
            other => return of_text(other),
        };
    }
    None
}

/// `object[start:stop:step]`
pub(super) fn slice(object: &Value, bounds: &[Option<Value>; 3]) -> Looked {
    of_text(object).or_else(|| any(bounds.iter().flatten()))
}

/// What is iterated over.
pub(super) fn iteration(list: &Value) -> Looked {
    of_text(list)
}

/// `left + right` and its kind.
pub(super) fn arithmetic(left: &Value, operator: Operator, right: &Value) -> Looked {
    let is_joined = |value: &Value| matches!(value, Value::Str(_) | Value::List(_));
    match operator {
        Operator::Add if is_joined(left) && is_joined(right) => None,
        Operator::Multiply if is_joined(left) => content(right),
        Operator::Multiply if is_joined(right) => content(left),
        _ => content(left).or_else(|| content(right)),
    }
}

/// The names of `f(**dict)`.
pub(super) fn names(value: &Value) -> Looked {
    match value {
        Value::Dict(dict) if dict.has_content => {
            dict.members.iter().find_map(|(key, _)| of_text(key))
        }
        _ => None,
    }
}

/// A dict of so many members that are given: of two with one key the later one stays.
pub(super) fn dict(given: usize, made: &Value) -> Looked {
    match made {
        Value::Dict(dict) if dict.members.len() < given => names(made),
        _ => None,
    }
}

/// What is known of a filter or method before it is applied.
pub(super) enum Watch {
    /// It does not look, or looks by what it applies.
    Nothing,
    Looks(Origin),
    /// It looks where its outcome is another text, or a list without this text.
    Changes(Text),
    /// It looks where a part of the caller's is gone from the text.
    Empties(Text),
    /// It looks where something is found.
    Finds(Origin),
}

impl Watch {
    fn of(looked: Looked) -> Self {
        looked.map_or(Self::Nothing, Self::Looks)
    }

    /// What was looked at, by the outcome.
    pub(super) fn looked(self, outcome: &Outcome<Value>) -> Looked {
        let is_text =
            |value: &Value, text: &Text| matches!(value, Value::Str(own) if own.is_same(text));
        match self {
            Self::Nothing => None,
            Self::Looks(origin) => Some(origin),
            Self::Changes(text) => match outcome {
                Ok(value) if is_text(value, &text) => None,
                Ok(Value::List(parts)) if parts.items.iter().any(|part| is_text(part, &text)) => {
                    None
                }
                _ => text.content(),
            },
            Self::Empties(text) => match outcome {
                Ok(Value::Str(kept)) if kept.content_runs() == text.content_runs() => None,
                _ => text.content(),
            },
            Self::Finds(origin) => match outcome {
                Ok(Value::Bool(false) | Value::Int(-1, _)) => None,
                _ => Some(origin),
            },
        }
    }
}

/// A filter, before it is applied.
pub(super) fn filter(name: &str, input: &Value, given: &[Value], named: &Named) -> Watch {
    let named_values = || named.iter().map(|(_, value)| value);
    let arguments = || any(given).or_else(|| any(named_values()));
    let all = || Watch::of(content(input).or_else(arguments));
    let of_input = || Watch::of(of_text(input).or_else(arguments));
    match name {
        // A length is a number of the text's, which is watched in its turn.
        "default" | "d" | "string" | "safe" | "escape" | "e" | "forceescape" | "items"
        | "urlencode" | "length" | "count" => Watch::Nothing,
        // What they apply is watched.
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => match given.first() {
            Some(named) => Watch::of(of_text(named)),
            None => Watch::Nothing,
        },
        "list" | "first" | "last" | "reverse" | "batch" | "slice" => of_input(),
        "join" if given.len() < 2 && named.is_empty() => Watch::of(of_text(input)),
        "tojson"
            if !named.iter().any(|(name, _)| name.as_str() == "sort_keys") && given.len() < 4 =>
        {
            Watch::of(arguments())
        }
        "trim" | "upper" | "lower" | "title" | "capitalize" | "replace" => match input {
            Value::Str(text) if named.is_empty() => {
                method(if name == "trim" { "strip" } else { name }, text, given)
            }
            _ => all(),
        },
        "indent" => match input {
            Value::Str(text) if arguments().is_none() && !text.as_str().contains(is_line_end) => {
                Watch::Nothing
            }
            _ => all(),
        },
        _ => all(),
    }
}

fn is_line_end(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

/// A method of a dict, list or `loop`, before it is called; those of strings are in [`method`].
pub(super) fn method_of(object: &Value, name: &str, given: &[Value], named: &Named) -> Watch {
    let all = || any(given).or_else(|| any(named.iter().map(|(_, value)| value)));
    match (object, name) {
        (Value::Str(text), _) if named.is_empty() => method(name, text, given),
        (Value::Dict(_), "get") if !given.is_empty() => {
            Watch::of(membership(&given[0], object, false))
        }
        (Value::Dict(_), "items" | "keys" | "values" | "copy")
        | (Value::List(_), "copy")
        | (Value::Loop(_), "cycle")
        | (Value::Callable(_), _) => Watch::Nothing,
        _ => Watch::of(content(object).or_else(all)),
    }
}

/// A method of a string, before it is called.
fn method(name: &str, text: &Text, given: &[Value]) -> Watch {
    let own = text.content();
    let arguments = any(given);
    // What is looked for, where it is the template's and in no harmless word.
    let is_foreign = |value: &Value| match value {
        Value::Str(part) => !may_be_in_words(part.as_str()),
        Value::List(parts) => {
            let mut parts = parts.items.iter();
            parts.all(|part| matches!(part, Value::Str(part) if !may_be_in_words(part.as_str())))
        }
        _ => false,
    };
    let looked = own.or(arguments);
    match name {
        "join" => Watch::of(given.first().and_then(of_text)),
        "replace" if own.is_none() => {
            Watch::of(given.first().and_then(content).or_else(|| any(given.iter().skip(2))))
        }
        _ if own.is_none() => Watch::of(arguments),
        "replace" if given.first().is_some_and(|old| content(old).is_none() && is_foreign(old)) => {
            Watch::Changes(text.clone())
        }
        _ if arguments.is_some() => Watch::of(looked),
        "upper" | "lower" | "casefold" | "swapcase" | "title" | "capitalize"
            if text.is_of_one() =>
        {
            Watch::Nothing
        }
        "strip" | "lstrip" | "rstrip" => match given {
            [] | [Value::None] => Watch::Empties(text.clone()),
            [Value::Str(chars)] if !chars.as_str().contains(is_word_letter) => {
                Watch::Empties(text.clone())
            }
            _ => Watch::of(looked),
        },
        "split" | "rsplit" if given.is_empty() && text.is_of_one() => Watch::Changes(text.clone()),
        "splitlines" => Watch::Changes(text.clone()),
        "split" | "rsplit" | "partition" | "rpartition" | "removeprefix" | "removesuffix"
            if given.first().is_some_and(is_foreign) =>
        {
            Watch::Changes(text.clone())
        }
        "startswith" | "endswith" | "find" | "rfind"
            if given.len() == 1 && is_foreign(&given[0]) =>
        {
            looked.map_or(Watch::Nothing, Watch::Finds)
        }
        _ => Watch::of(looked),
    }
}

/// A function that every template has.
pub(super) fn function(name: Function, given: &[Value], named: &Named) -> Looked {
    match name {
        Function::Range | Function::StrftimeNow => {
            any(given).or_else(|| any(named.iter().map(|(_, value)| value)))
        }
        // Of two members with one key the later one stays.
        Function::Dict | Function::Namespace => match given {
            [] => None,
            [Value::Dict(_)] if named.is_empty() => None,
            _ => any(given),
        },
        Function::Cycler | Function::Joiner | Function::RaiseException => None,
    }
}
