//! Which texts of a conversation a template writes in some conversation: its places.
//!
//! In: a template. Out: the places whose texts it writes in at least one of eight short conversations. Cost: 24 short
//! renderings, once, with one budget.

use hashbrown::HashSet;

use super::leaves::{Kind, Place, written_places};
use super::{Needs, THINKING, TemplateWriter, roles as roles_of};
use crate::conversation::Values;
use crate::encode::EncodeOptions;
use crate::message::{Owned, Role};
use crate::template::{Way, budget};

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
        let thinking = THINKING.map(|name| (name.to_owned(), Owned::Bool(true)));
        for messages in TRIED {
            let roles = roles_of(&Owned::of_json(messages)).unwrap_or_default();
            for (has_tools, thinks) in [(true, true), (false, false), (true, false)] {
                let tools = has_tools.then(|| Owned::of_json(TOOLS));
                let mut messages = Owned::of_json(messages);
                writer.with_arguments(&mut messages);
                let values = Values { messages, tools };
                let mut options = EncodeOptions::default();
                if thinks {
                    options.template.variables = thinking.to_vec();
                }
                let Ok(written) = writer.rendered(&values, false, &options, Way::AsGiven) else {
                    continue;
                };
                is_tried = true;
                found.extend(written_places(&written, &roles));
            }
        }
        let of_tools = [Kind::ToolName, Kind::Description, Kind::Schema].map(|kind| (None, kind));
        if *writer.needs() == Needs::Tools && !of_tools.iter().any(|it| found.contains(it)) {
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

    /// Whether a text of this place was seen to be written.
    pub(super) fn is_known(&self, place: Place) -> bool {
        self.0.as_ref().is_some_and(|known| known.contains(&place))
    }

    /// Whether a text of this place may be written.
    pub(super) fn has(&self, place: Place) -> bool {
        // The call says the name of the function that a result is of.
        let is_said = place == (Some(Role::Tool), Kind::Name);
        is_said || self.0.as_ref().is_none_or(|known| known.contains(&place))
    }
}
