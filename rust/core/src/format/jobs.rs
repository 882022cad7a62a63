//! What each control token of a file is for. A reader that meets a token must know what the token does.
//!
//! For example, in `user = "{U}{content}{E}"` and `assistant = "{A}{content}{U}"` the token `{U}` ends an answer and
//! begins a question, so a reader could not tell an answer's end from an empty question. Each rule here has two lists of
//! tokens, and refuses a token that is in both.

use hashbrown::HashMap;

use super::between::Beside;
use super::rules::{
    after_last, as_read, begins_with_text, control_names, head, is_calls, is_calls_only, is_field,
    is_text, tokens_after_text,
};
use super::table::{Reads, Table, is_field_first};
use super::{ListSpec, RowSpec, RowUse, WithoutSystem, calls, content_block, reasoning};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Piece, walk};

/// A control token in the pattern of a key.
#[derive(Clone, Copy)]
struct Token<'a> {
    key: &'a str,
    name: &'a str,
}

fn tokens<'a>(
    key: &'a str,
    pieces: impl IntoIterator<Item = &'a Piece>,
) -> impl Iterator<Item = Token<'a>> {
    let names = pieces.into_iter().filter_map(control_names).flatten();
    names.map(move |name| Token { key, name })
}

/// The names of the first control token.
fn first<'a>(
    key: &'a str,
    pieces: impl IntoIterator<Item = &'a Piece>,
) -> impl Iterator<Item = Token<'a>> {
    tokens(key, pieces.into_iter().find(|piece| control_names(piece).is_some()))
}

/// Refuses a token of `own` that is among the others, which do what the words say.
fn refuse<'a>(
    own: impl IntoIterator<Item = Token<'a>>,
    others: impl IntoIterator<Item = Token<'a>>,
    does: &str,
) -> Checked<()> {
    let mut known: HashMap<&str, &str> = HashMap::new();
    for Token { key, name } in others {
        known.entry(name).or_insert(key);
    }
    for Token { key, name } in own {
        if let Some(other) = known.get(name) {
            let problem = format!(
                "has `{{{name}}}`, which {does} in `{other}`; expected another token in one of the two"
            );
            return wrong(key, problem);
        }
    }
    Ok(())
}

/// Checks that no control token has two jobs that a reader could not tell apart.
pub(super) fn check(table: &Table<'_>, reads: &Reads, beside: &Beside<'_>) -> Checked<()> {
    check_turns(table, reads)?;
    check_parts(table, reads)?;
    check_frames(table, reads, beside)
}

/// Checks the tokens after a system text, which are read as a part of the text.
pub(super) fn check_after_texts(rows: &[RowSpec]) -> Checked<()> {
    for row in rows.iter().filter(|row| row.role == Role::System) {
        let Some(after) = tokens_after_text(&row.pieces) else { continue };
        let text = row.pieces.iter().position(|piece| is_field(piece, Field::Content));
        let rest = &row.pieces[text.unwrap_or_default() + 1 + after.len()..];
        let opens = rows.iter().flat_map(|row| tokens(&row.key, row.pieces.first()));
        let others = opens.chain(first(&row.key, rest));
        refuse(tokens(&row.key, after), others, "opens or closes a turn")?;
    }
    Ok(())
}

/// The tokens around a list of calls.
fn list<'a>(table: &Table<'a>) -> impl Iterator<Item = Token<'a>> {
    let ways = |key, ways: &'a [Vec<Piece>]| ways.iter().flat_map(move |way| tokens(key, way));
    table.list.into_iter().flat_map(move |ListSpec { open, between, close, .. }| {
        let around = ways("calls.open", open).chain(ways("calls.close", close));
        around.chain(tokens("calls.between", between))
    })
}

fn stop<'a>(table: &Table<'a>) -> impl Iterator<Item = Token<'a>> {
    table.stop.iter().map(|name| Token { key: "generation.stop", name })
}

/// What follows the last text of a pattern; all of a pattern without a text.
fn after_text(pieces: &[Piece]) -> Vec<&Piece> {
    after_last(pieces, is_text).unwrap_or_else(|| walk(pieces).collect())
}

