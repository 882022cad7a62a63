//! The call shape `pair = "{KEY}{key}>{value}{KEY_END}{key}>"` with `list_item = "item"`: a key is the name of two tags,
//! around a value that is text, the tags of an object's members, or the tags of a list's items.
//!
//! ```text
//! <city>Rome</city><days><item>1</item><item>2</item></days>    {"city": "Rome", "days": [1, 2]}
//! ```
//!
//! Written: one JSON object becomes tags; strings are bare, numbers and booleans are JSON, members that are `null` are
//! left out. Read, as text comes: the JSON object that the tags mean, with the spaces of `json.dumps`. Tags are control
//! tokens, so a text may spell any of them. Memory: the names of the open tags, the text of one tag, and the part of a
//! value that [`BareValue`] holds back. Time is linear in the text, times the nesting.

mod reader;
mod write;

use std::sync::Arc;

use serde_json::Value;

use super::CallTags;
use super::shape::{
    After, ArgumentsReader, Bound, BoundShape, Ids, Language, Parsed, Shape, ShapeKeys, Syntax,
    Written,
};
use super::unquoted::BareValue;
use super::write::as_read;
use crate::error::wrong;
use crate::expression::{Rules, spelling_between};
use crate::json;
use crate::limits::MAX_SUFFIX_BYTES;
use crate::path::Path;
use crate::pattern::Piece;
use crate::schema::Elements;
use crate::schema::Parameters;
use crate::schema::values::{JSON, Values};
use chatcodec_vocab::{ControlId, TokenId, Vocab};
use reader::Reader;

/// Longer keys are refused: a reader holds a key until its end.
const MAX_KEY_BYTES: usize = 1024;

/// Tags within tags: arguments that are nested deeper are refused, and end where they are read.
const MAX_DEPTH: usize = 256;

/// The shape as a format file declares it.
#[derive(Debug)]
struct Nested {
    open: Piece,
    open_end: String,
    close: Piece,
    close_end: String,
    item: String,
}

pub(crate) fn parse(keys: &ShapeKeys<'_>) -> Parsed {
    let pair = keys.text("pair")?;
    let (key, items) = (format!("{}.pair", keys.key), format!("{}.list_item", keys.key));
    let parts = pair.map(|pair| pair.split("{key}").collect::<Vec<_>>()).unwrap_or_default();
    let Some(item) = keys.text("list_item")? else {
        if parts.len() > 2 {
            return wrong(
                items,
                "is missing beside a `pair` with a second `{key}`, expected the name of items",
            );
        }
        return Ok(None);
    };
    let parts = match parts[..] {
        [open, within, close_end] => {
            within.split_once("{value}").map(|(open_end, close)| (open, open_end, close, close_end))
        }
        _ => None,
    };
    let Some((open, open_end, close, close_end)) = parts else {
        let problem =
            "is given, expected a `pair` with `{key}`, `{value}` and `{key}` again beside it";
        return wrong(items, problem);
    };
    let token = |pattern: &str| match <[Piece; 1]>::try_from((keys.pattern)(&key, pattern)?) {
        Ok([token @ Piece::Control(_)]) => Ok(token),
        _ => wrong(&*key, "has no control token alone before a key, expected one"),
    };
    let text = |pattern: &str| match &(keys.pattern)(&key, pattern)?[..] {
        [Piece::Literal(text)] if text.trim() == text && text.len() <= MAX_SUFFIX_BYTES => {
            Ok(text.clone())
        }
        _ => wrong(
            &*key,
            format!(
                "has no text alone after a key, expected one of at most {MAX_SUFFIX_BYTES} bytes without white space at its ends"
            ),
        ),
    };
    let nested = Nested {
        open: token(open)?,
        open_end: text(open_end)?,
        close: token(close)?,
        close_end: text(close_end)?,
        item: item.to_owned(),
    };
    if let (Piece::Control(open), Piece::Control(close)) = (&nested.open, &nested.close)
        && let Some(name) = open.iter().find(|name| close.contains(name))
    {
        return wrong(key, format!("has `{{{name}}}` before both keys, expected two tokens"));
    }
    check_key(item, &nested.open_end, &nested.close_end)
        .or_else(|problem| wrong(items, format!("is {item:?}, {problem}")))?;
    let loss = "arguments: their spelling, members that are null, and what tags do not tell apart: strings that are numbers or \
         booleans, empty objects and lists, and an object with the key of items alone";
    Ok(Some(Shape {
        patterns: vec![vec![nested.open.clone()], vec![nested.close.clone()]],
        after: After::Control,
        ends_word: true,
        ..Shape::new(nested, loss)
    }))
}

