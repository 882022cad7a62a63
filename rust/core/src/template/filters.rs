//! Filters: `value | filter`.

use std::cmp::Ordering;
use std::fmt::Write;
use std::rc::Rc;

use super::access::{attribute, item};
use super::arithmetic::escaped;
use super::error::Problem;
use super::given::{Given, Named};
use super::json::{self, Style};
use super::lexer::is_space;
use super::machine::{CALL_STEPS, Machine};
use super::meter::Meter;
use super::methods;
use super::text::{Origin, Text};
use super::value::{Dict, Metered, Number, Outcome, Value};
use super::{format, sort, tests, watch};

const KNOWN: [&str; 47] = [
    "abs",
    "attr",
    "batch",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "forceescape",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "urlencode",
    "wordcount",
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// Whether a filter is jinja2's, and not here.
pub(super) fn is_unsupported(name: &str) -> bool {
    let of_jinja =
        ["filesizeformat", "pprint", "random", "striptags", "urlize", "wordwrap", "xmlattr"];
    of_jinja.contains(&name)
}

pub(super) fn unknown(name: &str) -> Problem {
    let what = if is_unsupported(name) { "not supported" } else { "not known" };
    Problem::Unsupported(format!("filter `{name}` is {what}"))
}

pub(super) fn apply(
    machine: &mut Machine<'_>,
    name: &str,
    input: Value,
    positional: Vec<Value>,
    named: Named,
) -> Outcome<Value> {
    if machine.looked.is_some() {
        return applied(machine, name, input, positional, named);
    }
    let watch = watch::filter(name, &input, &positional, &named, &machine.meter);
    machine.note(|notes| notes.filter(name, &input, &positional, &named));
    let outcome = applied(machine, name, input, positional, named);
    let looked = watch.looked(&outcome, &machine.meter);
    machine.look(looked);
    outcome
}

#[allow(clippy::too_many_lines, reason = "one line a filter")]
fn applied(
    machine: &mut Machine<'_>,
    name: &str,
    input: Value,
    positional: Vec<Value>,
    named: Named,
) -> Outcome<Value> {
    let mut given = Given::new(name, positional, named);
    match name {
        "default" | "d" => {
            let default = given.next("default_value").unwrap_or_else(|| Value::str(""));
            let also_false = given.flag("boolean", false);
            let is_missing = matches!(input, Value::Undefined(_)) || also_false && !input.is_true();
            return Ok(if is_missing { default } else { input });
        }
        "length" | "count" => {
            let length = input.length(&machine.meter)?;
            return Ok(Value::counted(length, input.origin()));
        }
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => {
            return sifted(machine, name, &input, given);
        }
        "format" => {
            let (positional, named) = given.rest();
            let values = if named.is_empty() {
                Value::tuple(positional)?
            } else {
                machine.meter.members(named.len())?;
                let members = named.into_iter().map(|(name, value)| (Value::Str(name), value));
                Value::Dict(Rc::new(Dict::new(members, Origin::TEMPLATE, &machine.meter)?))
            };
            let pattern = input.text(&machine.meter)?;
            return format::percent(machine, &pattern, &values).map(Value::Str);
        }
        "tojson" => return to_json(machine, &input, given),
        _ => {}
    }
    let value = match name {
        "string" => Value::Str(input.text(&machine.meter)?),
        "safe" => Value::Str(input.text(&machine.meter)?.marked(true)),
        "escape" | "e" => Value::Str(escaped(&input.text(&machine.meter)?, &machine.meter)?),
        "forceescape" => {
            let text = input.text(&machine.meter)?.marked(false);
            Value::Str(escaped(&text, &machine.meter)?)
        }
        "title" => Value::Str(titled(&input.text(&machine.meter)?, &machine.meter)?),
        "upper" | "lower" => {
            let text = Value::Str(input.text(&machine.meter)?);
            methods::call(machine, &text, name, Vec::new(), Vec::new())?
        }
        "capitalize" => {
            let text = input.text(&machine.meter)?;
            Value::Str(methods::capitalized(&text, &machine.meter)?)
        }
        "trim" => {
            let chars = given.optional_text("chars")?;
            let text = input.text(&machine.meter)?;
            let chars = chars.as_ref().map(Text::as_str);
            Value::Str(methods::strip(&text, chars, true, true, &machine.meter)?)
        }
        "replace" => {
            let old = given.needed("old")?.text(&machine.meter)?;
            let new = given.needed("new")?.text(&machine.meter)?;
            let count = given.int("count", -1)?;
            let text = input.text(&machine.meter)?.marked(false);
            Value::Str(methods::replace(
                machine,
                &text,
                &old.marked(false),
                &new.marked(false),
                count,
            )?)
        }
        "center" => {
            let width = given.int("width", 80)?;
            let text = Value::Str(input.text(&machine.meter)?);
            methods::call(machine, &text, "center", vec![Value::int(width)], Vec::new())?
        }
        "indent" => indented(machine, &input, &mut given)?,
        "truncate" => truncated(&input, &mut given, &machine.meter)?,
        "wordcount" => {
            let text = input.text(&machine.meter)?;
            machine.meter.read(text.len())?;
            let is_word = |c: char| c == '_' || c.is_alphanumeric();
            let words = text.as_str().split(|c| !is_word(c)).filter(|word| !word.is_empty());
            Value::counted(words.count(), text.main_origin())
        }
        "urlencode" => match &input {
            Value::Str(text) => Value::Str(url(text, &machine.meter)?),
            Value::Dict(_) | Value::List(_) => {
                return Err(Problem::Unsupported(
                    "filter `urlencode` of a dict or list is not supported".into(),
                ));
            }
            other => Value::Str(url(&other.text(&machine.meter)?, &machine.meter)?),
        },
        "list" => Value::list(input.iterate(&machine.meter)?)?,
        "items" => match &input {
            Value::Undefined(_) => Value::generator(Vec::new())?,
            Value::Dict(_) => {
                let items = methods::call(machine, &input, "items", Vec::new(), Vec::new())?;
                Value::generator(items.iterate(&machine.meter)?)?
            }
            other => {
                return Err(Problem::value(format!(
                    "`items` has `{}`, expected a dict",
                    other.kind()
                )));
            }
        },
        "first" | "last" => {
            let item = input.end_item(name == "first", &machine.meter)?;
            item.unwrap_or_else(|| {
                Value::undefined(format!("there is no {name} item, the sequence is empty"))
            })
        }
        "reverse" => match &input {
            Value::Str(text) => {
                machine.meter.read(2 * text.len())?;
                let mut reversed = Metered::new(&machine.meter);
                let mut end = text.len();
                for (at, _) in text.as_str().char_indices().rev() {
                    reversed.push_range(text, at..end)?;
                    end = at;
                }
                Value::Str(reversed.finish().marked(text.is_markup))
            }
            other => {
                let mut items = other.iterate(&machine.meter)?;
                items.reverse();
                Value::generator(items)?
            }
        },
        "join" => joined(machine, &input, &mut given)?,
        "sum" => summed(machine, &input, &mut given)?,
        "min" | "max" => extreme(name, &input, &mut given, &machine.meter)?,
        "sort" => sorted(machine, &input, &mut given)?,
        "dictsort" => dict_sorted(machine, &input, &mut given)?,
        "unique" => unique(&input, &mut given, &machine.meter)?,
        "groupby" => grouped(machine, &input, &mut given)?,
        "batch" | "slice" => parted(machine, name, &input, &mut given)?,
        "attr" => {
            let attribute_name = given.text("name")?;
            machine.meter.copy(&attribute_name)?;
            input.check()?;
            match input {
                // Attributes alone, not members.
                Value::Dict(_) if !methods::has(&input, attribute_name.as_str()) => {
                    Value::undefined(format!(
                        "`dict` has no attribute `{}`",
                        attribute_name.as_str()
                    ))
                }
                _ => attribute(&input, &attribute_name.as_str().into())?,
            }
        }
        "int" => whole(&input, &mut given, &machine.meter)?,
        "float" => {
            let default = given.next("default").unwrap_or(Value::Float(0.0, Origin::TEMPLATE));
            match &input {
                Value::Str(text) => match python_float(text.as_str(), &machine.meter)? {
                    Some(number) => Value::Float(number, text.main_origin()),
                    None => default,
                },
                Value::Long(number, origin) => {
                    Value::Float(number.parse().unwrap_or(f64::INFINITY), *origin)
                }
                other => {
                    other.check()?;
                    other
                        .number()
                        .map_or(default, |number| Value::Float(number.float(), other.origin()))
                }
            }
        }
        "abs" => match input.number() {
            Some(Number::Int(number)) => Value::Int(number.saturating_abs(), input.origin()),
            Some(Number::Float(number)) => Value::Float(number.abs(), input.origin()),
            None => {
                input.check()?;
                return Err(Problem::value(format!(
                    "`abs` has `{}`, expected a number",
                    input.kind()
                )));
            }
        },
        "round" => rounded(&input, &mut given, &machine.meter)?,
        _ => return Err(unknown(name)),
    };
    given.end()?;
    Ok(value)
}

/// Spaces of an indentation.
fn spaces(width: i64, origin: Origin) -> Text {
    Text::of(&" ".repeat(width.max(0) as usize), origin)
}

fn to_json(machine: &mut Machine<'_>, input: &Value, mut given: Given<'_>) -> Outcome<Value> {
    let ascii = given.flag("ensure_ascii", false);
    let indent = match given.next("indent") {
        None | Some(Value::None) => None,
        Some(Value::Str(text)) => Some(text),
        Some(value) => match value.number() {
            Some(Number::Int(width)) if width <= 1000 => Some(spaces(width, value.origin())),
            _ => {
                return Err(Problem::value(
                    "`tojson`: `indent` is not a number up to 1000 or a string",
                ));
            }
        },
    };
    let (mut between, mut colon) =
        (Text::template(if indent.is_some() { "," } else { ", " }), Text::template(": "));
    if let Some(separators) = given.next("separators").filter(|value| !matches!(value, Value::None))
    {
        let both = separators.items(&machine.meter)?;
        let [Value::Str(one), Value::Str(other)] = &both[..] else {
            return Err(Problem::value("`tojson`: `separators` is not a pair of strings"));
        };
        (between, colon) = (one.clone(), other.clone());
    }
    let sorted = given.flag("sort_keys", false);
    given.end()?;
    let style = Style { ascii, indent, between, colon, sorted };
    json::write(input, &style, &machine.meter).map(Value::Str)
}

/// The value at an attribute's path: `function.name`, `0.name`, or a number.
fn at_path(value: &Value, path: &Value, meter: &Meter) -> Outcome<Value> {
    let Value::Str(path) = path else {
        return item(value, path, meter);
    };
    let runs = path.run_count();
    meter.read(path.len())?;
    let mut value = value.clone();
    for part in split(path, '.') {
        meter.take(2 + runs as u64)?;
        value = match part.as_str().parse::<i64>() {
            Ok(index) if part.as_str().bytes().all(|b| b.is_ascii_digit()) => {
                item(&value, &Value::Int(index, part.main_origin()), meter)?
            }
            _ => item(&value, &Value::Str(part), meter)?,
        };
    }
    Ok(value)
}

/// The parts of a text between separators.
fn split(text: &Text, separator: char) -> impl Iterator<Item = Text> {
    let mut start = 0;
    text.as_str().split(separator).map(move |part| {
        let end = start + part.len();
        let part = text.slice(start..end);
        start = end + separator.len_utf8();
        part
    })
}

/// `map`, `select`, `reject`, `selectattr`, `rejectattr`.
fn sifted(
    machine: &mut Machine<'_>,
    name: &str,
    input: &Value,
    mut given: Given<'_>,
) -> Outcome<Value> {
    // What is false has no items, whatever it is.
    let items = if input.is_true() { input.iterate(&machine.meter)? } else { Vec::new() };
    let count = items.len();
    machine.meter.values(count)?;
    if name == "map" {
        if let Some(path) = given.next("") {
            let Value::Str(filter) = path else {
                return Err(Problem::value("`map` expects the name of a filter, or `attribute=`"));
            };
            let filter = filter.as_str().to_owned();
            if !is_known(&filter) {
                return Err(unknown(&filter));
            }
            let (positional, named) = given.rest();
            let each = (CALL_STEPS + positional.len() as u64)
                .saturating_add(2 * named.len() as u64)
                .saturating_mul(count as u64);
            machine.meter.take(each)?;
            let mapped = items
                .into_iter()
                .map(|item| apply(machine, &filter, item, positional.clone(), named.clone()));
            return Value::generator(mapped.collect::<Outcome<_>>()?);
        }
        let path = given.needed("attribute")?;
        let default = given.next("default");
        given.end()?;
        let mapped = items.iter().map(|item| {
            machine.look(watch::path(item, &path, &machine.meter));
            let value = at_path(item, &path, &machine.meter)?;
            Ok(match (&value, &default) {
                (Value::Undefined(_), Some(default)) => default.clone(),
                _ => value,
            })
        });
        return Value::generator(mapped.collect::<Outcome<_>>()?);
    }
    let keeps = name.starts_with("select");
    let path = if name.ends_with("attr") { Some(given.needed("attribute")?) } else { None };
    let test = match given.next("") {
        Some(Value::Str(test)) => Some(test),
        Some(other) => {
            return Err(Problem::value(format!(
                "`{name}` has the test `{}`, expected its name",
                other.kind()
            )));
        }
        None => None,
    };
    let (positional, named) = given.rest();
    machine.meter.take(CALL_STEPS.saturating_mul(count as u64))?;
    let mut kept = Vec::new();
    for item in items {
        let value = match &path {
            Some(path) => {
                machine.look(watch::path(&item, path, &machine.meter));
                at_path(&item, path, &machine.meter)?
            }
            None => item.clone(),
        };
        let holds = match &test {
            Some(test) if !tests::is_known(test.as_str()) => {
                return Err(tests::unknown(test.as_str()));
            }
            Some(test) => {
                let meter = &machine.meter;
                let given = tests::given(&positional, &named);
                machine.note(|notes| notes.test(test.as_str(), &value, &given));
                let spent = watch::generated(given.iter().chain([&value]), meter);
                let holds = tests::apply(test.as_str(), &value, &positional, &named, meter)?;
                let looked = watch::test(test.as_str(), &value, &given, holds, meter);
                machine.look(spent.or(looked).or(test.content()));
                holds
            }
            None => value.is_true(),
        };
        if holds == keeps {
            kept.push(item);
        }
    }
    Value::generator(kept)
}

fn joined(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let meter = &machine.meter;
    let separator = match given.next("d") {
        Some(separator) => separator.text(meter)?,
        None => Text::empty(),
    };
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let mut joined = Metered::new(meter);
    for (nth, item) in input.items(meter)?.iter().enumerate() {
        meter.take(1)?;
        if nth > 0 {
            joined.push_text(&separator)?;
        }
        let text = match &path {
            Some(path) => at_path(item, path, meter)?.text(meter)?,
            None => item.text(meter)?,
        };
        joined.push_text(&text)?;
    }
    Ok(Value::Str(joined.finish()))
}

fn summed(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let mut sum = given.next("start").unwrap_or_else(|| Value::int(0));
    for item in input.items(&machine.meter)?.iter() {
        machine.meter.take(1)?;
        let value = match &path {
            Some(path) => at_path(item, path, &machine.meter)?,
            None => item.clone(),
        };
        sum = super::arithmetic::apply(machine, &sum, super::ast::Operator::Add, &value)?;
    }
    Ok(sum)
}

/// The value by which an item is sorted: in lower case, unless case counts.
fn sort_key(value: &Value, by_case: bool, meter: &Meter) -> Outcome<Value> {
    match value {
        Value::Str(text) if !by_case => {
            methods::mapping(text, meter)?;
            Ok(Value::Str(text.changed(&text.as_str().to_lowercase())))
        }
        other => Ok(other.clone()),
    }
}

/// Sorts by keys; fails where two cannot be compared.
fn sort_by(
    machine: &Machine<'_>,
    keyed: &[(Vec<Value>, Value)],
    reverse: bool,
) -> Outcome<Vec<Value>> {
    let meter = &machine.meter;
    // Two lists of places, and the sorted one.
    meter.values(2 * keyed.len())?;
    let order = |one: &[Value], other: &[Value]| -> Outcome<Ordering> {
        for (one, other) in one.iter().zip(other) {
            meter.take(1)?;
            if !one.equals(other, meter)? {
                return Ok(one.compare(other, "<", meter)?.unwrap_or(Ordering::Equal));
            }
        }
        Ok(Ordering::Equal)
    };
    let before = if reverse { Ordering::Greater } else { Ordering::Less };
    let places = sort::sorted(keyed.len(), |one, other| {
        Ok(order(&keyed[one].0, &keyed[other].0)? == before)
    })?;
    Ok(places.into_iter().map(|at| keyed[at].1.clone()).collect())
}

fn sorted(machine: &Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let reverse = given.flag("reverse", false);
    let by_case = given.flag("case_sensitive", false);
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let meter = &machine.meter;
    let keys = |item: &Value| -> Outcome<Vec<Value>> {
        match &path {
            None => Ok(vec![sort_key(item, by_case, meter)?]),
            Some(Value::Str(paths)) => {
                meter.read(paths.len())?;
                let keys = split(paths, ',').map(|path| {
                    meter.values(1)?;
                    sort_key(&at_path(item, &Value::Str(path), meter)?, by_case, meter)
                });
                keys.collect()
            }
            Some(path) => Ok(vec![sort_key(&at_path(item, path, meter)?, by_case, meter)?]),
        }
    };
    let items = input.items(meter)?;
    meter.members(items.len())?;
    let keyed = items.iter().map(|item| Ok((keys(item)?, item.clone())));
    let keyed = keyed.collect::<Outcome<Vec<_>>>()?;
    Value::list(sort_by(machine, &keyed, reverse)?)
}

fn dict_sorted(machine: &Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let by_case = given.flag("case_sensitive", false);
    let by = given.optional_text("by")?;
    let reverse = given.flag("reverse", false);
    let Value::Dict(dict) = input else {
        input.check()?;
        return Err(Problem::value(format!("`dictsort` has `{}`, expected a dict", input.kind())));
    };
    let by_value = match by.as_ref().map(Text::as_str) {
        None | Some("key") => false,
        Some("value") => true,
        Some(other) => {
            let other = chatcodec_vocab::excerpt(other, 80);
            return Err(Problem::value(format!(
                "`dictsort`: `by` is `{other}`, expected `key` or `value`"
            )));
        }
    };
    let meter = &machine.meter;
    meter.members(2 * dict.members.len())?;
    let keyed = dict.members.iter().map(|(key, value)| {
        let by = sort_key(if by_value { value } else { key }, by_case, meter)?;
        Ok((vec![by], Value::tuple(vec![key.clone(), value.clone()])?))
    });
    let keyed = keyed.collect::<Outcome<Vec<_>>>()?;
    Value::list(sort_by(machine, &keyed, reverse)?)
}

fn extreme(name: &str, input: &Value, given: &mut Given<'_>, meter: &Meter) -> Outcome<Value> {
    let by_case = given.flag("case_sensitive", false);
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let mut best: Option<(Value, Value)> = None;
    for item in input.items(meter)?.iter() {
        meter.take(1)?;
        let key = match &path {
            Some(path) => at_path(item, path, meter)?,
            None => item.clone(),
        };
        let key = sort_key(&key, by_case, meter)?;
        let is_better = match &best {
            None => true,
            Some((known, _)) => {
                let order = key.compare(known, "<", meter)?;
                order == Some(if name == "min" { Ordering::Less } else { Ordering::Greater })
            }
        };
        if is_better {
            best = Some((key, item.clone()));
        }
    }
    let none = || Value::undefined("there is no item, the sequence is empty");
    Ok(best.map_or_else(none, |(_, item)| item))
}

fn unique(input: &Value, given: &mut Given<'_>, meter: &Meter) -> Outcome<Value> {
    let by_case = given.flag("case_sensitive", false);
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let (mut seen, mut kept) = (Dict::with_capacity(0, Origin::TEMPLATE), Vec::new());
    for item in input.items(meter)?.iter() {
        let key = match &path {
            Some(path) => at_path(item, path, meter)?,
            None => item.clone(),
        };
        let key = sort_key(&key, by_case, meter)?;
        key.hash(meter)?;
        meter.take(2)?;
        if seen.get(&key, meter)?.is_none() {
            meter.members(1)?;
            seen.insert(key, Value::None, meter)?;
            kept.push(item.clone());
        }
    }
    Value::generator(kept)
}

fn grouped(machine: &Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let path = given.needed("attribute")?;
    let default = given.next("default");
    let by_case = given.flag("case_sensitive", false);
    let meter = &machine.meter;
    let items = input.items(meter)?;
    meter.members(2 * items.len())?;
    let mut keyed = Vec::new();
    for item in items.iter() {
        let key = match (at_path(item, &path, meter)?, &default) {
            (Value::Undefined(_), Some(default)) => default.clone(),
            (key, _) => key,
        };
        let by = sort_key(&key, by_case, meter)?;
        keyed.push((vec![by.clone()], Value::tuple(vec![by, key, item.clone()])?));
    }
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for sorted in sort_by(machine, &keyed, false)? {
        let sorted = sorted.items(meter)?;
        let [by, key, item] = &sorted[..] else { continue };
        match groups.last_mut() {
            Some((known, _, items)) if known.equals(by, meter)? => items.push(item.clone()),
            _ => groups.push((by.clone(), key.clone(), vec![item.clone()])),
        }
    }
    meter.values(3 * groups.len())?;
    let pairs =
        groups.into_iter().map(|(_, key, items)| Value::tuple(vec![key, Value::list(items)?]));
    Value::list(pairs.collect::<Outcome<_>>()?)
}

/// `batch` and `slice`: lists of so many items, or so many lists.
fn parted(
    machine: &mut Machine<'_>,
    name: &str,
    input: &Value,
    given: &mut Given<'_>,
) -> Outcome<Value> {
    let count = given.optional_int(if name == "batch" { "linecount" } else { "slices" })?;
    let Some(count) =
        count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count > 0)
    else {
        return Err(Problem::value(format!("`{name}` expects a number from 1")));
    };
    let fill = given.next("fill_with").filter(|fill| !matches!(fill, Value::None));
    let items = input.iterate(&machine.meter)?;
    let lists = if name == "batch" { items.len().div_ceil(count) } else { count };
    machine.meter.values(items.len().saturating_add(lists.saturating_mul(3)))?;
    let mut parts: Vec<Vec<Value>> = Vec::new();
    if name == "batch" {
        parts.extend(items.chunks(count).map(<[Value]>::to_vec));
        if let (Some(fill), Some(last)) = (fill, parts.last_mut()) {
            let missing = count - last.len();
            machine.meter.values(missing)?;
            last.extend(std::iter::repeat_n(fill, missing));
        }
    } else {
        let (each, more) = (items.len() / count, items.len() % count);
        let mut rest = items.into_iter();
        for nth in 0..count {
            let mut part: Vec<Value> = rest.by_ref().take(each + usize::from(nth < more)).collect();
            if let Some(fill) = &fill
                && nth >= more
            {
                part.push(fill.clone());
            }
            parts.push(part);
        }
    }
    Value::generator(parts.into_iter().map(Value::list).collect::<Outcome<_>>()?)
}

