//! Methods of strings, dicts and lists, as Python's.

use std::ops::Range;
use std::rc::Rc;

use super::access::{char_place, char_range};
use super::arithmetic::escaped;
use super::error::Problem;
use super::given::{Given, Named};
use super::lexer::is_space;
use super::machine::{Callable, Machine};
use super::meter::Meter;
use super::text::Text;
use super::value::{Dict, List, ListKind, Metered, Outcome, Value};
use super::{format, watch};

/// In order, to be searched.
const OF_STRINGS: [&str; 43] = [
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "upper",
    "zfill",
];

/// Whether an object has a method.
pub(super) fn has(object: &Value, name: &str) -> bool {
    match object {
        Value::Str(_) => OF_STRINGS.binary_search(&name).is_ok(),
        Value::Dict(_) => matches!(name, "get" | "items" | "keys" | "values" | "copy"),
        Value::List(list) => match list.kind {
            ListKind::List => matches!(name, "count" | "index" | "copy"),
            ListKind::Tuple | ListKind::Range => matches!(name, "count" | "index"),
            _ => false,
        },
        _ => false,
    }
}

pub(super) fn call(
    machine: &mut Machine<'_>,
    object: &Value,
    name: &str,
    positional: Vec<Value>,
    named: Named,
) -> Outcome<Value> {
    if machine.looked.is_some() {
        return called(machine, object, name, positional, named);
    }
    let watch = watch::method_of(object, name, &positional, &named, &machine.meter);
    machine.note(|notes| notes.method(name, object, &positional, &named));
    let outcome = called(machine, object, name, positional, named);
    let looked = watch.looked(&outcome, &machine.meter);
    machine.look(looked);
    outcome
}

fn called(
    machine: &mut Machine<'_>,
    object: &Value,
    name: &str,
    positional: Vec<Value>,
    named: Named,
) -> Outcome<Value> {
    let mut given = Given::new(name, positional, named);
    match object {
        Value::Str(text) => of_string(machine, text, name, given),
        Value::Dict(dict) => of_dict(machine, dict, name, given),
        Value::List(list) => of_list(list, name, given, &machine.meter),
        Value::Loop(of) => {
            let (values, _) = given.rest();
            match name {
                "cycle" if values.is_empty() => {
                    Err(Problem::value("`loop.cycle` has no items, expected some"))
                }
                "cycle" => Ok(values[of.index % values.len()].clone()),
                _ => machine.changed(of, values).map(Value::Bool),
            }
        }
        Value::Callable(callable) => match (&**callable, name) {
            (Callable::Cycler { next, .. }, "reset") => {
                next.set(0);
                Ok(Value::None)
            }
            (Callable::Cycler { items, next }, _) => {
                let value = items.get(next.get()).cloned();
                next.set((next.get() + 1) % items.len().max(1));
                Ok(value.unwrap_or(Value::None))
            }
            _ => Err(Problem::value(format!("`{}` has no method `{name}`", object.kind()))),
        },
        other => Err(Problem::value(format!("`{}` has no method `{name}`", other.kind()))),
    }
}

fn of_dict(
    machine: &mut Machine<'_>,
    dict: &Rc<Dict>,
    name: &str,
    mut given: Given<'_>,
) -> Outcome<Value> {
    if name == "get" {
        let key = given.needed("key")?;
        let default = given.next("default").unwrap_or(Value::None);
        given.end()?;
        key.hash(&machine.meter)?;
        return Ok(dict.get(&key, &machine.meter)?.cloned().unwrap_or(default));
    }
    given.end()?;
    let count = dict.members.len();
    let members = dict.members.iter();
    match name {
        "items" => {
            machine.meter.members(count)?;
            let pairs = members.map(|(key, value)| Value::tuple(vec![key.clone(), value.clone()]));
            Value::of_kind(pairs.collect::<Outcome<_>>()?, ListKind::Items)
        }
        "keys" => {
            machine.meter.values(count)?;
            Value::of_kind(members.map(|(key, _)| key.clone()).collect(), ListKind::Keys)
        }
        "values" => {
            machine.meter.values(count)?;
            Value::of_kind(members.map(|(_, value)| value.clone()).collect(), ListKind::Values)
        }
        _ => Ok(Value::Dict(dict.clone())),
    }
}

