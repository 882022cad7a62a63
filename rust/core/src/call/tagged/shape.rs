//! The call shape `pair = "…{key}…{value}…"`: tagged pairs of key and value.

use std::sync::Arc;

use serde_json::Value;

use super::escapes::Escapes;
use super::wrap::Wrap;
use super::{KindAttribute, SPACES, Tag, TaggedScanner, TaggedStyle, canonical, write};
use crate::call::CallTags;
use crate::call::shape::{
    After, ArgumentsReader, Bound, BoundShape, Ids, Language, Parsed, Shape, ShapeKeys, Syntax,
    Written,
};
use crate::call::write::as_read;
use crate::error::{Checked, wrong};
use crate::expression::Rules;
use crate::limits::MAX_SUFFIX_BYTES;
use crate::path::Path;
use crate::pattern::{self, Piece, is_white};
use crate::schema::values::{JSON, PYTHON, Words};
use crate::schema::{KindWords, Parameters};
use crate::word::{is_word, is_word_byte};
use chatcodec_vocab::{ControlId, Vocab};

/// The patterns before a key, between the key and its value, and after the value.
#[derive(Debug)]
struct Tagged {
    open: Vec<Piece>,
    between: Vec<Piece>,
    close: Vec<Piece>,
    /// The attribute that says whether a value is a string.
    kind: Option<KindAttribute>,
    wrap: Option<Wrap>,
    escapes: Escapes,
    words: Words,
}

/// How many texts may call for a wrap.
const MAX_WHEN: usize = 16;

pub(crate) fn parse(keys: &ShapeKeys<'_>) -> Parsed {
    let Some(pair) = keys.text("pair")? else {
        let mut own = ["wrap", "escapes", "words"].into_iter();
        if let Some(name) = own.find(|name| keys.table.contains_key(*name)) {
            let problem = "is given without `pair`, expected it beside a pattern of tagged pairs";
            return wrong(format!("{}.{name}", keys.key), problem);
        }
        return Ok(None);
    };
    let key = format!("{}.pair", keys.key);
    let parts = pair.split_once("{key}").and_then(|(open, rest)| {
        let (between, close) = rest.split_once("{value}")?;
        Some([open, between, close])
    });
    let Some(parts) = parts else {
        let problem = "is neither `python` nor a pattern with `{key}` and `{value}` after it";
        return wrong(key, problem);
    };
    let said = KINDS.iter().find_map(|&(field, words)| {
        let (before, after) = parts[1].split_once(field)?;
        Some((field, words, before, after))
    });
    let (parts, kind) = match said {
        None => (parts.map(str::to_owned), None),
        Some((field, words, before, after)) => {
            let kind = kind_attribute(&key, (field, words), before, after)?;
            ([parts[0].to_owned(), after.to_owned(), parts[2].to_owned()], Some(kind))
        }
    };
    let [open, between, close] = parts.map(|part| (keys.pattern)(&key, &part));
    let wrap = wrap(keys)?;
    if wrap.is_some() && kind.is_some() {
        let problem = "is given beside `{string}` or `{type}` in `pair`, expected one of them";
        return wrong(format!("{}.wrap", keys.key), problem);
    }
    let escapes = Escapes::parse(keys)?;
    let words = words(keys)?;
    if words != JSON && kind.is_some() {
        let problem = "is given beside `{string}` or `{type}` in `pair`, expected one of them";
        return wrong(format!("{}.words", keys.key), problem);
    }
    let tagged =
        Tagged { open: open?, between: between?, close: close?, kind, wrap, escapes, words };
    for pieces in [&tagged.open, &tagged.between, &tagged.close] {
        check(&key, pieces)?;
    }
    if let (Some(wrap), Some(Piece::Literal(tag))) = (&tagged.wrap, first_tag(&tagged.close)) {
        let tag = tag.trim_matches(SPACES);
        if let Some(name) = wrap.name_of(|text| text.contains(tag)) {
            let problem = format!("holds {tag:?}, which closes a value, expected other text");
            return wrong(format!("{}.wrap.{name}", keys.key), problem);
        }
    }
    Ok(Some(tagged.shape()))
}

/// Where the pattern of a pair says what its value is.
const KINDS: [(&str, KindWords); 2] =
    [("{string}", KindWords::IsString), ("{type}", KindWords::Types)];