/// The tokens that open and close turns, calls, and lists of calls.
fn check_turns(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    let rows = || table.rows.iter();
    // Frames are turns of the assistant, opened by the token of every turn.
    if !rows().any(|row| row.place.is_frame()) {
        let others = rows().filter(|row| row.role != Role::Assistant && row.place.is_read());
        let others = others.flat_map(|row| first(&row.key, walk(&row.pieces)));
        let calls = reads.items.iter().chain(&reads.also);
        let calls = calls.flat_map(|call| first(&call.key, walk(&call.pieces)));
        refuse(calls, others, "opens another's turn")?;
    }
    refuse(
        reads.rows.iter().flat_map(|row| first(&row.key, head(&row.pieces))),
        list(table).filter(|token| token.key != "calls.between"),
        "opens or closes calls",
    )?;
    let opens = || reads.all().flat_map(|read| first(&read.key, head(&read.pieces)));
    let of_reads = reads.all().flat_map(|read| tokens(&read.key, after_text(&read.pieces)));
    let alone = rows().filter(|row| is_calls_only(&row.pieces));
    let alone = alone.flat_map(|row| tokens(&row.key, after_text(&row.pieces)));
    refuse(of_reads.chain(alone), opens(), "opens a turn or a call")?;
    // An answer without calls would end in the token that closes a list.
    let closes = rows().filter(|row| row.role == Role::Assistant).flat_map(|row| {
        let after = after_last(&row.pieces, |piece| is_calls(piece) || is_text(piece));
        tokens(&row.key, after.unwrap_or_default())
    });
    refuse(list(table).filter(|token| token.key == "calls.close"), closes, "ends a turn")?;
    // The row after a result has no header.
    let after_tool = rows().filter(|row| row.place == RowUse::AfterTool);
    let after_tool: Vec<(&str, Vec<Piece>)> = after_tool
        .map(|row| (&*row.key, reasoning::without(&as_read(&row.pieces, false))))
        .collect();
    let closes = after_tool.iter().flat_map(|(key, pieces)| tokens(key, after_text(pieces)));
    let opens = reads.all().flat_map(|read| first(&read.key, walk(&read.pieces)));
    refuse(closes, opens, "opens a turn or a call")?;
    let frames = rows().filter(|row| row.place.is_frame());
    let closes = frames.flat_map(|row| first(&row.key, row.pieces.iter().rev()));
    refuse(stop(table), closes, "closes a turn")?;
    Ok(())
}

/// What opens and closes a part of a turn, with the key of the turn.
type Pair<'a> = (&'a str, [&'a Piece; 2]);

fn of_pairs<'a>(pairs: &[Pair<'a>]) -> impl Iterator<Item = Token<'a>> {
    pairs.iter().flat_map(|(key, pair)| tokens(key, *pair))
}

/// The tokens around reasoning, around a text within its turn, and within arguments: they do nothing else.
fn check_parts(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    let rows = || table.rows.iter();
    let after_tool = rows().filter(|row| row.place == RowUse::AfterTool);
    let after_tool: Vec<(&str, Vec<Piece>)> =
        after_tool.map(|row| (&*row.key, reasoning::without(&row.pieces))).collect();
    let others = || {
        let reads = reads.all().flat_map(|read| tokens(&read.key, walk(&read.pieces)));
        let after_tool = after_tool.iter().flat_map(|(key, pieces)| tokens(key, walk(pieces)));
        reads.chain(after_tool).chain(list(table)).chain(stop(table))
    };
    let is_read = |row: &&RowSpec| row.place.is_read() || row.place == RowUse::AfterTool;
    let thoughts = rows().filter(is_read).filter_map(|row| {
        let around = reasoning::pieces_of(&row.pieces)?;
        Some((&*row.key, [around.open, around.close]))
    });
    let thoughts: Vec<Pair<'_>> = thoughts.collect();
    refuse(of_pairs(&thoughts), others(), "has another use")?;
    let blocks: Vec<(&str, Vec<Piece>)> =
        rows().map(|row| (&*row.key, content_block::without_guard(row))).collect();
    let blocks = blocks.iter().filter_map(|(key, pieces)| {
        let block = content_block::block(pieces)?;
        Some((*key, [block.open, block.close]))
    });
    let blocks: Vec<Pair<'_>> = blocks.collect();
    let others = others().chain(of_pairs(&thoughts));
    refuse(of_pairs(&blocks), others, "has a use beside that around `{content}`")?;
    for (key, [open, close]) in thoughts.into_iter().chain(blocks) {
        refuse(tokens(key, [open]), tokens(key, [close]), "closes what it opens")?;
    }
    check_arguments(table, reads)
}

