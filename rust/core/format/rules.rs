//! What patterns must be so that what they write can be read back, by one reader and in one way.
//!
//! A row is a *head*, a field for text, and what ends that; it may have a second text after it. The head
//! is what tells rows apart, so two heads may never both fit: [`super::walk`] decides that.

use super::file::{Order, SystemPlace};
use super::load::{Checked, wrong};
use super::pattern::{Field, Filter, Grammar, Piece, is_white};
use super::walk::{check_ways, meets};
use super::{CallSpec, Guarantee, ListSpec, RowSpec, bare, calls, last, reasoning};
use crate::message::Role;
use crate::render::MAX_WORD_BYTES;
use crate::stream::HEAD_LIMIT;

/// Longer patterns are refused: real ones have about twenty pieces.
const MAX_PIECES: usize = 64;

/// A row's guards may be there or not, and so may a prefix after a cut: so many of them, two to that power
/// ways to read it.
const MAX_GUARDS: usize = 3;

/// The longest literal between a field and what closes it.
pub(super) const MAX_SUFFIX_BYTES: usize = 1024;

/// What the rules look at together.
pub(super) struct Table<'a> {
    pub(super) guarantee: Guarantee,
    pub(super) order: Order,
    pub(super) system: SystemPlace,
    pub(super) folds_system: bool,
    pub(super) rows: &'a [RowSpec],
    pub(super) calls: &'a [CallSpec],
    pub(super) list: Option<&'a ListSpec>,
    pub(super) prompt: &'a [Piece],
    pub(super) stop: &'a [String],
}

/// Whether a piece is a field whose end is found by what follows it, or by its own grammar.
pub(super) fn is_text(piece: &Piece) -> bool {
    matches!(piece, Piece::Field(field, _)
        if matches!(field.grammar(), Grammar::Text | Grammar::Object | Grammar::Pairs))
}

/// Whether a field ends by itself, as JSON does.
pub(super) fn ends_itself(piece: &Piece) -> bool {
    matches!(piece, Piece::Field(field, filter)
        if matches!(field.grammar(), Grammar::Object | Grammar::Pairs) || *filter == Filter::Value)
}

pub(super) fn has_field(pieces: &[Piece], wanted: Field) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::Field(field, _) if *field == wanted))
}

/// Whether a row is written by its calls alone.
pub(super) fn is_calls_only(pieces: &[Piece]) -> bool {
    matches!(pieces.first(), Some(Piece::Field(Field::Calls, _)))
}

/// Whether the first thing that is read of a row is text. White space before a control token is not.
pub(super) fn begins_with_text(pieces: &[Piece]) -> bool {
    let mut pieces = pieces.iter().filter(|piece| **piece != Piece::Cut);
    match pieces.next() {
        Some(Piece::Control(_)) => false,
        Some(Piece::Literal(text)) if is_white(text) => {
            !matches!(pieces.next(), Some(Piece::Control(_)))
        }
        _ => true,
    }
}

/// What stands before the first text of a row.
pub(super) fn head(pieces: &[Piece]) -> &[Piece] {
    let at = pieces.iter().position(is_text).unwrap_or(pieces.len());
    // A guard around the text is part of what tells how the text begins.
    &pieces[..at]
}

/// The pieces of a row as they are read: a system text that is folded into the user's is content.
pub(super) fn as_read(pieces: &[Piece], folds_system: bool) -> Vec<Piece> {
    let mut read = Vec::with_capacity(pieces.len());
    let mut at = 0;
    if let [Piece::Literal(text), Piece::Control(_), ..] = pieces
        && is_white(text)
    {
        // Between turns white space is scaffolding.
        at = 1;
    }
    while let Some(piece) = pieces.get(at) {
        at += 1;
        match piece {
            Piece::Guard { field: Field::System, len } if folds_system => at += len,
            piece => read.push(piece.clone()),
        }
    }
    read
}

