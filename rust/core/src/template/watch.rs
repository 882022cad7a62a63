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
use super::meter::Meter;
use super::shape::{has_word, is_word_letter};
use super::text::{Origin, Text};
use super::value::{Dict, Number, Outcome, Value};
use std::rc::Rc;

/// The first value that an operation looked at; none if it looked at nothing.
pub(super) type Looked = Option<Origin>;

/// Values that are searched for a caller's texts at most; a larger value counts as one that holds some.
const MAX_SEARCHED: usize = 10_000;

/// What is left of a search.
struct Left<'a> {
    count: usize,
    meter: &'a Meter,
}

impl Left<'_> {
    /// Whether one more value may be searched.
    fn visit(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        self.count > 0 && self.meter.take(1).is_ok()
    }
}

/// A caller's part of a text. Where no step is left for the search, the next operation fails.
fn own(text: &Text, meter: &Meter) -> Looked {
    let _ = meter.take(text.run_count() as u64 / RUNS_A_STEP);
    text.content()
}

fn may_have_word(text: &str, meter: &Meter) -> bool {
    let _ = meter.read(text.len());
    has_word(text)
}

/// Runs of a text that a step looks at.
const RUNS_A_STEP: u64 = 16;

/// A caller's text, name or number within a value.
pub(super) fn content(value: &Value, meter: &Meter) -> Looked {
    search(value, &mut Left { count: MAX_SEARCHED, meter })
}

fn search(value: &Value, left: &mut Left<'_>) -> Looked {
    if !left.visit() {
        return Some(Origin::TEMPLATE);
    }
    match value {
        Value::Int(_, origin) | Value::Long(_, origin) | Value::Float(_, origin) => {
            Some(*origin).filter(|it| it.is_content())
        }
        Value::Str(text) => own(text, left.meter),
        Value::List(list) => list.items.iter().find_map(|item| search(item, left)),
        Value::Dict(dict) => {
            let mut members = dict.members.iter();
            members.find_map(|(key, value)| search(key, left).or_else(|| search(value, left)))
        }
        Value::Namespace(attributes) => {
            let attributes = attributes.borrow();
            let mut members = attributes.members.iter();
            members.find_map(|(name, value)| search(name, left).or_else(|| search(value, left)))
        }
        Value::Generator(of) => of.find_map(|item| search(item, left)),
        Value::Undefined(_)
        | Value::None
        | Value::Bool(_)
        | Value::Loop(_)
        | Value::Callable(_) => None,
    }
}

fn any<'a>(values: impl IntoIterator<Item = &'a Value>, meter: &Meter) -> Looked {
    values.into_iter().find_map(|value| content(value, meter))
}

fn of_text(value: &Value, meter: &Meter) -> Looked {
    match value {
        Value::Str(text) => own(text, meter),
        _ => None,
    }
}

/// Whether a text of the template's may be found in harmless words, or across the border of one.
fn may_be_in_words(text: &str, meter: &Meter) -> bool {
    let at_end = |c: Option<char>| c.is_none_or(is_word_letter);
    at_end(text.chars().next()) || at_end(text.chars().next_back()) || may_have_word(text, meter)
}

/// `one == other`
pub(super) fn equality(one: &Value, other: &Value, meter: &Meter) -> Looked {
    equal(one, other, &mut Left { count: MAX_SEARCHED, meter })
}

