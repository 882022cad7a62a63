//! What a template takes from a value: attributes (`object.name`), items (`object[index]`) and slices.

use std::rc::Rc;
use std::sync::Arc;

use super::error::Problem;
use super::machine::{Callable, Loop};
use super::methods;
use super::text::Builder;
use super::value::{List, ListKind, Missing, Number, Outcome, Value};

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
pub(super) fn item(object: &Value, index: &Value) -> Outcome<Value> {
    if !object.is_none() {
        object.check()?;
    }
    match (object, index) {
        (Value::Dict(dict), _) => {
            if let Some(value) = dict.get(index) {
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
            if let Some(Number::Int(at)) = index.number() {
                let mut starts: Vec<usize> =
                    text.as_str().char_indices().map(|(at, _)| at).collect();
                starts.push(text.len());
                if let Some(at) = place(at, starts.len() - 1) {
                    return Ok(Value::Str(text.slice(starts[at]..starts[at + 1])));
                }
            }
        }
        _ => {}
    }
    if let Value::Str(name) = index {
        if let Some(found) = own_attribute(object, name.as_str()) {
            return Ok(found);
        }
        return Ok(missing(object, &name.as_str().into()));
    }
    let index = match index.text() {
        Ok(text) => text.as_str().to_owned(),
        Err(_) => index.kind().to_owned(),
    };
    Ok(missing(object, &index.into()))
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
            members.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value.clone())
        }
        Value::Loop(of) => loop_attribute(of, object, name),
        Value::Callable(callable) => match (&**callable, name) {
            (Callable::Cycler { items, next }, "current") => items.get(next.get()).cloned(),
            (Callable::Cycler { .. }, "next" | "reset") => Some(method(object, name)),
            (Callable::Macro { body, .. }, "name") => Some(Value::Str(body.name.clone())),
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

/// Items of a slice that there is room for before they are counted.
const SLICE_CAPACITY: i64 = 32;

/// `object[start:stop:step]`
pub(super) fn slice(object: &Value, bounds: &[Option<Value>; 3]) -> Outcome<Value> {
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
    let places = |length: usize| -> Vec<usize> {
        let length = length as i64;
        let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
        let clamp = |at: i64| (if at < 0 { at + length } else { at }).clamp(lowest, highest);
        let (first, last) = if step > 0 { (0, length) } else { (length - 1, -1) };
        let start = parts[0].map_or(first, clamp);
        let stop = parts[1].map_or(last, clamp);
        let mut places = Vec::with_capacity(length.min(SLICE_CAPACITY) as usize);
        let mut at = start;
        while if step > 0 { at < stop } else { at > stop } {
            places.push(at as usize);
            match at.checked_add(step) {
                Some(next) => at = next,
                None => break,
            }
        }
        places
    };
    match object {
        Value::List(list) if is_indexed(list) => {
            let items =
                places(list.items.len()).into_iter().map(|at| list.items[at].clone()).collect();
            Ok(Value::List(Rc::new(List { items, kind: list.kind, origin: list.origin })))
        }
        Value::Str(text) => {
            let mut starts: Vec<usize> = text.as_str().char_indices().map(|(at, _)| at).collect();
            starts.push(text.len());
            let places = places(starts.len() - 1);
            if step == 1 {
                let range = match (places.first(), places.last()) {
                    (Some(&first), Some(&last)) => starts[first]..starts[last + 1],
                    _ => 0..0,
                };
                return Ok(Value::Str(text.slice(range)));
            }
            let mut part = Builder::default();
            for at in places {
                part.push_range(text, starts[at]..starts[at + 1]);
            }
            Ok(Value::Str(part.finish().marked(text.is_markup)))
        }
        other => Err(Problem::value(format!("`{}` has no slices", other.kind()))),
    }
}
