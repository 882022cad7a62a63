//! The rules for a format's rows and calls together: no two can be read as each other, and no end of one
//! begins another.

use hashbrown::HashSet;

use super::ambiguity::{Head, check_ways, check_written_words, meets};
use super::calls::items_as_read;
use super::file::{Order, SystemPlace};
use super::rules::{
    after_last, as_read, begins_with_text, check_head_bytes, control_names, has_field, head,
    is_calls_only, is_field, is_text, open_suffix,
};
use super::work::Work;
use super::{
    AlsoSpec, CallSpec, FixedTurn, Guarantee, ListSpec, RowSpec, RowUse, also, calls,
    content_block, last, reasoning, text_rows, unmarked_calls,
};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{Field, Piece, is_white, walk};

/// The patterns that the rules compare.
pub(super) struct Table<'a> {
    pub(super) guarantee: Guarantee,
    pub(super) order: Order,
    pub(super) system: SystemPlace,
    pub(super) folds_system: bool,
    pub(super) rows: &'a [RowSpec],
    pub(super) calls: &'a [CallSpec],
    pub(super) list: Option<&'a ListSpec>,
    pub(super) also: &'a AlsoSpec,
    pub(super) prompt: &'a [Piece],
    pub(super) stop: &'a [String],
    /// What ends a conversation.
    pub(super) end: &'a [Piece],
    pub(super) work: &'a Work,
}

/// A pattern for reading, with its key.
pub(super) struct Read {
    pub(super) key: String,
    pub(super) pieces: Vec<Piece>,
    /// Whether no word goes on after its head, that of a call.
    pub(super) ends_word: bool,
}

/// The patterns that are read at a place: rows in their order, then the forms of calls.
pub(super) struct Reads {
    pub(super) rows: Vec<Read>,
    pub(super) items: Vec<Read>,
    /// Forms of calls that are only read.
    pub(super) also: Vec<Read>,
}

impl Reads {
    pub(super) fn new(table: &Table<'_>) -> Checked<Self> {
        let is_read = |row: &&RowSpec| !is_calls_only(&row.pieces) && row.place.is_read();
        let rows = table.rows.iter().filter(is_read).map(|row| Read {
            key: row.key.clone(),
            pieces: reasoning::without(&as_read(&row.pieces, table.folds_system)),
            ends_word: false,
        });
        let also = also::reads(table.also, table.list, table.work)?;
        let mut reads = Self { rows: rows.collect(), items: Vec::new(), also };
        for call in table.calls {
            let key = format!("call.{}.item", call.kind);
            let has_tags = call.body.shape().is_some_and(|shape| shape.ends_word);
            for item in &call.items {
                let opens = table.list.map_or(&[][..], |list| &list.open);
                let bytes = |pieces: &[Piece]| walk(pieces).map(Piece::len).sum::<usize>();
                let opened = opens.iter().map(|open| bytes(open) + bytes(item));
                table.work.count(&key, bytes(item) + opened.sum::<usize>())?;
                for (pieces, _) in calls::items_as_read(item, table.list) {
                    check_head_bytes(&key, &head(&pieces))?;
                    let ends_word = has_tags && ends_in_control(&pieces);
                    reads.items.push(Read { key: key.clone(), pieces, ends_word });
                }
            }
        }
        Ok(reads)
    }

    /// All patterns.
    pub(super) fn all(&self) -> impl Iterator<Item = &Read> {
        self.rows.iter().chain(&self.items).chain(&self.also)
    }

    /// The control tokens that open a turn or a call.
    fn openers(&self) -> HashSet<&str> {
        let openers = self.all().filter_map(|read| head_opener(&read.pieces));
        openers.flatten().map(String::as_str).collect()
    }
}

/// Whether a control token follows the arguments of a call.
fn ends_in_control(item: &[Piece]) -> bool {
    let at = item.iter().position(|piece| is_field(piece, Field::Arguments));
    at.is_some_and(|at| matches!(item.get(at + 1), Some(Piece::Control(_))))
}

