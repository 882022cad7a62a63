//! Values written as Python's `json.dumps(…, ensure_ascii=False)` writes them.

use super::{is_value, quote_into};
use crate::error::{Error, Result};
use crate::message::{Node, View};
use crate::path::Path;

/// Maximum depth at which values given as objects are written.
pub(crate) const MAX_WRITE_DEPTH: usize = 256;

/// Spacing of a written value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `{"a": 1, "b": [2]}`
    Line,
    /// The spacing of `indent=n`.
    Indent(u8),
    /// `{"a":1,"b":[2]}`: `separators=(",", ":")`.
    Dense,
    /// `{"a":1,"b":[2]}`, and numbers as they come out of 64 bits.
    Compact,
}

impl Layout {
    fn is_dense(self) -> bool {
        matches!(self, Self::Dense | Self::Compact)
    }
}

/// Appends `node` as `json.dumps(node, ensure_ascii=False)` would write it.
pub(crate) fn write<N: Node>(
    node: &N,
    layout: Layout,
    path: Path<'_>,
    out: &mut String,
) -> Result<()> {
    Writer { layout, path, out }.value(node, 0)
}

/// Appends `nodes` as one list.
pub(crate) fn write_list<N: Node>(
    nodes: &[N],
    layout: Layout,
    path: Path<'_>,
    out: &mut String,
) -> Result<()> {
    let mut writer = Writer { layout, path, out };
    writer.group(['[', ']'], nodes, 0, |writer, node| writer.value(node, 1))
}

struct Writer<'a> {
    layout: Layout,
    path: Path<'a>,
    out: &'a mut String,
}

impl Writer<'_> {
    fn value<N: Node>(&mut self, node: &N, depth: usize) -> Result<()> {
        if depth > MAX_WRITE_DEPTH {
            let problem = format!("is nested deeper than {MAX_WRITE_DEPTH}");
            return Err(Error::message(self.path, problem));
        }
        match node.view() {
            View::Null => self.out.push_str("null"),
            View::Bool(value) => self.out.push_str(if value { "true" } else { "false" }),
            View::Number(text) if is_value(&text) => match self.layout {
                Layout::Compact => self.out.push_str(&shortest(text)),
                _ => self.out.push_str(&text),
            },
            View::Number(text) => {
                return Err(Error::message(
                    self.path,
                    format!("holds {text}, expected a finite number"),
                ));
            }
            View::Text(text) => quote_into(text, self.out),
            View::Surrogate => return Err(self.surrogate()),
            View::List(items) => {
                self.group(['[', ']'], &items, depth, |this, item| this.value(item, depth + 1))?;
            }
            View::Map(members) => {
                self.group(['{', '}'], &members, depth, |this, (key, value)| {
                    match key.view() {
                        View::Text(key) => quote_into(key, this.out),
                        View::Surrogate => return Err(this.surrogate()),
                        _ => {
                            return Err(Error::message(
                                this.path,
                                "has a key that is not a string",
                            ));
                        }
                    }
                    this.out.push_str(if this.layout.is_dense() { ":" } else { ": " });
                    this.value(value, depth + 1)
                })?;
            }
            View::Other(kind) | View::Object(kind, _) => {
                return Err(Error::message(self.path, format!("holds a `{kind}`, expected JSON")));
            }
        }
        Ok(())
    }

    fn surrogate(&self) -> Error {
        Error::message(self.path, crate::message::SURROGATE)
    }

    fn group<T>(
        &mut self,
        brackets: [char; 2],
        items: &[T],
        depth: usize,
        mut each: impl FnMut(&mut Self, &T) -> Result<()>,
    ) -> Result<()> {
        self.out.push(brackets[0]);
        for (at, item) in items.iter().enumerate() {
            match (at, self.layout) {
                (0, Layout::Line | Layout::Dense | Layout::Compact) => {}
                (_, Layout::Dense | Layout::Compact) => self.out.push(','),
                (_, Layout::Line) => self.out.push_str(", "),
                (0, Layout::Indent(_)) => self.new_line(depth + 1),
                (_, Layout::Indent(_)) => {
                    self.out.push(',');
                    self.new_line(depth + 1);
                }
            }
            each(self, item)?;
        }
        if !items.is_empty() && matches!(self.layout, Layout::Indent(_)) {
            self.new_line(depth);
        }
        self.out.push(brackets[1]);
        Ok(())
    }

    fn new_line(&mut self, depth: usize) {
        let Layout::Indent(spaces) = self.layout else { return };
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', depth * usize::from(spaces)));
    }
}

/// A number in the shortest spelling with the same 64-bit value; unchanged if it does not fit 64
/// bits.
fn shortest(number: String) -> String {
    if number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok() {
        return number;
    }
    let float = number.parse().ok().and_then(serde_json::Number::from_f64);
    float.map_or(number, |float| float.to_string().replace("e+", "e"))
}
