//! Generation prompts: each is a beginning of an assistant's turn, no longer than the part that a reader holds
//! before the first event of the answer.

use super::reasoning::{self, Around};
use super::rules::{self, control_names, head, is_calls_only};
use super::table::Table;
use super::{Guarantee, content_block};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Piece, shown};

pub(super) fn check(table: &Table<'_>, thinking: &[Option<Vec<Piece>>; 2]) -> Checked<()> {
    let beginnings = beginnings(table);
    let [yes, no] = thinking;
    let thinking = [("generation.thinking", yes), ("generation.no_thinking", no)];
    let thinking = thinking.into_iter().filter_map(|(key, prompt)| Some((key, prompt.as_deref()?)));
    for (key, prompt) in [("generation.prompt", table.prompt)].into_iter().chain(thinking) {
        let fits = |(beginning, closed): &Beginning| {
            let Some(rest) = after(beginning, prompt) else { return false };
            match closed {
                // After the token, nothing or all of the text is missing.
                Some(token) => {
                    prompt.contains(token) && (rest.is_empty() || prompt.last() == Some(token))
                }
                // A partial text could belong to another row.
                None => {
                    table.guarantee == Guarantee::Ids
                        || rest.trim_start() != rest
                        || rest.is_empty()
                }
            }
        };
        if !beginnings.iter().any(fits) {
            let is_own = |row: &&super::RowSpec| row.role == Role::Assistant;
            let tokens = reasoning_tokens(table.rows.iter().filter(is_own));
            let mut names = prompt.iter().filter_map(control_names).flatten();
            if names.any(|name| tokens.contains(&name)) {
                let problem = "goes further into reasoning than an assistant row does before `{reasoning}`; expected no \
                               more than that, or an empty block as that row has it";
                return wrong(key, problem);
            }
            let begins = beginnings.iter().map(|(pieces, _)| shown(pieces)).next();
            let begins = begins.map_or(String::new(), |begins| format!(", which is {begins}"));
            let problem = format!(
                "is not how a row of `turn.assistant` begins; expected what the row has before its text{begins}, or a \
                 beginning of that"
            );
            return wrong(key, problem);
        }
    }
    Ok(())
}

/// The tokens around reasoning.
fn reasoning_tokens<'r>(rows: impl Iterator<Item = &'r super::RowSpec>) -> Vec<&'r String> {
    rows.filter_map(|row| reasoning::pieces_of(&row.pieces))
        .flat_map(|Around { open, close, .. }| [open, close])
        .filter_map(control_names)
        .flatten()
        .collect()
}

/// The beginning of a row, and the token of it that a prompt must contain, if any.
type Beginning = (Vec<Piece>, Option<Piece>);

/// The beginnings of the assistant's rows: before the content, before the reasoning, and with an empty
/// block of reasoning, which a prompt contains completely.
fn beginnings(table: &Table<'_>) -> Vec<Beginning> {
    let rows = || table.rows.iter().filter(|row| row.role == Role::Assistant);
    let tokens = reasoning_tokens(rows());
    let has_block = |pieces: &[Piece]| {
        let mut names = pieces.iter().filter_map(control_names).flatten();
        names.any(|name| tokens.contains(&name))
    };
    let mut beginnings = Vec::new();
    for row in rows().filter(|row| !is_calls_only(&row.pieces)) {
        let plain: Vec<Piece> =
            head(&reasoning::without(&row.pieces)).into_iter().cloned().collect();
        if !has_block(&plain) {
            // The token before the text, where it has tokens of its own.
            let open = content_block::open(&row.pieces);
            let beside = open.map(|open| [&plain[..], open].concat());
            beginnings.extend(beside.map(|pieces| (pieces, None)));
            beginnings.push((plain, None));
        }
        // An empty block with white space of its own.
        let has_content = rules::has_field(&row.pieces, Field::Content);
        let is_own =
            |other: &super::RowSpec| reasoning::has_own_block(&row.pieces, &other.pieces, "");
        let around = rows().filter(|other| has_content && is_own(other));
        let mut close = around.filter_map(|other| Some(reasoning::pieces_of(&other.pieces)?.close));
        let own = || head(&row.pieces).into_iter().cloned().collect();
        beginnings.extend(close.next().map(|close| (own(), Some(close.clone()))));
        let is_alone = |other: &super::RowSpec| reasoning::closes_alone(&other.pieces, &row.pieces);
        beginnings.extend(with_block(&row.pieces, rows().any(is_alone)));
    }
    beginnings
}

/// The beginning of a row with reasoning.
fn with_block(pieces: &[Piece], closes_alone: bool) -> Vec<Beginning> {
    let (Some(stretch), Some(around)) =
        (reasoning::stretch_of(pieces), reasoning::pieces_of(pieces))
    else {
        return Vec::new();
    };
    if matches!(pieces[stretch.clone()], [Piece::Optional { .. }])
        && matches!(pieces.get(stretch.end), Some(Piece::Literal(_)))
    {
        // The text after the guard is a part of the header, which is not read up to the token that opens reasoning.
        return Vec::new();
    }
    let Around { open, before, after, close, then } = around;
    let text = |text: String| (!text.is_empty()).then_some(Piece::Literal(text));
    let lead = &pieces[..stretch.start];
    let with = |rest: Vec<Option<Piece>>| -> Vec<Piece> {
        joined(lead.iter().cloned().chain(rest.into_iter().flatten()))
    };
    let then = || text(then.to_owned());
    let mut beginnings = vec![
        (with(vec![Some(open.clone()), text(before.to_owned())]), Some(open.clone())),
        (
            with(vec![
                Some(open.clone()),
                text(format!("{before}{after}")),
                Some(close.clone()),
                then(),
            ]),
            Some(close.clone()),
        ),
    ];
    beginnings.extend(closes_alone.then(|| (with(vec![Some(close.clone()), then()]), None)));
    beginnings
}

/// Pieces with adjacent literals joined.
fn joined(pieces: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Literal(text)), Piece::Literal(more)) => text.push_str(&more),
            (_, piece) => joined.push(piece),
        }
    }
    joined
}

/// The rest of the literal in which a prompt ends.
fn after<'b>(beginning: &'b [Piece], prompt: &[Piece]) -> Option<&'b str> {
    let is_read = |piece: &&Piece| {
        // An optional part may be absent.
        !matches!(piece, Piece::Optional { field: Field::Reasoning, .. })
    };
    let mut beginning = beginning.iter().filter(is_read);
    let mut prompt = prompt.iter().filter(is_read).peekable();
    while let Some(piece) = prompt.next() {
        match (piece, beginning.next()) {
            (piece, Some(other)) if piece == other => {}
            (Piece::Literal(a), Some(Piece::Literal(b))) if prompt.peek().is_none() => {
                return b.strip_prefix(&**a);
            }
            _ => return None,
        }
    }
    Some("")
}
