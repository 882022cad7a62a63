//! Functions that every template has.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::error::Problem;
use super::given::Named;
use super::machine::{Callable, Machine};
use super::text::{Origin, Text};
use super::value::{Dict, List, ListKind, Number, Outcome, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Range,
    Dict,
    Namespace,
    Cycler,
    Joiner,
    RaiseException,
    StrftimeNow,
}

/// Most items of a `range`, as the sandbox of jinja2 has it.
const MAX_RANGE: i64 = 100_000;

/// The function of a name.
pub(super) fn global(name: &str) -> Option<Value> {
    let function = match name {
        "range" => Function::Range,
        "dict" => Function::Dict,
        "namespace" => Function::Namespace,
        "cycler" => Function::Cycler,
        "joiner" => Function::Joiner,
        "raise_exception" => Function::RaiseException,
        "strftime_now" => Function::StrftimeNow,
        _ => return None,
    };
    Some(Value::Callable(Rc::new(Callable::Function(function))))
}

pub(super) fn call(
    machine: &mut Machine<'_>,
    function: Function,
    given: Vec<Value>,
    named: Named,
) -> Outcome<Value> {
    let callable = |callable| Ok(Value::Callable(Rc::new(callable)));
    match function {
        Function::Range => range(machine, &given),
        Function::Dict => {
            Ok(Value::Dict(Rc::new(Dict::new(members(given, named)?, Origin::TEMPLATE))))
        }
        Function::Namespace => {
            let members = members(given, named)?.into_iter();
            let members = members.map(|(name, value)| Ok((name.text()?, value)));
            Ok(Value::Namespace(Rc::new(RefCell::new(members.collect::<Outcome<_>>()?))))
        }
        Function::Cycler if given.is_empty() => {
            Err(Problem::value("`cycler` has no items, expected some"))
        }
        Function::Cycler => callable(Callable::Cycler { items: given, next: Cell::new(0) }),
        Function::Joiner => {
            let separator = given.into_iter().next().unwrap_or_else(|| Value::str(", "));
            callable(Callable::Joiner { separator, is_used: Cell::new(false) })
        }
        Function::RaiseException => {
            let message = given.first().or(named.first().map(|(_, value)| value));
            let text = message.map_or_else(|| Ok(Text::empty()), Value::text)?;
            Err(Problem::Raised(text.as_str().to_owned()))
        }
        Function::StrftimeNow => {
            let Some(Value::Str(pattern)) = given.first().or(named.first().map(|(_, value)| value))
            else {
                return Err(Problem::value("`strftime_now` has no format, expected a string"));
            };
            let now = (machine.world.now)(pattern.as_str());
            let now = now.ok_or_else(|| {
                let pattern = chatcodec_vocab::excerpt(pattern.as_str(), 80);
                Problem::value(format!(
                    "`strftime_now` has the format {pattern:?}, which gives no time"
                ))
            })?;
            Ok(Value::Str(Text::of(&now, pattern.main_origin())))
        }
    }
}

/// Members from a dict or pairs, and from named arguments.
fn members(given: Vec<Value>, named: Named) -> Outcome<Vec<(Value, Value)>> {
    let mut members = Vec::new();
    for value in given {
        match &value {
            Value::Dict(dict) => members.extend(dict.members.iter().cloned()),
            other => {
                for pair in other.iterate()? {
                    let pair = pair.iterate()?;
                    let [key, value] = &pair[..] else {
                        return Err(Problem::value(format!(
                            "a member has {} values, expected 2",
                            pair.len()
                        )));
                    };
                    key.check_hashable()?;
                    members.push((key.clone(), value.clone()));
                }
            }
        }
    }
    members.extend(named.into_iter().map(|(name, value)| (Value::Str(name), value)));
    Ok(members)
}

fn range(machine: &mut Machine<'_>, given: &[Value]) -> Outcome<Value> {
    let mut bounds = Vec::with_capacity(given.len());
    let mut origin = Origin::TEMPLATE;
    for value in given {
        if origin == Origin::TEMPLATE {
            origin = value.origin();
        }
        match value.number() {
            Some(Number::Int(bound)) => bounds.push(bound),
            _ => {
                value.check()?;
                return Err(Problem::value(format!(
                    "`range` has `{}`, expected an integer",
                    value.kind()
                )));
            }
        }
    }
    let (start, stop, step) = match bounds[..] {
        [stop] => (0, stop, 1),
        [start, stop] => (start, stop, 1),
        [start, stop, step] if step != 0 => (start, stop, step),
        _ => {
            return Err(Problem::value(
                "`range` expects one to three integers, and a step that is not 0",
            ));
        }
    };
    let length = if step > 0 { stop.saturating_sub(start) } else { start.saturating_sub(stop) };
    let length = length.max(0).div_euclid(step.saturating_abs()).saturating_add(1);
    if length > MAX_RANGE + 1 {
        return Err(Problem::Limit(format!(
            "`range` has {length} items, expected at most {MAX_RANGE}"
        )));
    }
    machine.take(length as u64)?;
    let mut items = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        items.push(Value::Int(at, origin));
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(Value::List(Rc::new(List { items, kind: ListKind::Range, origin })))
}