fn of_list(list: &Rc<List>, name: &str, mut given: Given<'_>, meter: &Meter) -> Outcome<Value> {
    match name {
        "copy" => Ok(Value::List(list.clone())),
        "count" => {
            let value = given.needed("value")?;
            let mut count = 0;
            for item in &list.items {
                meter.take(1)?;
                count += usize::from(item.equals(&value, meter)?);
            }
            Ok(Value::counted(count, list.origin))
        }
        _ => {
            let value = given.needed("value")?;
            let found = value.place_in(&list.items, meter)?;
            found
                .map(|at| Value::counted(at, list.origin))
                .ok_or_else(|| Problem::value("`index`: the value is not in the list"))
        }
    }
}

/// Byte offsets of a range of characters, as methods take them: `start` and `end` may count from the end. None where
/// the start is behind the end.
fn within(
    text: &str,
    start: Option<i64>,
    end: Option<i64>,
    meter: &Meter,
) -> Outcome<Option<Range<usize>>> {
    if let Some(start @ 1..) = start
        && char_place(text, start, meter)?.is_none()
    {
        return Ok(None);
    }
    char_range(text, start, end, meter)
}

fn of_string(
    machine: &mut Machine<'_>,
    text: &Text,
    name: &str,
    mut given: Given<'_>,
) -> Outcome<Value> {
    let value = match name {
        "upper" | "lower" | "casefold" | "swapcase" | "capitalize" | "title" => {
            Value::Str(cased(text, name, &machine.meter)?)
        }
        "strip" | "lstrip" | "rstrip" => {
            let chars = given.optional_text("chars")?;
            let chars = chars.as_ref().map(Text::as_str);
            Value::Str(strip(text, chars, name != "rstrip", name != "lstrip", &machine.meter)?)
        }
        "removeprefix" | "removesuffix" => {
            let end = given.text(&name["remove".len()..])?;
            machine.meter.copy(text)?;
            Value::Str(match name {
                "removeprefix" if text.as_str().starts_with(end.as_str()) => {
                    text.slice(end.len()..text.len())
                }
                "removesuffix" if text.as_str().ends_with(end.as_str()) => {
                    text.slice(0..text.len() - end.len())
                }
                _ => text.clone(),
            })
        }
        "startswith" | "endswith" | "find" | "rfind" | "index" | "rindex" | "count" => {
            found(text, name, &mut given, &machine.meter)?
        }
        "replace" => {
            let (old, new) = (given.text("old")?, given.text("new")?);
            let count = given.int("count", -1)?;
            Value::Str(replace(machine, text, &old, &new, count)?)
        }
        "split" | "rsplit" | "splitlines" | "partition" | "rpartition" => {
            parts(machine, text, name, &mut given)?
        }
        "join" => Value::Str(join(machine, text, &given.needed("iterable")?)?),
        "format" => {
            let (positional, named) = given.rest();
            Value::Str(format::braces(machine, text, &positional, &named)?)
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let width = given.int("width", 0)?;
            let fill = if name == "zfill" {
                Some(Text::template("0"))
            } else {
                given.optional_text("fillchar")?
            };
            Value::Str(padded(machine, text, name, width, fill)?)
        }
        "expandtabs" | "isidentifier" | "isprintable" => {
            return Err(Problem::Unsupported(format!(
                "method `{name}` of strings is not supported"
            )));
        }
        _ => {
            machine.meter.read(text.len())?;
            Value::Bool(is(text.as_str(), name))
        }
    };
    given.end()?;
    Ok(value)
}

/// The text with its letters in another case.
fn cased(text: &Text, name: &str, meter: &Meter) -> Outcome<Text> {
    mapping(text, meter)?;
    let cased = match name {
        "upper" => text.map(|_, c, out| out.extend(c.to_uppercase())),
        "lower" => {
            of_text(text, &text.as_str().to_lowercase(), |c, out| out.extend(c.to_lowercase()))
        }
        "casefold" => {
            text.map(
                |_, c, out| {
                    if c == 'ß' { out.push_str("ss") } else { out.extend(c.to_lowercase()) }
                },
            )
        }
        "swapcase" => text.map(|_, c, out| {
            if c.is_uppercase() {
                out.extend(c.to_lowercase());
            } else {
                out.extend(c.to_uppercase());
            }
        }),
        "capitalize" => first_upper(text),
        _ => titled(text),
    };
    // A character becomes up to three.
    meter.copy(&cased)?;
    Ok(cased)
}