fn indented(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let indent = match given.next("width") {
        None => Text::template("    "),
        Some(Value::Str(text)) => text,
        Some(value) => match value.number() {
            Some(Number::Int(width)) if width <= 1000 => spaces(width, value.origin()),
            _ => {
                return Err(Problem::value(
                    "`indent`: `width` is not a number up to 1000 or a string",
                ));
            }
        },
    };
    let first = given.flag("first", false);
    let blank = given.flag("blank", false);
    let Value::Str(text) = input else {
        return Err(Problem::value(format!("`indent` has `{}`, expected a string", input.kind())));
    };
    let meter = &machine.meter;
    meter.read(2 * text.len())?;
    // The text with one more line, and its lines, twice.
    meter.copy(text)?;
    meter.copy(text)?;
    meter.copy(text)?;
    // A newline is added, so that the last line is one.
    let whole = text.concat(&Text::template("\n"));
    let mut out = Metered::new(meter);
    if first {
        out.push_text(&indent)?;
    }
    let (lines, ended) =
        (methods::lines(&whole, false, meter)?, methods::lines(&whole, true, meter)?);
    let mut end = 0;
    for (nth, (line, ended)) in lines.iter().zip(ended).enumerate() {
        if nth > 0 {
            // The end of the line before is whose it was.
            out.push("\n", whole.origin_at(end - 1))?;
            if blank || !line.is_empty() {
                out.push_text(&indent)?;
            }
        }
        out.push_text(line)?;
        end += ended.len();
    }
    Ok(Value::Str(out.finish().marked(text.is_markup)))
}

