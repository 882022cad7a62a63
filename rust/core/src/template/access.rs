//! What a template takes from a value: attributes (`object.name`), items (`object[index]`) and slices.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use super::error::Problem;
use super::functions::Function;
use super::machine::{Callable, Loop};
use super::meter::Meter;
use super::methods;
use super::value::{List, ListKind, Metered, Missing, Number, Outcome, Value};

/// The methods of Python's `dict`.
const DICT_METHODS: [&str; 11] = [
    "clear",
    "copy",
    "fromkeys",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];

/// Whether a name is one of Python's own: `__class__`.
pub(super) fn is_dunder(name: &str) -> bool {
    name.len() > 4 && name.starts_with("__") && name.ends_with("__")
}

/// `object.name`: an attribute of the object, else a member.
pub(super) fn attribute(object: &Value, name: &Arc<str>) -> Outcome<Value> {
    if is_dunder(name) {
        // Python's own attributes are out of reach, and an undefined value says so in silence.
        return Ok(missing(object, name));
    }
    if object.is_none() {
        return Ok(missing(object, name));
    }
    object.check()?;
    if let Some(found) = own_attribute(object, name) {
        return Ok(found);
    }
    if let Value::Dict(dict) = object
        && let Some(value) = dict.get_str(name)
    {
        return Ok(value.clone());
    }
    Ok(missing(object, name))
}

/// `object[index]`: a member or item, else an attribute.
pub(super) fn item(object: &Value, index: &Value, meter: &Meter) -> Outcome<Value> {
    if !object.is_none() {
        object.check()?;
    }
    match (object, index) {
        (Value::Dict(dict), _) => {
            if let Some(value) = dict.get(index, meter)? {
                return Ok(value.clone());
            }
        }
        (Value::List(list), Value::Int(..) | Value::Bool(_)) if is_indexed(list) => {
            if let Some(Number::Int(at)) = index.number()
                && let Some(at) = place(at, list.items.len())
            {
                return Ok(list.items[at].clone());
            }
        }
        (Value::Str(text), Value::Int(..) | Value::Bool(_)) => {
            if let Some(Number::Int(at)) = index.number()
                && let Some(range) = char_at(text.as_str(), at, meter)?
            {
                return Ok(Value::Str(text.slice(range)));
            }
        }
        _ => {}
    }
    if let Value::Str(name) = index {
        if let Some(found) = own_attribute(object, name.as_str()) {
            return Ok(found);
        }
        meter.copy(name)?;
        return Ok(missing(object, &name.as_str().into()));
    }
    let index = match index.text(meter) {
        Ok(text) => text.as_str().to_owned(),
        Err(_) => index.kind().to_owned(),
    };
    Ok(missing(object, &index.into()))
}

/// Bytes of the character at an index, which may count from the end.
fn char_at(text: &str, at: i64, meter: &Meter) -> Outcome<Option<Range<usize>>> {
    let Some(start) = char_place(text, at, meter)? else { return Ok(None) };
    let c = text[start..].chars().next();
    Ok(c.map(|c| start..start + c.len_utf8()))
}

/// The byte at which a character begins, by its index, which may count from the end. The end of the text is a place,
/// too. Cost: as far as the character is from that end.
pub(super) fn char_place(text: &str, at: i64, meter: &Meter) -> Outcome<Option<usize>> {
    let count = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    meter.read(count.min(text.len()))?;
    if at < 0 {
        // Characters from the end are as many bytes that do not continue one.
        let bytes = text.bytes().enumerate().rev().filter(|(_, byte)| byte & 0xC0 != 0x80);
        return Ok(bytes.map(|(at, _)| at).nth(count - 1));
    }
    let mut chars = text.chars();
    if count > 0 && chars.nth(count - 1).is_none() {
        return Ok(None);
    }
    Ok(Some(text.len() - chars.as_str().len()))
}

fn is_indexed(list: &List) -> bool {
    matches!(list.kind, ListKind::List | ListKind::Tuple | ListKind::Range)
}

