//! Calls: their forms in a format file, and the checks that they can be read back.

use std::sync::Arc;

use super::ObjectSpec;
use super::id_form::IdForm;
use super::rules::{
    GOES_ON, check_after_text, check_head, check_pieces, control_names, goes_on, has_field, head,
    is_field, is_text,
};
use super::table::Table;
use crate::call::{CallTags, Shape};
use crate::error::{Checked, wrong};
use crate::pattern::{Field, FieldContent, Piece, is_white, walk};
use crate::word::is_word_byte;

/// One kind of call.
pub(crate) struct CallSpec {
    /// `plugin` of `[call.plugin]`.
    pub(crate) kind: String,
    /// The first is written, all are read.
    pub(crate) items: Vec<Vec<Piece>>,
    /// Number of the format's own forms; the others are reported as mended.
    pub(crate) own: usize,
    pub(crate) body: CallBodySpec,
    pub(crate) id: IdForm,
    pub(crate) result: Answerer,
}

/// The author of a result: the name of the called function, with text around it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answerer {
    before: String,
    after: String,
}

impl Answerer {
    /// Reads `functions.{name}`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.split_once("{name}")?;
        let is_words = |text: &str| text.bytes().all(is_word_byte);
        let of = |text: &str| text.to_owned();
        (is_words(before) && is_words(after)).then(|| Self { before: of(before), after: of(after) })
    }

    pub(crate) fn of(&self, name: &str) -> String {
        format!("{}{name}{}", self.before, self.after)
    }
}

/// The body of a call.
#[derive(Debug, Clone)]
pub(crate) enum CallBodySpec {
    /// `{call}` is a JSON object with the name in it.
    Object(ObjectSpec),
    /// `{arguments}` are of a shape; `{name}` is before them.
    Arguments(Arc<Shape>),
    /// `{source}` is code.
    Code,
}

impl CallBodySpec {
    pub(crate) fn is_code(&self) -> bool {
        matches!(self, Self::Code)
    }

    /// The shape of the arguments, if they follow a header.
    pub(crate) fn shape(&self) -> Option<&Arc<Shape>> {
        match self {
            Self::Arguments(shape) => Some(shape),
            Self::Object(_) | Self::Code => None,
        }
    }
}

/// The pieces around a list of calls.
pub(crate) struct ListSpec {
    /// Control tokens and literals: the first is written, all are read.
    pub(crate) open: Vec<Vec<Piece>>,
    pub(crate) between: Vec<Piece>,
    pub(crate) close: Vec<Vec<Piece>>,
    pub(crate) form: ListForm,
}

/// The kind of a list of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// Control tokens and white space around calls that begin with a control token.
    Tokens,
    /// Calls in brackets, separated by commas: JSON objects, or calls in Python.
    Brackets,
    /// Consecutive calls that begin with text.
    Joined,
}

impl ListSpec {
    /// Whether only control tokens and white space enclose calls.
    pub(crate) fn is_tokens(&self) -> bool {
        self.form == ListForm::Tokens
    }

    /// The pieces before the first call.
    pub(crate) fn first_open(&self) -> &[Piece] {
        self.open.first().map_or(&[], |open| open)
    }

    /// The pieces after the last call.
    pub(crate) fn first_close(&self) -> &[Piece] {
        self.close.first().map_or(&[], |close| close)
    }

    /// All pieces around calls.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.open.iter().flatten().chain(&self.between).chain(self.close.iter().flatten())
    }
}

/// Checks that `several` is only used for objects between control tokens.
pub(super) fn check_several(
    key: &str,
    body: &CallBodySpec,
    table: &toml::Table,
    list: Option<&ListSpec>,
) -> Checked<()> {
    let is_list = list.is_some_and(|list| list.form != ListForm::Tokens);
    let fits = matches!(body, CallBodySpec::Object(_)) && !is_list;
    if !fits && table.get("several").is_some_and(|several| several.as_bool() == Some(true)) {
        let problem = "is given, expected it beside `object` and between control tokens only";
        return wrong(format!("{key}.several"), problem);
    }
    Ok(())
}