/// The attribute around `{string}` or `{type}`: `" string="` and `">`, or a quote before a token.
fn kind_attribute(
    key: &str,
    (field, words): (&str, KindWords),
    before: &str,
    after: &str,
) -> Checked<KindAttribute> {
    let name = before.strip_prefix('"').and_then(|text| text.strip_suffix("=\""));
    let is_name = |name: &str| {
        let word = name.trim_start_matches(' ');
        word.len() < name.len() && is_word(word)
    };
    let rest = after.strip_prefix('"');
    let is_plain = |end: &str| !end.is_empty() && !end.contains(['"', '{', '}']);
    let ends = rest.is_some_and(|end| is_plain(end.trim_end()));
    // A token directly after the quote ends the tag.
    let is_token = |rest: &str| matches!(pattern::parse(rest).as_deref(), Ok([Piece::Control(_)]));
    let ends_in_token = rest.is_some_and(is_token);
    if !name.is_some_and(is_name) || !(ends || ends_in_token) {
        return wrong(
            key,
            format!(
                "has `{field}` elsewhere than in an attribute after the key, expected `{{key}}\" {}=\"{field}\">{{value}}`, or a control token after the quote",
                field.trim_matches(['{', '}'])
            ),
        );
    }
    let of = str::to_owned;
    let after = if ends_in_token { "\"" } else { after };
    Ok(KindAttribute { before: of(before), after: of(after), words })
}

/// The words for true, false and null.
fn words(keys: &ShapeKeys<'_>) -> Checked<Words> {
    match keys.text("words")? {
        None | Some("json") => Ok(JSON),
        Some("python") => Ok(PYTHON),
        Some(other) => wrong(
            format!("{}.words", keys.key),
            format!("is {other:?}, expected `json` or `python`"),
        ),
    }
}

/// The texts around strings that hold one of some texts.
fn wrap(keys: &ShapeKeys<'_>) -> Checked<Option<Wrap>> {
    let Some(value) = keys.table.get("wrap") else { return Ok(None) };
    let key = format!("{}.wrap", keys.key);
    let table = value.as_table().filter(|table| {
        table.len() == 3 && ["open", "close", "when"].iter().all(|name| table.contains_key(*name))
    });
    let Some(table) = table else {
        let problem = "is not a table of `open`, `close` and `when`, expected these three keys";
        return wrong(key, problem);
    };
    let text = |name: &str| {
        let text = table.get(name).and_then(toml::Value::as_str).unwrap_or_default();
        let key = format!("{key}.{name}");
        match <[Piece; 1]>::try_from((keys.pattern)(&key, text)?) {
            Ok([Piece::Literal(text)])
                if text.len() <= MAX_SUFFIX_BYTES && text.trim_matches(SPACES) == text =>
            {
                Ok(text)
            }
            _ => wrong(
                key,
                format!(
                    "is not literal text without white space at its ends, expected some of at most {MAX_SUFFIX_BYTES} bytes"
                ),
            ),
        }
    };
    let (open, close) = (text("open")?, text("close")?);
    let listed = table.get("when").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    let when: Vec<String> =
        listed.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect();
    if when.len() != listed.len()
        || !(1..=MAX_WHEN).contains(&when.len())
        || when.iter().any(|text| text.is_empty() || text.len() > MAX_SUFFIX_BYTES)
    {
        let problem = format!(
            "is not a list of 1 to {MAX_WHEN} texts, expected the texts that call for the wrap"
        );
        return wrong(format!("{key}.when"), problem);
    }
    let wrap = Wrap { open, close, when };
    if !wrap.holds(&wrap.open) {
        let problem = "holds none of the texts of `when`, expected one in it, so that a string that begins with it has the wrap";
        return wrong(format!("{key}.open"), problem);
    }
    if wrap.open.starts_with(|c: char| c.is_alphanumeric() || "[{\"'+-.".contains(c)) {
        let problem = "begins as a value may begin, expected a sign that no JSON begins with";
        return wrong(format!("{key}.open"), problem);
    }
    Ok(Some(wrap))
}

