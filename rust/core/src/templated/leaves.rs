//! What of a conversation a template passed over.
//!
//! In: a rendered template, and the places that it writes in other conversations. Out: the paths of the texts and
//! numbers that the rendered text lacks. Where it lacks a whole list or object, the path of the list or object is given
//! alone; where it lacks a part of a string, the path of the string. Cost: linear in the values.

use std::ops::Range;

use crate::conversation::{Dropped, OnUnsupported, Why};
use crate::error::{Error, Result};
use crate::message::Role;
use crate::template::{REASONING_KEYS, RenderedTemplate};

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// `messages` or `tools`.
    List,
    Message,
    Content,
    Part,
    Reasoning,
    Name,
    Calls,
    Call,
    CallName,
    Arguments,
    Tools,
    Tool,
    ToolName,
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
            (Self::Message, Some("name")) => Self::Name,
            (Self::Call, Some("name")) => Self::CallName,
            (Self::Tool, Some("name")) => Self::ToolName,
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
            Self::Name | Self::CallName | Self::ToolName => "name",
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

/// Where a text may stand: what it is, in a message of a role or in the tools.
pub(super) type Place = (Option<Role>, Kind);

/// Where a value stands.
fn place_of(rendered: &RenderedTemplate, roles: &[Option<Role>], at: usize, kind: Kind) -> Place {
    let message = usize::try_from(rendered.paths().message(at as u32)).ok();
    (message.and_then(|message| *roles.get(message)?), kind)
}

/// A value of the caller's.
struct Value {
    around: Option<usize>,
    kind: Kind,
    /// Whether it is a text or a number of a kind that counts, or holds one.
    says: bool,
    /// Whether a part of it is in the text.
    is_seen: bool,
    /// What of a string is in the text.
    kept: Kept,
    /// Whether a text or number in it has no place in the template at all.
    is_unplaced: bool,
}

/// What of a caller's string the rendered text has.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    /// The beginning of the string, up to this byte. White space may be missing.
    Beginning(usize),
    /// These ranges of bytes, in any order.
    Parts(Vec<Range<usize>>),
    /// What the template made of the string: no part of it is known to be gone.
    Changed,
}

impl Kept {
    fn add(&mut self, place: Option<Range<usize>>, string: &str) {
        let Some(place) = place else {
            *self = Self::Changed;
            return;
        };
        match self {
            Self::Beginning(end) if says_nothing(string, *end..place.start) => {
                *end = place.end.max(*end);
            }
            Self::Beginning(end) => *self = Self::Parts(vec![0..*end, place]),
            Self::Parts(parts) => parts.push(place),
            Self::Changed => {}
        }
    }

    /// Whether some of the string is gone.
    fn is_cut(&self, string: &str) -> bool {
        let mut parts = match self {
            Self::Beginning(end) => return !says_nothing(string, *end..string.len()),
            Self::Changed => return false,
            Self::Parts(parts) => parts.clone(),
        };
        parts.sort_by_key(|part| part.start);
        let mut end = 0;
        for part in parts {
            if !says_nothing(string, end..part.start) {
                return true;
            }
            end = end.max(part.end);
        }
        !says_nothing(string, end..string.len())
    }
}

/// Whether a part of a string is white space, or nothing.
fn says_nothing(string: &str, part: Range<usize>) -> bool {
    part.is_empty() || string.get(part).is_some_and(|part| part.trim().is_empty())
}

/// The values of the caller's, each after the one that it is in.
fn values_of(rendered: &RenderedTemplate) -> Vec<Value> {
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
        // Names and types within a schema say what the tool takes.
        let is_of_schema = |around: usize| kind == Kind::Schema && values[around].kind == kind;
        let says = is_content && kind != Kind::Other && kind != Kind::Part
            || around.is_some_and(is_of_schema);
        let kept = Kept::Beginning(0);
        values.push(Value { around, kind, says, is_seen: false, kept, is_unplaced: false });
    }
    for (path, place) in rendered.seen() {
        if let Some(value) = values.get_mut(path as usize) {
            value.is_seen = true;
            if value.says {
                value.kept.add(place, paths.string(path).unwrap_or_default());
            }
        }
    }
    values
}

/// The places whose texts the rendered text holds, whole or in part.
pub(super) fn written_places(
    rendered: &RenderedTemplate,
    roles: &[Option<Role>],
) -> impl Iterator<Item = Place> {
    let values = values_of(rendered).into_iter().enumerate();
    let seen = values.filter(|(_, value)| value.says && value.is_seen);
    seen.map(move |(at, value)| place_of(rendered, roles, at, value.kind))
}

/// The parts of messages and tools that left no trace. `has_place` says whether the template writes a place in some
/// conversation.
pub(super) fn passed_over(
    rendered: &RenderedTemplate,
    roles: &[Option<Role>],
    has_place: impl Fn(Place) -> bool,
) -> Vec<Dropped> {
    let paths = rendered.paths();
    let mut values = values_of(rendered);
    for (at, value) in values.iter_mut().enumerate() {
        value.is_unplaced =
            value.says && !value.is_seen && !has_place(place_of(rendered, roles, at, value.kind));
    }
    for at in (0..values.len()).rev() {
        let Value { around, says, is_seen, is_unplaced, .. } = values[at];
        if let Some(around) = around {
            values[around].says |= says;
            values[around].is_seen |= is_seen;
            values[around].is_unplaced |= is_unplaced;
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
        let is_cut = |string| value.says && value.is_seen && value.kept.is_cut(string);
        let why = if paths.string(at as u32).is_some_and(is_cut) {
            Why::Cut
        } else if !is_told(value) || !is_in_seen || is_of_schema {
            continue;
        } else if value.is_unplaced {
            Why::Unsupported
        } else {
            Why::Policy
        };
        let told = Dropped::new(paths.text(at as u32), value.kind.name());
        dropped.push(Dropped { why, ..told });
    }
    dropped
}

/// Refuses what a template passed over because it has no place for it, in the messages from `first` on; from 0 on, in
/// the tools too.
pub(crate) fn check_placed(
    dropped: &[Dropped],
    first: usize,
    on_unsupported: OnUnsupported,
) -> Result<()> {
    let is_refused = |it: &&Dropped| {
        it.why == Why::Unsupported && it.message().map_or(first == 0, |message| message >= first)
    };
    match dropped.iter().find(is_refused) {
        Some(found) if on_unsupported == OnUnsupported::Error => {
            let problem = "is what the model's chat template has no place for";
            Err(Error::unsupported(found.path.clone(), problem))
        }
        _ => Ok(()),
    }
}
