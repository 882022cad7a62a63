//! `%` and `str.format`.

use super::access::{attribute, item};
use super::arithmetic::escaped;
use super::error::Problem;
use super::machine::Machine;
use super::meter::Meter;
use super::text::{Origin, Text};
use super::value::{ListKind, Metered, Number, Outcome, Value};

/// Widest field.
const MAX_WIDTH: usize = 10_000;

/// Steps of a field.
const FIELD_STEPS: u64 = 4;

/// A field's flags, width and precision.
#[derive(Default)]
struct Spec {
    left: bool,
    zero: bool,
    sign: Option<char>,
    width: usize,
    precision: Option<usize>,
}

/// `pattern % value`
pub(super) fn percent(machine: &mut Machine<'_>, pattern: &Text, value: &Value) -> Outcome<Text> {
    let values = match value {
        Value::List(list) if list.kind == ListKind::Tuple => {
            machine.meter.values(list.items.len())?;
            list.items.clone()
        }
        other => vec![other.clone()],
    };
    let is_markup = pattern.is_markup;
    let whole = pattern.as_str();
    let mut values = values.into_iter();
    let mut by_name = false;
    let meter = &machine.meter;
    meter.read(whole.len())?;
    let mut out = Metered::new(meter);
    let mut from = 0;
    while let Some(found) = whole[from..].find('%') {
        let at = from + found;
        out.push_range(pattern, from..at)?;
        let mut chars = whole[at + 1..].char_indices().peekable();
        let mut key = None;
        if chars.next_if(|(_, c)| *c == '(').is_some() {
            let rest = &whole[at + 2..];
            let Some(end) = rest.find(')') else {
                return Err(Problem::value("`%` has a name that is not closed, expected `)`"));
            };
            key = Some(rest[..end].to_owned());
            chars = whole[at + 1..].char_indices().peekable();
            while chars.next_if(|(nth, _)| *nth < end + 2).is_some() {}
        }
        let mut spec = Spec::default();
        while let Some((_, flag)) = chars.next_if(|(_, c)| matches!(c, '-' | '0' | '+' | ' ' | '#'))
        {
            match flag {
                '-' => spec.left = true,
                '0' => spec.zero = true,
                '+' | ' ' => spec.sign = Some(flag),
                _ => {
                    return Err(Problem::Unsupported(
                        "`%` with the flag `#` is not supported".into(),
                    ));
                }
            }
        }
        let number =
            |chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>| -> Outcome<Option<usize>> {
                let mut value = None;
                while let Some((_, digit)) = chars.next_if(|(_, c)| c.is_ascii_digit()) {
                    let next = value.unwrap_or(0) * 10 + digit as usize - '0' as usize;
                    if next > MAX_WIDTH {
                        return Err(Problem::Limit(format!("`%` has a width over {MAX_WIDTH}")));
                    }
                    value = Some(next);
                }
                Ok(value)
            };
        spec.width = number(&mut chars)?.unwrap_or(0);
        if chars.next_if(|(_, c)| *c == '.').is_some() {
            spec.precision = Some(number(&mut chars)?.unwrap_or(0));
        }
        let Some((nth, conversion)) = chars.next() else {
            return Err(Problem::value("`%` has an incomplete format"));
        };
        from = at + 1 + nth + conversion.len_utf8();
        if conversion == '%' {
            out.push_range(pattern, from - 1..from)?;
            continue;
        }
        let value = match key {
            Some(key) => {
                by_name = true;
                let Value::Dict(dict) = value else {
                    return Err(Problem::value(format!(
                        "`%` has `{}`, expected a dict",
                        value.kind()
                    )));
                };
                let found = dict.get_str(&key).cloned();
                found.ok_or_else(|| Problem::value(format!("`%`: the dict has no `{key}`")))?
            }
            None => values
                .next()
                .ok_or_else(|| Problem::value("`%` has too few values for its format"))?,
        };
        meter.take(FIELD_STEPS)?;
        let text = converted(&value, conversion, &spec, is_markup, meter)?;
        pad(&mut out, &text, &spec)?;
    }
    out.push_range(pattern, from..whole.len())?;
    let is_left = values.next().is_some();
    // What has items by index or key may be left over, as in Python, but for tuples and strings.
    let may_be_left = match value {
        Value::Dict(_) | Value::Undefined(_) => true,
        Value::List(list) => matches!(list.kind, ListKind::List | ListKind::Range),
        _ => false,
    };
    if is_left && !by_name && !may_be_left {
        return Err(Problem::value("`%` has more values than its format"));
    }
    Ok(out.finish().marked(is_markup))
}