/// Checks one of the patterns beside a key or a value.
fn check(key: &str, pieces: &[Piece]) -> Checked<()> {
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
    let literal = |piece: &Piece| match piece {
        Piece::Literal(text) => text.len(),
        _ => 0,
    };
    let bytes: usize = pieces.iter().map(literal).sum();
    if bytes > MAX_SUFFIX_BYTES {
        let problem = format!(
            "has {bytes} bytes of literal beside its key, expected at most {MAX_SUFFIX_BYTES}"
        );
        return wrong(key, problem);
    }
    Ok(())
}

/// The first piece that is more than white space.
fn first_tag(pieces: &[Piece]) -> Option<&Piece> {
    pieces.iter().find(|piece| !matches!(piece, Piece::Literal(text) if is_white(text)))
}

impl Tagged {
    /// The shape with these pairs.
    fn shape(self) -> Shape {
        let Self { open, between, close, kind, .. } = &self;
        let first = first_tag(open);
        let ends_word = match open.first() {
            Some(Piece::Literal(text)) => !text.bytes().next().is_some_and(is_word_byte),
            first => matches!(first, Some(Piece::Control(_))),
        };
        let loss = if kind.is_some() {
            "arguments: their spelling, they come back as `json.dumps` writes them"
        } else if self.words != JSON {
            "arguments: their spelling, and strings that are JSON of another kind or a word of Python's (`True`), \
             which come back as that"
        } else {
            "arguments: their spelling, and strings that are JSON of another kind, which come back as that"
        };
        Shape {
            patterns: vec![open.clone(), between.clone(), close.clone()],
            end_of_tag: kind.is_some().then_some(1),
            after: match first {
                Some(Piece::Literal(tag)) => After::NoTag(tag.clone()),
                _ => After::Any,
            },
            ends_word,
            may_be_in_block: true,
            ..Shape::new(self, loss)
        }
    }
}

impl Syntax for Tagged {
    fn bind(&self, around: CallTags, ids: Ids<'_>, _: &Vocab) -> Bound {
        let mut control = Vec::new();
        let mut tags = |pieces: &[Piece]| -> Vec<Tag> {
            let tag = |piece: &Piece| match piece {
                Piece::Literal(text) => Some(Tag::Text(text.clone())),
                Piece::Control(_) => {
                    let ids = ids(piece);
                    control.extend(ids.first().copied());
                    Some(Tag::Control(ids.into_iter().map(ControlId::get).collect()))
                }
                _ => None,
            };
            pieces.iter().filter_map(tag).collect()
        };
        let (open, between, close) = (tags(&self.open), tags(&self.between), tags(&self.close));
        Ok(Arc::new(TaggedStyle {
            kind: self.kind.clone(),
            wrap: self.wrap.clone(),
            escapes: self.escapes.clone(),
            words: self.words,
            control,
            ..TaggedStyle::new(open, between, close, around)?
        }))
    }
}

impl BoundShape for TaggedStyle {
    fn control(&self) -> &[ControlId] {
        &self.control
    }

    fn write(&self, arguments: &str, vocab: &Vocab) -> Result<Vec<Written<'_>>, String> {
        write(&as_read(arguments, vocab), self)
    }

    fn canonical(&self, arguments: &str, vocab: &Vocab) -> String {
        canonical(&as_read(arguments, vocab), self)
    }

    fn expression(&self, schema: &Arc<Value>, rules: &mut Rules, path: Path<'_>) -> Language {
        self.language(schema, rules, path)
    }

    fn reader(self: Arc<Self>, parameters: Option<Arc<Parameters>>) -> Box<dyn ArgumentsReader> {
        Box::new(TaggedScanner::new(self, parameters))
    }

    fn ends_at_next(&self) -> bool {
        true
    }

    fn next_call(&self, text: &str) -> Option<(usize, bool)> {
        let after = text.trim_start_matches(SPACES);
        let closed = self.call.close.iter().find_map(|close| after.strip_prefix(close.as_str()));
        let rest = closed.unwrap_or(after).trim_start_matches(SPACES);
        let begins = self.call.open.iter().any(|open| rest.starts_with(open.as_str()));
        begins.then_some((text.len() - rest.len(), closed.is_some()))
    }

    fn opens(&self) -> Vec<&str> {
        self.call.open.iter().map(String::as_str).collect()
    }
}