fn truncated(input: &Value, given: &mut Given<'_>, meter: &Meter) -> Outcome<Value> {
    let length = usize::try_from(given.int("length", 255)?).unwrap_or(0);
    let cuts_words = given.flag("killwords", false);
    let end = given.optional_text("end")?.unwrap_or_else(|| Text::template("..."));
    let leeway = usize::try_from(given.int("leeway", 5)?).unwrap_or(0);
    if input.length(meter)? <= length.saturating_add(leeway) {
        return Ok(input.clone());
    }
    let Value::Str(text) = input else {
        return Err(Problem::value(format!(
            "`truncate` has `{}`, expected a string",
            input.kind()
        )));
    };
    meter.read(text.len())?;
    meter.copy(text)?;
    meter.copy(text)?;
    meter.copy(&end)?;
    let end_length = end.as_str().chars().count();
    let Some(kept) = length.checked_sub(end_length) else {
        return Err(Problem::value(format!(
            "`truncate` has length {length}, expected at least {end_length}"
        )));
    };
    let at = text.as_str().char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
    let mut cut = text.slice(0..at);
    if !cuts_words {
        let word = cut.as_str().rfind(' ').unwrap_or(cut.len());
        cut = cut.slice(0..word);
    }
    Ok(Value::Str(cut.concat(&end)))
}