fn equal(one: &Value, other: &Value, left: &mut Left<'_>) -> Looked {
    if !left.visit() {
        return Some(Origin::TEMPLATE);
    }
    match (one, other) {
        (Value::Str(one), Value::Str(other)) => equal_texts(one, other, left.meter),
        (Value::List(one), Value::List(other)) => {
            if Rc::ptr_eq(one, other) || one.items.len() != other.items.len() {
                return None;
            }
            for (one, other) in one.items.iter().zip(&other.items) {
                let looked = equal(one, other, left);
                if looked.is_some() || one.equals(other, left.meter) != Ok(true) {
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
                if let Some(looked) = of_text(key, left.meter) {
                    return Some(looked);
                }
                let Ok(Some((known, found))) = other.member(key, left.meter) else { return None };
                let looked = of_text(known, left.meter).or_else(|| equal(value, found, left));
                if looked.is_some() || value.equals(found, left.meter) != Ok(true) {
                    return looked;
                }
            }
            None
        }
        (one, other) if one.number().is_some() && other.number().is_some() => {
            numbers(one, other, left.meter)
        }
        (Value::Long(..), _) | (_, Value::Long(..)) => {
            content(one, left.meter).or_else(|| content(other, left.meter))
        }
        _ => None,
    }
}

/// A comparison of two numbers. That a number is above 0 belongs to the shape: harmless ones are, and lengths of texts.
fn numbers(one: &Value, other: &Value, meter: &Meter) -> Looked {
    let looked = content(one, meter).or_else(|| content(other, meter))?;
    let float = |value: &Value| value.number().map_or(f64::NAN, Number::float);
    let is_known = |number: &Value, zero: &Value| {
        content(zero, meter).is_none() && float(zero) == 0.0 && float(number) > 0.0
    };
    if is_known(one, other) || is_known(other, one) { None } else { Some(looked) }
}

pub(super) fn equal_texts(one: &Text, other: &Text, meter: &Meter) -> Looked {
    let is_equal = one.len() == other.len() && {
        let _ = meter.skim(one.len());
        one.as_str() == other.as_str()
    };
    if is_equal && one.is_empty() {
        return None;
    }
    let has_word = |text: &str| {
        let _ = meter.read(text.len());
        has_word(text)
    };
    match (own(one, meter), own(other, meter)) {
        (None, None) => None,
        (Some(_), Some(_)) if one.is_same(other) => None,
        // Harmless words differ from each other.
        (Some(_), Some(_)) if !is_equal && one.is_whole() && other.is_whole() => None,
        (Some(looked), Some(_)) => Some(looked),
        (Some(looked), None) => Some(looked).filter(|_| is_equal || has_word(other.as_str())),
        (None, Some(looked)) => Some(looked).filter(|_| is_equal || has_word(one.as_str())),
    }
}

/// What is in a generator, before an operation uses it up.
pub(super) fn generated<'a>(values: impl IntoIterator<Item = &'a Value>, meter: &Meter) -> Looked {
    let mut values = values.into_iter().filter(|value| matches!(value, Value::Generator(_)));
    values.find_map(|value| content(value, meter))
}

/// `item in container`, which is true or false.
pub(super) fn membership(item: &Value, container: &Value, is_found: bool, meter: &Meter) -> Looked {
    match (item, container) {
        (Value::Str(part), Value::Str(whole)) => match (own(part, meter), own(whole, meter)) {
            (None, None) => None,
            (None, looked) => looked.filter(|_| is_found || may_be_in_words(part.as_str(), meter)),
            (looked, None) => looked.filter(|_| is_found || may_have_word(whole.as_str(), meter)),
            (looked, _) => looked.filter(|_| !part.is_same(whole)),
        },
        (_, Value::Str(_)) => content(item, meter).or_else(|| of_text(container, meter)),
        (key, Value::Dict(dict)) => match dict.member(key, meter) {
            Ok(Some((known, _))) => same_key(key, known, meter),
            _ => missed(key, dict, meter),
        },
        (_, Value::List(list)) => {
            let mut left = Left { count: MAX_SEARCHED, meter };
            for known in &list.items {
                let looked = equal(known, item, &mut left);
                if looked.is_some() || known.equals(item, meter) != Ok(false) {
                    return looked;
                }
            }
            None
        }
        _ => content(item, meter).or_else(|| content(container, meter)),
    }
}

/// A key that was found: one of the caller's is looked at, unless it is looked for by itself.
fn same_key(key: &Value, known: &Value, meter: &Meter) -> Looked {
    match (key, known) {
        (Value::Str(key), Value::Str(known)) if key.is_same(known) => None,
        _ => content(key, meter).or_else(|| content(known, meter)),
    }
}

/// A key that was not found: a harmless word is found nowhere either, but where a key may be made of it.
fn missed(key: &Value, dict: &Dict, meter: &Meter) -> Looked {
    let Value::Str(text) = key else { return content(key, meter) };
    let looked = own(text, meter).filter(|_| dict.has_content)?;
    if text.is_whole() && unlike(dict, meter).is_none() { None } else { Some(looked) }
}

/// A key that is made of a caller's text: harmless ones may be equal where these are not.
fn unlike(dict: &Dict, meter: &Meter) -> Looked {
    if !dict.has_content {
        return None;
    }
    let _ = meter.take(dict.members.len() as u64);
    let own = |key: &Value| match key {
        Value::Str(text) if !text.is_whole() => own(text, meter),
        _ => None,
    };
    dict.members.iter().find_map(|(key, _)| own(key))
}