/// The names of the first control token.
pub(super) fn opener(pieces: &[Piece]) -> Option<&[String]> {
    walk(pieces).find_map(control_names)
}

/// The names of the first control token before a text.
fn head_opener(pieces: &[Piece]) -> Option<&[String]> {
    head(pieces).into_iter().find_map(control_names)
}

/// Whether one of these names is known.
pub(super) fn has_any(known: &HashSet<&str>, names: &[String]) -> bool {
    names.iter().any(|name| known.contains(name.as_str()))
}

/// Checks the rows and calls together.
pub(super) fn check(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    check_folded(table)?;
    check_decidable(table, reads)?;
    text_rows::check(table)?;
    check_openers(table, reads)?;
    reasoning::check_tokens(table, reads)?;
    content_block::check(table, reads)?;
    calls::check_tokens_of_arguments(table)?;
    calls::check_close_of_list(table)?;
    unmarked_calls::check(table)
}

/// A system text that is read as the user's directly precedes it.
fn check_folded(table: &Table<'_>) -> Checked<()> {
    for row in table.rows.iter().filter(|_| table.folds_system) {
        if !has_field(&row.pieces, Field::System) {
            continue;
        }
        let optional = row.pieces.iter().enumerate().find_map(|(at, piece)| match piece {
            Piece::Optional { field: Field::System, pieces } => Some((pieces, at + 1)),
            _ => None,
        });
        let Some((inside, next)) = optional else {
            return wrong(
                &row.key,
                "has `{system}` outside a guard, expected `{?system:…{system}…?}`, because `losses` lists `system`",
            );
        };
        let next = row.pieces.get(next);
        let is_text =
            matches!(next, Some(Piece::Field(Field::Content, filter)) if !filter.is_json());
        let is_first = inside.first().is_some_and(|piece| is_field(piece, Field::System));
        if !is_first || !is_text {
            return wrong(
                &row.key,
                "has more between `{system}` and `{content}`, expected `{?system:{system}…?}{content}` with a literal",
            );
        }
    }
    Ok(())
}

/// Checks that no two rows can be read as each other, and no row in two ways.
fn check_decidable(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    let Reads { rows, items, .. } = reads;
    let work = table.work;
    let walked = |reads: &[Read]| -> Checked<Vec<Head>> {
        reads.iter().map(|read| Head::new(&read.key, &read.pieces, work)).collect()
    };
    let (row_heads, item_heads) = (walked(rows)?, walked(items)?);
    let is_last: Vec<bool> = rows.iter().map(|row| last::is_last(&row.key, table)).collect();
    let is_text_format = table.guarantee == Guarantee::Text;
    for (at, Read { key, pieces, .. }) in rows.iter().enumerate() {
        check_ways(key, pieces, false, work)?;
        if is_last[at] || is_field_first(pieces) {
            continue;
        }
        for (nth, other) in rows[..at].iter().enumerate() {
            if is_last[nth] || is_field_first(&other.pieces) {
                continue;
            }
            let is_apart =
                last::is_apart(pieces, &other.pieces) || last::is_apart(&other.pieces, pieces);
            let goes_on = is_text_format && extends(&other.pieces, pieces)
                || goes_on_to_control(pieces, &other.pieces)
                || goes_on_to_control(&other.pieces, pieces);
            if !goes_on && !is_apart && row_heads[at].meets(&row_heads[nth], key, work)? {
                return same_as(key, &other.key);
            }
        }
    }
    for (at, Read { key, pieces: item, ends_word }) in items.iter().enumerate() {
        check_ways(key, item, *ends_word, work)?;
        // Written output must not be read by an earlier row or form. In the place of a name, the literal of
        // another form is a name that no function can have.
        let is_written = items[..at].iter().all(|before| before.key != *key);
        if is_written {
            check_written_words(key, item, *ends_word, work)?;
        }
        for (nth, Read { key: other, pieces: row, .. }) in rows.iter().enumerate() {
            let is_first = is_written || table.list.is_some() || last::is_word_first(row);
            let is_apart = if last::is_word_first(row) {
                last::is_apart(row, item)
            } else {
                table.list.is_none() && calls::reserved(item, row).is_some()
            };
            let is_taken = is_first && !is_last[nth] && !is_field_first(row) && !is_apart;
            if is_taken && item_heads[at].meets(&row_heads[nth], key, work)? {
                return same_as(key, other);
            }
        }
        for (nth, Read { key: other, pieces: before, .. }) in
            items[..at].iter().enumerate().filter(|_| is_written)
        {
            let is_taken = (has_field(before, Field::Name) || !has_field(item, Field::Name))
                && !unmarked_calls::is_object_or_code(before, item)
                && calls::reserved(item, before).is_none();
            if is_taken && item_heads[at].meets(&item_heads[nth], key, work)? {
                return same_as(key, other);
            }
        }
    }
    Ok(())
}

