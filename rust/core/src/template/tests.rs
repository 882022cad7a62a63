//! Tests: `value is string`.

use super::error::Problem;
use super::meter::Meter;
use super::text::Text;
use super::value::{ListKind, Number, Outcome, Value};

const KNOWN: [&str; 36] = [
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "==",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "gt",
    "greaterthan",
    "in",
    "integer",
    "iterable",
    "le",
    "lt",
    "lessthan",
    "lower",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
    ">",
    "<",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

pub(super) fn unknown(name: &str) -> Problem {
    Problem::Unsupported(format!("test `{name}` is not known"))
}

/// What a test is given, by place or by name.
pub(super) fn given(positional: &[Value], named: &[(Text, Value)]) -> Vec<Value> {
    positional.iter().chain(named.iter().map(|(_, value)| value)).cloned().collect()
}

pub(super) fn apply(
    name: &str,
    value: &Value,
    given: &[Value],
    named: &[(Text, Value)],
    meter: &Meter,
) -> Outcome<bool> {
    let other = || {
        let other = given.first().or(named.first().map(|(_, value)| value));
        other.ok_or_else(|| Problem::value(format!("test `{name}` has no value to compare with")))
    };
    let ordered = |sign: &str, holds: fn(std::cmp::Ordering) -> bool| {
        Ok(value.compare(other()?, sign, meter)?.is_some_and(holds))
    };
    let rest = |by: f64| match value.number() {
        Some(Number::Int(number)) if by.abs() < 9e15 => Ok((number % by as i64) as f64),
        Some(number) => Ok(number.float() % by),
        _ => {
            value.check()?;
            Err(Problem::value(format!(
                "test `{name}` has `{}`, expected an integer",
                value.kind()
            )))
        }
    };
    Ok(match name {
        "defined" => value.is_none() || !matches!(value, Value::Undefined(_)),
        "undefined" => !value.is_none() && matches!(value, Value::Undefined(_)),
        "none" => value.is_none(),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(..) | Value::Long(..)),
        "float" => matches!(value, Value::Float(..)),
        "number" => value.number().is_some() || matches!(value, Value::Long(..)),
        "string" => matches!(value, Value::Str(_)),
        "mapping" => matches!(value, Value::Dict(_)),
        "iterable" => value.is_iterable(),
        // What has a length, and items by index.
        "sequence" => match value {
            Value::List(list) => {
                matches!(list.kind, ListKind::List | ListKind::Tuple | ListKind::Range)
            }
            Value::Undefined(_) | Value::Str(_) | Value::Dict(_) => true,
            _ => false,
        },
        "callable" => matches!(value, Value::Callable(_) | Value::Loop(_) | Value::Undefined(_)),
        "escaped" => matches!(value, Value::Str(text) if text.is_markup),
        "even" => rest(2.0)? == 0.0,
        "odd" => rest(2.0)?.abs() - 1.0 == 0.0,
        "divisibleby" => {
            let Some(Number::Int(by @ (..=-1 | 1..))) = other()?.number() else {
                return Err(Problem::value("test `divisibleby` expects an integer that is not 0"));
            };
            rest(by as f64)? == 0.0
        }
        "eq" | "equalto" | "==" => value.equals(other()?, meter)?,
        "ne" => !value.equals(other()?, meter)?,
        "lt" | "lessthan" | "<" => return ordered("<", std::cmp::Ordering::is_lt),
        "le" => return ordered("<=", std::cmp::Ordering::is_le),
        "gt" | "greaterthan" | ">" => return ordered(">", std::cmp::Ordering::is_gt),
        "ge" => return ordered(">=", std::cmp::Ordering::is_ge),
        "in" => return value.is_in(other()?, meter),
        "lower" => {
            let text = value.text(meter)?;
            meter.read(text.len())?;
            let text = text.as_str();
            text.chars().any(char::is_alphabetic) && !text.chars().any(char::is_uppercase)
        }
        "upper" => {
            let text = value.text(meter)?;
            meter.read(text.len())?;
            let text = text.as_str();
            text.chars().any(char::is_alphabetic) && !text.chars().any(char::is_lowercase)
        }
        "sameas" => match (value, other()?) {
            (one, other) if one.is_none() => other.is_none(),
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (one @ (Value::Int(..) | Value::Long(..) | Value::Str(_)), other)
                if one.kind() == other.kind() =>
            {
                one.equals(other, meter)?
            }
            (Value::List(one), Value::List(other)) => std::rc::Rc::ptr_eq(one, other),
            (Value::Dict(one), Value::Dict(other)) => std::rc::Rc::ptr_eq(one, other),
            _ => false,
        },
        "filter" => matches!(value, Value::Str(text) if super::filters::is_known(text.as_str())),
        "test" => matches!(value, Value::Str(text) if is_known(text.as_str())),
        _ => return Err(unknown(name)),
    })
}