/// Checks a form of a call.
pub(super) fn check_item(
    key: &str,
    pieces: &[Piece],
    body: &CallBodySpec,
    list: Option<&ListSpec>,
    is_also: bool,
) -> Checked<()> {
    check_pieces(key, pieces)?;
    let field = match body {
        CallBodySpec::Object(_) => Field::Call,
        CallBodySpec::Arguments(_) => Field::Arguments,
        CallBodySpec::Code => Field::Source,
    };
    if !has_field(pieces, field) {
        return wrong(key, format!("has no field for the call, expected `{{{}}}`", field.name()));
    }
    if body.shape().is_some()
        && ![Field::Name, Field::Id]
            .iter()
            .any(|&field| head(pieces).into_iter().any(|piece| is_field(piece, field)))
    {
        return wrong(
            key,
            "has no `{name}` before its arguments, expected `{name}`, or `{id}`, there",
        );
    }
    let is_object = matches!(pieces, [Piece::Field(Field::Call, _)]);
    let is_in_python =
        is_python(pieces) && body.shape().is_some_and(|shape| shape.prefix.is_some());
    match list.map_or(ListForm::Tokens, |list| list.form) {
        ListForm::Brackets if is_object || is_in_python => return Ok(()),
        ListForm::Brackets => {
            let problem = "stands in a list, expected `{call}`, or `{name}({arguments})` with `pair = \"python\"` or `\"json\"`, alone";
            return wrong(key, problem);
        }
        ListForm::Joined if is_object => return Ok(()),
        ListForm::Joined | ListForm::Tokens => {}
    }
    if is_in_block(pieces, list) {
        check_in_block(key, pieces, body, list)?;
    } else if !pieces.first().is_some_and(Piece::is_control) {
        return wrong(key, "begins with text, expected a control token, or `{call}` alone");
    }
    let text = walk(pieces).find(|piece| is_text(piece));
    check_head(key, &head(pieces), text)?;
    let Some(text) = pieces.iter().position(is_text) else { return Ok(()) };
    let tail = &pieces[text + 1..];
    let tail = body.shape().map_or(Ok(tail), |shape| shape.check_after(key, tail))?;
    let is_free = !matches!(body, CallBodySpec::Object(_));
    check_after_text(key, &walk(tail).collect::<Vec<_>>(), is_free || is_also)?;
    // Unlike a row, a call is read up to the first token after its body.
    if goes_on(pieces) {
        return wrong(key, GOES_ON);
    }
    Ok(())
}

/// Whether pieces are exactly a call in Python.
pub(crate) fn is_python(pieces: &[Piece]) -> bool {
    let [Piece::Field(Field::Name, _), Piece::Literal(open), rest @ ..] = pieces else {
        return false;
    };
    matches!(rest, [Piece::Field(Field::Arguments, _), Piece::Literal(close)]
        if open == "(" && close == ")")
}

/// Whether a call begins with text or its name, in a block of calls between control tokens.
pub(crate) fn is_in_block(pieces: &[Piece], list: Option<&ListSpec>) -> bool {
    list.is_some_and(|list| list.form == ListForm::Tokens && !list.open.is_empty())
        && (matches!(pieces.first(), Some(Piece::Literal(_))) || is_python(pieces))
}

/// Text opens a call and text closes it, or it is a call in Python; a token closes the block.
fn check_in_block(
    key: &str,
    pieces: &[Piece],
    body: &CallBodySpec,
    list: Option<&ListSpec>,
) -> Checked<()> {
    let start = head(pieces);
    let rest: Vec<&Piece> = walk(pieces).skip(start.len()).collect();
    let fits = match (&start[..], &rest[..]) {
        ([Piece::Literal(first), ..], [_, Piece::Literal(close)]) => {
            first.trim_start() == first && !close.is_empty() && close.trim() == close
        }
        _ => false,
    };
    let is_header = |piece: &&Piece| {
        matches!(piece, Piece::Literal(_) | Piece::Field(Field::Name, _) | Piece::Space)
    };
    let is_tagged = fits
        && start.iter().all(is_header)
        && body.shape().is_some_and(|shape| shape.may_be_in_block);
    let is_in_python =
        is_python(pieces) && body.shape().is_some_and(|shape| shape.prefix.is_some());
    if !is_tagged && !is_in_python {
        return wrong(
            key,
            "begins with text, expected a control token, text around `{name}` and tagged pairs without white space at its ends, or `{name}({arguments})` with `pair = \"python\"` or `\"json\"`",
        );
    }
    let closes = list.is_some_and(|list| list.first_close().iter().any(Piece::is_control));
    let parts = list.is_some_and(|list| list.between.iter().all(Piece::is_space));
    if !closes || !parts {
        let problem = "begins with text, expected `calls.close` with a control token and `calls.between` of white space";
        return wrong(key, problem);
    }
    Ok(())
}

