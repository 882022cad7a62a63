//! Forms of calls that are only read: spellings of models that differ from their format.
//!
//! They are tried when no row and no form of the format itself fits. Each begins with a control token; a form without one
//! is a call only where the tools have its name.
//! So they take no input from the format's own forms, and no text forges one.

use super::ambiguity::check_ways;
use super::calls::{self, Answerer};
use super::content_block;
use super::file::{ALSO_KEYS, AlsoFile, File};
use super::load::{MAX_ITEMS, call_body};
use super::patterns::Patterns;
use super::rules::{head, is_text};
use super::table::Read;
use super::work::Work;
use super::{CallBodySpec, CallSpec, IdForm, ListSpec, Member, ObjectSpec};
use crate::error::{Checked, wrong};
use crate::pattern::{Field, Filter, Piece, shown, walk};

/// Maximum length of ignored text after a call.
const MAX_AFTER_BYTES: usize = 64;

/// The forms of calls that are only read.
#[derive(Default)]
pub(crate) struct AlsoSpec {
    /// Forms that begin with a control token.
    pub(crate) calls: Vec<CallSpec>,
    /// Unmarked forms: an object, and a call in Python.
    pub(crate) bare: Vec<CallSpec>,
    /// Whether the file declares the object.
    pub(crate) has_object: bool,
    /// Meaningless input after a call: a control token, or text.
    pub(crate) after: Vec<Piece>,
    /// The tokens that a model may write around its answer.
    pub(crate) answer: Option<[Piece; 2]>,
}

/// Reads the forms, after all other patterns.
pub(super) fn also(file: &File, patterns: &Patterns, list: Option<&ListSpec>) -> Checked<AlsoSpec> {
    let answer = content_block::answer(file.answer.as_ref(), patterns)?;
    let mut spec = AlsoSpec { bare: vec![bare_object()], answer, ..AlsoSpec::default() };
    for (kind, also) in &file.also {
        let way = one_way(kind, also, patterns, list)?;
        match &way.items[..] {
            [item] if is_object(item) => (spec.bare[0], spec.has_object) = (way, true),
            [item] if calls::is_python(item) => spec.bare.push(way),
            _ => spec.calls.push(way),
        }
        let key = format!("also.{kind}.after");
        for text in also.after.iter().flat_map(|after| after.clone().into_vec()) {
            let pieces = patterns.pieces(&key, &text, &[])?;
            match &pieces[..] {
                [piece @ Piece::Control(_)] => spec.after.push(piece.clone()),
                [piece @ Piece::Literal(text)]
                    if text.trim() == text && text.len() <= MAX_AFTER_BYTES =>
                {
                    spec.after.push(piece.clone());
                }
                pieces => {
                    let problem = format!(
                        "is {}, expected a control token, or 1 to {MAX_AFTER_BYTES} bytes of text \
                         without white space around it",
                        shown(pieces)
                    );
                    return wrong(key, problem);
                }
            }
        }
    }
    Ok(spec)
}

/// Whether a form is the object of a call alone.
fn is_object(item: &[Piece]) -> bool {
    matches!(item, [Piece::Field(Field::Call, _)])
}

/// A call as a JSON object with the keys that most models write.
fn bare_object() -> CallSpec {
    let keys = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
    let members = vec![
        (Member::Name, keys(&["name"])),
        (Member::Arguments, keys(&["arguments", "parameters"])),
    ];
    let items = vec![vec![Piece::Field(Field::Call, Filter::None)]];
    let body =
        CallBodySpec::Object(ObjectSpec { members, several: false, by_name: false, within: None });
    let (id, result) = (IdForm::Any, Answerer::default());
    CallSpec { kind: "bare".to_owned(), own: items.len(), items, body, id, result }
}