/// Checks that a key reads back between its tokens and the texts after it.
fn check_key(key: &str, open_end: &str, close_end: &str) -> Result<(), String> {
    if !(1..=MAX_KEY_BYTES).contains(&key.len()) || json::trim(key) != key {
        return Err(format!("expected 1 to {MAX_KEY_BYTES} bytes without white space at the ends"));
    }
    let is_ended = |end: &&str| format!("{key}{end}").find(end) != Some(key.len());
    match [open_end, close_end].iter().find(|end| is_ended(end)) {
        Some(end) => Err(format!("expected none with {end:?} in it, where a reader would end it")),
        None => Ok(()),
    }
}

impl Syntax for Nested {
    fn bind(&self, _: CallTags, ids: Ids<'_>, vocab: &Vocab) -> Bound {
        let [open, close] = [&self.open, &self.close].map(ids);
        let (Some(&first), Some(&last)) = (open.first(), close.first()) else {
            return Err("has a token without ids".to_owned());
        };
        let ids = |ids: Vec<ControlId>| ids.into_iter().map(ControlId::get).collect();
        Ok(Arc::new(Style {
            open: ids(open),
            open_end: self.open_end.clone(),
            close: ids(close),
            close_end: self.close_end.clone(),
            item: self.item.clone(),
            others: [first, last].map(|token| others(token, vocab)),
            control: [first, last],
        }))
    }
}

/// The spelling of tags, with the ids of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Style {
    /// The tokens before the key of an opening tag: the first is written, all are read. And the text after the key.
    open: Vec<TokenId>,
    open_end: String,
    /// The same of a closing tag.
    close: Vec<TokenId>,
    close_end: String,
    /// The key of the items of lists.
    item: String,
    /// The texts after the tokens that make them other tags.
    others: [Vec<String>; 2],
    /// The tokens that are written.
    control: [ControlId; 2],
}

impl Style {
    /// Checks that a key reads back.
    fn check_key(&self, key: &str) -> Result<(), String> {
        let is_other = |(others, end): (&Vec<String>, &String)| {
            let text = format!("{key}{end}");
            others.iter().any(|other| text.starts_with(&**other))
        };
        let problem = if self.others.iter().zip([&self.open_end, &self.close_end]).any(is_other) {
            Err("which would be read as another tag of calls".to_owned())
        } else {
            check_key(key, &self.open_end, &self.close_end)
        };
        problem.map_err(|problem| format!("has the key {key:?}, {problem}"))
    }
}

/// The texts with which tags of the same token go on after a tag.
fn others(tag: ControlId, vocab: &Vocab) -> Vec<String> {
    let Some(own) = vocab.tag(tag.get()) else { return Vec::new() };
    let same = vocab.tags().filter(|(_, other)| other.token == own.token && *other != own);
    let rest = same.filter_map(|(_, other)| other.after.strip_prefix(&*own.after));
    rest.filter(|rest| !rest.is_empty()).map(str::to_owned).collect()
}

impl BoundShape for Style {
    fn control(&self) -> &[ControlId] {
        &self.control
    }

    fn write(&self, arguments: &str, vocab: &Vocab) -> Result<Vec<Written<'_>>, String> {
        write::write(&as_read(arguments, vocab), self)
    }

    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String {
        reader::canonical(&as_read(arguments, vocab), self)
    }

    fn expression(&self, schema: &Arc<Value>, rules: &mut Rules, path: Path<'_>) -> Language {
        let elements = Elements {
            open: self.open[0],
            open_end: &self.open_end,
            close: self.close[0],
            close_end: &self.close_end,
            item: &self.item,
            is_key: &|key| self.check_key(key).is_ok(),
            is_string: &|text, kinds| {
                let mut out = String::new();
                let mut reader = BareValue::new(kinds.of_text(), &mut out);
                reader.push(text, &mut out);
                reader.end(&mut out);
                out.starts_with('"')
            },
        };
        // Control tokens stand around each text.
        let except = spelling_between(rules.ends().iter().map(String::as_str), "", "");
        Values::new(schema, rules, JSON, except).with_tags(&elements).arguments_in_tags(path)
    }

    fn reader(self: Arc<Self>, parameters: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader> {
        Box::new(Reader::new(self, parameters))
    }
}
