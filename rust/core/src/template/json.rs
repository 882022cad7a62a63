//! `tojson`, as Python's `json.dumps` writes it.

use std::fmt::Write;

use super::error::Problem;
use super::text::{Builder, Origin, Text};
use super::value::{List, ListKind, MAX_SHOWN_DEPTH, Outcome, Value, float};

/// How JSON is written.
pub(super) struct Style {
    pub(super) ascii: bool,
    /// Text of one level of indentation.
    pub(super) indent: Option<Text>,
    pub(super) between: Text,
    pub(super) colon: Text,
    pub(super) sorted: bool,
}

pub(super) fn write(value: &Value, style: &Style) -> Outcome<Text> {
    let mut out = Builder::default();
    Writer { style, out: &mut out }.value(value, 0, Origin::TEMPLATE)?;
    Ok(out.finish())
}

struct Writer<'a> {
    style: &'a Style,
    out: &'a mut Builder,
}

impl Writer<'_> {
    /// Writes a value; `origin` is that of the container around it.
    fn value(&mut self, value: &Value, depth: usize, origin: Origin) -> Outcome<()> {
        if depth > MAX_SHOWN_DEPTH {
            return Err(Problem::Limit(format!("value nests deeper than {MAX_SHOWN_DEPTH}")));
        }
        match value {
            none if none.is_none() => self.out.push_changed("null", origin),
            Value::Bool(value) => {
                self.out.push_changed(if *value { "true" } else { "false" }, origin);
            }
            Value::Int(value, origin) => self.out.push_changed(&value.to_string(), *origin),
            Value::Float(value, origin) => self.out.push_changed(&json_float(*value), *origin),
            Value::Str(text) => self.string(text),
            Value::List(list) if matches!(list.kind, ListKind::List | ListKind::Tuple) => {
                self.list(list, depth)?;
            }
            Value::Dict(dict) => {
                let origin = dict.origin;
                let mut members: Vec<&(Value, Value)> = dict.members.iter().collect();
                if self.style.sorted {
                    let mut problem = None;
                    members.sort_by(|one, other| {
                        one.0
                            .compare(&other.0, "<")
                            .unwrap_or_else(|found| {
                                problem = Some(found);
                                None
                            })
                            .unwrap_or(std::cmp::Ordering::Equal)
                    });
                    if let Some(problem) = problem {
                        return Err(problem);
                    }
                }
                self.out.push_changed("{", origin);
                for (nth, (key, value)) in members.iter().enumerate() {
                    self.before(nth, depth + 1, origin);
                    self.key(key)?;
                    self.mark(&self.style.colon, origin);
                    self.value(value, depth + 1, origin)?;
                }
                self.close("}", members.is_empty(), depth, origin);
            }
            other => {
                let kind = other.kind();
                return Err(Problem::value(format!(
                    "`tojson` has `{kind}`, which JSON does not have"
                )));
            }
        }
        Ok(())
    }

    fn list(&mut self, list: &List, depth: usize) -> Outcome<()> {
        self.out.push_changed("[", list.origin);
        for (nth, item) in list.items.iter().enumerate() {
            self.before(nth, depth + 1, list.origin);
            self.value(item, depth + 1, list.origin)?;
        }
        self.close("]", list.items.is_empty(), depth, list.origin);
        Ok(())
    }

    /// What stands before an item: a separator, a new line.
    fn before(&mut self, nth: usize, depth: usize, origin: Origin) {
        if nth > 0 {
            self.mark(&self.style.between, origin);
        }
        self.new_line(depth, origin);
    }

    /// Writes a mark between values. It is of the container around it, unless the mark itself is the caller's.
    fn mark(&mut self, mark: &Text, container: Origin) {
        let own = mark.main_origin();
        let origin = if own == Origin::TEMPLATE { container } else { own };
        self.out.push_changed(mark.as_str(), origin);
    }

    fn close(&mut self, bracket: &str, is_empty: bool, depth: usize, origin: Origin) {
        if !is_empty {
            self.new_line(depth, origin);
        }
        self.out.push_changed(bracket, origin);
    }

    fn new_line(&mut self, depth: usize, origin: Origin) {
        if let Some(indent) = &self.style.indent {
            self.out.push_changed("\n", origin);
            for _ in 0..depth {
                self.mark(indent, origin);
            }
        }
    }

    fn key(&mut self, key: &Value) -> Outcome<()> {
        match key {
            Value::Str(text) => {
                self.string(text);
                Ok(())
            }
            Value::None | Value::Bool(_) | Value::Int(..) | Value::Float(..) => {
                let mut text = Builder::default();
                Writer { style: self.style, out: &mut text }.value(key, 0, Origin::TEMPLATE)?;
                self.string(&text.finish());
                Ok(())
            }
            other => Err(Problem::value(format!(
                "`tojson` has a key `{}`, expected a string",
                other.kind()
            ))),
        }
    }

    fn string(&mut self, text: &Text) {
        let origin = text.main_origin();
        let ascii = self.style.ascii;
        self.out.push_changed("\"", origin);
        let is_plain = |c: char| {
            !matches!(c, '"' | '\\' | '\0'..='\u{1f}') && (!ascii || matches!(c, ' '..='~'))
        };
        if text.as_str().chars().all(is_plain) {
            self.out.push_text(text);
        } else {
            let mut start = 0;
            for (at, c) in text.as_str().char_indices() {
                if is_plain(c) {
                    continue;
                }
                self.out.push_range(text, start..at);
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
                self.out.push_changed(&escape, text.origin_at(at));
            }
            self.out.push_range(text, start..text.len());
        }
        self.out.push_changed("\"", origin);
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