fn one_way(
    kind: &str,
    also: &AlsoFile,
    patterns: &Patterns,
    list: Option<&ListSpec>,
) -> Checked<CallSpec> {
    let key = format!("also.{kind}");
    let texts = also.item.clone().into_vec();
    let (body, allowed) = call_body(&key, ALSO_KEYS, &texts, &also.shape, patterns)?;
    let item = format!("{key}.item");
    if texts.is_empty() || texts.len() > MAX_ITEMS {
        let count = texts.len();
        return wrong(item, format!("has {count} patterns, expected 1 to {MAX_ITEMS}"));
    }
    let fits = match &body {
        CallBodySpec::Object(_) => true,
        CallBodySpec::Arguments(shape) => shape.may_be_only_read,
        CallBodySpec::Code => false,
    };
    if !fits {
        let problem = "has code or tagged pairs, expected `{call}`, or `{arguments}` in JSON or \
                       as in Python";
        return wrong(item, problem);
    }
    let mut items = Vec::new();
    for text in &texts {
        let pieces = patterns.pieces(&item, text, allowed)?;
        if texts.len() == 1 && (calls::is_python(&pieces) || is_object(&pieces)) {
            items.push(pieces);
            continue;
        }
        if !pieces.first().is_some_and(Piece::is_control) {
            let problem = "begins with text, expected a control token, or `{call}` or `{name}({arguments})` alone";
            return wrong(item, problem);
        }
        calls::check_item(&item, &pieces, &body, list.filter(|list| list.is_tokens()), true)?;
        if walk(&pieces).zip(walk(&pieces).skip(1)).any(begins_as_json) {
            let problem = "has text before `{arguments}` that JSON may begin with, which arguments \
                           without that text would lose; expected other text there, or none";
            return wrong(item, problem);
        }
        items.push(pieces);
    }
    let (id, result) = (IdForm::Any, Answerer::default());
    let own = items.len();
    Ok(CallSpec { kind: kind.to_owned(), items, own, body, id, result })
}

/// Whether the literal before `{arguments}` ends as JSON may begin.
fn begins_as_json(pair: (&Piece, &Piece)) -> bool {
    matches!(pair, (Piece::Literal(text), Piece::Field(Field::Arguments, _))
        if text.trim_start().starts_with(['{', '[', '"']))
}

/// The forms for reading: checked separately, since nothing is written by them.
pub(super) fn reads(also: &AlsoSpec, list: Option<&ListSpec>, work: &Work) -> Checked<Vec<Read>> {
    let mut reads = Vec::new();
    for call in &also.calls {
        let key = format!("also.{}.item", call.kind);
        for (pieces, _) in call.items.iter().flat_map(|item| as_read(item, list)) {
            check_ways(&key, &with_brace(&pieces), false, work)?;
            reads.push(Read { key: key.clone(), pieces, ends_word: false });
        }
    }
    Ok(reads)
}

/// A form for reading; with control tokens around calls, also after these.
pub(crate) fn as_read(item: &[Piece], list: Option<&ListSpec>) -> Vec<(Vec<Piece>, bool)> {
    calls::items_as_read(item, list.filter(|list| list.is_tokens()))
}

/// After a word or white space, a body in JSON begins at its brace.
fn with_brace(pieces: &[Piece]) -> Vec<Piece> {
    let mut read = pieces.to_vec();
    if needs_brace(pieces)
        && let Some(text) = pieces.iter().position(is_text)
    {
        read.insert(text, Piece::Literal("{".to_owned()));
    }
    read
}

/// Whether the brace alone marks the beginning of a body in JSON.
pub(crate) fn needs_brace(pieces: &[Piece]) -> bool {
    let head = head(pieces);
    match walk(pieces).nth(head.len()) {
        Some(Piece::Field(Field::Call, _)) => !matches!(head.last(), Some(Piece::Literal(_))),
        Some(Piece::Field(Field::Arguments, _)) => {
            matches!(head.last(), Some(Piece::Space | Piece::Field(..)))
        }
        _ => false,
    }
}