fn converted(
    value: &Value,
    conversion: char,
    spec: &Spec,
    is_markup: bool,
    meter: &Meter,
) -> Outcome<Text> {
    let signed = |text: String| match spec.sign {
        Some(sign) if !text.starts_with('-') => format!("{sign}{text}"),
        _ => text,
    };
    let of_number = |text: String| Text::of(&signed(text), value.origin());
    match conversion {
        's' | 'r' | 'a' => {
            let text = if conversion == 's' { value.text(meter)? } else { value.shown(meter)? };
            let text = if is_markup { escaped(&text, meter)? } else { text };
            meter.read(spec.precision.unwrap_or(0).min(text.len()))?;
            let cut = spec.precision.and_then(|most| text.as_str().char_indices().nth(most));
            meter.copy(&text)?;
            Ok(match cut {
                Some((at, _)) => text.slice(0..at),
                None => text,
            })
        }
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => match value.number() {
            Some(Number::Float(number))
                if matches!(conversion, 'd' | 'i' | 'u') && number.abs() < 9e18 =>
            {
                Ok(of_number(format!("{}", number.trunc() as i64)))
            }
            Some(Number::Int(number)) => {
                let sign = if number < 0 { "-" } else { "" };
                let size = number.unsigned_abs();
                Ok(of_number(match conversion {
                    'x' => format!("{sign}{size:x}"),
                    'X' => format!("{sign}{size:X}"),
                    'o' => format!("{sign}{size:o}"),
                    _ => number.to_string(),
                }))
            }
            _ => {
                value.check()?;
                Err(Problem::value(format!(
                    "`%{conversion}` has `{}`, expected a number",
                    value.kind()
                )))
            }
        },
        'f' | 'F' => match value.number() {
            Some(number) => {
                let precision = spec.precision.unwrap_or(6);
                // Digits are computed one by one.
                meter.take(precision as u64)?;
                Ok(of_number(format!("{:.precision$}", number.float())))
            }
            None => {
                value.check()?;
                Err(Problem::value(format!("`%f` has `{}`, expected a number", value.kind())))
            }
        },
        other => Err(Problem::Unsupported(format!("`%{other}` is not supported"))),
    }
}

fn pad(out: &mut Metered<'_>, text: &Text, spec: &Spec) -> Outcome<()> {
    out.meter.skim(text.len())?;
    let missing = spec.width.saturating_sub(text.as_str().chars().count());
    if spec.left {
        out.push_text(text)?;
        return out.push_fill(" ", missing);
    }
    if spec.zero && text.as_str().starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
    {
        let sign = usize::from(text.as_str().starts_with(['-', '+']));
        out.push_range(text, 0..sign)?;
        out.push_fill("0", missing)?;
        return out.push_range(text, sign..text.len());
    }
    out.push_fill(" ", missing)?;
    out.push_text(text)
}