/// Checks the shape of one row by itself.
pub(super) fn check_row(key: &str, pieces: &[Piece]) -> Checked<()> {
    check_pieces(key, pieces)?;
    if has_field(pieces, Field::Reasoning) {
        reasoning::check_row(key, pieces)?;
        return check_row(key, &reasoning::without(pieces));
    }
    if is_calls_only(pieces) {
        let rest = &pieces[1..];
        return check_after_text(key, rest, false);
    }
    if !has_field(pieces, Field::Content) && !has_field(pieces, Field::Tools) {
        return wrong(key, "has no field for text");
    }
    let texts: Vec<usize> = (0..pieces.len()).filter(|&at| is_text(&pieces[at])).collect();
    if texts.len() > 2 {
        return wrong(key, "has more than two fields for text, expected two at most");
    }
    check_head(key, head(pieces), texts.first().map(|&at| &pieces[at]))?;
    if let [first, second] = texts[..] {
        check_between(key, &pieces[first + 1..second])?;
    }
    let Some(&last) = texts.last() else { return Ok(()) };
    let mut rest = &pieces[last + 1..];
    if ends_itself(&pieces[last]) {
        // What comes after a value is read like a head: literals and words up to a control token.
        let words = rest.iter().position(|piece| matches!(piece, Piece::Control(_)));
        let (before, after) = rest.split_at(words.unwrap_or(rest.len()));
        check_words(key, before)?;
        rest = after;
    }
    check_after_text(key, rest, true)
}

pub(super) fn check_pieces(key: &str, pieces: &[Piece]) -> Checked<()> {
    if pieces.len() > MAX_PIECES {
        return wrong(key, format!("has {} pieces, expected at most {MAX_PIECES}", pieces.len()));
    }
    for (at, piece) in pieces.iter().enumerate() {
        if let Piece::Field(field, _) = piece
            && has_field(&pieces[..at], *field)
        {
            return wrong(key, format!("has `{{{}}}` twice", field.name()));
        }
        if *piece == Piece::Space && pieces.get(at + 1) == Some(&Piece::Space) {
            return wrong(key, "has `{~}` twice in a row");
        }
        if *piece == Piece::Rest
            && !(matches!(pieces.get(at + 1), Some(Piece::Control(_))) && at < head(pieces).len())
        {
            return wrong(key, "has `{*}` where no control token follows it, before the text");
        }
        if let Piece::Guard { field, len } = piece {
            let inside = pieces.get(at + 1..=at + len).unwrap_or_default();
            let is_plain = |piece: &Piece| match piece {
                Piece::Literal(_) => true,
                Piece::Field(inner, _) => inner == field,
                Piece::Control(_) => *field == Field::Reasoning,
                Piece::Space => field.grammar() == Grammar::Word,
                _ => false,
            };
            // Whether tools are given is asked, not which; what says nothing may be a literal.
            let is_whole =
                field.is_silent() || has_field(inside, *field) != (*field == Field::Tools);
            if !is_whole || !inside.iter().all(is_plain) {
                let name = field.name();
                let problem = format!("has a guard of `{name}` that holds more or less than it");
                return wrong(key, problem);
            }
        }
    }
    let is_choice = |piece: &&Piece| matches!(piece, Piece::Guard { .. } | Piece::Cut);
    let choices = pieces.iter().filter(is_choice).count();
    if choices > MAX_GUARDS {
        let problem = format!("has {choices} guards and cuts, expected at most {MAX_GUARDS}");
        return wrong(key, problem);
    }
    Ok(())
}

fn check_words(key: &str, pieces: &[Piece]) -> Checked<()> {
    for piece in pieces {
        match piece {
            Piece::Literal(_) | Piece::Space => {}
            Piece::Field(field, _) if field.grammar() == Grammar::Word => {}
            _ => return wrong(key, "has more than literals and words after its value"),
        }
    }
    Ok(())
}

/// Before the text: literals, control tokens, header words; words may be guarded.
pub(super) fn check_head(key: &str, head: &[Piece], text: Option<&Piece>) -> Checked<()> {
    if let Some(first @ Piece::Control(_)) = head.first()
        && head[1..].contains(first)
    {
        return wrong(key, "has the token that opens it a second time before its text");
    }
    let mut bytes = 0;
    for piece in head {
        match piece {
            Piece::Literal(text) => bytes += text.len(),
            Piece::Field(field, _) if field.grammar() == Grammar::Word => bytes += MAX_WORD_BYTES,
            Piece::Field(field, _) => {
                return wrong(key, format!("has `{{{}}}` before its text", field.name()));
            }
            Piece::Guard { field, .. }
                if field.grammar() != Grammar::Word && *field != Field::Tools =>
            {
                let name = field.name();
                return wrong(key, format!("has a guard of `{name}` before its first text"));
            }
            Piece::Guard { .. } | Piece::Control(_) | Piece::Space | Piece::Cut | Piece::Rest => {}
        }
    }
    if bytes > HEAD_LIMIT {
        let problem = format!("needs {bytes} bytes before its text, expected at most {HEAD_LIMIT}");
        return wrong(key, problem);
    }
    let is_free = text.is_some_and(|text| !ends_itself(text));
    if is_free && head.last() == Some(&Piece::Space) {
        return wrong(key, "has `{~}` beside a field for text: where that begins would be unclear");
    }
    Ok(())
}

