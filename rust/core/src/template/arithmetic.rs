//! `+`, `-`, `*` and their kind, as Python's.

use super::ast::Operator;
use super::error::Problem;
use super::format;
use super::machine::Machine;
use super::meter::Meter;
use super::text::{Origin, Text};
use super::value::{ListKind, Metered, Number, Outcome, Value};

pub(super) fn negative(value: &Value) -> Outcome<Value> {
    match value.number() {
        Some(Number::Int(number)) => {
            number.checked_neg().map(|number| of_int(number, value, value)).ok_or_else(too_large)
        }
        Some(Number::Float(number)) => Ok(Value::Float(-number, origin(value, value))),
        None => Err(unary("-", value)),
    }
}

pub(super) fn positive(value: &Value) -> Outcome<Value> {
    match value.number() {
        Some(Number::Int(number)) => Ok(of_int(number, value, value)),
        Some(Number::Float(number)) => Ok(Value::Float(number, origin(value, value))),
        None => Err(unary("+", value)),
    }
}

fn unary(sign: &str, value: &Value) -> Problem {
    match value.check() {
        Err(problem) => problem,
        Ok(()) => Problem::value(format!("`{sign}` has `{}`, expected a number", value.kind())),
    }
}

fn too_large() -> Problem {
    Problem::Limit("a number is too large, expected one of 64 bits".into())
}

/// Origin of what two values become: the caller's, if one of them is.
fn origin(left: &Value, right: &Value) -> Origin {
    if left.origin() == Origin::TEMPLATE { right.origin() } else { left.origin() }
}

fn of_int(number: i64, left: &Value, right: &Value) -> Value {
    Value::Int(number, origin(left, right))
}

pub(super) fn apply(
    machine: &mut Machine<'_>,
    left: &Value,
    operator: Operator,
    right: &Value,
) -> Outcome<Value> {
    left.check()?;
    if let (Value::Str(pattern), Operator::Modulo) = (left, operator) {
        return format::percent(machine, pattern, right).map(Value::Str);
    }
    right.check()?;
    if let (Some(one), Some(other)) = (left.number(), right.number()) {
        return match (one, other) {
            (Number::Int(one), Number::Int(other)) => ints(one, operator, other, left, right),
            _ => floats(one.float(), operator, other.float(), origin(left, right)),
        };
    }
    match (left, operator, right) {
        (Value::Str(one), Operator::Add, Value::Str(other)) => {
            let meter = &machine.meter;
            meter.text(one.len() + other.len(), one.run_count() + other.run_count())?;
            if one.is_markup || other.is_markup {
                let (one, other) = (escaped(one, meter)?, escaped(other, meter)?);
                meter.text(one.len() + other.len(), 0)?;
                return Ok(Value::Str(one.concat(&other).marked(true)));
            }
            Ok(Value::Str(one.concat(other)))
        }
        (Value::List(one), Operator::Add, Value::List(other))
            if one.kind == other.kind && matches!(one.kind, ListKind::List | ListKind::Tuple) =>
        {
            machine.meter.values(one.items.len() + other.items.len())?;
            let items = one.items.iter().chain(&other.items).cloned().collect();
            Value::of_kind(items, one.kind)
        }
        (Value::Str(_) | Value::List(_), Operator::Multiply, count) => {
            times(machine, left, count, right)
        }
        (count, Operator::Multiply, Value::Str(_) | Value::List(_)) => {
            times(machine, right, count, right)
        }
        _ => {
            let (one, other, sign) = (left.kind(), right.kind(), operator.sign());
            Err(Problem::value(format!("`{sign}` is not supported between `{one}` and `{other}`")))
        }
    }
}

/// A text or list so many times.
fn times(machine: &mut Machine<'_>, value: &Value, count: &Value, right: &Value) -> Outcome<Value> {
    let Some(Number::Int(count)) = count.number() else {
        return Err(Problem::value(format!(
            "`*` is not supported between `{}` and `{}`",
            value.kind(),
            right.kind()
        )));
    };
    let count = usize::try_from(count).unwrap_or(0);
    match value {
        Value::Str(text) => {
            let mut repeated = Metered::new(&machine.meter);
            repeated.push_repeated(text, if text.is_empty() { 0 } else { count })?;
            Ok(Value::Str(repeated.finish().marked(text.is_markup)))
        }
        Value::List(list) if matches!(list.kind, ListKind::List | ListKind::Tuple) => {
            let length = list.items.len().saturating_mul(count);
            machine.meter.values(length)?;
            let items = list.items.iter().cycle().take(length).cloned().collect();
            Value::of_kind(items, list.kind)
        }
        other => Err(Problem::value(format!(
            "`*` has `{}`, expected a number, string or list",
            other.kind()
        ))),
    }
}

fn ints(one: i64, operator: Operator, other: i64, left: &Value, right: &Value) -> Outcome<Value> {
    let number = match operator {
        Operator::Add => one.checked_add(other),
        Operator::Subtract => one.checked_sub(other),
        Operator::Multiply => one.checked_mul(other),
        Operator::Divide | Operator::FloorDivide | Operator::Modulo if other == 0 => {
            return Err(Problem::value(format!("`{}` divides by 0", operator.sign())));
        }
        Operator::Divide => {
            return Ok(Value::Float(one as f64 / other as f64, origin(left, right)));
        }
        Operator::FloorDivide => one.checked_div_euclid(other).map(|quotient| {
            // Python rounds down, whatever the divisor's sign.
            if other < 0 && one.rem_euclid(other) != 0 { quotient - 1 } else { quotient }
        }),
        Operator::Modulo => one
            .checked_rem(other)
            .map(|rest| if rest != 0 && (rest < 0) != (other < 0) { rest + other } else { rest }),
        Operator::Power => match u32::try_from(other) {
            Ok(exponent) => one.checked_pow(exponent),
            Err(_) => return floats(one as f64, operator, other as f64, origin(left, right)),
        },
    };
    number.map(|number| of_int(number, left, right)).ok_or_else(too_large)
}

fn floats(one: f64, operator: Operator, other: f64, origin: Origin) -> Outcome<Value> {
    let divides = matches!(operator, Operator::Divide | Operator::FloorDivide | Operator::Modulo);
    if divides && other == 0.0 {
        return Err(Problem::value(format!("`{}` divides by 0", operator.sign())));
    }
    let number = match operator {
        Operator::Add => one + other,
        Operator::Subtract => one - other,
        Operator::Multiply => one * other,
        Operator::Divide => one / other,
        Operator::FloorDivide => (one / other).floor(),
        Operator::Modulo => {
            let rest = one % other;
            if rest != 0.0 && (rest < 0.0) != (other < 0.0) { rest + other } else { rest }
        }
        Operator::Power => one.powf(other),
    };
    Ok(Value::Float(number, origin))
}

/// A text as HTML, as `Markup` escapes what is added to it.
pub(super) fn escaped(text: &Text, meter: &Meter) -> Outcome<Text> {
    if text.is_markup {
        return Ok(text.clone());
    }
    meter.read(text.len())?;
    meter.copy(text)?;
    let escaped = text.map(|_, c, out| match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '\'' => out.push_str("&#39;"),
        '"' => out.push_str("&#34;"),
        c => out.push(c),
    });
    // A character becomes up to six.
    meter.copy(&escaped)?;
    Ok(escaped.marked(true))
}