/// `pattern.format(…)`
pub(super) fn braces(
    machine: &mut Machine<'_>,
    pattern: &Text,
    positional: &[Value],
    named: &[(Text, Value)],
) -> Outcome<Text> {
    let whole = pattern.as_str();
    let meter = &machine.meter;
    meter.read(whole.len())?;
    let mut out = Metered::new(meter);
    let mut from = 0;
    let mut next = 0;
    while let Some(found) = whole[from..].find(['{', '}']) {
        let at = from + found;
        out.push_range(pattern, from..at)?;
        let brace = &whole[at..=at];
        if whole[at + 1..].starts_with(brace) {
            out.push_range(pattern, at..at + 1)?;
            from = at + 2;
            continue;
        }
        let end = whole[at..].find('}').filter(|_| brace == "{");
        let Some(end) = end else {
            return Err(Problem::value("`format` has a single brace, expected a pair"));
        };
        let field = &whole[at + 1..at + end];
        if field.contains('{') {
            return Err(Problem::Unsupported(
                "`format` with nested fields is not supported".into(),
            ));
        }
        from = at + end + 1;
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (field, conversion) = field.split_once('!').unwrap_or((field, ""));
        let name_end = field.find(['.', '[']).unwrap_or(field.len());
        let (name, path) = field.split_at(name_end);
        let missing = || Problem::value(format!("`format` has no value for `{{{name}}}`"));
        let mut value = if name.is_empty() {
            next += 1;
            positional.get(next - 1).cloned().ok_or_else(missing)?
        } else if let Ok(at) = name.parse::<usize>() {
            positional.get(at).cloned().ok_or_else(missing)?
        } else {
            meter.take(named.len() as u64)?;
            let known = named.iter().find(|(known, _)| known.as_str() == name);
            known.map(|(_, value)| value.clone()).ok_or_else(missing)?
        };
        meter.take(FIELD_STEPS + pattern.run_count() as u64)?;
        value = follow(value, path, pattern.main_origin(), meter)?;
        let text = if conversion == "r" {
            value.shown(meter)?
        } else if spec.is_empty() {
            value.text(meter)?
        } else {
            specified(&value, spec, meter)?
        };
        out.push_text(&if pattern.is_markup { escaped(&text, meter)? } else { text })?;
    }
    out.push_range(pattern, from..whole.len())?;
    Ok(out.finish().marked(pattern.is_markup))
}

/// The value at `.name` and `[index]` steps of a pattern of this origin.
fn follow(mut value: Value, mut path: &str, origin: Origin, meter: &Meter) -> Outcome<Value> {
    while !path.is_empty() {
        meter.take(FIELD_STEPS)?;
        if let Some(rest) = path.strip_prefix('.') {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            value = attribute(&value, &rest[..end].into())?;
            path = &rest[end..];
        } else {
            let rest = path.strip_prefix('[').unwrap_or(path);
            let Some(end) = rest.find(']') else {
                return Err(Problem::value(
                    "`format` has an index that is not closed, expected `]`",
                ));
            };
            let text = || Value::Str(Text::of(&rest[..end], origin));
            let index = rest[..end].parse().map_or_else(|_| text(), |at| Value::Int(at, origin));
            value = item(&value, &index, meter)?;
            path = &rest[end + 1..];
        }
        value.check()?;
    }
    Ok(value)
}

/// A value by a format such as `.2f`, `05d`, `>10`.
fn specified(value: &Value, spec: &str, meter: &Meter) -> Outcome<Text> {
    let unsupported = || Problem::Unsupported(format!("`format` with `:{spec}` is not supported"));
    let mut chars = spec.chars().peekable();
    let mut parts = Spec::default();
    let mut align = chars.next_if(|c| matches!(c, '<' | '>'));
    if chars.next_if_eq(&'0').is_some() {
        parts.zero = true;
    }
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    if !digits.is_empty() {
        parts.width =
            digits.parse().ok().filter(|width| *width <= MAX_WIDTH).ok_or_else(unsupported)?;
    }
    if chars.next_if_eq(&'.').is_some() {
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        parts.precision =
            Some(digits.parse().ok().filter(|most| *most <= MAX_WIDTH).ok_or_else(unsupported)?);
    }
    let default = if matches!(value, Value::Str(_)) { 's' } else { 'd' };
    let conversion = chars.next().unwrap_or(default);
    if chars.next().is_some() || !matches!(conversion, 's' | 'd' | 'f' | 'x') {
        return Err(unsupported());
    }
    if matches!(value, Value::Float(..)) && conversion == 'd' {
        return Err(unsupported());
    }
    let text = converted(value, conversion, &parts, false, meter)?;
    parts.left = align.take().map_or(conversion == 's', |align| align == '<');
    let mut out = Metered::new(meter);
    pad(&mut out, &text, &parts)?;
    Ok(out.finish())
}
