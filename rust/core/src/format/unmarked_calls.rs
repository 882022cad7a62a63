//! Calls that begin with text: their places, and that their beginning is decided early.
//!
//! A call of this kind is alone at the beginning of an assistant's content. So a row writes content or
//! calls, not both. `Encoding::collisions` lists a text that begins like a call.

use super::rules::{self, has_field};
use super::table::Table;
use super::{CallBodySpec, CallSpec, Guarantee, ListForm, ListSpec, Member, ObjectSpec, calls};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Piece, shown, walk};

/// The text before and after an unmarked call that a model writes as code.
pub(crate) const FENCES: [&str; 2] = ["```json", FENCE];

pub(crate) const FENCE: &str = "```";

/// Maximum length of the text before a call: a sign, a word.
const MAX_BEFORE_BYTES: usize = 64;

/// Whether a form of a call begins with its body or name: it is in brackets, or nothing precedes it.
pub(crate) fn begins_with_field(item: &[Piece]) -> bool {
    matches!(item.first(), Some(Piece::Field(..)))
}

/// Checks the patterns around calls that begin with text: brackets, or signs between calls.
pub(super) fn list(
    open: Vec<Vec<Piece>>,
    between: Vec<Piece>,
    close: Vec<Vec<Piece>>,
) -> Checked<ListSpec> {
    if open.is_empty() {
        if !close.is_empty() {
            return wrong("calls.close", "closes calls that nothing opens, expected `calls.open`");
        }
        if !matches!(&between[..], [] | [Piece::Literal(_)])
            || between.iter().any(|piece| separator(piece).is_none())
        {
            let problem = format!(
                "is {}, expected a comma or a semicolon, and white space around it",
                shown(&between)
            );
            return wrong("calls.between", problem);
        }
        return Ok(ListSpec { open, between, close, form: ListForm::Joined });
    }
    if !matches!(&between[..], [piece] if separator(piece) == Some(b',')) {
        let problem =
            format!("is {}, expected a comma, and white space around it", shown(&between));
        return wrong("calls.between", problem);
    }
    for open in &open {
        match &open[..] {
            [Piece::Control(_)] | [Piece::Control(_), Piece::Literal(_)] => {}
            [Piece::Literal(text)]
                if text.trim() == text && (1..=MAX_BEFORE_BYTES).contains(&text.len()) => {}
            _ => {
                let problem = format!(
                    "is {}, expected a control token with text after it at most, or 1 to \
                     {MAX_BEFORE_BYTES} bytes of text without white space around it",
                    shown(open)
                );
                return wrong("calls.open", problem);
            }
        }
    }
    let is_bracket = |piece: &Piece| matches!(piece, Piece::Literal(text) if text.trim() == "]");
    let closes = |close: &Vec<Piece>| match &close[..] {
        [bracket] | [bracket, Piece::Control(_)] => is_bracket(bracket),
        _ => false,
    };
    let odd = close.iter().find(|close| !closes(close)).map(|close| shown(close));
    if let Some(found) = odd.or_else(|| close.is_empty().then(|| "missing".to_owned())) {
        let problem = format!("is {found}, expected `]`, and a control token after it at most");
        return wrong("calls.close", problem);
    }
    Ok(ListSpec { open, between, close, form: ListForm::Brackets })
}

/// The sign between two calls.
pub(crate) fn separator(piece: &Piece) -> Option<u8> {
    let Piece::Literal(text) = piece else { return None };
    match text.trim().as_bytes() {
        [sign @ (b',' | b';')] => Some(*sign),
        _ => None,
    }
}

/// Whether a row with content in place of the calls reads a row that writes calls alone.
pub(super) fn is_read_by(row: &[Piece], other: &[Piece]) -> bool {
    let is_calls = |piece: &Piece| matches!(piece, Piece::Field(Field::Calls, _));
    let is_content = |piece: &Piece| matches!(piece, Piece::Field(Field::Content, _));
    let (Some(at), Some(place)) =
        (row.iter().position(is_calls), other.iter().position(is_content))
    else {
        return false;
    };
    at == place && at > 0 && row[..at] == other[..at] && row[at + 1..] == other[at + 1..]
}