/// `left < right` and its kind.
pub(super) fn comparison(
    left: &Value,
    sign: Comparison,
    right: &Value,
    holds: bool,
    meter: &Meter,
) -> Looked {
    match sign {
        Comparison::Equal | Comparison::NotEqual => equality(left, right, meter),
        Comparison::In => membership(left, right, holds, meter),
        Comparison::NotIn => membership(left, right, !holds, meter),
        _ if left.number().is_some() && right.number().is_some() => numbers(left, right, meter),
        _ => content(left, meter).or_else(|| content(right, meter)),
    }
}

/// `value is name(given)`
pub(super) fn test(
    name: &str,
    value: &Value,
    given: &[Value],
    holds: bool,
    meter: &Meter,
) -> Looked {
    match name {
        // What kind of value it is belongs to the shape.
        "defined" | "undefined" | "none" | "boolean" | "true" | "false" | "integer" | "float"
        | "number" | "string" | "mapping" | "iterable" | "sequence" | "callable" | "escaped" => {
            None
        }
        "eq" | "equalto" | "==" | "ne" => {
            given.first().and_then(|other| equality(value, other, meter))
        }
        "in" => given.first().and_then(|container| membership(value, container, holds, meter)),
        _ => content(value, meter).or_else(|| any(given, meter)),
    }
}

/// `object[index]`
pub(super) fn item(object: &Value, index: &Value, found: &Value, meter: &Meter) -> Looked {
    match object {
        Value::Dict(dict) => match dict.member(index, meter).ok().flatten() {
            Some((known, _)) => same_key(index, known, meter),
            // A method is found by its name.
            None if matches!(found, Value::Undefined(_)) => missed(index, dict, meter),
            None => content(index, meter),
        },
        Value::Str(text) => own(text, meter).or_else(|| content(index, meter)),
        _ => content(index, meter),
    }
}

/// `object.name`
pub(super) fn attribute(object: &Value, name: &str, meter: &Meter) -> Looked {
    let Value::Dict(dict) = object else { return None };
    let known = if dict.has_content { dict.member_of(name) } else { None };
    known.and_then(|(key, _)| of_text(key, meter))
}

/// The value at a path of attributes, `function.name`.
pub(super) fn path(value: &Value, path: &Value, meter: &Meter) -> Looked {
    let Value::Str(path) = path else { return content(path, meter) };
    if let Some(looked) = own(path, meter) {
        return Some(looked);
    }
    let mut value = value;
    for name in path.as_str().split('.') {
        value = match value {
            Value::Dict(dict) => {
                let (key, member) = dict.member_of(name)?;
                if let Some(looked) = of_text(key, meter) {
                    return Some(looked);
                }
                member
            }
            Value::List(list) => list.items.get(name.parse::<usize>().ok()?)?,
            other => return of_text(other, meter),
        };
    }
    None
}

/// `object[start:stop:step]`
pub(super) fn slice(object: &Value, bounds: &[Option<Value>; 3], meter: &Meter) -> Looked {
    of_text(object, meter).or_else(|| any(bounds.iter().flatten(), meter))
}

/// What is iterated over.
pub(super) fn iteration(list: &Value, meter: &Meter) -> Looked {
    of_text(list, meter)
}

/// `left + right` and its kind.
pub(super) fn arithmetic(left: &Value, operator: Operator, right: &Value, meter: &Meter) -> Looked {
    let is_joined = |value: &Value| matches!(value, Value::Str(_) | Value::List(_));
    match operator {
        Operator::Add if is_joined(left) && is_joined(right) => None,
        Operator::Multiply if is_joined(left) => content(right, meter),
        Operator::Multiply if is_joined(right) => content(left, meter),
        _ => content(left, meter).or_else(|| content(right, meter)),
    }
}

/// The names of `f(**dict)`.
pub(super) fn names(value: &Value, meter: &Meter) -> Looked {
    match value {
        Value::Dict(dict) if dict.has_content => {
            dict.members.iter().find_map(|(key, _)| of_text(key, meter))
        }
        _ => None,
    }
}