/// Between two texts: a literal that is no white space, and the guard of the second.
fn check_between(key: &str, between: &[Piece]) -> Checked<()> {
    let ([Piece::Literal(literal)]
    | [Piece::Literal(literal), Piece::Guard { .. }]
    | [Piece::Literal(literal), Piece::Guard { .. }, Piece::Literal(_)]) = between
    else {
        return wrong(key, "has two fields for text without a literal between them");
    };
    if literal.len() > MAX_SUFFIX_BYTES {
        let problem = format!("has over {MAX_SUFFIX_BYTES} bytes of literal after its text");
        return wrong(key, problem);
    }
    Ok(())
}

/// After the last text: calls, a literal, white space, and a control token with white space after it, or
/// the end of the row.
pub(super) fn check_after_text(key: &str, tail: &[Piece], free: bool) -> Checked<()> {
    let mut rest = tail;
    let has_calls = matches!(rest.first(), Some(Piece::Guard { field: Field::Calls, .. }));
    if has_calls {
        if !matches!(rest.get(1), Some(Piece::Field(Field::Calls, _)))
            || !matches!(rest.first(), Some(Piece::Guard { len: 1, .. }))
        {
            return wrong(key, "has a guard of `calls` that holds more or less than it");
        }
        rest = &rest[2..];
    }
    let is_free = free && !has_calls;
    let mut white = false;
    if let Some((Piece::Literal(suffix), after)) = rest.split_first() {
        if suffix.len() > MAX_SUFFIX_BYTES {
            let problem = format!("has over {MAX_SUFFIX_BYTES} bytes of literal after its text");
            return wrong(key, problem);
        }
        if !is_free && !is_white(suffix) {
            return wrong(key, "has a literal between its calls and its end, expected white space");
        }
        white = suffix.ends_with(|c: char| c.is_ascii_whitespace());
        rest = after;
    } else if rest.first() == Some(&Piece::Space) && is_free {
        return wrong(key, "has `{~}` beside a field for text: where that ends would be unclear");
    }
    if let Some((Piece::Space, after)) = rest.split_first() {
        if white && is_free {
            return wrong(key, "has white space before `{~}`: where that begins would be unclear");
        }
        rest = after;
    }
    let after = match rest.split_first() {
        None => return Ok(()),
        Some((Piece::Control(_), after)) => after,
        Some(_) => {
            return wrong(key, "has no control token after its text, or something else before it");
        }
    };
    let is_scaffold = |piece: &Piece| match piece {
        Piece::Literal(text) => is_white(text),
        piece => *piece == Piece::Space,
    };
    if !after.iter().all(is_scaffold) {
        return wrong(key, "goes on after the end of its text, which is not implemented");
    }
    Ok(())
}

/// Checks the rows and calls together.
pub(super) fn check(table: &Table<'_>) -> Checked<()> {
    check_folded(table)?;
    check_decidable(table)?;
    check_text_rows(table)?;
    check_openers(table)?;
    reasoning::check_tokens(table)?;
    calls::check_tagged_tokens(table)?;
    bare::check(table)?;
    check_prompt(table)
}

/// A system text that is read as the user's stands right before it.
fn check_folded(table: &Table<'_>) -> Checked<()> {
    for row in table.rows.iter().filter(|_| table.folds_system) {
        let at =
            row.pieces.iter().position(|piece| matches!(piece, Piece::Field(Field::System, _)));
        let guard = |piece: &Piece| matches!(piece, Piece::Guard { field: Field::System, .. });
        let Some(at) = at else { continue };
        let Some(guard) = row.pieces[..at].iter().position(guard) else {
            return wrong(&row.key, "has `{system}` without a guard, which `losses` asks for");
        };
        let Piece::Guard { len, .. } = row.pieces[guard] else { continue };
        let next = row.pieces.get(guard + 1 + len);
        let is_text =
            matches!(next, Some(Piece::Field(Field::Content, filter)) if *filter != Filter::Value);
        if at != guard + 1 || !is_text {
            return wrong(&row.key, "has more than a literal between `{system}` and `{content}`");
        }
    }
    Ok(())
}

