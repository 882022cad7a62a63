//! The first turn of every conversation: the format's own text, with words that a caller may set.

use super::file::{BeginWhen, File};
use super::patterns::Patterns;
use super::without_system::word_as_written;
use super::{RowSpec, RowUse, SystemPlace, ToolsPlace, ToolsSpec, results};
use crate::error::{Checked, wrong};
use crate::message::{Message, Role};
use crate::pattern::{Field, Piece, walk};
use crate::word::is_word;

/// The turn, and the row that reads it back.
pub(crate) struct BeginSpec {
    pub(crate) pieces: Vec<Piece>,
    /// The text that the reading row takes as its content.
    pub(crate) inside: Vec<Piece>,
    /// The name of that row, or none if it is the system's. A conversation that begins with a message of this name has
    /// its own first turn, and one that begins with a system message that is this turn.
    pub(crate) name: Option<String>,
    /// The words for the reasoning effort; the first is the default.
    pub(crate) efforts: Vec<String>,
    /// The conversations that it begins.
    pub(super) when: BeginWhen,
}

impl BeginSpec {
    /// Whether a message, the first of a conversation, is this turn.
    pub(crate) fn is_given(&self, message: &Message) -> bool {
        if message.role != Role::System || message.name != self.name {
            return false;
        }
        if self.name.is_some() {
            return true;
        }
        // Vocabularies change white space and the case of letters.
        let letters = |text: &'_ str| -> String {
            let kept = text.chars().filter(|c| !c.is_whitespace() && *c != '\u{2581}');
            kept.flat_map(char::to_lowercase).collect()
        };
        let longest = self.texts().map(|text| text.len()).max().unwrap_or_default();
        if message.content.len() > longest * 2 {
            return false;
        }
        let content = letters(&message.content);
        self.texts().any(|text| letters(&text) == content)
    }

    /// The texts that it may have, one for each effort.
    fn texts(&self) -> impl Iterator<Item = String> + '_ {
        let efforts = self.efforts.iter().map(String::as_str);
        let count = self.efforts.len().max(1);
        efforts.chain([""]).take(count).map(|effort| {
            let text = |piece: &Piece| match piece {
                Piece::Literal(text) => text.clone(),
                Piece::Field(Field::Effort, filter) => {
                    word_as_written(effort, *filter).into_owned()
                }
                _ => String::new(),
            };
            self.inside.iter().map(text).collect()
        })
    }

    /// Whether its text has control tokens, which are read as their spellings.
    pub(super) fn has_control(&self) -> bool {
        walk(&self.inside).any(Piece::is_control)
    }
}

pub(super) fn begin(
    file: &File,
    patterns: &Patterns,
    rows: &[RowSpec],
    tools: Option<&ToolsSpec>,
) -> Checked<Option<BeginSpec>> {
    let efforts = file.options.effort.clone();
    let Some(text) = &file.turn.begin else {
        check_place(file, tools, None)?;
        if efforts.is_empty() {
            return Ok(None);
        }
        return wrong("options.effort", "has no place, expected `{effort}` in `turn.begin`");
    };
    let key = "turn.begin";
    let pieces = patterns.pieces(key, text, &[Field::Date, Field::Effort, Field::Tools])?;
    let has_effort = walk(&pieces).any(|piece| matches!(piece, Piece::Field(Field::Effort, _)));
    if has_effort == efforts.is_empty() {
        let problem = "and `{effort}` in `turn.begin` belong together, expected both or neither";
        return wrong("options.effort", problem);
    }
    if let Some(word) = efforts.iter().find(|word| !is_word(word)) {
        let problem = format!("has the word {word:?}, expected letters, digits and `_.:-` only");
        return wrong("options.effort", problem);
    }
    check_optional(key, &pieces, None)?;
    let named = rows.iter().filter(|row| row.role == Role::System && row.place == RowUse::Both);
    let read = |row: &RowSpec| Some((row.name.clone(), results::inside_of(&row.pieces, &pieces)?));
    let (of_names, others): (Vec<&RowSpec>, Vec<&RowSpec>) =
        named.partition(|row| row.name.is_some());
    let Some((name, inside)) = of_names.into_iter().chain(others).find_map(read) else {
        return wrong(key, results::unread(&pieces, rows, Role::System));
    };
    if name.is_none() {
        check_system(file, &inside)?;
    }
    if walk(&inside).any(|piece| !is_plain(piece)) {
        return wrong(
            key,
            "has more than literals, words and control tokens in its text, expected no `{~}` or `{/}` there",
        );
    }
    let begin = BeginSpec { pieces, inside, name, efforts, when: file.place.begin };
    check_place(file, tools, Some(&begin))?;
    Ok(Some(begin))
}

/// Checks the keys `place.begin` and `place.tools = "before_begin"`.
fn check_place(file: &File, tools: Option<&ToolsSpec>, begin: Option<&BeginSpec>) -> Checked<()> {
    if file.place.begin != BeginWhen::Always && begin.is_none() {
        return wrong(
            "place.begin",
            "places a turn that the file does not have, expected `turn.begin`",
        );
    }
    let is_before = |tools: &&ToolsSpec| tools.place == ToolsPlace::BeforeBegin;
    let Some(tools) = tools.filter(is_before) else { return Ok(()) };
    let is_named = |name: Option<&String>| name.is_some();
    let begins = begin.is_some_and(|begin| is_named(begin.name.as_ref()));
    if !begins || !is_named(tools.turn.name.as_ref()) {
        let problem =
            "is `before_begin`, expected `turn.begin` and `turn.tools` that rows of `named` read";
        return wrong("place.tools", problem);
    }
    if file.default_system.is_some() || file.turn.without_system.is_some() {
        let problem =
            "is `before_begin` beside a system message of the format's, expected one of them";
        return wrong("place.tools", problem);
    }
    Ok(())
}

/// Checks the text of a turn that the system's row reads: it is known by its text, so that has nothing that depends on
/// the conversation.
fn check_system(file: &File, inside: &[Piece]) -> Checked<()> {
    let is_known =
        |piece: &Piece| matches!(piece, Piece::Literal(_) | Piece::Field(Field::Effort, _));
    if !inside.iter().all(is_known) || inside.is_empty() {
        let problem = "is read by `turn.system`, expected literals and `{effort}` only in its text";
        return wrong("turn.begin", problem);
    }
    if file.place.system != SystemPlace::Own {
        let problem = "is read by `turn.system`, expected `place.system` to be `own`";
        return wrong("turn.begin", problem);
    }
    Ok(())
}

fn is_plain(piece: &Piece) -> bool {
    matches!(
        piece,
        Piece::Literal(_) | Piece::Control(_) | Piece::Field(..) | Piece::Optional { .. }
    )
}

/// Checks that an optional field has an optional part of its own; the part of `tools` is written if there are
/// tools. `around` is the field of the part around the pieces.
pub(super) fn check_optional(key: &str, pieces: &[Piece], around: Option<Field>) -> Checked<()> {
    for piece in pieces {
        match piece {
            Piece::Optional { field: Field::Effort, .. } => {
                return wrong(
                    key,
                    "has a guard of `effort`, which is always given, expected `{effort}` by itself",
                );
            }
            Piece::Optional { field, pieces } => check_optional(key, pieces, Some(*field))?,
            Piece::Field(Field::Tools, _) => {
                return wrong(key, "has `{tools}`, expected only a guard `{?tools:…?}`");
            }
            Piece::Field(Field::Date, _) if around != Some(Field::Date) => {
                return wrong(key, "has `{date}` by itself, expected `{?date:…{date}…?}`");
            }
            _ => {}
        }
    }
    Ok(())
}