/// The text before a call that begins with text, in its form for reading.
pub(crate) fn before<'a>(item: &'a [Piece], list: Option<&ListSpec>) -> Option<&'a str> {
    if list.is_none_or(|list| list.form == ListForm::Tokens) {
        return None;
    }
    match item {
        [Piece::Field(..), ..] => Some(""),
        [Piece::Literal(text), ..] => Some(text),
        _ => None,
    }
}

/// Whether the text after the control tokens of a call decides between an object and code.
pub(crate) fn is_object_or_code(object: &[Piece], code: &[Piece]) -> bool {
    has_field(object, Field::Call)
        && has_field(code, Field::Source)
        && rules::head(object) == rules::head(code)
        && matches!(rules::head(code).last(), Some(Piece::Control(_)))
}

/// The item for code: text after an object's control tokens that is not an object.
pub(super) fn code_beside<'a>(object: &[Piece], calls: &'a [CallSpec]) -> Option<&'a CallSpec> {
    calls.iter().find(|call| call.items.iter().any(|code| is_object_or_code(object, code)))
}

/// Checks the calls that begin with text, and their rows.
pub(super) fn check(table: &Table<'_>) -> Checked<()> {
    let mut written = None;
    let mut is_bare = false;
    let is_own = |item: &[Piece]| before(item, table.list).is_some();
    for call in table.calls {
        let key = format!("call.{}.item", call.kind);
        for (nth, item) in call.items.iter().enumerate() {
            let read = calls::items_as_read(item, table.list);
            let own: Vec<&Vec<Piece>> =
                read.iter().map(|(item, _)| item).filter(|item| is_own(item)).collect();
            is_bare |= !own.is_empty();
            if nth == 0 && read.first().is_some_and(|(item, _)| is_own(item)) {
                written = Some(key.clone());
            }
            if let CallBodySpec::Object(object) = &call.body
                && (!own.is_empty() || code_beside(item, table.calls).is_some())
            {
                check_object(&call.kind, object)?;
            }
            if own.iter().any(|item| begins_with_field(item))
                && !matches!(call.body, CallBodySpec::Object(_))
            {
                return wrong(key, "begins with its name, expected `calls.open` before it");
            }
        }
    }
    if !is_bare {
        return Ok(());
    }
    if table.guarantee == Guarantee::Text {
        let problem = "is `text` where calls begin with text, expected `ids`";
        return wrong("guarantee", problem);
    }
    for row in table.rows.iter().filter(|row| row.role == Role::Assistant) {
        if has_field(&row.pieces, Field::Reasoning) {
            return wrong(&row.key, "has `{reasoning}` where calls begin with text, expected none");
        }
        if rules::is_calls_only(&row.pieces) {
            return wrong(
                &row.key,
                "begins with calls that begin with text, expected a header before them",
            );
        }
        if walk(&row.pieces).any(Piece::is_json) {
            return wrong(
                &row.key,
                "has the filter `value` where calls begin with text, expected another or none",
            );
        }
        let (content, calls) =
            (has_field(&row.pieces, Field::Content), has_field(&row.pieces, Field::Calls));
        if written.is_some() && content && calls {
            let problem = "has `{calls}` beside `{content}` where calls begin with text, \
                           expected a row for each";
            return wrong(&row.key, problem);
        }
    }
    Ok(())
}

/// The name and the beginning of the arguments identify an object.
fn check_object(kind: &str, object: &ObjectSpec) -> Checked<()> {
    let members: Vec<Member> = object.members.iter().map(|&(member, _)| member).collect();
    if members == [Member::Name, Member::Arguments] && object.within.is_none() {
        return Ok(());
    }
    let problem = "has other members, expected `name` and then `arguments`, by which a call that \
                   begins with text is known";
    wrong(format!("call.{kind}.object"), problem)
}
