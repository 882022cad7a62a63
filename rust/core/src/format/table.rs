//! The rules for a format's rows and calls together: no two can be read as each other, and no end of one
//! begins another.

use super::ambiguity::{Head, check_ways, check_written_words, meets};
use super::between::Beside;
use super::calls::items_as_read;
use super::file::{Order, SystemPlace};
use super::rules::{
    as_read, begins_with_text, check_head_bytes, has_field, head, is_calls_only, is_field,
};
use super::work::Work;
use super::{
    AlsoSpec, CallSpec, Guarantee, ListSpec, RowSpec, RowUse, also, calls, content_block, last,
    reasoning, text_rows, unmarked_calls,
};
use crate::error::{Checked, wrong};
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
}

/// Whether a control token follows the arguments of a call.
fn ends_in_control(item: &[Piece]) -> bool {
    let at = item.iter().position(|piece| is_field(piece, Field::Arguments));
    at.is_some_and(|at| item.get(at + 1).is_some_and(Piece::is_control))
}

/// Checks the rows and calls together.
pub(super) fn check(table: &Table<'_>, reads: &Reads) -> Checked<()> {
    check_folded(table)?;
    check_decidable(table, reads)?;
    text_rows::check(table)?;
    content_block::check(table)?;
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
pub(super) fn is_field_first(pieces: &[Piece]) -> bool {
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
        && same.last().is_some_and(|piece| piece.is_control())
        && matches!(rest, [Piece::Literal(text), Piece::Control(_), ..] if is_white(text))
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
fn check_end(end: &[Piece], table: &Table<'_>) -> Checked<()> {
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
    Ok(())
}

/// Checks the patterns beside the rows: white space and text in them.
pub(super) fn check_beside(table: &Table<'_>, reads: &Reads, beside: &Beside<'_>) -> Checked<()> {
    let begins_text = || reads.rows.iter().any(|row| begins_with_text(&row.pieces));
    for (key, inside) in beside.insides() {
        if inside.iter().any(|piece| matches!(piece, Piece::Cut | Piece::Space)) {
            let problem =
                "has `{/}` or `{~}` in its text, expected control tokens, literals and fields";
            return wrong(key, problem);
        }
    }
    for (key, pieces) in beside.frames() {
        let mut texts = pieces.iter().filter(|piece| matches!(piece, Piece::Literal(_)));
        if texts.clone().any(|text| !text.is_space()) {
            return wrong(key, "has text, expected control tokens and white space only");
        }
        if key == "begin" && texts.next().is_some() && begins_text() {
            return wrong(key, "has white space, expected none, as a turn may begin with text");
        }
    }
    check_end(beside.end, table)
}