/// A dict of so many members that are given: of two with one key the later one stays.
pub(super) fn dict(given: usize, made: &Value, meter: &Meter) -> Looked {
    match made {
        Value::Dict(dict) if dict.members.len() < given => names(made, meter),
        Value::Dict(dict) if dict.members.len() > 1 => unlike(dict, meter),
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
    pub(super) fn looked(self, outcome: &Outcome<Value>, meter: &Meter) -> Looked {
        let is_text =
            |value: &Value, text: &Text| matches!(value, Value::Str(own) if own.is_same(text));
        let runs = |text: &Text| {
            let _ = meter.take(text.run_count() as u64 / RUNS_A_STEP);
            text.content_runs()
        };
        match self {
            Self::Nothing => None,
            Self::Looks(origin) => Some(origin),
            Self::Changes(text) => match outcome {
                Ok(value) if is_text(value, &text) => None,
                Ok(Value::List(parts)) if parts.items.iter().any(|part| is_text(part, &text)) => {
                    None
                }
                _ => own(&text, meter),
            },
            Self::Empties(text) => match outcome {
                Ok(Value::Str(kept)) if runs(kept) == runs(&text) => None,
                _ => own(&text, meter),
            },
            Self::Finds(origin) => match outcome {
                Ok(Value::Bool(false) | Value::Int(-1, _)) => None,
                _ => Some(origin),
            },
        }
    }
}

/// A filter, before it is applied.
pub(super) fn filter(
    name: &str,
    input: &Value,
    given: &[Value],
    named: &Named,
    meter: &Meter,
) -> Watch {
    let named_values = || named.iter().map(|(_, value)| value);
    let arguments = || any(given, meter).or_else(|| any(named_values(), meter));
    let all = || Watch::of(content(input, meter).or_else(arguments));
    let of_input = || Watch::of(of_text(input, meter).or_else(arguments));
    match name {
        // A length is a number of the text's, which is watched in its turn.
        "default" | "d" | "string" | "safe" | "escape" | "e" | "forceescape" | "items"
        | "urlencode" | "length" | "count" => Watch::Nothing,
        // What they apply is watched.
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => match given.first() {
            Some(named) => Watch::of(of_text(named, meter)),
            None => Watch::Nothing,
        },
        "list" | "first" | "last" | "reverse" | "batch" | "slice" => of_input(),
        "join" if given.len() < 2 && named.is_empty() => Watch::of(of_text(input, meter)),
        "tojson"
            if !named.iter().any(|(name, _)| name.as_str() == "sort_keys") && given.len() < 4 =>
        {
            Watch::of(arguments())
        }
        "trim" | "upper" | "lower" | "title" | "capitalize" | "replace" => match input {
            Value::Str(text) if named.is_empty() => {
                method(if name == "trim" { "strip" } else { name }, text, given, meter)
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
pub(super) fn method_of(
    object: &Value,
    name: &str,
    given: &[Value],
    named: &Named,
    meter: &Meter,
) -> Watch {
    let all = || any(given, meter).or_else(|| any(named.iter().map(|(_, value)| value), meter));
    match (object, name) {
        (Value::Str(text), _) if named.is_empty() => method(name, text, given, meter),
        (Value::Dict(_), "get") if !given.is_empty() => {
            Watch::of(membership(&given[0], object, false, meter))
        }
        (Value::Dict(_), "items" | "keys" | "values" | "copy")
        | (Value::List(_), "copy")
        | (Value::Loop(_), "cycle")
        | (Value::Callable(_), _) => Watch::Nothing,
        _ => Watch::of(content(object, meter).or_else(all)),
    }
}

/// A method of a string, before it is called.
fn method(name: &str, text: &Text, given: &[Value], meter: &Meter) -> Watch {
    let own = own(text, meter);
    let arguments = any(given, meter);
    // What is looked for, where it is the template's and in no harmless word.
    let is_foreign = |value: &Value| match value {
        Value::Str(part) => !may_be_in_words(part.as_str(), meter),
        Value::List(parts) => {
            let mut parts = parts.items.iter();
            parts.all(
                |part| matches!(part, Value::Str(part) if !may_be_in_words(part.as_str(), meter)),
            )
        }
        _ => false,
    };
    let looked = own.or(arguments);
    match name {
        "join" => Watch::of(given.first().and_then(|value| of_text(value, meter))),
        "replace" if own.is_none() => Watch::of(
            given
                .first()
                .and_then(|value| content(value, meter))
                .or_else(|| any(given.iter().skip(2), meter)),
        ),
        _ if own.is_none() => Watch::of(arguments),
        "replace"
            if given
                .first()
                .is_some_and(|old| content(old, meter).is_none() && is_foreign(old)) =>
        {
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
pub(super) fn function(name: Function, given: &[Value], named: &Named, meter: &Meter) -> Looked {
    match name {
        Function::Range | Function::StrftimeNow => {
            any(given, meter).or_else(|| any(named.iter().map(|(_, value)| value), meter))
        }
        // Of two members with one key the later one stays.
        Function::Dict | Function::Namespace => match given {
            [] => None,
            [Value::Dict(_)] if named.is_empty() => None,
            _ => any(given, meter),
        },
        Function::Cycler | Function::Joiner | Function::RaiseException => None,
    }
}