/// The text before the name of a call and after its arguments, in all its forms.
pub(crate) fn tags(items: &[Vec<Piece>]) -> CallTags {
    let mut tags = CallTags::default();
    let push = |tags: &mut Vec<String>, text: &str| {
        let text = text.trim();
        if !text.is_empty() && !tags.iter().any(|known| known == text) {
            tags.push(text.to_owned());
        }
    };
    for item in items {
        for (piece, next) in walk(item).zip(walk(item).skip(1)) {
            match (piece, next) {
                // Text that begins as a word does goes on after a token, and opens nothing by itself.
                (Piece::Literal(text), Piece::Field(Field::Name, _))
                    if !text.trim_start().bytes().next().is_some_and(is_word_byte) =>
                {
                    push(&mut tags.open, text);
                }
                (Piece::Field(Field::Arguments, _), Piece::Literal(text)) => {
                    push(&mut tags.close, text);
                }
                _ => {}
            }
        }
    }
    tags
}

/// Whether a token stands only in headers, and is never the first token of one.
pub(super) fn is_within_heads(name: &str, table: &Table<'_>) -> bool {
    let items = table.calls.iter().flat_map(|call| &call.items);
    let mut all = table.rows.iter().map(|row| &row.pieces).chain(items);
    let is_name = |known: &String| known == name;
    let is = |piece: &Piece| control_names(piece).is_some_and(|names| names.iter().any(is_name));
    let is_elsewhere = |pieces: &Vec<Piece>| {
        let head = head(pieces).len();
        walk(pieces).enumerate().any(|(at, piece)| is(piece) && (at == 0 || at >= head))
    };
    let mut list = table.list.into_iter().flat_map(ListSpec::pieces);
    !all.any(is_elsewhere) && !list.any(is) && !table.stop.iter().any(is_name)
}

/// An item for reading, with and without the beginning of a list of calls; and whether it has that
/// beginning.
pub(crate) fn items_as_read(item: &[Piece], list: Option<&ListSpec>) -> Vec<(Vec<Piece>, bool)> {
    let alone = || (item.to_vec(), false);
    let Some(list) = list else { return vec![alone()] };
    let is_free = is_in_block(item, Some(list));
    let opened = list.open.iter().map(|open| {
        // White space before a call that begins with text is ignored.
        // So is white space between the token of a list and that of a call.
        let is_between = open.len() > 1
            && open
                .last()
                .is_some_and(|last| matches!(last, Piece::Literal(text) if is_white(text)))
            && list.form == ListForm::Tokens
            && item.first().is_some_and(Piece::is_control);
        let tokens = open.iter().filter(|piece| !(is_free || is_between) || piece.is_control());
        let white = (is_free || is_between).then_some(Piece::Space);
        (tokens.cloned().chain(white).chain(item.iter().cloned()).collect(), true)
    });
    match list.form {
        ListForm::Tokens => [alone()].into_iter().chain(opened).collect(),
        ListForm::Brackets => opened.collect(),
        ListForm::Joined => vec![alone()],
    }
}

/// Names that are literals of other forms, and therefore excluded from a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reserved {
    word: String,
    /// Whether all names with this beginning belong to other forms.
    is_prefix: bool,
}

impl Reserved {
    pub(crate) fn has(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.word) } else { name == self.word }
    }
}

/// The excluded first word of `item`: the literal of `other`, which is equal up to that word.
pub(crate) fn reserved(item: &[Piece], other: &[Piece]) -> Option<Reserved> {
    let is_word = |piece: &&Piece| matches!(piece, Piece::Field(field, _) if field.holds() == FieldContent::Word);
    let (item, other) = (head(item), head(other));
    let before = &item[..item.iter().position(is_word)?];
    let (same, shorter) = match before.split_last() {
        Some((Piece::Literal(literal), same)) => (same, literal.as_str()),
        _ => (before, ""),
    };
    let [Piece::Literal(longer), after @ ..] = other.strip_prefix(same)? else { return None };
    let rest = longer.strip_prefix(shorter)?;
    let length = rest.bytes().take_while(|&byte| is_word_byte(byte)).count();
    let ends = matches!(after.first(), Some(Piece::Control(_) | Piece::Space));
    let is_prefix = length == rest.len() && !ends;
    (length > 0).then(|| Reserved { word: rest[..length].to_owned(), is_prefix })
}

/// Length of the literal text before the name, or before the body if the name is absent or optional.
pub(crate) fn literal_before_name(item: &[Piece]) -> usize {
    let is_end = |piece: &Piece| {
        is_text(piece)
            || matches!(piece, Piece::Field(Field::Name | Field::Id | Field::Language, _))
    };
    let before = item.iter().take_while(|piece| !is_end(piece));
    let lengths = before.map(|piece| match piece {
        Piece::Literal(text) => text.len(),
        _ => 0,
    });
    lengths.sum()
}