/// Words by white space, hyphens and brackets begin in upper case, the rest is in lower case.
fn titled(text: &Text, meter: &Meter) -> Outcome<Text> {
    methods::mapping(text, meter)?;
    let mut is_first = true;
    let titled = text.map(|_, c, out| {
        let is_border = is_space(c) || matches!(c, '-' | '(' | '[' | '{' | '<');
        if is_first {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        is_first = is_border;
    });
    // A character becomes up to three.
    meter.copy(&titled)?;
    Ok(titled)
}

fn url(text: &Text, meter: &Meter) -> Outcome<Text> {
    // A byte becomes three characters, and takes longer than others.
    meter.read(text.len().saturating_mul(8))?;
    meter.text(text.len().saturating_mul(3), text.run_count())?;
    Ok(text.map(|_, c, out| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '~' | '/') {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }))
}

/// A number as Python's `float` reads it.
fn python_float(text: &str, meter: &Meter) -> Outcome<Option<f64>> {
    // Digits take longer than other characters.
    meter.read(text.len().saturating_mul(4))?;
    meter.make(text.len() as u64)?;
    Ok(parsed_float(text))
}

fn parsed_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    if text.starts_with('_') || text.ends_with('_') || text.contains("__") {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn whole(input: &Value, given: &mut Given<'_>, meter: &Meter) -> Outcome<Value> {
    let default = given.next("default").unwrap_or_else(|| Value::int(0));
    let base = given.int("base", 10)?;
    Ok(match input {
        Value::Str(text) => {
            meter.read(text.len().saturating_mul(4))?;
            meter.make(3 * text.len() as u64)?;
            let digits = text.as_str().trim_matches(is_space).replace('_', "");
            let (negative, size) = match digits.strip_prefix('-') {
                Some(size) => (true, size),
                None => (false, digits.strip_prefix('+').unwrap_or(&digits)),
            };
            let prefix = match base {
                16 => "0x",
                8 => "0o",
                2 => "0b",
                _ => "",
            };
            let lower = size.to_lowercase();
            let size = lower.strip_prefix(prefix).unwrap_or(&lower);
            let read = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
            let read = read.and_then(|base| i64::from_str_radix(size, base).ok());
            let read = read.map(|number| if negative { -number } else { number });
            // Otherwise it is read as a float and cut.
            let read = read.or_else(|| {
                let number = parsed_float(text.as_str())?;
                (number.is_finite() && number.abs() < 9e18).then_some(number.trunc() as i64)
            });
            read.map_or(default, |number| Value::Int(number, text.main_origin()))
        }
        long @ Value::Long(..) => long.clone(),
        other => {
            other.check()?;
            match other.number() {
                Some(Number::Int(number)) => Value::Int(number, other.origin()),
                Some(Number::Float(number)) if number.is_finite() && number.abs() < 9e18 => {
                    Value::Int(number.trunc() as i64, other.origin())
                }
                _ => default,
            }
        }
    })
}

fn rounded(input: &Value, given: &mut Given<'_>, meter: &Meter) -> Outcome<Value> {
    let precision = given.int("precision", 0)?;
    let method = given.optional_text("method")?;
    let Some(number) = input.number() else {
        input.check()?;
        return Err(Problem::value(format!("`round` has `{}`, expected a number", input.kind())));
    };
    let method = method.as_ref().map_or("common", Text::as_str);
    let exponent = i32::try_from(precision).unwrap_or(0).clamp(-300, 300);
    meter.take(u64::from(exponent.unsigned_abs()))?;
    let scale = 10f64.powi(exponent);
    let value = number.float();
    let rounded = match method {
        // To the nearest, to the even one of two; by the decimal digits, as Python does.
        "common" if exponent >= 0 => {
            format!("{value:.*}", exponent as usize).parse().unwrap_or(value)
        }
        "common" => (value * scale).round_ties_even() / scale,
        "ceil" => (value * scale).ceil() / scale,
        "floor" => (value * scale).floor() / scale,
        other => {
            let other = chatcodec_vocab::excerpt(other, 80);
            return Err(Problem::value(format!(
                "`round`: `method` is `{other}`, expected `common`, `ceil` or `floor`"
            )));
        }
    };
    match (method, number) {
        ("common", Number::Int(number)) if exponent >= 0 => Ok(Value::Int(number, input.origin())),
        ("common", Number::Int(_)) => Ok(Value::Int(rounded as i64, input.origin())),
        _ => Ok(Value::Float(rounded, input.origin())),
    }
}
