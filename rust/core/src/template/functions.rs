//! Functions that every template has.

use std::cell::Cell;
use std::rc::Rc;

use super::error::Problem;
use super::given::Named;
use super::machine::{Callable, Machine};
use super::meter::Meter;
use super::text::{Origin, Text};
use super::value::{Dict, List, Number, Outcome, Value};

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

/// Longest format of a time, in bytes.
const MAX_TIME_FORMAT: usize = 1 << 10;

/// Steps of asking for the time, which may be the interpreter's.
const TIME_STEPS: u64 = 100;

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
            let dict = members(given, named, &machine.meter)?;
            Ok(Value::Dict(Rc::new(dict)))
        }
        Function::Namespace => {
            let members = members(given, named, &machine.meter)?;
            let mut attributes = Dict::with_capacity(members.members.len(), Origin::TEMPLATE);
            for (name, value) in members.members {
                let name = Value::Str(name.text(&machine.meter)?);
                attributes.insert(name, value, &machine.meter)?;
            }
            machine.namespace(attributes)
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
            let text = message
                .map_or_else(|| Ok(Text::empty()), |message| message.text(&machine.meter))?;
            Err(Problem::Raised(text.as_str().to_owned()))
        }
        Function::StrftimeNow => {
            let Some(Value::Str(pattern)) = given.first().or(named.first().map(|(_, value)| value))
            else {
                return Err(Problem::value("`strftime_now` has no format, expected a string"));
            };
            if pattern.len() > MAX_TIME_FORMAT {
                return Err(Problem::Limit(format!(
                    "`strftime_now` has a format of {} bytes, expected at most {MAX_TIME_FORMAT}",
                    pattern.len()
                )));
            }
            machine.meter.take(TIME_STEPS)?;
            machine.meter.read(pattern.len())?;
            let now = (machine.world.now)(pattern.as_str());
            let now = now.ok_or_else(|| {
                let pattern = chatcodec_vocab::excerpt(pattern.as_str(), 80);
                Problem::value(format!(
                    "`strftime_now` has the format {pattern:?}, which gives no time"
                ))
            })?;
            machine.meter.text(now.len(), 1)?;
            Ok(Value::Str(Text::of(&now, pattern.main_origin())))
        }
    }
}

/// Members from a dict or pairs, and from named arguments.
fn members(given: Vec<Value>, named: Named, meter: &Meter) -> Outcome<Dict> {
    let mut members = Dict::with_capacity(named.len(), Origin::TEMPLATE);
    for value in given {
        if let Value::Dict(dict) = &value {
            meter.members(dict.members.len())?;
            for (key, value) in &dict.members {
                members.insert(key.clone(), value.clone(), meter)?;
            }
            continue;
        }
        let pairs = value.items(meter)?;
        meter.members(pairs.len())?;
        for pair in pairs.iter() {
            let pair = pair.items(meter)?;
            let [key, value] = &pair[..] else {
                return Err(Problem::value(format!(
                    "a member has {} values, expected 2",
                    pair.len()
                )));
            };
            key.hash(meter)?;
            members.insert(key.clone(), value.clone(), meter)?;
        }
    }
    meter.members(named.len())?;
    for (name, value) in named {
        members.insert(Value::Str(name), value, meter)?;
    }
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
    // A loop within a loop most often asks for one range again and again.
    let asked = (start, stop, step, origin);
    if let Some((known, range)) = &machine.last_range
        && *known == asked
    {
        // It is not made again, but most often walked.
        machine.meter.take(length as u64)?;
        return Ok(Value::List(range.clone()));
    }
    let held = machine.meter.hold(length as usize)?;
    let mut items = Vec::with_capacity(length as usize);
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        items.push(Value::Int(at, origin));
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    let range = Rc::new(List::range(items, origin, held));
    machine.last_range = Some((asked, range.clone()));
    Ok(Value::List(range))
}
