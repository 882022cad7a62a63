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
use super::machine::Machine;
use super::methods;
use super::text::{Builder, Origin, Text};
use super::value::{Dict, Number, Outcome, Value};
use super::{format, tests, watch};

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
    let watch = watch::filter(name, &input, &positional, &named);
    let outcome = applied(machine, name, input, positional, named);
    machine.look(watch.looked(&outcome));
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
            return Ok(Value::counted(input.length()?, input.origin()));
        }
        "map" | "select" | "reject" | "selectattr" | "rejectattr" => {
            return sifted(machine, name, &input, given);
        }
        "format" => {
            let (positional, named) = given.rest();
            let values = if named.is_empty() {
                Value::tuple(positional)
            } else {
                let members = named.into_iter().map(|(name, value)| (Value::Str(name), value));
                Value::Dict(Rc::new(Dict::new(members, Origin::TEMPLATE)))
            };
            return format::percent(machine, &soft(&input)?, &values).map(Value::Str);
        }
        "tojson" => return to_json(machine, &input, given),
        _ => {}
    }
    if let Value::Str(text) = &input {
        machine.charge(text.len())?;
    }
    let value = match name {
        "string" => Value::Str(soft(&input)?),
        "safe" => Value::Str(input.text()?.marked(true)),
        "escape" | "e" => Value::Str(escaped(&soft(&input)?)),
        "forceescape" => Value::Str(escaped(&soft(&input)?.marked(false))),
        "upper" | "lower" | "title" => {
            let text = Value::Str(soft(&input)?);
            match name {
                "title" => Value::Str(titled(&soft(&input)?)),
                name => methods::call(machine, &text, name, Vec::new(), Vec::new())?,
            }
        }
        "capitalize" => Value::Str(methods::capitalized(&soft(&input)?)),
        "trim" => {
            let chars = given.optional_text("chars")?;
            Value::Str(methods::strip(&soft(&input)?, chars.as_ref().map(Text::as_str), true, true))
        }
        "replace" => {
            let (old, new) = (soft(&given.needed("old")?)?, soft(&given.needed("new")?)?);
            let count = given.int("count", -1)?;
            let text = input.text()?.marked(false);
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
            let text = Value::Str(soft(&input)?);
            methods::call(machine, &text, "center", vec![Value::int(width)], Vec::new())?
        }
        "indent" => indented(machine, &input, &mut given)?,
        "truncate" => truncated(&input, &mut given)?,
        "wordcount" => {
            let text = soft(&input)?;
            let is_word = |c: char| c == '_' || c.is_alphanumeric();
            let words = text.as_str().split(|c| !is_word(c)).filter(|word| !word.is_empty());
            Value::counted(words.count(), text.main_origin())
        }
        "urlencode" => match &input {
            Value::Str(text) => Value::Str(url(text)),
            Value::Dict(_) | Value::List(_) => {
                return Err(Problem::Unsupported(
                    "filter `urlencode` of a dict or list is not supported".into(),
                ));
            }
            other => Value::Str(url(&other.text()?)),
        },
        "list" => {
            let items = input.iterate()?;
            machine.take(items.len() as u64)?;
            Value::list(items)
        }
        "items" => match &input {
            Value::Undefined(_) => Value::generator(Vec::new()),
            Value::Dict(_) => {
                let items = methods::call(machine, &input, "items", Vec::new(), Vec::new())?;
                Value::generator(items.iterate()?)
            }
            other => {
                return Err(Problem::value(format!(
                    "`items` has `{}`, expected a dict",
                    other.kind()
                )));
            }
        },
        "first" | "last" => {
            let mut items = input.iterate()?;
            let is_first = name == "first";
            let item = if is_first { items.into_iter().next() } else { items.pop() };
            item.unwrap_or_else(|| {
                Value::undefined(format!("there is no {name} item, the sequence is empty"))
            })
        }
        "reverse" => match &input {
            Value::Str(text) => {
                let mut reversed = Builder::default();
                for c in text.chars().iter().rev() {
                    reversed.push_text(c);
                }
                Value::Str(reversed.finish().marked(text.is_markup))
            }
            other => {
                let mut items = other.iterate()?;
                items.reverse();
                Value::generator(items)
            }
        },
        "join" => joined(machine, &input, &mut given)?,
        "sum" => summed(machine, &input, &mut given)?,
        "min" | "max" => extreme(name, &input, &mut given)?,
        "sort" => sorted(machine, &input, &mut given)?,
        "dictsort" => dict_sorted(machine, &input, &mut given)?,
        "unique" => unique(&input, &mut given)?,
        "groupby" => grouped(machine, &input, &mut given)?,
        "batch" | "slice" => parted(machine, name, &input, &mut given)?,
        "attr" => {
            let attribute_name = given.text("name")?;
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
        "int" => whole(&input, &mut given)?,
        "float" => {
            let default = given.next("default").unwrap_or(Value::Float(0.0, Origin::TEMPLATE));
            match &input {
                Value::Str(text) => match python_float(text.as_str()) {
                    Some(number) => Value::Float(number, text.main_origin()),
                    None => default,
                },
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
        "round" => rounded(&input, &mut given)?,
        _ => return Err(unknown(name)),
    };
    given.end()?;
    Ok(value)
}

/// Spaces of an indentation.
fn spaces(width: i64, origin: Origin) -> Text {
    Text::of(&" ".repeat(width.max(0) as usize), origin)
}

/// Python's `str` of a value; of a string the string.
fn soft(value: &Value) -> Outcome<Text> {
    value.text()
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
        let both = separators.iterate()?;
        let [Value::Str(one), Value::Str(other)] = &both[..] else {
            return Err(Problem::value("`tojson`: `separators` is not a pair of strings"));
        };
        (between, colon) = (one.clone(), other.clone());
    }
    let sorted = given.flag("sort_keys", false);
    given.end()?;
    let text = json::write(input, &Style { ascii, indent, between, colon, sorted })?;
    machine.charge(text.len())?;
    Ok(Value::Str(text))
}

/// The value at an attribute's path: `function.name`, `0.name`, or a number.
fn at_path(value: &Value, path: &Value) -> Outcome<Value> {
    let Value::Str(path) = path else {
        return item(value, path);
    };
    let mut value = value.clone();
    for part in split(path, '.') {
        value = match part.as_str().parse::<i64>() {
            Ok(index) if part.as_str().bytes().all(|b| b.is_ascii_digit()) => {
                item(&value, &Value::Int(index, part.main_origin()))?
            }
            _ => item(&value, &Value::Str(part))?,
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
    let items = if input.is_true() { input.iterate()? } else { Vec::new() };
    machine.take(2 * items.len() as u64)?;
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
            let mapped = items
                .into_iter()
                .map(|item| apply(machine, &filter, item, positional.clone(), named.clone()));
            return Ok(Value::generator(mapped.collect::<Outcome<_>>()?));
        }
        let path = given.needed("attribute")?;
        let default = given.next("default");
        given.end()?;
        let mapped = items.iter().map(|item| {
            machine.look(watch::path(item, &path));
            let value = at_path(item, &path)?;
            Ok(match (&value, &default) {
                (Value::Undefined(_), Some(default)) => default.clone(),
                _ => value,
            })
        });
        return Ok(Value::generator(mapped.collect::<Outcome<_>>()?));
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
    let mut kept = Vec::new();
    for item in items {
        let value = match &path {
            Some(path) => {
                machine.look(watch::path(&item, path));
                at_path(&item, path)?
            }
            None => item.clone(),
        };
        let holds = match &test {
            Some(test) if !tests::is_known(test.as_str()) => {
                return Err(tests::unknown(test.as_str()));
            }
            Some(test) => {
                let holds = tests::apply(test.as_str(), &value, &positional, &named)?;
                machine.look(
                    watch::test(test.as_str(), &value, &positional, holds).or(test.content()),
                );
                holds
            }
            None => value.is_true(),
        };
        if holds == keeps {
            kept.push(item);
        }
    }
    Ok(Value::generator(kept))
}

fn joined(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let separator = match given.next("d") {
        Some(separator) => separator.text()?,
        None => Text::empty(),
    };
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let mut joined = Builder::default();
    for (nth, item) in input.iterate()?.iter().enumerate() {
        if nth > 0 {
            joined.push_text(&separator);
        }
        let text = match &path {
            Some(path) => at_path(item, path)?.text()?,
            None => item.text()?,
        };
        joined.push_text(&text);
        machine.charge(separator.len() + text.len())?;
    }
    machine.charge(joined.len())?;
    Ok(Value::Str(joined.finish()))
}

fn summed(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let mut sum = given.next("start").unwrap_or_else(|| Value::int(0));
    for item in input.iterate()? {
        let value = match &path {
            Some(path) => at_path(&item, path)?,
            None => item,
        };
        sum = super::arithmetic::apply(machine, &sum, super::ast::Operator::Add, &value)?;
    }
    Ok(sum)
}

/// The value by which an item is sorted: in lower case, unless case counts.
fn sort_key(value: &Value, by_case: bool) -> Value {
    match value {
        Value::Str(text) if !by_case => Value::Str(text.changed(&text.as_str().to_lowercase())),
        other => other.clone(),
    }
}

/// Sorts by keys; fails where two cannot be compared.
fn sort_by(
    machine: &mut Machine<'_>,
    mut keyed: Vec<(Vec<Value>, Value)>,
    reverse: bool,
) -> Outcome<Vec<Value>> {
    let length = keyed.len() as u64;
    machine.take(length * u64::from(length.max(2).ilog2()))?;
    let mut problem = None;
    let order = |one: &[Value], other: &[Value]| -> Outcome<Ordering> {
        for (one, other) in one.iter().zip(other) {
            if !one.equals(other) {
                return Ok(one.compare(other, "<")?.unwrap_or(Ordering::Equal));
            }
        }
        Ok(Ordering::Equal)
    };
    keyed.sort_by(|one, other| {
        let found = order(&one.0, &other.0).unwrap_or_else(|found| {
            problem.get_or_insert(found);
            Ordering::Equal
        });
        if reverse { found.reverse() } else { found }
    });
    match problem {
        Some(problem) => Err(problem),
        None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
    }
}

fn sorted(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let reverse = given.flag("reverse", false);
    let by_case = given.flag("case_sensitive", false);
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let keys = |item: &Value| -> Outcome<Vec<Value>> {
        match &path {
            None => Ok(vec![sort_key(item, by_case)]),
            Some(Value::Str(paths)) => {
                let paths = split(paths, ',').map(|path| at_path(item, &Value::Str(path)));
                paths.map(|value| Ok(sort_key(&value?, by_case))).collect()
            }
            Some(path) => Ok(vec![sort_key(&at_path(item, path)?, by_case)]),
        }
    };
    let keyed = input.iterate()?.into_iter().map(|item| Ok((keys(&item)?, item)));
    let keyed = keyed.collect::<Outcome<Vec<_>>>()?;
    Ok(Value::list(sort_by(machine, keyed, reverse)?))
}

fn dict_sorted(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
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
            return Err(Problem::value(format!(
                "`dictsort`: `by` is `{other}`, expected `key` or `value`"
            )));
        }
    };
    let keyed = dict.members.iter().map(|(key, value)| {
        let by = sort_key(if by_value { value } else { key }, by_case);
        (vec![by], Value::tuple(vec![key.clone(), value.clone()]))
    });
    let keyed = keyed.collect();
    Ok(Value::list(sort_by(machine, keyed, reverse)?))
}