fn same_as(key: &str, other: &str) -> Checked<()> {
    let problem = format!(
        "can be read as `{other}`; expected another control token, or other text, before the text of one of them"
    );
    wrong(key, problem)
}

/// Whether a row begins with a field: it is tried when all other rows have failed. Another check ensures
/// that there is only one.
fn is_field_first(pieces: &[Piece]) -> bool {
    head(pieces).iter().all(|piece| **piece == Piece::Cut)
}

/// Whether the head of `shorter` is a prefix of the head of `longer`, which continues with plain
/// text.
fn extends(longer: &[Piece], shorter: &[Piece]) -> bool {
    let (longer, shorter) = (head(longer), head(shorter));
    let (Some((last, before)), Some((other, same))) = (shorter.split_last(), longer.split_last())
    else {
        return false;
    };
    before == same
        && matches!((last, other), (Piece::Literal(a), Piece::Literal(b)) if b.starts_with(&**a) && b.len() > a.len())
}

/// Whether the head of `longer` is that of `shorter`, then white space, then a control token, which the text of `shorter`
/// cannot hold. The row with more control tokens is tried first.
fn goes_on_to_control(longer: &[Piece], shorter: &[Piece]) -> bool {
    let (whole, same) = (head(longer), head(shorter));
    let holds_text = matches!(
        shorter.get(same.len()),
        Some(Piece::Field(Field::Content, filter)) if !filter.is_json()
    );
    let rest = whole.strip_prefix(&same[..]).unwrap_or_default();
    let has_calls = || has_field(shorter, Field::Calls) || has_field(shorter, Field::Reasoning);
    holds_text
        && !has_calls()
        && matches!(same.last(), Some(Piece::Control(_)))
        && matches!(rest, [Piece::Literal(text), Piece::Control(_), ..] if is_white(text))
}

/// Checks that control tokens that open a turn or a call do not close another kind.
fn check_openers(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    // Frames are turns of the assistant, opened by the token of every turn.
    let has_frames = table.rows.iter().any(|row| row.place.is_frame());
    let others = table.rows.iter().filter(|r| r.role != Role::Assistant && r.place.is_read());
    let of_others = others.filter_map(|row| opener(&row.pieces)).flatten();
    let of_others: HashSet<&str> = of_others.map(String::as_str).collect();
    for Read { key, pieces, .. } in reads.items.iter().chain(&reads.also).filter(|_| !has_frames) {
        if opener(pieces).is_some_and(|names| has_any(&of_others, names)) {
            return wrong(
                key,
                "begins with a token that opens another's turn, expected a token of its own",
            );
        }
    }
    // The tokens around calls mark their beginning and end, and not the beginning of a turn.
    let around = table.list.into_iter().flat_map(|list| list.open.iter().chain(&list.close));
    let around = around.flatten().filter_map(control_names).flatten();
    let around: HashSet<&str> = around.map(String::as_str).collect();
    for Read { key, pieces, .. } in &reads.rows {
        if head_opener(pieces).is_some_and(|names| has_any(&around, names)) {
            return wrong(
                key,
                "begins with a token that opens or closes calls, expected another token",
            );
        }
    }
    let openers = reads.openers();
    let alone = table.rows.iter().filter(|row| is_calls_only(&row.pieces));
    let alone = alone.map(|row| (&row.key, &row.pieces));
    let read = reads.all().map(|read| (&read.key, &read.pieces));
    for (key, pieces) in read.chain(alone) {
        let rest = after_last(pieces, is_text).unwrap_or_else(|| walk(pieces).collect());
        if rest.into_iter().filter_map(control_names).any(|names| has_any(&openers, names)) {
            return wrong(
                key,
                "is closed by a token that opens a turn or a call, expected a token that opens none",
            );
        }
    }
    Ok(())
}