/// The tokens within arguments.
fn check_arguments(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    // A result has no calls, so the only token of calls that it could contain is the one that opens it.
    let seen = |row: &RowSpec| if row.role == Role::Tool { 1 } else { usize::MAX };
    for call in table.calls {
        let Some(shape) = call.body.shape() else { continue };
        let key = format!("call.{}.pair", call.kind);
        let own = shape.patterns.iter().enumerate().flat_map(|(nth, pattern)| {
            let is_end = shape.end_of_tag == Some(nth);
            let own = tokens(&key, walk(pattern));
            own.filter(move |token| !(is_end && calls::is_within_heads(token.name, table)))
        });
        let rows = table.rows.iter();
        let rows = rows.flat_map(|row| tokens(&row.key, walk(&row.pieces).take(seen(row))));
        let items = reads.items.iter().flat_map(|item| tokens(&item.key, walk(&item.pieces)));
        let prompt = tokens("generation.prompt", table.prompt);
        refuse(own, rows.chain(items).chain(list(table)).chain(prompt), "has another use")?;
    }
    Ok(())
}

/// Checks the tokens of the patterns around the rows: those that begin and end a conversation and results, and those in
/// the format's own turns.
fn check_frames(table: &Table<'_>, reads: &Reads, beside: &Beside<'_>) -> Checked<()> {
    let ends = || tokens("end", walk(beside.end));
    let is_text = |row: &&RowSpec| {
        (row.place.is_read() || row.place == RowUse::AfterTool)
            && !is_calls_only(&row.pieces)
            && begins_with_text(&row.pieces)
            && is_field_first(&row.pieces)
    };
    let texts = table.rows.iter().filter(is_text);
    let texts = texts.flat_map(|row| tokens(&row.key, walk(&row.pieces)));
    refuse(ends(), texts, "closes a turn that may be empty")?;
    for (key, pieces) in beside.frames() {
        let first = reads.all().flat_map(|read| tokens(&read.key, read.pieces.first()));
        refuse(tokens(key, pieces), first, "opens a turn or a call")?;
    }
    // Tokens inside the turn of a result do nothing in another turn.
    let is_inside = |token: &Token<'_>| {
        let mut results =
            table.rows.iter().filter(|row| row.role == Role::Tool && row.key == token.key);
        results.any(|row| {
            let names: Vec<_> = walk(&row.pieces).filter_map(control_names).collect();
            let inner = names.get(1..names.len().saturating_sub(1)).unwrap_or_default();
            inner.iter().any(|names| names.iter().any(|name| name == token.name))
        })
    };
    let of_rows = reads.rows.iter().flat_map(|row| tokens(&row.key, walk(&row.pieces)));
    let others: Vec<Token<'_>> =
        of_rows.filter(|token| !is_inside(token)).chain(stop(table)).chain(ends()).collect();
    for (key, inside) in beside.insides() {
        refuse(
            tokens(key, inside),
            others.iter().copied(),
            "opens or closes a turn, or ends a conversation,",
        )?;
    }
    // A turn without an opener does not begin as a conversation does.
    for turn in beside.without_system.into_iter().flat_map(WithoutSystem::turns) {
        let first = turn.inside.first().filter(|first| turn.pieces.first() == Some(first));
        let begin = tokens("begin", walk(beside.begin));
        refuse(tokens("turn.without_system", first), begin, "begins a conversation")?;
    }
    Ok(())
}
