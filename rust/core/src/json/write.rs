//! Values written as Python's `json.dumps(…, ensure_ascii=False)` writes them.

use super::{is_value, quote_into};
use crate::error::{Error, Result};
use crate::message::{Node, View};
use crate::path::Path;

/// Maximum depth at which values given as objects are written.
const MAX_WRITE_DEPTH: usize = 256;

/// Appends `node` as `json.dumps(node, ensure_ascii=False)` would write it.
pub(crate) fn write<N: Node>(node: &N, path: Path<'_>, out: &mut String) -> Result<()> {
    Writer { path, out }.value(node, 0)
}

/// Appends `nodes` as one list.
pub(crate) fn write_list<N: Node>(nodes: &[N], path: Path<'_>, out: &mut String) -> Result<()> {
    let mut writer = Writer { path, out };
    writer.group(['[', ']'], nodes, |writer, node| writer.value(node, 1))
}

struct Writer<'a> {
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
            View::Number(text) if is_value(&text) => self.out.push_str(&text),
            View::Number(text) => {
                return Err(Error::message(
                    self.path,
                    format!("holds {text}, expected a finite number"),
                ));
            }
            View::Text(text) => quote_into(text, self.out),
            View::Surrogate => return Err(self.surrogate()),
            View::List(items) => {
                self.group(['[', ']'], &items, |this, item| this.value(item, depth + 1))?;
            }
            View::Map(members) => {
                self.group(['{', '}'], &members, |this, (key, value)| {
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
                    this.out.push_str(": ");
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
        mut each: impl FnMut(&mut Self, &T) -> Result<()>,
    ) -> Result<()> {
        self.out.push(brackets[0]);
        for (at, item) in items.iter().enumerate() {
            self.out.push_str(if at > 0 { ", " } else { "" });
            each(self, item)?;
        }
        self.out.push(brackets[1]);
        Ok(())
    }
}