/// Pieces and the key that they stand under.
type Keyed = (String, Vec<Piece>);

/// What is read at a place, with its key: rows first, in their order, then the ways to write a call.
pub(super) fn heads(table: &Table<'_>) -> (Vec<Keyed>, Vec<Keyed>) {
    let rows = table
        .rows
        .iter()
        .filter(|row| !is_calls_only(&row.pieces) && row.place.is_read())
        .map(|row| (row.key.clone(), reasoning::without(&as_read(&row.pieces, table.folds_system))))
        .collect();
    let items = table.calls.iter().flat_map(|call| {
        let key = format!("call.{}.item", call.kind);
        let items = call.items.iter().flat_map(|item| calls::items_as_read(item, table.list));
        items.map(move |(item, _)| (key.clone(), item))
    });
    (rows, items.collect())
}

/// Checks that no two rows can be read as each other, and none in two ways.
fn check_decidable(table: &Table<'_>) -> Checked<()> {
    let (rows, items) = heads(table);
    let is_text_format = table.guarantee == Guarantee::Text;
    let is_last = |key: &str| last::is_last(key, table);
    for (at, (key, pieces)) in rows.iter().enumerate() {
        check_ways(key, pieces)?;
        if is_last(key) {
            continue;
        }
        for (other_key, other) in rows[..at].iter().filter(|(key, _)| !is_last(key)) {
            if is_field_first(pieces) || is_field_first(other) {
                continue;
            }
            let is_apart = last::is_apart(pieces, other) || last::is_apart(other, pieces);
            if meets(pieces, other) && !(is_text_format && extends(other, pieces)) && !is_apart {
                let problem = format!("can be read as `{other_key}`: they could not be told apart");
                return wrong(key, problem);
            }
        }
    }
    for (at, (key, item)) in items.iter().enumerate() {
        check_ways(key, item)?;
        // What is written must not be read by a row, or a way, that is tried before it. Where a name stands,
        // a literal of another way is a name that no function can have.
        let is_written = items[..at].iter().all(|(before, _)| before != key);
        let is_taken = |(key, row): &&Keyed| {
            let is_first = is_written || table.list.is_some() || last::is_word_first(row);
            let is_apart = if last::is_word_first(row) {
                last::is_apart(row, item)
            } else {
                table.list.is_none() && calls::reserved(item, row).is_some()
            };
            is_first && !is_last(key) && !is_field_first(row) && !is_apart
        };
        let other = rows.iter().filter(is_taken).find(|(_, row)| meets(item, row));
        if let Some((other, _)) = other {
            let problem = format!("can be read as `{other}`: they could not be told apart");
            return wrong(key, problem);
        }
        let other = items[..at].iter().find(|(_, other)| {
            (has_field(other, Field::Name) || !has_field(item, Field::Name))
                && !bare::is_object_or_code(other, item)
                && calls::reserved(item, other).is_none()
                && meets(item, other)
        });
        if let Some((other, _)) = other
            && is_written
        {
            let problem = format!("can be read as `{other}`: they could not be told apart");
            return wrong(key, problem);
        }
    }
    Ok(())
}

/// Whether a row reads what another writes: where that has one control token, it may have more.
pub(super) fn reads(row: &[Piece], written: &[Piece]) -> bool {
    let fits = |(piece, written): (&Piece, &Piece)| match (piece, written) {
        (Piece::Control(known), Piece::Control(names)) => {
            names.iter().all(|name| known.contains(name))
        }
        (piece, written) => piece == written,
    };
    row.len() == written.len() && row.iter().zip(written).all(fits)
}

/// Whether a row begins with a field: it is tried when all others have failed, and that there is one only
/// is checked elsewhere.
fn is_field_first(pieces: &[Piece]) -> bool {
    head(pieces).iter().all(|piece| *piece == Piece::Cut)
}

/// Whether the head of `longer` begins with all of that of `shorter`, and goes on in plain text.
fn extends(longer: &[Piece], shorter: &[Piece]) -> bool {
    let (longer, shorter) = (head(longer), head(shorter));
    let (Some((last, before)), Some((other, same))) = (shorter.split_last(), longer.split_last())
    else {
        return false;
    };
    before == same
        && matches!((last, other), (Piece::Literal(a), Piece::Literal(b)) if b.starts_with(&**a) && b.len() > a.len())
}

