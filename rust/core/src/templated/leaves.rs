//! What of a conversation a template passed over.
//!
//! In: a rendered template. Out: the paths of the caller's texts and numbers of which nothing is in the rendered text.
//! Where nothing of a whole list or object is there, its path stands for all that is in it. Cost: linear in the values.

use crate::conversation::Dropped;
use crate::template::{REASONING_KEYS, RenderedTemplate};

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `messages` or `tools`.
    List,
    Message,
    Content,
    Part,
    Reasoning,
    Name,
    Calls,
    Call,
    Arguments,
    Tools,
    Tool,
    Description,
    Schema,
    /// What says nothing of its own: ids, types, fields of other services.
    Other,
}

impl Kind {
    /// What a member or an item is.
    fn inner(self, key: Option<&str>) -> Self {
        match (self, key) {
            (Self::List, None) => Self::Message,
            (Self::Tools, None) | (Self::Tool, Some("function")) => Self::Tool,
            (Self::Message, Some("content")) | (Self::Part, Some("text")) => Self::Content,
            (Self::Message | Self::Call | Self::Tool, Some("name")) => Self::Name,
            (Self::Message, Some("tool_calls")) => Self::Calls,
            (Self::Message, Some(key)) if REASONING_KEYS.contains(&key) => Self::Reasoning,
            (Self::Content, None) => Self::Part,
            (Self::Calls, None) | (Self::Call, Some("function")) => Self::Call,
            (Self::Call, Some("arguments")) => Self::Arguments,
            (Self::Tool, Some("description")) => Self::Description,
            (Self::Tool, Some("parameters" | "input_schema")) => Self::Schema,
            (Self::Arguments | Self::Schema | Self::Reasoning, _) => self,
            _ => Self::Other,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Content | Self::Part => "content",
            Self::Reasoning => "reasoning",
            Self::Name => "name",
            Self::Calls => "tool_calls",
            Self::Call => "call",
            Self::Arguments => "arguments",
            Self::List | Self::Tools => "tools",
            Self::Tool => "tool",
            Self::Description => "description",
            Self::Schema => "parameters",
            Self::Other => "unknown",
        }
    }
}

/// A value of the caller's.
struct Value {
    around: Option<usize>,
    kind: Kind,
    /// Whether a text or number of a kind that counts is in it.
    says: bool,
    /// Whether a part of it is in the text.
    is_seen: bool,
}

/// The parts of messages and tools that left no trace.
pub(super) fn passed_over(rendered: &RenderedTemplate) -> Vec<Dropped> {
    let paths = rendered.paths();
    let mut values: Vec<Value> = Vec::with_capacity(paths.len());
    for (around, key, is_content) in paths.all() {
        let around = usize::try_from(around).ok().filter(|at| *at < values.len());
        let kind = match around {
            None if key == Some("messages") => Kind::List,
            None if key == Some("tools") => Kind::Tools,
            None => Kind::Other,
            Some(around) => values[around].kind.inner(key),
        };
        let says = is_content && kind != Kind::Other && kind != Kind::Part;
        values.push(Value { around, kind, says, is_seen: false });
    }
    for path in rendered.seen() {
        if let Some(value) = values.get_mut(path as usize) {
            value.is_seen = true;
        }
    }
    for at in (0..values.len()).rev() {
        let (says, is_seen) = (values[at].says, values[at].is_seen);
        if let Some(around) = values[at].around {
            values[around].says |= says;
            values[around].is_seen |= is_seen;
        }
    }
    let mut dropped = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let is_told = |value: &Value| value.says && !value.is_seen && value.kind != Kind::List;
        let is_in_seen = value.around.is_none_or(|around| !is_told(&values[around]));
        // One trace of a schema shows that the template has a place for it; it may write a type as a word of its own.
        let is_of_schema = value.around.is_some_and(|around| {
            values[around].kind == Kind::Schema && value.kind == Kind::Schema
        });
        if is_told(value) && is_in_seen && !is_of_schema {
            dropped.push(Dropped::new(paths.text(at as u32), value.kind.name()));
        }
    }
    dropped
}