/// Charges for a text whose characters become others.
pub(super) fn mapping(text: &Text, meter: &Meter) -> Outcome<()> {
    // Each is looked up among the cases of letters.
    meter.read(4 * text.len())?;
    meter.copy(text)
}

/// What a method finds of a text in another: a place, a number, or whether it is there.
fn found(text: &Text, name: &str, given: &mut Given<'_>, meter: &Meter) -> Outcome<Value> {
    let whole = text.as_str();
    let counted = |size: usize| Value::counted(size, text.main_origin());
    let wrong = |value: &Value| {
        Problem::value(format!("`{name}` has `{}`, expected a string", value.kind()))
    };
    let is_end = matches!(name, "startswith" | "endswith");
    let parts = match given.needed(if is_end { "prefix" } else { "sub" })? {
        Value::Str(part) => vec![part],
        Value::List(list) if is_end && list.kind == ListKind::Tuple => {
            meter.values(list.items.len())?;
            let texts = list.items.iter().map(|item| match item {
                Value::Str(text) => Ok(text.clone()),
                other => Err(wrong(other)),
            });
            texts.collect::<Outcome<_>>()?
        }
        other => {
            other.check()?;
            return Err(wrong(&other));
        }
    };
    let (start, end) = (given.optional_int("start")?, given.optional_int("end")?);
    let range = within(whole, start, end, meter)?;
    for part in &parts {
        meter.read(part.len().min(whole.len()))?;
    }
    if !is_end {
        meter.read(whole.len())?;
    }
    let stretch = range.clone().map(|range| &whole[range]);
    let starts = |part: &Text| stretch.is_some_and(|stretch| stretch.starts_with(part.as_str()));
    let ends = |part: &Text| stretch.is_some_and(|stretch| stretch.ends_with(part.as_str()));
    let part = parts.first().map_or("", Text::as_str);
    let at = |place: Option<usize>| {
        let start = range.as_ref().map_or(0, |range| range.start);
        place.map(|place| whole[..start + place].chars().count())
    };
    let place = match name {
        "startswith" => return Ok(Value::Bool(parts.iter().any(starts))),
        "endswith" => return Ok(Value::Bool(parts.iter().any(ends))),
        "count" if part.is_empty() => {
            return Ok(counted(stretch.map_or(0, |stretch| stretch.chars().count() + 1)));
        }
        "count" => {
            return Ok(counted(stretch.map_or(0, |stretch| stretch.matches(part).count())));
        }
        "rfind" | "rindex" => at(stretch.and_then(|stretch| stretch.rfind(part))),
        _ => at(stretch.and_then(|stretch| stretch.find(part))),
    };
    match place {
        Some(place) => Ok(counted(place)),
        None if name.ends_with("find") => Ok(Value::int(-1)),
        None => Err(Problem::value(format!("`{name}`: the text is not found"))),
    }
}

/// The parts of a text: a list, or a tuple of three.
fn parts(
    machine: &mut Machine<'_>,
    text: &Text,
    name: &str,
    given: &mut Given<'_>,
) -> Outcome<Value> {
    let meter = &machine.meter;
    meter.read(text.len())?;
    meter.copy(text)?;
    if name == "splitlines" {
        let parts = lines(text, given.flag("keepends", false), meter)?;
        return Value::list(parts.into_iter().map(Value::Str).collect());
    }
    if name.ends_with("split") {
        let separator = given.optional_text("sep")?;
        let most = given.int("maxsplit", -1)?;
        let parts = split(text, separator.as_ref(), most, name == "rsplit", meter)?;
        return Value::list(parts.into_iter().map(Value::Str).collect());
    }
    let separator = given.text("sep")?;
    if separator.is_empty() {
        return Err(Problem::value(format!("`{name}` has an empty separator")));
    }
    let whole = text.as_str();
    let is_first = name == "partition";
    let found =
        if is_first { whole.find(separator.as_str()) } else { whole.rfind(separator.as_str()) };
    let parts = match found {
        Some(at) => {
            let end = at + separator.len();
            [text.slice(0..at), text.slice(at..end), text.slice(end..text.len())]
        }
        None if is_first => [text.clone(), Text::empty(), Text::empty()],
        None => [Text::empty(), Text::empty(), text.clone()],
    };
    meter.texts(parts.len())?;
    Value::tuple(parts.into_iter().map(Value::Str).collect())
}

