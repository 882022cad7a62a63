//! The text after the tools: by it a system message that came back from ids is known to declare them.
//!
//! A format may write reasoning in other messages where tools are given (`tools.reasoning`). Of a prompt that is given
//! as ids, the system message says whether they were. An encoder never looks for the text: a caller could write it, and
//! control ids would depend on a caller's text.

use super::file::{File, ReasoningWhen};
use super::patterns::Patterns;
use super::{FixedTurn, rules};
use crate::error::{Checked, wrong};
use crate::message::{Message, Role};
use crate::pattern::{Field, Piece};

const KEY: &str = "tools.reasoning";

/// Which messages have their reasoning written where tools are given.
pub(crate) struct ToolsReasoning {
    pub(crate) when: ReasoningWhen,
    /// The texts after the tools, letters only.
    ends: Vec<String>,
}

impl ToolsReasoning {
    /// Whether one of the system messages that a conversation begins with declares tools.
    pub(crate) fn are_declared(&self, messages: &[Message]) -> bool {
        let mut systems = messages.iter().take_while(|message| message.role == Role::System);
        systems.any(|system| self.ends.iter().any(|end| ends_in(&system.content, end)))
    }
}

/// The letters of a text: vocabularies change white space and the case of letters.
fn letters(text: &str) -> impl DoubleEndedIterator<Item = char> {
    let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '\u{2581}');
    kept.map(|c| c.to_ascii_lowercase())
}

/// Whether the letters of a text end in others. Looks at no more of it than that takes.
fn ends_in(text: &str, end: &str) -> bool {
    let mut text = letters(text).rev();
    end.chars().rev().all(|c| text.next() == Some(c))
}

/// Reads the key beside the turns that declare tools.
pub(super) fn tools_reasoning(
    file: &File,
    turns: [Option<&FixedTurn>; 2],
    holder: Role,
    patterns: &Patterns,
) -> Checked<Option<ToolsReasoning>> {
    let Some(when) = file.tools.reasoning else { return Ok(None) };
    if when == file.reasoning {
        return wrong(KEY, "is the word of `reasoning`, expected another");
    }
    if holder != Role::System {
        return wrong(KEY, "is given beside tools in a user's turn, expected them in a system's");
    }
    let ends: Vec<String> =
        turns.into_iter().flatten().map(|turn| end_of(turn, patterns)).collect();
    if ends.iter().any(String::is_empty) {
        let problem = "has no text after `{tools}` in `turn.tools`, by which a system message is known to declare them, \
                       expected some";
        return wrong(KEY, problem);
    }
    Ok(Some(ToolsReasoning { when, ends }))
}

/// The letters that the text of a turn has after the tools.
fn end_of(turn: &FixedTurn, patterns: &Patterns) -> String {
    let after = turn.inside.iter().rposition(|piece| rules::is_field(piece, Field::Tools));
    let after = &turn.inside[after.map_or(0, |at| at + 1)..];
    let text: String = after
        .iter()
        .map(|piece| match piece {
            Piece::Literal(text) => text.clone(),
            piece => rules::control_names(piece)
                .map(|names| patterns.spelling(names))
                .unwrap_or_default(),
        })
        .collect();
    letters(&text).collect()
}
