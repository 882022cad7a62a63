//! `tojson`, as Python's `json.dumps` writes it.

use std::cmp::Ordering;
use std::fmt::Write;

use super::error::Problem;
use super::meter::Meter;
use super::sort;
use super::text::{Origin, Text};
use super::value::{Dict, List, ListKind, Metered, Outcome, Value, float};

/// How JSON is written.
pub(super) struct Style {
    pub(super) ascii: bool,
    /// Text of one level of indentation.
    pub(super) indent: Option<Text>,
    pub(super) between: Text,
    pub(super) colon: Text,
    pub(super) sorted: bool,
}

pub(super) fn write(value: &Value, style: &Style, meter: &Meter) -> Outcome<Text> {
    let mut writer = Writer { style, out: Metered::new(meter) };
    writer.value(value, 0, Origin::TEMPLATE)?;
    Ok(writer.out.finish())
}

struct Writer<'a> {
    style: &'a Style,
    out: Metered<'a>,
}

impl Writer<'_> {
    /// Writes a value; `origin` is that of the container around it.
    fn value(&mut self, value: &Value, depth: usize, origin: Origin) -> Outcome<()> {
        match value {
            none if none.is_none() => self.out.push("null", origin),
            Value::Bool(value) => self.out.push(if *value { "true" } else { "false" }, origin),
            Value::Int(value, origin) => self.out.push(&value.to_string(), *origin),
            Value::Long(value, origin) => self.out.push(value, *origin),
            Value::Float(value, origin) => self.out.push(&json_float(*value), *origin),
            Value::Str(text) => self.string(text),
            Value::List(list) if matches!(list.kind, ListKind::List | ListKind::Tuple) => {
                self.list(list, depth)
            }
            Value::Dict(dict) => self.dict(dict, depth),
            other => {
                let kind = other.kind();
                Err(Problem::value(format!("`tojson` has `{kind}`, which JSON does not have")))
            }
        }
    }

    fn dict(&mut self, dict: &Dict, depth: usize) -> Outcome<()> {
        let (meter, origin) = (self.out.meter, dict.origin);
        let mut order: Vec<usize> = (0..dict.members.len()).collect();
        if self.style.sorted {
            let key = |at: usize| &dict.members[at].0;
            order = sort::sorted(order.len(), |one, other| {
                Ok(key(one).compare(key(other), "<", meter)? == Some(Ordering::Less))
            })?;
        }
        self.out.push("{", origin)?;
        for (nth, at) in order.iter().enumerate() {
            let (key, value) = &dict.members[*at];
            self.before(nth, depth + 1, origin)?;
            self.key(key)?;
            self.mark(&self.style.colon, origin)?;
            self.value(value, depth + 1, origin)?;
        }
        self.close("}", order.is_empty(), depth, origin)
    }

    fn list(&mut self, list: &List, depth: usize) -> Outcome<()> {
        self.out.push("[", list.origin)?;
        for (nth, item) in list.items.iter().enumerate() {
            self.before(nth, depth + 1, list.origin)?;
            self.value(item, depth + 1, list.origin)?;
        }
        self.close("]", list.items.is_empty(), depth, list.origin)
    }

    /// What stands before an item: a separator, a new line.
    fn before(&mut self, nth: usize, depth: usize, origin: Origin) -> Outcome<()> {
        if nth > 0 {
            self.mark(&self.style.between, origin)?;
        }
        self.new_line(depth, origin)
    }

    /// Writes a mark between values. It is of the container around it, unless the mark itself is the caller's.
    fn mark(&mut self, mark: &Text, container: Origin) -> Outcome<()> {
        self.out.meter.take(mark.run_count() as u64)?;
        let own = mark.main_origin();
        let origin = if own == Origin::TEMPLATE { container } else { own };
        self.out.push(mark.as_str(), origin)
    }

    fn close(
        &mut self,
        bracket: &str,
        is_empty: bool,
        depth: usize,
        origin: Origin,
    ) -> Outcome<()> {
        if !is_empty {
            self.new_line(depth, origin)?;
        }
        self.out.push(bracket, origin)
    }

    fn new_line(&mut self, depth: usize, origin: Origin) -> Outcome<()> {
        if let Some(indent) = &self.style.indent {
            self.out.push("\n", origin)?;
            for _ in 0..depth {
                self.mark(indent, origin)?;
            }
        }
        Ok(())
    }

    fn key(&mut self, key: &Value) -> Outcome<()> {
        match key {
            Value::Str(text) => self.string(text),
            Value::None | Value::Bool(_) | Value::Int(..) | Value::Long(..) | Value::Float(..) => {
                let mut text = Writer { style: self.style, out: Metered::new(self.out.meter) };
                text.value(key, 0, Origin::TEMPLATE)?;
                self.string(&text.out.finish())
            }
            other => Err(Problem::value(format!(
                "`tojson` has a key `{}`, expected a string",
                other.kind()
            ))),
        }
    }

    fn string(&mut self, text: &Text) -> Outcome<()> {
        self.out.meter.read(text.len())?;
        let origin = text.main_origin();
        let ascii = self.style.ascii;
        self.out.push("\"", origin)?;
        let is_plain = |c: char| {
            !matches!(c, '"' | '\\' | '\0'..='\u{1f}') && (!ascii || matches!(c, ' '..='~'))
        };
        if text.as_str().chars().all(is_plain) {
            self.out.push_text(text)?;
        } else {
            let mut start = 0;
            for (at, c) in text.as_str().char_indices() {
                if is_plain(c) {
                    continue;
                }
                self.out.push_range(text, start..at)?;
                start = at + c.len_utf8();
                let mut escape = String::new();
                match c {
                    '"' => escape.push_str("\\\""),
                    '\\' => escape.push_str("\\\\"),
                    '\n' => escape.push_str("\\n"),
                    '\r' => escape.push_str("\\r"),
                    '\t' => escape.push_str("\\t"),
                    '\u{8}' => escape.push_str("\\b"),
                    '\u{c}' => escape.push_str("\\f"),
                    c => {
                        let mut units = [0; 2];
                        for unit in c.encode_utf16(&mut units) {
                            let _ = write!(escape, "\\u{unit:04x}");
                        }
                    }
                }
                self.out.push(&escape, text.origin_at(at))?;
            }
            self.out.push_range(text, start..text.len())?;
        }
        self.out.push("\"", origin)
    }
}

fn json_float(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        float(value)
    }
}