/// Strings with a separator between them.
fn join(machine: &mut Machine<'_>, separator: &Text, list: &Value) -> Outcome<Text> {
    list.check()?;
    let meter = &machine.meter;
    let mut joined = Metered::new(meter);
    for (nth, item) in list.items(meter)?.iter().enumerate() {
        let Value::Str(item) = item else {
            item.check()?;
            return Err(Problem::value(format!("`join` has `{}`, expected strings", item.kind())));
        };
        if nth > 0 {
            joined.push_text(separator)?;
        }
        if separator.is_markup {
            joined.push_text(&escaped(item, meter)?)?;
        } else {
            joined.push_text(item)?;
        }
    }
    Ok(joined.finish().marked(separator.is_markup))
}

/// A text that was changed as a whole, by characters where their number stays.
fn of_text(text: &Text, changed: &str, each: impl Fn(char, &mut String)) -> Text {
    let by_chars = text.map(|_, c, out| each(c, out));
    if by_chars.as_str() == changed { by_chars } else { text.changed(changed) }
}

fn is(text: &str, name: &str) -> bool {
    let all = |is: fn(char) -> bool| !text.is_empty() && text.chars().all(is);
    let is_cased = |c: char| c.is_uppercase() || c.is_lowercase();
    match name {
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => text.is_ascii(),
        "isdecimal" | "isdigit" => all(|c| c.is_ascii_digit()),
        "isnumeric" => all(char::is_numeric),
        "isspace" => all(is_space),
        "islower" => text.chars().any(is_cased) && !text.chars().any(char::is_uppercase),
        "isupper" => text.chars().any(is_cased) && !text.chars().any(char::is_lowercase),
        _ => {
            // Upper case after what has no case, lower case after what has.
            let mut after_cased = false;
            let mut has_cased = false;
            for c in text.chars() {
                if c.is_uppercase() && after_cased || c.is_lowercase() && !after_cased {
                    return false;
                }
                after_cased = is_cased(c);
                has_cased |= after_cased;
            }
            has_cased
        }
    }
}

/// First letter in upper case, the rest in lower case.
pub(super) fn capitalized(text: &Text, meter: &Meter) -> Outcome<Text> {
    cased(text, "capitalize", meter)
}

fn first_upper(text: &Text) -> Text {
    text.map(|at, c, out| if at == 0 { title_case(c, out) } else { out.extend(c.to_lowercase()) })
}

/// The first letter of each word in upper case, as `str.title` does it.
fn titled(text: &Text) -> Text {
    let mut after_cased = false;
    text.map(|_, c, out| {
        if after_cased {
            out.extend(c.to_lowercase());
        } else {
            title_case(c, out);
        }
        after_cased = c.is_uppercase() || c.is_lowercase();
    })
}

/// Upper case of a letter that begins a word: of several letters, the first alone.
pub(super) fn title_case(c: char, out: &mut String) {
    let mut upper = c.to_uppercase();
    out.extend(upper.next());
    for c in upper {
        out.extend(c.to_lowercase());
    }
}

/// The text without characters at its ends; white space where none are named.
pub(super) fn strip(
    text: &Text,
    chars: Option<&str>,
    left: bool,
    right: bool,
    meter: &Meter,
) -> Outcome<Text> {
    let is_stripped = |c: char| chars.map_or_else(|| is_space(c), |chars| chars.contains(c));
    let whole = text.as_str();
    let end = if right { whole.trim_end_matches(is_stripped).len() } else { whole.len() };
    let start = if left { end - whole[..end].trim_start_matches(is_stripped).len() } else { 0 };
    // What was stripped was looked for among the characters.
    meter.read((whole.len() - (end - start)).saturating_mul(1 + chars.map_or(0, str::len) / 4))?;
    if start == 0 && end == whole.len() {
        return Ok(text.clone());
    }
    meter.text(end - start, text.run_count())?;
    Ok(text.slice(start..end))
}

