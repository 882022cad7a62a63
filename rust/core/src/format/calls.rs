//! Calls: what a format says of how they are written, and what that must be so that they can be read back.

use hashbrown::HashSet;

use super::ObjectSpec;
use super::file::PairStyle;
use super::id_form::IdForm;
use super::rules::{
    MAX_SUFFIX_BYTES, check_after_text, check_head, check_pieces, control_names, has_field, head,
};
use super::table::Table;
use crate::call::tagged::CallTags;
use crate::error::{Checked, wrong};
use crate::pattern::{Field, Grammar, Piece, is_white};
use crate::word::is_word_byte;

/// One kind of call.
pub(crate) struct CallSpec {
    /// `plugin` of `[call.plugin]`.
    pub(crate) kind: String,
    /// The first is written, all are read.
    pub(crate) items: Vec<Vec<Piece>>,
    /// How many of these are the format's own; the others are told as mended.
    pub(crate) own: usize,
    pub(crate) body: CallBodySpec,
    pub(crate) id: IdForm,
    pub(crate) result: Answerer,
}

/// Who a result comes from: the name of what was called, with text around it.
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

/// How what is called is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallBodySpec {
    /// `{call}` is a JSON object.
    Object(ObjectSpec),
    /// `{arguments}` are pairs of key and value, `{name}` stands before them.
    Pairs(PairStyle),
    /// `{arguments}` are tagged pairs of key and value, `{name}` stands before them.
    Tagged(TaggedSpec),
    /// `{arguments}` are JSON, `{name}` stands before them.
    Raw,
    /// `{source}` is code.
    Code,
}

impl CallBodySpec {
    pub(crate) fn is_code(&self) -> bool {
        *self == Self::Code
    }

    /// Whether `{arguments}` stand after a header.
    pub(crate) fn has_header(&self) -> bool {
        matches!(self, Self::Pairs(_) | Self::Tagged(_) | Self::Raw)
    }
}

/// What stands before a key, between it and its value, and after the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaggedSpec {
    pub(crate) open: Vec<Piece>,
    pub(crate) between: Vec<Piece>,
    pub(crate) close: Vec<Piece>,
}

/// What stands around a list of calls.
pub(crate) struct ListSpec {
    /// Control tokens and literals: the first is written, all are read.
    pub(crate) open: Vec<Vec<Piece>>,
    pub(crate) between: Vec<Piece>,
    pub(crate) close: Vec<Vec<Piece>>,
    pub(crate) form: ListForm,
}

/// What a list of calls is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListForm {
    /// Control tokens and white space stand around calls that begin with one themselves.
    Tokens,
    /// Calls in brackets, with commas between: objects in JSON, or calls in Python.
    Brackets,
    /// Calls that begin with text, one after another.
    Joined,
}

impl ListSpec {
    /// Whether control tokens and white space stand around calls.
    pub(crate) fn is_tokens(&self) -> bool {
        self.form == ListForm::Tokens
    }

    /// What is written before the first call.
    pub(crate) fn first_open(&self) -> &[Piece] {
        self.open.first().map_or(&[], |open| open)
    }

    /// What is written after the last call.
    pub(crate) fn first_close(&self) -> &[Piece] {
        self.close.first().map_or(&[], |close| close)
    }

    /// All that stands around calls.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.open.iter().flatten().chain(&self.between).chain(self.close.iter().flatten())
    }
}

/// Several calls are read where one is written: as objects, between control tokens.
pub(super) fn with_several(
    key: &str,
    body: CallBodySpec,
    several: bool,
    list: Option<&ListSpec>,
) -> Checked<CallBodySpec> {
    let is_list = list.is_some_and(|list| list.form != ListForm::Tokens);
    match body {
        body if !several => Ok(body),
        CallBodySpec::Object(object) if !is_list => {
            Ok(CallBodySpec::Object(ObjectSpec { several, ..object }))
        }
        _ => {
            let problem = "is given, expected it beside `object` and between control tokens only";
            wrong(format!("{key}.several"), problem)
        }
    }
}