/// Rows that begin with text: where they may stand, and that what comes before them ends.
fn check_text_rows(table: &Table<'_>) -> Checked<()> {
    let mut text_rows: Vec<&RowSpec> = Vec::new();
    for row in table.rows {
        if is_calls_only(&row.pieces) || !begins_with_text(&row.pieces) || !row.place.is_read() {
            continue;
        }
        let is_first = row.role == Role::System && table.system == SystemPlace::First;
        let is_answer = row.role == Role::Assistant && table.order == Order::Alternate;
        if is_first {
            continue;
        }
        if table.guarantee == Guarantee::Ids && !is_answer {
            return wrong(&row.key, "begins with text, expected a control token");
        }
        let same = text_rows.iter().find(|other| {
            head(&other.pieces).is_empty() && head(&row.pieces).is_empty() && other.role == row.role
        });
        if let Some(other) = same {
            let problem = format!("can be read as `{}`: they could not be told apart", other.key);
            return wrong(&row.key, problem);
        }
        text_rows.push(row);
    }
    let read = |row: &&RowSpec| !is_calls_only(&row.pieces) && row.place.is_read();
    for row in table.rows.iter().filter(read) {
        let read = reasoning::without(&as_read(&row.pieces, table.folds_system));
        let texts = read.iter().filter(|piece| is_text(piece)).count();
        if texts > 1 && table.guarantee == Guarantee::Ids {
            let problem = "has two fields for text, which `guarantee = \"ids\"` cannot tell apart";
            return wrong(&row.key, problem);
        }
        let Some(suffix) = open_suffix(&read) else { continue };
        let next: Vec<&&RowSpec> = text_rows
            .iter()
            .filter(|next| table.order == Order::Free || next.role != row.role)
            .filter(|next| {
                table.order == Order::Free || row.role != Role::System || next.role == Role::User
            })
            .collect();
        if next.is_empty() {
            continue;
        }
        if table.guarantee == Guarantee::Ids {
            return wrong(&row.key, "is not closed by a token, and what follows begins with text");
        }
        if is_white(&suffix)
            && next
                .iter()
                .any(|next| !matches!(head(&next.pieces).first(), Some(Piece::Literal(_))))
        {
            return wrong(&row.key, "is closed by nothing that text could not be");
        }
    }
    Ok(())
}

/// The literal at the end of a row that no control token closes.
pub(super) fn open_suffix(pieces: &[Piece]) -> Option<String> {
    let last = pieces.iter().rposition(is_text)?;
    let rest = &pieces[last + 1..];
    if rest.iter().any(|piece| matches!(piece, Piece::Control(_))) {
        return None;
    }
    let literals = rest.iter().filter_map(|piece| match piece {
        Piece::Literal(text) => Some(text.as_str()),
        _ => None,
    });
    Some(literals.collect())
}

/// Control tokens that open a turn or a call close none of another kind.
fn check_openers(table: &Table<'_>) -> Checked<()> {
    let (rows, items) = heads(table);
    let opener = |pieces: &[Piece]| pieces.iter().find_map(control_names);
    let openers: Vec<Vec<String>> =
        rows.iter().chain(&items).filter_map(|(_, pieces)| opener(head(pieces))).collect();
    let opens =
        |names: &[String]| openers.iter().any(|open| open.iter().any(|name| names.contains(name)));
    // Frames are turns of the assistant's that the token of every turn opens.
    let has_frames = table.rows.iter().any(|row| row.place.is_frame());
    for (key, item) in items.iter().filter(|_| !has_frames) {
        let other = table.rows.iter().filter(|r| r.role != Role::Assistant && r.place.is_read());
        let opens_other = |names: &[String]| {
            other.clone().any(|row| {
                row.pieces
                    .iter()
                    .find_map(control_names)
                    .is_some_and(|open| open.iter().any(|name| names.contains(name)))
            })
        };
        if opener(item).is_some_and(|names| opens_other(&names)) {
            return wrong(key, "begins with a token that opens another's turn");
        }
    }
    // What stands around calls says that they begin or end, and not that a turn begins.
    let around = table.list.into_iter().flat_map(|list| list.open.iter().chain(&list.close));
    let around: Vec<String> = around.flatten().filter_map(control_names).flatten().collect();
    for (key, row) in &rows {
        if opener(head(row)).is_some_and(|open| open.iter().any(|name| around.contains(name))) {
            return wrong(key, "begins with a token that stands around calls");
        }
    }
    let alone = table.rows.iter().filter(|row| is_calls_only(&row.pieces));
    let alone: Vec<Keyed> = alone.map(|row| (row.key.clone(), row.pieces.clone())).collect();
    for (key, pieces) in rows.iter().chain(&items).chain(&alone) {
        let from = pieces.iter().rposition(is_text).unwrap_or(0);
        for names in pieces[from..].iter().filter_map(control_names) {
            if opens(&names) {
                return wrong(key, "is closed by a token that opens a turn or a call");
            }
        }
    }
    Ok(())
}