fn extreme(name: &str, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let by_case = given.flag("case_sensitive", false);
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let mut best: Option<(Value, Value)> = None;
    for item in input.iterate()? {
        let key = match &path {
            Some(path) => at_path(&item, path)?,
            None => item.clone(),
        };
        let key = sort_key(&key, by_case);
        let is_better = match &best {
            None => true,
            Some((known, _)) => {
                let order = key.compare(known, "<")?;
                order == Some(if name == "min" { Ordering::Less } else { Ordering::Greater })
            }
        };
        if is_better {
            best = Some((key, item));
        }
    }
    let none = || Value::undefined("there is no item, the sequence is empty");
    Ok(best.map_or_else(none, |(_, item)| item))
}

fn unique(input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let by_case = given.flag("case_sensitive", false);
    let path = given.next("attribute").filter(|path| !matches!(path, Value::None));
    let (mut seen, mut kept) = (Dict::new([], Origin::TEMPLATE), Vec::new());
    for item in input.iterate()? {
        let key = match &path {
            Some(path) => at_path(&item, path)?,
            None => item.clone(),
        };
        let key = sort_key(&key, by_case);
        key.check_hashable()?;
        if seen.get(&key).is_none() {
            seen.insert(key, Value::None);
            kept.push(item);
        }
    }
    Ok(Value::generator(kept))
}