/// Checks one way to write a call.
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
        CallBodySpec::Pairs(_) | CallBodySpec::Tagged(_) | CallBodySpec::Raw => Field::Arguments,
        CallBodySpec::Code => Field::Source,
    };
    if !has_field(pieces, field) {
        return wrong(key, format!("has no field for the call, expected `{{{}}}`", field.name()));
    }
    if body.has_header() && ![Field::Name, Field::Id].iter().any(|f| has_field(head(pieces), *f)) {
        return wrong(
            key,
            "has no `{name}` before its arguments, expected `{name}`, or `{id}`, there",
        );
    }
    let is_object = matches!(pieces, [Piece::Field(Field::Call, _)]);
    let is_in_python = is_python(pieces) && matches!(body, CallBodySpec::Pairs(_));
    match list.map_or(ListForm::Tokens, |list| list.form) {
        ListForm::Brackets if is_object || is_in_python => return Ok(()),
        ListForm::Brackets => {
            let problem = "stands in a list, expected `{call}`, or `{name}({arguments})` with `pair = \"python\"`, alone";
            return wrong(key, problem);
        }
        ListForm::Joined if is_object => return Ok(()),
        ListForm::Joined | ListForm::Tokens => {}
    }
    if is_in_block(pieces, list) {
        check_in_block(key, pieces, body, list)?;
    } else if !matches!(pieces.first(), Some(Piece::Control(_))) {
        return wrong(key, "begins with text, expected a control token, or `{call}` alone");
    }
    let head = head(pieces);
    let Some((text, tail)) = pieces[head.len()..].split_first() else { return Ok(()) };
    check_head(key, head, Some(text))?;
    if matches!(body, CallBodySpec::Pairs(_)) {
        let [Piece::Literal(close), rest @ ..] = tail else {
            return wrong(
                key,
                "has no `)` after its arguments, expected text that begins with `)`",
            );
        };
        if !close.starts_with(')') {
            return wrong(
                key,
                "has no `)` after its arguments, expected text that begins with `)`",
            );
        }
        return check_after_text(key, rest, true);
    }
    if let CallBodySpec::Tagged(spec) = body
        && let ([Piece::Literal(close), ..], Some(Piece::Literal(open))) =
            (tail, first_tag(&spec.open))
    {
        let (close, open) = (close.trim_start(), open.trim());
        if !close.is_empty() && (close.starts_with(open) || open.starts_with(close.trim_end())) {
            return wrong(
                key,
                "goes on after its arguments as a further pair would begin, expected other text there",
            );
        }
    }
    let is_free = matches!(body, CallBodySpec::Code | CallBodySpec::Raw | CallBodySpec::Tagged(_));
    check_after_text(key, tail, is_free || is_also)
}

/// Whether pieces are a call in Python, and nothing else.
pub(crate) fn is_python(pieces: &[Piece]) -> bool {
    let [Piece::Field(Field::Name, _), Piece::Literal(open), rest @ ..] = pieces else {
        return false;
    };
    matches!(rest, [Piece::Field(Field::Arguments, _), Piece::Literal(close)]
        if open == "(" && close == ")")
}

/// Whether a call begins with text, in a block of calls that control tokens open and close.
pub(crate) fn is_in_block(pieces: &[Piece], list: Option<&ListSpec>) -> bool {
    list.is_some_and(|list| list.form == ListForm::Tokens && !list.open.is_empty())
        && matches!(pieces.first(), Some(Piece::Literal(_)))
}

/// Text opens a call and text closes it; a token closes the block.
fn check_in_block(
    key: &str,
    pieces: &[Piece],
    body: &CallBodySpec,
    list: Option<&ListSpec>,
) -> Checked<()> {
    let start = head(pieces);
    let fits = match (start, &pieces[start.len()..]) {
        ([Piece::Literal(first), ..], [_, Piece::Literal(close)]) => {
            first.trim_start() == first && !close.is_empty() && close.trim() == close
        }
        _ => false,
    };
    let is_header = |piece: &Piece| {
        matches!(piece, Piece::Literal(_) | Piece::Field(Field::Name, _) | Piece::Space)
    };
    if !fits || !start.iter().all(is_header) || !matches!(body, CallBodySpec::Tagged(_)) {
        return wrong(
            key,
            "begins with text, expected a control token, or text around `{name}` and tagged pairs without white space at its ends",
        );
    }
    let closes =
        list.is_some_and(|list| list.first_close().iter().any(|p| matches!(p, Piece::Control(_))));
    let parts = list.is_some_and(|list| {
        list.between.iter().all(|piece| matches!(piece, Piece::Literal(text) if is_white(text)))
    });
    if !closes || !parts {
        let problem = "begins with text, expected `calls.close` with a control token and `calls.between` of white space";
        return wrong(key, problem);
    }
    Ok(())
}

/// Checks what stands around a key and its value.
pub(super) fn check_tagged(key: &str, spec: &TaggedSpec) -> Checked<()> {
    for pieces in [&spec.open, &spec.between, &spec.close] {
        check_pieces(key, pieces)?;
        let is_tag = |piece: &Piece| matches!(piece, Piece::Control(_) | Piece::Literal(_));
        if !pieces.iter().all(is_tag) {
            return wrong(
                key,
                "has fields, `{~}` or `{/}` beside key and value, expected control tokens and literals only",
            );
        }
        if first_tag(pieces).is_none() {
            return wrong(
                key,
                "has a key or value with nothing but white space beside it, expected a control token or text before, between and after them",
            );
        }
        let bytes: usize = pieces.iter().map(literal_len).sum();
        if bytes > MAX_SUFFIX_BYTES {
            let problem = format!(
                "has {bytes} bytes of literal beside its key, expected at most {MAX_SUFFIX_BYTES}"
            );
            return wrong(key, problem);
        }
    }
    Ok(())
}

