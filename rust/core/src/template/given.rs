//! Arguments of a function, taken by place or by name.

use super::error::Problem;
use super::text::Text;
use super::value::{Number, Outcome, Value};

/// Arguments by name. A name is a text with an origin: that of `**mapping` is the caller's.
pub(super) type Named = Vec<(Text, Value)>;

pub(super) struct Given<'a> {
    /// What is called, for errors.
    what: &'a str,
    positional: std::vec::IntoIter<Value>,
    named: Named,
}

impl<'a> Given<'a> {
    pub(super) fn new(what: &'a str, positional: Vec<Value>, named: Named) -> Self {
        Self { what, positional: positional.into_iter(), named }
    }

    /// The next argument, which may have a name.
    pub(super) fn next(&mut self, name: &str) -> Option<Value> {
        if let Some(value) = self.positional.next() {
            return Some(value);
        }
        let at = self.named.iter().position(|(known, _)| known.as_str() == name)?;
        Some(self.named.remove(at).1)
    }

    pub(super) fn needed(&mut self, name: &str) -> Outcome<Value> {
        let what = self.what;
        self.next(name).ok_or_else(|| Problem::value(format!("`{what}` has no argument `{name}`")))
    }

    pub(super) fn text(&mut self, name: &str) -> Outcome<Text> {
        match self.needed(name)? {
            Value::Str(text) => Ok(text),
            other => Err(self.wrong(name, &other, "a string")),
        }
    }

    /// A string, or none where the argument is not given or is None.
    pub(super) fn optional_text(&mut self, name: &str) -> Outcome<Option<Text>> {
        match self.next(name) {
            None | Some(Value::None) => Ok(None),
            Some(Value::Str(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, &other, "a string")),
        }
    }

    pub(super) fn int(&mut self, name: &str, default: i64) -> Outcome<i64> {
        Ok(self.optional_int(name)?.unwrap_or(default))
    }

    pub(super) fn optional_int(&mut self, name: &str) -> Outcome<Option<i64>> {
        match self.next(name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => match value.number() {
                Some(Number::Int(number)) => Ok(Some(number)),
                _ => Err(self.wrong(name, &value, "an integer")),
            },
        }
    }

    pub(super) fn flag(&mut self, name: &str, default: bool) -> bool {
        self.next(name).map_or(default, |value| value.is_true())
    }

    fn wrong(&self, name: &str, value: &Value, expected: &str) -> Problem {
        match value.check() {
            Err(problem) => problem,
            Ok(()) => Problem::value(format!(
                "`{}`: `{name}` is `{}`, expected {expected}",
                self.what,
                value.kind()
            )),
        }
    }

    /// All arguments that are left, by place and by name.
    pub(super) fn rest(&mut self) -> (Vec<Value>, Named) {
        (self.positional.by_ref().collect(), std::mem::take(&mut self.named))
    }

    /// Fails where an argument is left.
    pub(super) fn end(&mut self) -> Outcome<()> {
        if self.positional.next().is_some() {
            return Err(Problem::value(format!("`{}` has too many arguments", self.what)));
        }
        match self.named.first() {
            Some((name, _)) => {
                Err(Problem::value(format!("`{}` has no parameter `{}`", self.what, name.as_str())))
            }
            None => Ok(()),
        }
    }
}
