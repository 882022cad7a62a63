//! What of a conversation a template passed over, and whether it has a place for it at all.
//!
//! In: a rendered template. Out: the paths of the caller's texts and numbers of which nothing is in the rendered text.
//! Where nothing of a whole list or object is there, its path stands for all that is in it. Cost: linear in the values;
//! a dozen short renderings, once, to know the template's places.

use hashbrown::HashSet;

use super::TemplateWriter;
use crate::conversation::{Dropped, Values, Why};
use crate::encode::EncodeOptions;
use crate::message::{Owned, Role};
use crate::template::{REASONING_KEYS, RenderedTemplate, Way, budget};

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
type Place = (Option<Role>, Kind);

/// The places whose texts a template writes in some conversation; none is known of a template that writes none of the
/// tried ones, or takes too long for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places(Option<HashSet<Place>>);

/// What a conversation may have, and where that stands.
const PARTS: [(&str, &[Place]); 6] = [
    ("system messages", &[(Some(Role::System), Kind::Content)]),
    ("tools", &[(None, Kind::ToolName), (None, Kind::Schema)]),
    ("calls", &[(Some(Role::Assistant), Kind::CallName), (Some(Role::Assistant), Kind::Arguments)]),
    ("results of calls", &[(Some(Role::Tool), Kind::Content)]),
    ("reasoning", &[(Some(Role::Assistant), Kind::Reasoning)]),
    ("names of users", &[(Some(Role::User), Kind::Name)]),
];

/// Messages that have something in each place, each also in a short conversation: a template may refuse the others.
const TRIED: [&str; 8] = [
    r#"[{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]"#,
    r#"[{"role": "system", "name": "n", "content": "a"}, {"role": "user", "name": "n", "content": "b"},
        {"role": "assistant", "name": "n", "content": "c"}, {"role": "user", "content": "d"}]"#,
    r#"[{"role": "user", "content": "b"}, {"role": "assistant", "reasoning": "r", "content": "c"}]"#,
    r#"[{"role": "user", "content": "b"},
        {"role": "assistant", "reasoning": "r", "content": "c", "tool_calls": [{"id": "call00001",
         "type": "function", "function": {"name": "f", "arguments": {"k": "v"}}}]},
        {"role": "tool", "tool_call_id": "call00001", "name": "f", "content": "o"}]"#,
    r#"[{"role": "user", "content": "b"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001",
         "type": "function", "function": {"name": "f", "arguments": {"k": "v"}}}]},
        {"role": "tool", "tool_call_id": "call00001", "name": "f", "content": "o"},
        {"role": "assistant", "content": "c"}]"#,
    r#"[{"role": "user", "content": "b"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001",
         "type": "function", "function": {"name": "f", "arguments": {"k": "v"}}}]}]"#,
    r#"[{"role": "user", "content": "b"}, {"role": "tool", "name": "f", "content": "o"}]"#,
    r#"[{"role": "user", "content": "b"}]"#,
];

/// A tool with a text in each place.
const TOOLS: &str = r#"[{"type": "function", "function": {"name": "f", "description": "e", "parameters":
    {"type": "object", "properties": {"k": {"type": "string", "description": "s"}}, "required": ["k"]}}}]"#;

impl Places {
    /// The places that a template writes in the tried conversations; with and without tools, and reasoning asked for.
    pub(super) fn found(writer: &TemplateWriter) -> Self {
        let mut found = HashSet::new();
        let mut is_tried = false;
        let thinking = super::THINKING.map(|name| (name.to_owned(), Owned::Bool(true)));
        for messages in TRIED {
            let roles = super::roles(&Owned::of_json(messages)).unwrap_or_default();
            for (has_tools, thinks) in [(true, true), (false, false), (true, false)] {
                let tools = has_tools.then(|| Owned::of_json(TOOLS));
                let values = Values { messages: Owned::of_json(messages), tools };
                let mut options = EncodeOptions::default();
                if thinks {
                    options.template.variables = thinking.to_vec();
                }
                let Ok(written) = writer.rendered(&values, false, &options, Way::AsGiven) else {
                    continue;
                };
                is_tried = true;
                let leaves = values_of(&written);
                let seen = leaves.iter().enumerate().filter(|(_, leaf)| leaf.says && leaf.is_seen);
                found.extend(seen.map(|(at, leaf)| place_of(&written, &roles, at, leaf.kind)));
            }
        }
        let of_tools = [Kind::ToolName, Kind::Description, Kind::Schema].map(|kind| (None, kind));
        if *writer.needs() == super::Needs::Tools && !of_tools.iter().any(|it| found.contains(it)) {
            // It looks for tools, and writes nothing of them.
            found.extend(of_tools);
        }
        Self(Some(found).filter(|_| is_tried && !budget::is_spent()))
    }

    /// What of a conversation the template writes nowhere, in words.
    pub(super) fn lacking(&self) -> Vec<&'static str> {
        let is_lacking = |places: &&[Place]| !places.iter().any(|place| self.has(*place));
        PARTS.iter().filter(|(_, places)| is_lacking(places)).map(|(name, _)| *name).collect()
    }

    fn has(&self, place: Place) -> bool {
        // The call says the name of the function that a result is of.
        let is_said = place == (Some(Role::Tool), Kind::Name);
        is_said || self.0.as_ref().is_none_or(|known| known.contains(&place))
    }
}

/// Where a value stands.
fn place_of(rendered: &RenderedTemplate, roles: &[Option<Role>], at: usize, kind: Kind) -> Place {
    let message = usize::try_from(rendered.paths().message(at as u32)).ok();
    (message.and_then(|message| *roles.get(message)?), kind)
}

/// A value of the caller's.
struct Value {
    around: Option<usize>,
    kind: Kind,
    /// Whether it is a text or a number of a kind that counts; then, whether one is in it.
    says: bool,
    /// Whether a part of it is in the text.
    is_seen: bool,
    /// Whether a text or number in it has no place in the template at all.
    is_unplaced: bool,
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
        values.push(Value { around, kind, says, is_seen: false, is_unplaced: false });
    }
    for path in rendered.seen() {
        if let Some(value) = values.get_mut(path as usize) {
            value.is_seen = true;
        }
    }
    values
}

/// The parts of messages and tools that left no trace.
pub(super) fn passed_over<'p>(
    rendered: &RenderedTemplate,
    roles: &[Option<Role>],
    places: impl Fn() -> &'p Places,
) -> Vec<Dropped> {
    let paths = rendered.paths();
    let mut values = values_of(rendered);
    for (at, value) in values.iter_mut().enumerate() {
        value.is_unplaced = value.says
            && !value.is_seen
            && !places().has(place_of(rendered, roles, at, value.kind));
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
        if is_told(value) && is_in_seen && !is_of_schema {
            let why = if value.is_unplaced { Why::Unsupported } else { Why::Policy };
            let told = Dropped::new(paths.text(at as u32), value.kind.name());
            dropped.push(Dropped { why, ..told });
        }
    }
    dropped
}