pub(super) fn control_names(piece: &Piece) -> Option<Vec<String>> {
    match piece {
        Piece::Control(names) => Some(names.clone()),
        _ => None,
    }
}

/// The generation prompt is how an assistant's turn begins: some or all of what stands before its text.
fn check_prompt(table: &Table<'_>) -> Checked<()> {
    let fits = |pieces: &[Piece]| {
        let pieces = reasoning::without(pieces);
        let mut head = head(&pieces).iter().filter(|piece| **piece != Piece::Cut);
        let mut prompt = table.prompt.iter().filter(|piece| **piece != Piece::Cut).peekable();
        while let Some(piece) = prompt.next() {
            match (piece, head.next()) {
                (piece, Some(other)) if piece == other => {}
                (Piece::Literal(a), Some(Piece::Literal(b)))
                    if prompt.peek().is_none() && b.starts_with(&**a) => {}
                _ => return false,
            }
        }
        true
    };
    let assistants = table.rows.iter().filter(|row| row.role == Role::Assistant);
    if assistants.filter(|row| !is_calls_only(&row.pieces)).any(|row| fits(&row.pieces)) {
        return Ok(());
    }
    wrong("generation.prompt", "is not how an assistant row begins, up to its text")
}

/// Checks what a turn reads as its text when it declares tools: the control tokens in that open and close no
/// turn.
pub(super) fn check_inside(inside: &[Piece], stop: &[String], table: &Table<'_>) -> Checked<()> {
    let (rows, _) = heads(table);
    let of_rows = rows.iter().flat_map(|(_, pieces)| pieces).filter_map(control_names);
    let taken: Vec<String> = of_rows.flatten().chain(stop.iter().cloned()).collect();
    if inside.iter().any(|piece| matches!(piece, Piece::Cut | Piece::Space)) {
        return wrong("turn.tools", "has `{/}` or `{~}` in its text");
    }
    for names in inside.iter().filter_map(control_names) {
        if let Some(name) = names.iter().find(|name| taken.contains(name)) {
            return wrong("turn.tools", format!("has `{{{name}}}` in its text, a token of turns"));
        }
    }
    Ok(())
}

/// Checks that no turn whose end is a literal alone, as the next turn's opener tells, stands before the token
/// that ends a conversation.
pub(super) fn check_end(end: &[Piece], table: &Table<'_>) -> Checked<()> {
    let (rows, _) = heads(table);
    let open = rows.iter().find(|(_, row)| open_suffix(row).is_some_and(|text| !text.is_empty()));
    match open {
        Some((open, _)) if end.iter().any(|piece| matches!(piece, Piece::Control(_))) => {
            wrong("end", format!("follows `{open}`, which no control token closes"))
        }
        _ => Ok(()),
    }
}

/// Checks what stands around a conversation: control tokens that open nothing, and white space.
pub(super) fn check_frame(key: &str, pieces: &[Piece], table: &Table<'_>) -> Checked<()> {
    let (rows, items) = heads(table);
    let opens = |names: &[String]| {
        rows.iter().chain(&items).any(|(_, row)| {
            matches!(row.first(), Some(Piece::Control(open))
                if open.iter().any(|name| names.contains(name)))
        })
    };
    let begins_text = || rows.iter().any(|(_, row)| begins_with_text(row));
    for piece in pieces {
        match piece {
            Piece::Control(names) if opens(names) => {
                return wrong(key, "has a token that opens a turn or a call");
            }
            Piece::Literal(text) if !is_white(text) => {
                return wrong(key, "has text, expected control tokens and white space only");
            }
            Piece::Literal(_) if key == "begin" && begins_text() => {
                return wrong(key, "has white space, and a turn may begin with text");
            }
            _ => {}
        }
    }
    Ok(())
}