/// The text that stands before the name of a call and after its arguments, in all ways to write it.
pub(crate) fn tags(items: &[Vec<Piece>]) -> CallTags {
    let mut tags = CallTags::default();
    let push = |tags: &mut Vec<String>, text: &str| {
        let text = text.trim();
        if !text.is_empty() && !tags.iter().any(|known| known == text) {
            tags.push(text.to_owned());
        }
    };
    for pieces in items.iter().flat_map(|item| item.windows(2)) {
        match pieces {
            [Piece::Literal(text), Piece::Field(Field::Name, _)] => push(&mut tags.open, text),
            [Piece::Field(Field::Arguments, _), Piece::Literal(text)] => {
                push(&mut tags.close, text);
            }
            _ => {}
        }
    }
    tags
}

/// The tokens of tagged pairs do nothing else.
pub(super) fn check_tagged_tokens(table: &Table<'_>) -> Checked<()> {
    let rows = table.rows.iter().flat_map(|row| &row.pieces);
    let items = table.calls.iter().flat_map(|call| call.items.iter().flatten());
    let list = table.list.into_iter().flat_map(ListSpec::pieces);
    let others = rows.chain(items).chain(list).chain(table.prompt);
    let taken = others.filter_map(control_names).flatten();
    let taken: HashSet<&str> = taken.map(String::as_str).collect();
    for call in table.calls {
        let CallBodySpec::Tagged(spec) = &call.body else { continue };
        let own = spec.open.iter().chain(&spec.between).chain(&spec.close);
        let mut own = own.filter_map(control_names).flatten();
        if let Some(name) = own.find(|name| taken.contains(name.as_str())) {
            let key = format!("call.{}.pair", call.kind);
            return wrong(
                key,
                format!("has `{{{name}}}`, expected a token that does nothing else"),
            );
        }
    }
    Ok(())
}

/// An item as it is read, after what opens a list of calls and without that; and whether it is with that.
pub(crate) fn items_as_read(item: &[Piece], list: Option<&ListSpec>) -> Vec<(Vec<Piece>, bool)> {
    let alone = || (item.to_vec(), false);
    let Some(list) = list else { return vec![alone()] };
    let is_free = is_in_block(item, Some(list));
    let opened = list.open.iter().map(|open| {
        let open = open.iter().map(|piece| match piece {
            // Before a call that begins with text, white space means nothing.
            Piece::Literal(_) if is_free => Piece::Space,
            piece => piece.clone(),
        });
        (open.chain(item.iter().cloned()).collect(), true)
    });
    match list.form {
        ListForm::Tokens => [alone()].into_iter().chain(opened).collect(),
        ListForm::Brackets => opened.collect(),
        ListForm::Joined => vec![alone()],
    }
}

/// Names that are another way's literal, and so cannot stand in a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reserved {
    word: String,
    /// Whether all names that begin so are another way's.
    is_prefix: bool,
}

impl Reserved {
    pub(crate) fn has(&self, name: &str) -> bool {
        if self.is_prefix { name.starts_with(&self.word) } else { name == self.word }
    }
}

/// What the first word of `item` cannot be, since `other`, the same up to there, has that for a literal.
pub(crate) fn reserved(item: &[Piece], other: &[Piece]) -> Option<Reserved> {
    let is_word =
        |piece: &Piece| matches!(piece, Piece::Field(field, _) if field.grammar() == Grammar::Word);
    let (item, other) = (head(item), head(other));
    let before = &item[..item.iter().position(is_word)?];
    let (same, shorter) = match before.split_last() {
        Some((Piece::Literal(literal), same)) => (same, &**literal),
        _ => (before, ""),
    };
    let [Piece::Literal(longer), after @ ..] = other.strip_prefix(same)? else { return None };
    let rest = longer.strip_prefix(shorter)?;
    let length = rest.bytes().take_while(|&byte| is_word_byte(byte)).count();
    let ends = matches!(after.first(), Some(Piece::Control(_) | Piece::Space));
    let is_prefix = length == rest.len() && !ends;
    (length > 0).then(|| Reserved { word: rest[..length].to_owned(), is_prefix })
}

/// How much literal text stands before the name of what is called, or before the body if it has none, or may
/// have none.
pub(crate) fn literal_before_name(item: &[Piece]) -> usize {
    let (mut length, mut guarded) = (0, 0);
    for piece in head(item) {
        match piece {
            _ if guarded > 0 => guarded -= 1,
            Piece::Guard { len, .. } => guarded = *len,
            Piece::Field(Field::Name | Field::Id | Field::Language, _) => break,
            piece => length += literal_len(piece),
        }
    }
    length
}

fn literal_len(piece: &Piece) -> usize {
    match piece {
        Piece::Literal(text) => text.len(),
        _ => 0,
    }
}

/// The first piece that is more than white space.
fn first_tag(pieces: &[Piece]) -> Option<&Piece> {
    pieces.iter().find(|piece| !matches!(piece, Piece::Literal(text) if is_white(text)))
}