/// Checks the text of a turn of the format's own: its control tokens do not open or close a turn, and do not end a
/// conversation, which a reader would take for a token of that text.
pub(super) fn check_inside(
    key: &str,
    inside: &[Piece],
    table: &Table<'_>,
    reads: &Reads,
) -> Checked<()> {
    // Tokens inside the turn of a result do nothing in another turn.
    let results = table.rows.iter().filter(|row| row.role == Role::Tool);
    let inner = |pieces: &'_ [Piece]| {
        let tokens = walk(pieces).filter_map(control_names).collect::<Vec<_>>();
        tokens.get(1..tokens.len().saturating_sub(1)).unwrap_or_default().concat()
    };
    let inner: Vec<(&str, Vec<String>)> =
        results.map(|row| (row.key.as_str(), inner(&row.pieces))).collect();
    let is_taken = |key: &str, name: &String| {
        !inner.iter().any(|(own, names)| *own == key && names.contains(name))
    };
    let of_rows = reads.rows.iter().flat_map(|row| {
        let names = walk(&row.pieces).filter_map(control_names).flatten();
        names.filter(|name| is_taken(&row.key, name)).map(std::slice::from_ref)
    });
    let of_end = walk(table.end).filter_map(control_names).flatten();
    let taken: HashSet<&str> =
        of_rows.flatten().chain(table.stop).chain(of_end).map(String::as_str).collect();
    if walk(inside).any(|piece| matches!(piece, Piece::Cut | Piece::Space)) {
        return wrong(
            key,
            "has `{/}` or `{~}` in its text, expected control tokens, literals and fields",
        );
    }
    for names in walk(inside).filter_map(control_names) {
        if let Some(name) = names.iter().find(|name| taken.contains(name.as_str())) {
            let problem = format!(
                "has `{{{name}}}` in its text, expected no token that opens or closes a turn, or ends a conversation"
            );
            return wrong(key, problem);
        }
    }
    Ok(())
}

/// Checks that a turn without an opener does not begin with a token of `begin`, which is read before any turn.
pub(super) fn check_after_begin(key: &str, turn: &FixedTurn, begin: &[Piece]) -> Checked<()> {
    let is_text = turn.pieces.first() == turn.inside.first();
    let names = turn.inside.first().filter(|_| is_text).and_then(control_names).unwrap_or_default();
    let of_begin = walk(begin).filter_map(control_names).flatten();
    if let Some(name) = of_begin.into_iter().find(|name| names.contains(name)) {
        let problem = format!("begins with `{{{name}}}` of `begin`, expected another token");
        return wrong(key, problem);
    }
    Ok(())
}