/// An index from the front, of one that may be from the back.
fn place(at: i64, length: usize) -> Option<usize> {
    let at = if at < 0 { at + length as i64 } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

pub(super) fn missing(object: &Value, name: &Arc<str>) -> Value {
    Value::Undefined(Missing::Member(object.kind(), name.clone()))
}

/// An attribute that the object has by its type: a method, or a field of `loop` and of namespaces.
fn own_attribute(object: &Value, name: &str) -> Option<Value> {
    match object {
        Value::Namespace(members) => {
            let members = members.borrow();
            members.get_str(name).cloned()
        }
        Value::Loop(of) => loop_attribute(of, object, name),
        Value::Callable(callable) => match (&**callable, name) {
            (Callable::Cycler { items, next }, "current") => items.get(next.get()).cloned(),
            (Callable::Cycler { .. }, "next" | "reset") => Some(method(object, name)),
            (Callable::Macro { body, .. }, "name") => Some(Value::Str(body.name.clone())),
            // Python's `dict[…]` is a type that makes dicts, and `dict.from_keys(pairs)` means that item.
            (Callable::Function(Function::Dict), name) if !DICT_METHODS.contains(&name) => {
                Some(object.clone())
            }
            _ => None,
        },
        _ => methods::has(object, name).then(|| method(object, name)),
    }
}

fn method(object: &Value, name: &str) -> Value {
    Value::Callable(Rc::new(Callable::Method(object.clone(), name.into())))
}

fn loop_attribute(of: &Rc<Loop>, object: &Value, name: &str) -> Option<Value> {
    let (index, length) = (of.index, of.items.len());
    let item = |at: Option<usize>, which: &str| {
        let item = at.and_then(|at| of.items.get(at)).cloned();
        item.unwrap_or_else(|| Value::undefined(format!("there is no {which} item")))
    };
    Some(match name {
        "index" => Value::size(index + 1),
        "index0" => Value::size(index),
        "revindex" => Value::size(length - index),
        "revindex0" => Value::size(length - index - 1),
        "first" => Value::Bool(index == 0),
        "last" => Value::Bool(index + 1 == length),
        "length" => Value::size(length),
        "depth" => Value::size(of.depth + 1),
        "depth0" => Value::size(of.depth),
        "previtem" => item(index.checked_sub(1), "previous"),
        "nextitem" => item(Some(index + 1), "next"),
        "cycle" | "changed" => method(object, name),
        _ => return None,
    })
}

/// `object[start:stop:step]`
pub(super) fn slice(object: &Value, bounds: &[Option<Value>; 3], meter: &Meter) -> Outcome<Value> {
    object.check()?;
    let mut parts = [None; 3];
    for (part, bound) in parts.iter_mut().zip(bounds) {
        *part = match bound {
            None | Some(Value::None) => None,
            Some(bound) => match bound.number() {
                Some(Number::Int(value)) => Some(value),
                _ => {
                    return Err(Problem::value(format!(
                        "slice has `{}`, expected an integer",
                        bound.kind()
                    )));
                }
            },
        };
    }
    let step = parts[2].unwrap_or(1);
    if step == 0 {
        return Err(Problem::value("slice has a step of 0"));
    }
    match object {
        Value::List(list) if is_indexed(list) => {
            let places = Places::new(parts[0], parts[1], step, list.items.len());
            meter.values(places.left)?;
            let items = places.map(|at| list.items[at].clone()).collect();
            Ok(Value::List(Rc::new(List::new(items, list.kind, list.origin)?)))
        }
        Value::Str(text) if step == 1 => {
            let range = char_range(text.as_str(), parts[0], parts[1], meter)?.unwrap_or(0..0);
            meter.text(range.len(), text.run_count().min(range.len()))?;
            Ok(Value::Str(text.slice(range)))
        }
        Value::Str(text) => {
            // The places of all characters, eight bytes each.
            meter.read(text.len())?;
            meter.make(8 * text.len() as u64)?;
            let mut starts: Vec<usize> = text.as_str().char_indices().map(|(at, _)| at).collect();
            starts.push(text.len());
            let mut part = Metered::new(meter);
            for at in Places::new(parts[0], parts[1], step, starts.len() - 1) {
                part.push_range(text, starts[at]..starts[at + 1])?;
            }
            Ok(Value::Str(part.finish().marked(text.is_markup)))
        }
        other => Err(Problem::value(format!("`{}` has no slices", other.kind()))),
    }
}

/// Bytes of the characters from a start to an end, by their indices, as a slice takes them. None where the start is
/// behind the end.
pub(super) fn char_range(
    text: &str,
    start: Option<i64>,
    end: Option<i64>,
    meter: &Meter,
) -> Outcome<Option<Range<usize>>> {
    let place = |at: Option<i64>, default: usize| match at {
        None => Ok(default),
        Some(at) => {
            let beyond = if at < 0 { 0 } else { text.len() };
            Ok(char_place(text, at, meter)?.unwrap_or(beyond))
        }
    };
    let (start, end) = (place(start, 0)?, place(end, text.len())?);
    Ok((start <= end).then_some(start..end))
}

/// The indices of a slice, as Python's `slice.indices` gives them.
struct Places {
    next: i64,
    step: i64,
    left: usize,
}

impl Places {
    fn new(start: Option<i64>, stop: Option<i64>, step: i64, length: usize) -> Self {
        let length = length as i64;
        let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let clamp = |at: i64| (if at < 0 { at + length } else { at }).clamp(lowest, highest);
        let (first, last) = if step > 0 { (0, length) } else { (length - 1, -1) };
        let start = start.map_or(first, clamp);
        let stop = stop.map_or(last, clamp);
        let between = if step > 0 { stop - start } else { start - stop };
        let left = (between.max(0) as u64).div_ceil(step.unsigned_abs());
        Self { next: start, step, left: left as usize }
    }
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let at = self.next as usize;
        self.next = self.next.saturating_add(self.step);
        Some(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