pub(super) fn replace(
    machine: &mut Machine<'_>,
    text: &Text,
    old: &Text,
    new: &Text,
    count: i64,
) -> Outcome<Text> {
    let whole = text.as_str();
    let meter = &machine.meter;
    meter.read(whole.len())?;
    meter.read(old.len())?;
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let found: &mut dyn Iterator<Item = usize> = if old.is_empty() {
        &mut whole.char_indices().map(|(at, _)| at).chain([whole.len()])
    } else {
        &mut whole.match_indices(old.as_str()).map(|(at, _)| at)
    };
    let mut found = found.take(most).peekable();
    if found.peek().is_none() {
        return Ok(text.clone());
    }
    let new = if text.is_markup { escaped(new, meter)? } else { new.clone() };
    let mut replaced = Metered::new(meter);
    let mut from = 0;
    for at in found {
        meter.take(1)?;
        replaced.push_range(text, from..at)?;
        replaced.push_text(&new)?;
        from = at + old.len();
    }
    replaced.push_range(text, from..whole.len())?;
    Ok(replaced.finish().marked(text.is_markup))
}

/// The parts of a text between separators; white space where none is named.
fn split(
    text: &Text,
    separator: Option<&Text>,
    most: i64,
    from_right: bool,
    meter: &Meter,
) -> Outcome<Vec<Text>> {
    let whole = text.as_str();
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let mut ranges = Vec::new();
    match separator {
        Some(separator) if separator.is_empty() => {
            return Err(Problem::value("`split` has an empty separator"));
        }
        Some(separator) if from_right => {
            let mut end = whole.len();
            while ranges.len() < most
                && let Some(at) = whole[..end].rfind(separator.as_str())
            {
                meter.texts(1)?;
                ranges.push(at + separator.len()..end);
                end = at;
            }
            ranges.push(0..end);
            ranges.reverse();
        }
        Some(separator) => {
            let mut start = 0;
            while ranges.len() < most
                && let Some(found) = whole[start..].find(separator.as_str())
            {
                meter.texts(1)?;
                ranges.push(start..start + found);
                start += found + separator.len();
            }
            ranges.push(start..whole.len());
        }
        None if from_right => {
            let mut end = whole.trim_end_matches(is_space).len();
            while end > 0 {
                let start = if ranges.len() < most {
                    let word = whole[..end].rfind(is_space);
                    word.map_or(0, |at| at + whole[at..].chars().next().map_or(1, char::len_utf8))
                } else {
                    0
                };
                meter.texts(1)?;
                ranges.push(start..end);
                end = whole[..start].trim_end_matches(is_space).len();
            }
            ranges.reverse();
        }
        None => {
            let mut start = whole.len() - whole.trim_start_matches(is_space).len();
            while start < whole.len() {
                let end = if ranges.len() < most {
                    whole[start..].find(is_space).map_or(whole.len(), |found| start + found)
                } else {
                    whole.len()
                };
                meter.texts(1)?;
                ranges.push(start..end);
                start = whole.len() - whole[end..].trim_start_matches(is_space).len();
            }
        }
    }
    Ok(ranges.into_iter().map(|range| text.slice(range)).collect())
}

/// The lines of a text, by all ends of lines that Python knows.
pub(super) fn lines(text: &Text, keeps_ends: bool, meter: &Meter) -> Outcome<Vec<Text>> {
    let whole = text.as_str();
    let mut lines = Vec::new();
    let mut start = 0;
    let mut chars = whole.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let is_end = matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        );
        if !is_end {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        meter.texts(1)?;
        lines.push(text.slice(start..if keeps_ends { end } else { at }));
        start = end;
    }
    if start < whole.len() {
        meter.texts(1)?;
        lines.push(text.slice(start..whole.len()));
    }
    Ok(lines)
}

fn padded(
    machine: &mut Machine<'_>,
    text: &Text,
    name: &str,
    width: i64,
    fill: Option<Text>,
) -> Outcome<Text> {
    let fill = fill.unwrap_or_else(|| Text::template(" "));
    if fill.as_str().chars().count() != 1 {
        return Err(Problem::value(format!(
            "`{name}` has a fill of several characters, expected one"
        )));
    }
    let meter = &machine.meter;
    meter.skim(text.len())?;
    let length = text.as_str().chars().count();
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(length);
    let width = length + missing;
    let left = match name {
        "ljust" => 0,
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let mut padded = Metered::new(meter);
    let sign = usize::from(name == "zfill" && text.as_str().starts_with(['+', '-']));
    padded.push_range(text, 0..sign)?;
    padded.push_repeated(&fill, left)?;
    padded.push_range(text, sign..text.len())?;
    padded.push_repeated(&fill, missing - left)?;
    Ok(padded.finish().marked(text.is_markup))
}