fn grouped(machine: &mut Machine<'_>, input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let path = given.needed("attribute")?;
    let default = given.next("default");
    let by_case = given.flag("case_sensitive", false);
    let mut keyed = Vec::new();
    for item in input.iterate()? {
        let key = match (at_path(&item, &path)?, &default) {
            (Value::Undefined(_), Some(default)) => default.clone(),
            (key, _) => key,
        };
        keyed.push((vec![sort_key(&key, by_case)], Value::tuple(vec![key, item])));
    }
    let mut groups: Vec<(Value, Value, Vec<Value>)> = Vec::new();
    for pair in sort_by(machine, keyed, false)? {
        let pair = pair.iterate()?;
        let by = sort_key(&pair[0], by_case);
        match groups.last_mut() {
            Some((known, _, items)) if known.equals(&by) => items.push(pair[1].clone()),
            _ => groups.push((by, pair[0].clone(), vec![pair[1].clone()])),
        }
    }
    let pairs =
        groups.into_iter().map(|(_, key, items)| Value::tuple(vec![key, Value::list(items)]));
    Ok(Value::list(pairs.collect()))
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
    let items = input.iterate()?;
    machine.take((items.len() + count) as u64)?;
    let mut parts: Vec<Vec<Value>> = Vec::new();
    if name == "batch" {
        parts.extend(items.chunks(count).map(<[Value]>::to_vec));
        if let (Some(fill), Some(last)) = (fill, parts.last_mut()) {
            while last.len() < count {
                last.push(fill.clone());
            }
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
    Ok(Value::generator(parts.into_iter().map(Value::list).collect()))
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
    // A newline is added, so that the last line is one.
    let whole = text.concat(&Text::template("\n"));
    let mut out = Builder::default();
    if first {
        out.push_text(&indent);
    }
    let lines = methods::lines(&whole, false);
    machine.charge(whole.len() + lines.len().saturating_mul(indent.len()))?;
    let mut end = 0;
    for (nth, (line, ended)) in lines.iter().zip(methods::lines(&whole, true)).enumerate() {
        if nth > 0 {
            // The end of the line before is whose it was.
            out.push_changed("\n", whole.origin_at(end - 1));
            if blank || !line.is_empty() {
                out.push_text(&indent);
            }
        }
        out.push_text(line);
        end += ended.len();
    }
    Ok(Value::Str(out.finish().marked(text.is_markup)))
}

fn truncated(input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let length = usize::try_from(given.int("length", 255)?).unwrap_or(0);
    let cuts_words = given.flag("killwords", false);
    let end = given.optional_text("end")?.unwrap_or_else(|| Text::template("..."));
    let leeway = usize::try_from(given.int("leeway", 5)?).unwrap_or(0);
    if input.length()? <= length.saturating_add(leeway) {
        return Ok(input.clone());
    }
    let Value::Str(text) = input else {
        return Err(Problem::value(format!(
            "`truncate` has `{}`, expected a string",
            input.kind()
        )));
    };
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
fn titled(text: &Text) -> Text {
    let mut is_first = true;
    text.map(|_, c, out| {
        let is_border = is_space(c) || matches!(c, '-' | '(' | '[' | '{' | '<');
        if is_first {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        is_first = is_border;
    })
}

fn url(text: &Text) -> Text {
    text.map(|_, c, out| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '~' | '/') {
            out.push(c);
        } else {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    })
}

/// A number as Python's `float` reads it.
fn python_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(is_space);
    if text.starts_with('_') || text.ends_with('_') || text.contains("__") {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn whole(input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let default = given.next("default").unwrap_or_else(|| Value::int(0));
    let base = given.int("base", 10)?;
    Ok(match input {
        Value::Str(text) => {
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
                let number = python_float(text.as_str())?;
                (number.is_finite() && number.abs() < 9e18).then_some(number.trunc() as i64)
            });
            read.map_or(default, |number| Value::Int(number, text.main_origin()))
        }
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

fn rounded(input: &Value, given: &mut Given<'_>) -> Outcome<Value> {
    let precision = given.int("precision", 0)?;
    let method = given.optional_text("method")?;
    let Some(number) = input.number() else {
        input.check()?;
        return Err(Problem::value(format!("`round` has `{}`, expected a number", input.kind())));
    };
    let method = method.as_ref().map_or("common", Text::as_str);
    let exponent = i32::try_from(precision).unwrap_or(0).clamp(-300, 300);
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