/// Checks that a default system message whose row is only read is read by that row: what is tried before it does not
/// fit, whatever the case of letters.
pub(super) fn check_default(table: &Table<'_>, default: Option<&str>) -> Checked<()> {
    let own = table.rows.iter().find(|row| row.place == RowUse::WrittenDefault);
    let Some((own, default)) = own.zip(default) else { return Ok(()) };
    let is_own = |row: &RowSpec| row.place == RowUse::Last && row.pieces == own.pieces;
    let Some(last) = table.rows.iter().position(is_own) else { return Ok(()) };
    let lower = |pieces: &[Piece]| {
        let text = |piece: &Piece| match piece {
            Piece::Literal(text) => Piece::Literal(text.to_lowercase()),
            piece => piece.clone(),
        };
        pieces.iter().map(text).collect::<Vec<_>>()
    };
    let written = own.pieces.iter().map(|piece| match piece {
        Piece::Field(Field::Content, _) => Piece::Literal(default.to_owned()),
        piece => piece.clone(),
    });
    let written = lower(&written.collect::<Vec<_>>());
    let is_before = |(at, row): &(usize, &RowSpec)| {
        row.place.is_read()
            && !begins_with_text(&row.pieces)
            && (row.place != RowUse::Last || *at < last)
    };
    let rows = table.rows.iter().enumerate().filter(is_before);
    let rows = rows.map(|(_, row)| (row.key.clone(), row.pieces.clone()));
    let items = table.calls.iter().flat_map(|call| {
        let items = call.items.iter().flat_map(|item| items_as_read(item, table.list));
        items.map(|(item, _)| (format!("call.{}.item", call.kind), item))
    });
    let mut tried = rows.chain(items);
    if let Some((key, _)) = tried.find(|(_, pieces)| meets(&lower(pieces), &written)) {
        return wrong("default_system", format!("reads as `{key}`, expected another text"));
    }
    Ok(())
}

/// Checks that no turn that ends with a literal, at the opener of the next turn, precedes the token that ends
/// a conversation.
pub(super) fn check_end(end: &[Piece], table: &Table<'_>, reads: &Reads) -> Checked<()> {
    let is_text = |row: &&RowSpec| {
        (row.place.is_read() || row.place == RowUse::AfterTool)
            && !is_calls_only(&row.pieces)
            && begins_with_text(&row.pieces)
    };
    if let Some(Piece::Literal(_)) = end.last()
        && let Some(RowSpec { key, .. }) = table.rows.iter().find(is_text)
    {
        let problem =
            format!("ends in white space, which reads as text of `{key}`, expected none there");
        return wrong("end", problem);
    }
    let names: HashSet<&str> =
        end.iter().filter_map(control_names).flatten().map(String::as_str).collect();
    let is_closed = |row: &&RowSpec| {
        let mut closers = walk(&row.pieces).filter_map(control_names);
        is_text(row)
            && head(&row.pieces).is_empty()
            && closers.any(|closer| has_any(&names, closer))
    };
    if let Some(RowSpec { key, .. }) = table.rows.iter().find(is_closed) {
        let problem =
            format!("has a token that closes `{key}`, which may be empty, expected another");
        return wrong("end", problem);
    }
    let mut rows = reads.rows.iter();
    let open = rows.find(|row| open_suffix(&row.pieces).is_some_and(|text| !text.is_empty()));
    match open {
        Some(Read { key: open, .. })
            if end.iter().any(|piece| matches!(piece, Piece::Control(_))) =>
        {
            wrong(
                "end",
                format!(
                    "has a control token after `{open}`, which none closes, expected one there"
                ),
            )
        }
        _ => Ok(()),
    }
}

/// Checks the beginning and end of a conversation: control tokens that open nothing, and white
/// space.
pub(super) fn check_frame(key: &str, pieces: &[Piece], reads: &Reads) -> Checked<()> {
    let first = reads.all().filter_map(|read| read.pieces.first().and_then(control_names));
    let opens: HashSet<&str> = first.flatten().map(String::as_str).collect();
    let begins_text = || reads.rows.iter().any(|row| begins_with_text(&row.pieces));
    for piece in pieces {
        match piece {
            Piece::Control(names) if has_any(&opens, names) => {
                return wrong(
                    key,
                    "has a token that opens a turn or a call, expected a token that opens none",
                );
            }
            Piece::Literal(text) if !is_white(text) => {
                return wrong(key, "has text, expected control tokens and white space only");
            }
            Piece::Literal(_) if key == "begin" && begins_text() => {
                return wrong(key, "has white space, expected none, as a turn may begin with text");
            }
            _ => {}
        }
    }
    Ok(())
}
