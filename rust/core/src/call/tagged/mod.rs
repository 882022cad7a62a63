//! Arguments as tagged pairs of key and value, `<parameter=a>\n1\n</parameter>`, to and from a JSON
//! object.
//!
//! ```text
//! <parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</parameter>    {"city": "Rome", "days": 3}
//! ```
//!
//! Written: one JSON object becomes pairs; strings are bare or in a wrap, other values are JSON. Read, as text comes:
//! pairs become the text of a JSON object with the spaces of `json.dumps`. White space between tags is free.
//! Beside a value, the white space of the style belongs to the tag, and further white space to the value. A
//! missing tag is replaced by the next one. Memory: a tag, a key, and the part of a value that [`BareValue`]
//! holds back. Time is linear in the text.

mod escapes;
mod scanner;
pub(super) mod shape;
mod value;
mod wrap;

use super::Written;
use super::shape::Language;
use super::unquoted::BareValue;
use super::write::check_text;
use crate::expression::{Expression, Rules};
use crate::json::{self, Token as JsonToken, Tokens};
use crate::path::Path;
use crate::schema::values::{JSON, Words};
use crate::schema::{KindWords, Kinds, Pairs, arguments_in_pairs};
use chatcodec_vocab::{ControlId, TokenId};
use escapes::Escapes;
use scanner::Place;
use scanner::TaggedScanner;
use wrap::Wrap;

/// Longer keys are refused: a reader holds back a key until its end.
const MAX_KEY_BYTES: usize = 1024;

const SPACES: [char; 4] = [' ', '\t', '\n', '\r'];

/// A part of the tags around keys and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag {
    Text(String),
    /// Any of these tokens; the first is written.
    Control(Vec<TokenId>),
}

impl Tag {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Control(_) => None,
        }
    }
}

/// The tags around a key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaggedStyle {
    open: Stretch,
    between: Stretch,
    close: Stretch,
    call: CallTags,
    /// The attribute that tells the kind of a value. It comes after a key in quotes; text or a token follows it.
    kind: Option<KindAttribute>,
    wrap: Option<Wrap>,
    escapes: Escapes,
    /// The words for true, false and null, but in objects and lists.
    words: Words,
    /// The control tokens that are written.
    control: Vec<ControlId>,
}

/// The attribute that says what a value is, after the key and its quote: ` string="true">`, ` type="number"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KindAttribute {
    /// The text from the quote of the key to the word, and after the word.
    pub(crate) before: String,
    pub(crate) after: String,
    pub(crate) words: KindWords,
}

impl KindAttribute {
    /// The attribute up to the end of its word.
    fn written(&self, word: &str) -> String {
        format!("{}{word}", self.before)
    }

    /// The word for a value.
    fn word(&self, value: &Value<'_>) -> &'static str {
        let kinds = match value {
            Value::String(_) => Kinds::STRING,
            Value::Other(json) => Kinds::of_json(json),
        };
        self.words.of(kinds).next().map_or("", |(word, _)| word)
    }

    /// The text after the word, as it is read.
    fn end(&self) -> &str {
        self.after.trim_end_matches(SPACES)
    }

    /// Splits the text up to the end of the tag at the quote of the key: its length, and whether the value is a string.
    fn at_end(&self, text: &str) -> Option<(usize, bool)> {
        let rest = text.strip_suffix(self.end())?;
        self.words.all().iter().find_map(|(word, kinds)| {
            let key = rest.strip_suffix(word)?.strip_suffix(&*self.before)?;
            Some((key.len(), *kinds == Kinds::STRING))
        })
    }

    /// What other attributes of the tag say.
    fn among(&self, attributes: &str) -> Option<bool> {
        let name = self.before.trim_start_matches('"').trim();
        let name = name.trim_end_matches(['"', '=']);
        let words = attributes.split(SPACES).find_map(|word| word.strip_prefix(name))?;
        let word = words.strip_prefix('=')?.trim_matches(['"', '\'', '>']).to_lowercase();
        let known = self.words.all().iter().find(|(known, _)| *known == word);
        known.map(|(_, kinds)| *kinds == Kinds::STRING)
    }

    /// Refuses a key in which a reader would find the attribute.
    fn check(&self, key: &str) -> Result<(), String> {
        let ends_early = |word: &str| {
            let read = format!("{}{}", self.written(word), self.end());
            format!("{key}{read}").find(&read) != Some(key.len())
        };
        if self.words.all().iter().any(|(word, _)| ends_early(word)) {
            return Err(format!("with {:?} in it, where a reader would end it", self.before));
        }
        Ok(())
    }
}

/// Tags of text around the pairs of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallTags {
    /// The beginning of a call's header.
    pub(crate) open: Vec<String>,
    /// What closes a call.
    pub(crate) close: Vec<String>,
}

impl TaggedStyle {
    /// The tags before a key, between the key and its value, after the value, and around the pairs.
    pub(crate) fn new(
        open: Vec<Tag>,
        between: Vec<Tag>,
        close: Vec<Tag>,
        call: CallTags,
    ) -> Result<Self, String> {
        // Such a text begins another call, wherever it stands between pairs.
        let begins_call =
            |text: &str| call.open.iter().any(|open| text.trim_start().starts_with(open.as_str()));
        let texts = open.iter().chain(&close).filter_map(Tag::text);
        if texts.chain(call.close.iter().map(String::as_str)).any(begins_call) {
            let problem =
                "begins as a call does before its name, expected other text in one of them";
            return Err(problem.into());
        }
        Ok(Self {
            open: Stretch::new(open)?,
            between: Stretch::new(between)?,
            close: Stretch::new(close)?,
            call,
            kind: None,
            wrap: None,
            escapes: Escapes::default(),
            words: JSON,
            control: Vec::new(),
        })
    }

    /// The words that are no JSON, with what they mean.
    fn own_words(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.words.into_iter().zip(JSON).filter(|(word, meant)| word != meant)
    }

    /// The kinds that a value may have, and whether the words are read as what they mean.
    fn read_as(&self, kinds: Kinds) -> Kinds {
        if self.words == JSON || kinds == Kinds::STRING { kinds } else { kinds | Kinds::WORDS }
    }

    /// A value as it is written, without quotes.
    fn bare(&self, value: Value<'_>) -> String {
        match value {
            Value::String(text) => text,
            Value::Other(json) => {
                let own = self.own_words().find(|(_, meant)| *meant == json);
                own.map_or(json, |(word, _)| word).to_owned()
            }
        }
    }

    /// The wrap around a string, if the string has one.
    fn wrap_of(&self, text: &str) -> Option<&Wrap> {
        self.wrap.as_ref().filter(|wrap| wrap.holds(text))
    }

    /// The pairs of arguments that follow a schema, which is at `path`.
    fn language(&self, schema: &serde_json::Value, rules: &mut Rules, path: Path<'_>) -> Language {
        let Self { open, between, close, wrap, .. } = self;
        let is_key = |name: &&str| name.trim() == *name && !name.is_empty();
        let pairs = Pairs {
            open: open.language(),
            between: between.language(),
            close: close.language(),
            before: between.text_at_end(),
            after: close.text_at_start(),
            closer: Some(close.core()).filter(|core| !core.is_empty()),
            line_tags: self.line_tags().collect(),
            tag_in: &|text| self.tag_in(text),
            key: &|name| {
                let written = self.escapes.written(Some(name).filter(is_key)?);
                between.check_before(&written).is_ok().then(|| written.into_owned())
            },
            string: &|text| self.wrap_of(text).map_or(text.to_owned(), |wrap| wrap.around(text)),
            kind: self.kind.as_ref().map(|kind| (&*kind.before, kind.words)),
            wrap: wrap.as_ref().map(|wrap| ([&*wrap.open, &*wrap.close], &*wrap.when)),
            words: self.own_words().collect(),
        };
        arguments_in_pairs(&pairs, schema, rules, path)
    }

    /// The tags that end the pairs.
    fn ends(&self) -> impl Iterator<Item = &str> {
        self.call.close.iter().chain(&self.call.open).map(String::as_str)
    }

    /// The quote around a key.
    fn quote(&self) -> Option<char> {
        if self.kind.is_some() {
            return Some('"');
        }
        let (open, close) = (self.open.last(), self.between.core());
        (open.ends_with('"') && close.starts_with('"') && close.len() > 1).then_some('"')
    }

    /// Whether a token ends the tag that says what a value is.
    fn ends_in_token(&self) -> bool {
        self.kind.is_some() && matches!(self.between.read.get(1), Some(Tag::Control(_)))
    }

    /// Whether a control token is of a pair.
    fn has_control(&self, id: TokenId) -> bool {
        let stretches = [&self.open, &self.between, &self.close];
        stretches.iter().any(|stretch| stretch.find_control(0, id).is_some())
    }

    /// Whether the opening of a pair was read completely except for its quote; the last tag read is
    /// `tag`, up to byte `read`.
    fn lacks_quote(&self, tag: usize, read: usize) -> bool {
        let is_last = tag + 1 == self.open.read.len();
        let last = self.open.read.last();
        is_last
            && self.quote().is_some()
            && matches!(last, Some(Tag::Text(text)) if read + 1 == text.len())
    }

    fn stretch(&self, place: Place) -> &Stretch {
        match place {
            Place::Open => &self.open,
            Place::Between => &self.between,
            Place::Close => &self.close,
        }
    }
}

/// The tags of a text, `</key>\n<value>`: without the white space between them.
fn each_tag(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut ends = text.match_indices('>').map(|(at, _)| text.split_at(at + 1));
        let next = ends.find(|(_, after)| after.trim_start_matches(SPACES).starts_with('<'));
        rest = next.map(|(_, after)| after.trim_start_matches(SPACES));
        Some(next.map_or(text, |(tag, _)| tag))
    })
}

/// Consecutive tags. The reader ignores the white space at the ends of their text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    written: Vec<Tag>,
    read: Vec<Tag>,
    /// White space before the first tag, and the part of the tag that is text.
    first: String,
    spaces: usize,
    /// White space after the last tag.
    after: String,
}

impl Stretch {
    fn new(written: Vec<Tag>) -> Result<Self, String> {
        let (mut first, mut after, mut read) = (String::new(), String::new(), Vec::new());
        for tag in &written {
            let Tag::Text(text) = tag else {
                after.clear();
                read.push(tag.clone());
                continue;
            };
            let from_core = text.trim_start_matches(SPACES);
            let core = from_core.trim_end_matches(SPACES);
            if read.is_empty() {
                first.push_str(&text[..text.len() - from_core.len()]);
            }
            if core.is_empty() {
                after.push_str(text);
            } else {
                text[text.len() - from_core.len() + core.len()..].clone_into(&mut after);
                read.extend(each_tag(core).map(|tag| Tag::Text(tag.to_owned())));
            }
        }
        let spaces = first.len();
        match read.first() {
            None => return Err("is nothing but white space, expected a tag".into()),
            Some(Tag::Control(_)) => {}
            Some(Tag::Text(text)) => first.push_str(text),
        }
        if read.iter().any(|tag| matches!(tag, Tag::Control(ids) if ids.is_empty())) {
            return Err("has a token without ids".into());
        }
        Ok(Self { written, read, first, spaces, after })
    }

    /// The first tag, if it is a text.
    fn core(&self) -> &str {
        &self.first[self.spaces..]
    }

    /// The last tag, if it is a text.
    fn last(&self) -> &str {
        match self.read.last() {
            Some(Tag::Text(text)) => text,
            _ => "",
        }
    }

    /// Number of tags between the first `from` tags and the tag that is this token.
    fn find_control(&self, from: usize, id: TokenId) -> Option<usize> {
        (from..self.read.len()).position(|tag| self.is_control(tag, id))
    }

    fn is_control(&self, tag: usize, id: TokenId) -> bool {
        matches!(self.read.get(tag), Some(Tag::Control(ids)) if ids.contains(&id))
    }

    fn write<'a>(&'a self, written: &mut Vec<Written<'a>>) {
        written.extend(self.written.iter().filter_map(|tag| match tag {
            Tag::Text(text) => Some(Written::Text(text.into())),
            Tag::Control(ids) => ids.first().map(|&id| Written::Control(id)),
        }));
    }

    /// The language of the tags.
    fn language(&self) -> Expression {
        Expression::sequence(self.written.iter().map(|tag| match tag {
            Tag::Text(text) => Expression::literal(text.clone()),
            Tag::Control(ids) => Expression::Ids(ids.iter().take(1).copied().collect()),
        }))
    }

    /// The text at the beginning of the tags, up to a token.
    fn text_at_start(&self) -> String {
        self.written.iter().map_while(Tag::text).collect()
    }

    /// The text at their end.
    fn text_at_end(&self) -> String {
        let last: Vec<&str> = self.written.iter().rev().map_while(Tag::text).collect();
        last.into_iter().rev().collect()
    }

    /// Refuses text in which a reader would find the tag after it.
    fn check_before(&self, text: &str) -> Result<(), String> {
        let core = self.core();
        let read = format!("{text}{}", self.first);
        if core.is_empty() || read.find(core) == Some(text.len() + self.spaces) {
            return Ok(());
        }
        Err(format!("with {core:?} in it, where a reader would end it"))
    }
}

/// The pairs with the meaning of `arguments`, one JSON value from [`super::write::as_read`].
pub(crate) fn write<'a>(
    arguments: &str,
    style: &'a TaggedStyle,
) -> Result<Vec<Written<'a>>, String> {
    let members = members(arguments).ok_or("is not a JSON object, expected one")?;
    check_text(arguments)?;
    let mut written = Vec::new();
    for Member { key, value } in members {
        let plain = key;
        let key = style.escapes.written(&plain).into_owned();
        if key.len() > MAX_KEY_BYTES {
            return Err(format!("has a key of over {MAX_KEY_BYTES} bytes"));
        }
        if json::trim(&key) != key {
            return Err(format!("has the key {key:?}, expected no white space at its ends"));
        }
        let wrap = value.text().and_then(|text| style.wrap_of(text));
        let is_string = value.text().is_some();
        let word = style.kind.as_ref().map(|kind| kind.written(kind.word(&value)));
        let value = style.bare(value);
        let value = wrap.map(|wrap| wrap.around(&value)).unwrap_or(value);
        if is_string && wrap.is_none() && style.kind.is_none() && !reads_back(&value) {
            let problem = "has a text whose beginning is JSON, longer than the hold limit, \
                           which would be read as JSON";
            return Err(problem.to_owned());
        }
        style.between.check_before(&key).map_err(|why| format!("has a key {why}"))?;
        if scanner::in_quotes(&key).is_some() {
            return Err(format!("has the key {key:?}, which would be read without its quotes"));
        }
        if style.quote().is_some_and(|quote| scanner::attributes(&key, Some(quote)).is_some()) {
            let problem = "has the key {}, which would be read as a shorter one with attributes";
            return Err(problem.replace("{}", &format!("{key:?}")));
        }
        style.close.check_before(&value).map_err(|why| format!("has a value {why}"))?;
        if let Some(tag) = style.tag_in(&value) {
            return Err(format!("has a value in which {tag:?} begins a line, which would end it"));
        }
        if let Some(kind) = &style.kind {
            kind.check(&key).map_err(|why| format!("has a key {why}"))?;
        }
        style.open.write(&mut written);
        written.push(Written::Value(key));
        written.extend(word.map(|word| Written::Text(word.into())));
        style.between.write(&mut written);
        written.push(Written::Value(value));
        style.close.write(&mut written);
    }
    Ok(written)
}

/// Arguments after a round trip without a schema: a string that is JSON of another kind, and has no wrap, becomes
/// that JSON.
pub(crate) fn canonical(arguments: &str, style: &TaggedStyle) -> String {
    let Some(members) = members(arguments) else { return arguments.to_owned() };
    let mut out = String::from("{");
    for (i, Member { key, value }) in members.into_iter().enumerate() {
        write_key(&key, i > 0, &mut out);
        let is_string = value.text().is_some();
        let is_wrapped = value.text().is_some_and(|text| style.wrap_of(text).is_some());
        let mut reader = match &style.kind {
            Some(_) => typed_value(is_string, Kinds::ANY, &mut out),
            None if is_wrapped => BareValue::new(Kinds::STRING, &mut out),
            None => BareValue::new(style.read_as(Kinds::ANY), &mut out),
        };
        reader.push(&style.bare(value), &mut out);
        reader.end(&mut out);
    }
    out.push('}');
    out
}

/// A value whose tag says whether it is a string.
fn typed_value(is_string: bool, kinds: Kinds, out: &mut String) -> BareValue {
    if is_string { BareValue::new(Kinds::STRING, out) } else { BareValue::json(kinds) }
}

/// Whether a bare text is read as a given value.
fn reads_back(text: &str) -> bool {
    let mut out = String::new();
    let mut reader = BareValue::new(Kinds::ANY, &mut out);
    reader.push(text, &mut out);
    reader.end(&mut out).is_understood
}

fn write_key(key: &str, is_next: bool, out: &mut String) {
    out.push_str(if is_next { ", \"" } else { "\"" });
    json::escape_into(key, out);
    out.push_str("\": ");
}

struct Member<'a> {
    key: String,
    value: Value<'a>,
}

enum Value<'a> {
    String(String),
    Other(&'a str),
}

impl<'a> Value<'a> {
    fn of(json: &'a str) -> Self {
        let string = json.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
        string.map_or(Self::Other(json), |raw| Self::String(json::unescape(raw)))
    }

    /// The text of a string.
    fn text(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

/// The members of a JSON object, in order.
fn members(object: &str) -> Option<Vec<Member<'_>>> {
    if !object.starts_with('{') {
        return None;
    }
    let (mut members, mut tokens) = (Vec::new(), Tokens::of(object));
    let (mut key, mut begin) = (None, 0);
    while let Some((depth, token)) = tokens.next() {
        match (depth, token) {
            (1, JsonToken::Key(raw)) => key = Some(json::unescape(raw)),
            (1, JsonToken::Colon) => begin = tokens.at(),
            (1, JsonToken::Comma) | (0, JsonToken::Close(_)) => {
                let value = json::trim(&object[begin..tokens.at() - 1]);
                members.extend(key.take().map(|key| Member { key, value: Value::of(value) }));
            }
            _ => {}
        }
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json as value;

    use super::*;
    use crate::call::reading::{self, Item, Read, json_value, parameters};
    use crate::call::shape::ArgumentsReader;
    use crate::call::{Ended, Mended};
    use crate::json::{Lexer, respace_only};
    use crate::limits::HOLD_LIMIT;
    use crate::schema::Parameters;

    const KEY: TokenId = 1;
    const KEY_END: TokenId = 2;
    const VALUE: TokenId = 3;
    const VALUE_END: TokenId = 4;

    fn text(text: &str) -> Tag {
        Tag::Text(text.into())
    }

    fn token(id: TokenId) -> Tag {
        Tag::Control(vec![id])
    }

    /// Text with white space inside the tags, text without, and tokens.
    fn styles() -> [Arc<TaggedStyle>; 3] {
        [
            [vec![text("<p=")], vec![text(">\n")], vec![text("\n</p>\n")]],
            [vec![text("<p name=\"")], vec![text("\">")], vec![text("</p>\n")]],
            [
                vec![token(KEY)],
                vec![token(KEY_END), text("\n"), token(VALUE)],
                vec![token(VALUE_END), text("\n")],
            ],
        ]
        .map(|[open, between, close]| {
            let call = CallTags { open: vec!["<f=".into()], close: vec!["</f>".into()] };
            Arc::new(TaggedStyle::new(open, between, close, call).unwrap())
        })
    }

    /// Tags of tokens that say whether a value is a string.
    fn typed() -> Arc<TaggedStyle> {
        let kind = KindAttribute {
            before: "\" string=\"".into(),
            after: "\">".into(),
            words: KindWords::IsString,
        };
        let [open, close] = [vec![token(KEY)], vec![token(VALUE_END), text("\n")]];
        let style = TaggedStyle::new(open, vec![text("\">")], close, CallTags::default());
        Arc::new(TaggedStyle { kind: Some(kind), ..style.unwrap() })
    }

    /// Text in tags, and tokens, with a wrap around strings.
    fn wrapped_styles() -> [Arc<TaggedStyle>; 2] {
        let [_, quoted, tokens] = styles();
        let when = ["<", "&", "\n"].map(str::to_owned).to_vec();
        let wrap = Wrap { open: "<![CDATA[".into(), close: "]]>".into(), when };
        let wrapped = |style: Arc<TaggedStyle>| TaggedStyle {
            wrap: Some(wrap.clone()),
            ..TaggedStyle::clone(&style)
        };
        [quoted, tokens].map(|style| Arc::new(wrapped(style)))
    }

    fn every_style() -> impl Iterator<Item = Arc<TaggedStyle>> {
        styles().into_iter().chain(wrapped_styles())
    }

    /// A schema by which all values have these kinds.
    fn schema(kinds: Kinds) -> Option<Arc<Parameters>> {
        let others = value!(["number", "boolean", "null", "object", "array"]);
        match kinds {
            Kinds::STRING => parameters(&value!({"additionalProperties": {"type": "string"}})),
            Kinds::OTHER => parameters(&value!({"additionalProperties": {"type": others}})),
            _ => None,
        }
    }

    fn read(
        items: &[Item],
        chars: usize,
        style: &Arc<TaggedStyle>,
        parameters: Option<Arc<Parameters>>,
        ended: Ended,
    ) -> Read {
        reading::read(Box::new(TaggedScanner::new(style.clone(), parameters)), items, chars, ended)
    }

    /// The same for pieces of every size.
    fn read_by(items: &[Item], style: &Arc<TaggedStyle>, kinds: Kinds, ended: Ended) -> Read {
        let whole = read(items, usize::MAX, style, schema(kinds), ended);
        for chars in 1..6 {
            assert_eq!(read(items, chars, style, schema(kinds), ended), whole, "{items:?}");
        }
        whole
    }

    /// The JSON of text that was cut off, the text after the arguments, and whether they are whole.
    fn read_text(text: &str, style: &Arc<TaggedStyle>, kinds: Kinds) -> (String, String, bool) {
        let read = read_by(&[text.into()], style, kinds, Ended::Cut);
        (read.json, read.rest, read.is_whole)
    }

    fn written(arguments: &str, style: &TaggedStyle) -> Result<Vec<Item>, String> {
        let arguments = respace_only(arguments);
        let item = |piece| match piece {
            Written::Text(text) => Item::Text(text.into_owned()),
            Written::Control(id) => Item::Control(id),
            Written::Value(text) => Item::Text(text),
            Written::Given => Item::Text(String::new()),
        };
        Ok(write(&arguments, style)?.into_iter().map(item).collect())
    }

    #[test]
    fn pairs_are_read_as_json() {
        let [style, quoted, _] = styles();
        for (pairs, json) in [
            ("</f>", "{}"),
            ("\n</f>", "{}"),
            ("<p=a>\n1\n</p>\n</f>", r#"{"a": 1}"#),
            ("<p=a>1</p><p=b>x</p></f>", r#"{"a": 1, "b": "x"}"#),
            ("<p= a >\n\n1\n\n</p>\n\n</f>", r#"{"a": 1}"#),
            ("<p=a>\n\nx\n\n</p>\n</f>", r#"{"a": "\nx\n"}"#),
            ("<p=a></p><p=b>\n\n</p><p=c>\n\n\n</p></f>", r#"{"a": "", "b": "", "c": "\n"}"#),
            ("<p=a>1 2</p><p=b> {} </p><p=c>{}[]</p></f>", r#"{"a": "1 2", "b": {}, "c": "{}[]"}"#),
            (
                "<p=a>\"x\"</p><p=b>tru</p><p=c>null</p></f>",
                r#"{"a": "\"x\"", "b": "tru", "c": null}"#,
            ),
            ("<p=a>x<</</p</p></f>", r#"{"a": "x<</</p"}"#),
            ("<p=a>{\"x\": [1, \"}\"]}\n</p></f>", r#"{"a": {"x": [1, "}"]}}"#),
            ("<p=a>1</p><p=a>2</p></f>", r#"{"a": 1, "a": 2}"#),
            // The next tag ends a value.
            ("<p=a>\nx\n<p=b>\ny\n</p>\n</f>", r#"{"a": "x", "b": "y"}"#),
            ("<p=a>\nx\n  <p=b>\ny\n\t</f>", r#"{"a": "x", "b": "y"}"#),
            ("<p=a>\n<p=b>\n</p>\n</f>", r#"{"a": "", "b": ""}"#),
            ("<p=a>\n</f>", r#"{"a": ""}"#),
            ("<p=a>\n1\n\n</f>", r#"{"a": 1}"#),
            ("<p=a>\nx\n\n</f>", r#"{"a": "x\n"}"#),
            ("<p=a>x <p=b>y</p></f>", r#"{"a": "x <p=b>y"}"#),
            ("<p=a>\nx\n<p\n</p></f>", r#"{"a": "x\n<p"}"#),
            ("<p=a>x</f> </f>\n</f>", r#"{"a": "x</f> </f>"}"#),
            ("odd <p=a>x</p> more <p=b>y</p>!</f>", r#"{"a": "x", "b": "y"}"#),
        ] {
            let read = read_text(pairs, &style, Kinds::ANY);
            assert_eq!(read, (json.to_owned(), "</f>".to_owned(), true), "{pairs}");
        }
        let next = read_text("<p=a>\nx\n<f=", &style, Kinds::ANY);
        assert_eq!(next, (r#"{"a": "x"}"#.to_owned(), "<f=".to_owned(), true));
        let pairs = "<p name=\"a\">x\n<p name=\"b\">1\n</f>";
        let read = read_text(pairs, &quoted, Kinds::ANY);
        assert_eq!(read, (r#"{"a": "x", "b": 1}"#.to_owned(), "</f>".to_owned(), true));
    }

    #[test]
    fn the_next_token_ends_a_value() {
        let [.., tokens] = styles();
        for (items, json) in [
            (
                vec![
                    " odd".into(),
                    Item::Control(KEY),
                    "a".into(),
                    Item::Control(KEY_END),
                    "\n".into(),
                    Item::Control(VALUE),
                    "x\n".into(),
                    Item::Control(KEY),
                    "b\n".into(),
                    Item::Control(VALUE),
                    "\ny\n".into(),
                    Item::Control(VALUE_END),
                ],
                r#"{"a": "x", "b": "\ny\n"}"#,
            ),
            (
                vec![Item::Control(KEY), "a".into(), Item::Control(KEY_END), "\n1".into()],
                r#"{"a": 1}"#,
            ),
        ] {
            let read = read_by(&items, &tokens, Kinds::ANY, Ended::Closed);
            assert_eq!((&*read.json, read.is_whole), (json, true));
        }
    }

    #[test]
    fn a_tag_says_what_a_value_is() {
        let style = typed();
        for (tag, value, kinds, json, is_mended) in [
            ("a\" string=\"true\">", "1", Kinds::ANY, r#""1""#, false),
            ("a\" string=\"true\">", "1", Kinds::OTHER, r#""1""#, false),
            ("a\" string=\"true\">", "", Kinds::ANY, r#""""#, false),
            ("a\" string=\"false\">", "1", Kinds::ANY, "1", false),
            ("a\" string=\"false\">", " [1, \"</\"] ", Kinds::ANY, r#"[1, "</"]"#, false),
            ("a\" string=\"false\">", "\"x\"", Kinds::ANY, r#""x""#, false),
            ("a\" string=\"false\">", "\"x\"", Kinds::STRING, r#""x""#, false),
            ("a\" string=\"false\">", "\"1\"", Kinds::ANY, r#""1""#, false),
            ("a\" string=\"false\">", "\"1\"", Kinds::OTHER, "1", true),
            ("a\" string=\"false\">", "True", Kinds::ANY, "true", true),
            ("a\" string=\"false\">", "x y", Kinds::ANY, r#""x y""#, true),
            ("a\">", "1", Kinds::ANY, "1", true),
            ("a\" string='True'>", "1", Kinds::ANY, r#""1""#, true),
            ("a\"  string=\"true\" >", "1", Kinds::ANY, r#""1""#, true),
            ("a\"b\" string=\"true\">", "1", Kinds::ANY, "", false),
        ] {
            let items = [Item::Control(KEY), tag.into(), value.into(), Item::Control(VALUE_END)];
            let read = read_by(&items, &style, kinds, Ended::Closed);
            let expected = match json {
                "" => r#"{"a\"b": "1"}"#.to_owned(),
                json => format!("{{\"a\": {json}}}"),
            };
            let whole = (read.json, read.is_whole, !read.mended.is_empty());
            assert_eq!(whole, (expected, true, is_mended), "{tag}{value}");
        }
    }

    #[test]
    fn strings_are_taken_out_of_their_wrap() {
        let [style, _] = wrapped_styles();
        for (value, kinds, json) in [
            ("<![CDATA[<b>]]>", Kinds::ANY, r#""<b>""#),
            ("<![CDATA[]]>", Kinds::ANY, r#""""#),
            ("<![CDATA[1]]>", Kinds::ANY, r#""1""#),
            ("<![CDATA[{\"k\": \"<\"}]]>", Kinds::OTHER, r#"{"k": "<"}"#),
            ("<![CDATA[x]]>y]]>", Kinds::STRING, r#""x]]>y""#),
            ("<![CDATA[<![CDATA[x]]>]]>", Kinds::STRING, r#""<![CDATA[x]]>""#),
            ("<![CDATA[x]]]>", Kinds::ANY, r#""x]""#),
            ("<![CDATA[\nx\n]]>", Kinds::STRING, r#""\nx\n""#),
            ("\n <![CDATA[x]]> \n", Kinds::ANY, r#""x""#),
            ("<![CDATA[x", Kinds::ANY, r#""x""#),
            ("<![CDATA[x]]", Kinds::ANY, r#""x]]""#),
            ("<![CDATA x", Kinds::ANY, r#""<![CDATA x""#),
            ("<![CDAT", Kinds::STRING, r#""<![CDAT""#),
            ("1", Kinds::ANY, "1"),
            ("", Kinds::ANY, r#""""#),
        ] {
            let pairs = format!("<p name=\"a\">{value}</p></f>");
            let (read, _, is_whole) = read_text(&pairs, &style, kinds);
            assert_eq!((read, is_whole), (format!("{{\"a\": {json}}}"), true), "{value}");
        }
        for (cut, json) in [
            ("<![CD", r#"{"a": "#),
            ("<![CDATA[x", r#"{"a": "x"#),
            ("<![CDATA[x]]>", r#"{"a": "x"#),
        ] {
            let pairs = format!("<p name=\"a\">{cut}");
            assert_eq!(read_text(&pairs, &style, Kinds::ANY).0, json, "{cut}");
        }
    }

    #[test]
    fn a_key_that_would_end_its_tag_is_refused() {
        for key in [r#"a\" string=\"true\">"#, r#"a\">"#, r#"a\" b>"#, r#"\"a\""#] {
            assert!(write(&format!("{{\"{key}\": 1}}"), &typed()).is_err(), "{key}");
        }
        assert!(write(r#"{"a\"b>": "1"}"#, &typed()).is_ok());
    }

    #[test]
    fn strings_that_hold_a_listed_text_have_the_wrap() {
        let [_, style] = wrapped_styles();
        for (value, written_as) in [
            (r#""a""#, "a"),
            (r#""<""#, "<![CDATA[<]]>"),
            (r#""a&b""#, "<![CDATA[a&b]]>"),
            (r#""]]>""#, "]]>"),
            (r#""<]]>""#, "<![CDATA[<]]>]]>"),
            (r#"["<"]"#, r#"["<"]"#),
            (r#""\n1""#, "<![CDATA[\n1]]>"),
        ] {
            let items = written(&format!("{{\"a\": {value}}}"), &style).unwrap();
            let text = |item: &Item| matches!(item, Item::Text(text) if text == written_as);
            assert!(items.iter().any(text), "{value}: {items:?}");
        }
    }

    #[test]
    fn what_is_cut_off_is_not_complete() {
        let [style, ..] = styles();
        for (pairs, json, rest) in [
            ("<p=a", "", "<p=a"),
            ("<p=a>", r#"{"a": "#, ""),
            ("<p=a>\n1", r#"{"a": 1"#, ""),
            ("<p=a>\nx\n</p", r#"{"a": "x\n</p"#, ""),
            ("<p=a>\nx\n</p>\n<", r#"{"a": "x""#, "\n<"),
        ] {
            let read = read_text(pairs, &style, Kinds::ANY);
            assert_eq!(read, (json.to_owned(), rest.to_owned(), false), "{pairs}");
        }
    }

    #[test]
    fn what_is_closed_is_json() {
        let [style, ..] = styles();
        for (pairs, json, is_whole) in [
            ("", "{}", true),
            ("<p=a", "{}", false),
            ("<p=a>", r#"{"a": ""}"#, true),
            ("<p=a>\n1", r#"{"a": 1}"#, true),
            ("<p=a>\n[1", r#"{"a": "[1"}"#, true),
            ("<p=a>\nx\n</p", r#"{"a": "x\n</p"}"#, true),
            ("<p=a>x</p><p=b", r#"{"a": "x"}"#, false),
            ("<p=a>x</f>", r#"{"a": "x"}"#, true),
            ("<p=a>x</f>\n", r#"{"a": "x"}"#, true),
            ("<p=a>x</f>y", r#"{"a": "x</f>y"}"#, true),
        ] {
            let read = read_by(&[pairs.into()], &style, Kinds::ANY, Ended::Closed);
            assert_eq!((&*read.json, read.is_whole), (json, is_whole), "{pairs}");
        }
    }

    /// An array that is emitted before its end and turns out not to be one: the rest is a string in
    /// it.
    #[test]
    fn what_broke_late_is_mended() {
        let [_, style, _] = styles();
        let long = " ".repeat(HOLD_LIMIT);
        for (value, mended) in [
            ("[_1]", "[_1]"),
            ("[_] \n", "[_]"),
            ("[_", r#"[_""]"#),
            ("[_x]", r#"[_"x]"]"#),
            ("[_1, x", r#"[_1, "x"]"#),
            ("[_12x", r#"[_12, "x"]"#),
            ("[_1.x", r#"[_1, ".x"]"#),
            ("[_-x", r#"[_"-x"]"#),
            ("[_2e-x", r#"[_2, "e-x"]"#),
            ("[_1 2]", r#"[_1 , "2]"]"#),
            ("[_trux", r#"[_"trux"]"#),
            ("[_\"a\nb\"]", r#"[_"a\nb\"]"]"#),
            ("[_\"\\x", r#"[_"\\x"]"#),
            ("[_\"\\u12x", r#"[_"\\u12x"]"#),
            ("[_] x", r#"[_"] x"]"#),
            ("[_{}}]", r#"[_{}, "}]"]"#),
            ("{_x", r#"{_"": "x"}"#),
            ("{_\"a\nb\"", r#"{_"a\nb\"": null}"#),
            ("{_\"a\"x", r#"{_"a": "x"}"#),
            ("{_\"a\": x", r#"{_"a": "x"}"#),
            ("{_\"a\": 1x", r#"{_"a": 1, "": "x"}"#),
            ("{_\"a\": [{\"b\": 1,, ", r#"{_"a": [{"b": 1,"": ", "}]}"#),
            ("{_\"a\": 1} {}", r#"{_"a": 1, "": "} {}"}"#),
        ] {
            let (value, mended) = (value.replace('_', &long), mended.replace('_', &long));
            let items = [Item::Text(format!("<p name=\"a\">{value}</p></f>"))];
            for chars in [1, 7, usize::MAX] {
                let read = read(&items, chars, &style, None, Ended::Cut);
                assert_eq!(read.json, format!("{{\"a\": {mended}}}"), "{}", value.trim());
                let is_whole = json::is_value(json::trim(&value));
                assert_eq!((&*read.rest, read.is_whole), ("</f>", is_whole), "{}", read.json);
            }
        }
    }

    #[test]
    fn long_values_are_not_held() {
        let [style, ..] = styles();
        let long = "1, ".repeat(HOLD_LIMIT);
        for (value, begins) in [(format!("[{long}"), "{\"a\": [1, "), (long, "{\"a\": \"1, ")] {
            let mut scanner = TaggedScanner::new(style.clone(), None);
            let pairs = format!("<p=a>\n{value}");
            let (_, said) = scanner.push(&pairs);
            assert!(said.len() > value.len() && said.starts_with(begins));
        }
    }

    #[test]
    fn what_could_not_be_read_back_is_refused() {
        let [with_space, quoted, tokens] = styles();
        assert!(write("[1]", &tokens).is_err());
        for (key, value) in [
            (">", "x"),
            (" a", "x"),
            ("a", "x</p>"),
            ("a", "</p>\\n</p>"),
            ("a", "<p="),
            ("a", "x\\n \\t</f>x"),
            ("a", "\\n<f="),
        ] {
            let arguments = format!("{{\"{key}\": \"{value}\"}}");
            assert!(write(&arguments, &with_space).is_err(), "{arguments}");
        }
        assert!(write(r#"{"a\">": 1}"#, &quoted).is_err());
        assert!(write(r#"{"a": {"b": ["</p>"]}}"#, &quoted).is_err());
        assert!(write(r#"{"a": "</p>"}"#, &tokens).is_ok());
    }

    fn value_text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "\\PC{0,3}",
            "[0-9.\"{}\\[\\]: \\\\\n\t<>/p=]{0,4}",
            prop::sample::select(vec![
                "</p",
                "\n</",
                "<p=",
                "true",
                "True",
                "null",
                "{\"a\": 1}",
                " ",
                "<![CDATA[",
                "]]>",
                "]]",
                "&",
            ])
            .prop_map(str::to_owned),
        ];
        prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let tag = prop::sample::select(vec![
            "<p=",
            "<p name=\"",
            ">",
            "\">",
            "\" string=\"",
            "true",
            "false",
            "</p>",
            "\n",
            "a",
            "<",
            "<![CDATA[",
            "]]>",
            "]",
        ]);
        let item = prop_oneof![
            4 => tag.prop_map(|tag| Item::Text(tag.into())),
            2 => value_text().prop_map(Item::Text),
            2 => (1..6).prop_map(Item::Control),
        ];
        prop::collection::vec(item, 0..24)
    }

    fn kinds() -> impl Strategy<Value = Kinds> {
        prop::sample::select(vec![Kinds::STRING, Kinds::OTHER, Kinds::ANY])
    }

    /// Text that is JSON up to about the hold limit, followed by anything.
    fn long_text() -> impl Strategy<Value = String> {
        let begin =
            vec!["[", "{", "[[{\"k\": [", "{\"k\": {\"", "[\"", "[1", "5", "", "\"", "[{}, "];
        let long = vec!["a", " ", "1", "1,", "\"\",", "[", "\\n", "é", "\n"];
        (prop::sample::select(begin), prop::sample::select(long), 0usize..16).prop_flat_map(
            |(begin, long, more)| {
                let length = HOLD_LIMIT - 10 + more;
                let text = begin.to_owned() + &long.repeat(length / long.len());
                prop::collection::vec(late(), 0..6)
                    .prop_map(move |end| text.clone() + &end.concat())
            },
        )
    }

    fn late() -> impl Strategy<Value = String> {
        let parts = [
            "]", "}", "\"", ",", ":", "1", "-", ".", "e", "tr", "true", "nul", "\\", "\\u00", "[",
            "{", " ", "\n", "x", "é", "\"k\": ", "\u{1}", "[]", "{}",
        ];
        prop::sample::select(parts.to_vec()).prop_map(str::to_owned)
    }

    fn escaped(text: &str) -> String {
        let mut escaped = String::new();
        json::escape_into(text, &mut escaped);
        escaped
    }

    /// Whether the emitted part of a value is its beginning, with the rest as a string in it.
    fn is_mended(told: &str, value: &str) -> bool {
        let value = value.trim_start_matches(SPACES);
        let same = told.bytes().zip(value.bytes()).take_while(|(told, value)| told == value);
        let same = same.count();
        (same.saturating_sub(16)..=same).filter(|&at| value.is_char_boundary(at)).any(|at| {
            let rest = escaped(&value[at..]);
            ["", "\"", ": \"", "\"\": \"", ", \"", ", \"\": \""].into_iter().any(|before| {
                let end = told[at..].strip_prefix(before).and_then(|told| told.strip_prefix(&rest));
                let end = end.and_then(|end| end.strip_prefix('"'));
                end.is_some_and(|end| {
                    let brackets = end.strip_prefix(": null").unwrap_or(end);
                    brackets.bytes().all(|byte| matches!(byte, b']' | b'}'))
                })
            })
        })
    }

    proptest! {
        #[test]
        fn closed_arguments_are_json(
            value in long_text(),
            chars in prop_oneof![1usize..7, 4000usize..4200],
            kind in kinds(),
            is_closed in any::<bool>(),
        ) {
            let [_, style, _] = styles();
            let close = if is_closed { "</p></f>" } else { "" };
            let items = [Item::Text(format!("<p name=\"a\">{value}{close}"))];
            let Read { json: told, is_whole: complete, .. } =
                read(&items, chars, &style, schema(kind), Ended::Closed);
            prop_assert!(json::is_value(&told), "{told}");
            let told = told.strip_prefix("{\"a\": ").and_then(|told| told.strip_suffix('}'));
            let told = told.expect("it is the only one");
            let is_read =
                told == json::trim(&value) || told == format!("\"{}\"", escaped(&value));
            // A value that is held completely may also be read as quoted text or as Python.
            let is_held = kind != Kinds::STRING && value.len() <= HOLD_LIMIT;
            if is_read || !is_held {
                prop_assert!(is_read || is_mended(told, &value), "{told}");
                prop_assert_eq!(complete, is_read);
            }
            let cut = read(&items, chars, &style, schema(kind), Ended::Cut).json;
            let mut lexer = Lexer::default();
            lexer.push(cut.as_bytes());
            prop_assert!(lexer.is_valid(), "{cut}");
            // A value that would not read back unchanged is not written.
            let given = format!("{{\"a\": \"{}\"}}", escaped(&value));
            if let Ok(mut items) = written(&given, &style) {
                items.push(Item::Text("</f>".into()));
                let read = read(&items, chars, &style, None, Ended::Closed);
                prop_assert_eq!((read.json, read.is_whole), (canonical(&respace_only(&given), &style), true));
            }
        }

        #[test]
        fn what_is_written_reads_back(
            members in prop::collection::vec((value_text(), json_value(value_text().boxed())), 0..4),
            chars in 1usize..7,
            pretty in any::<bool>(),
        ) {
            let object: serde_json::Map<_, _> =
                members.into_iter().map(|(key, value)| (json::trim(&key).to_owned(), value)).collect();
            let others = value!({"type": ["number", "boolean", "null", "object", "array"]});
            let part = |value: &serde_json::Value| {
                if value.is_string() { value!({"type": "string"}) } else { others.clone() }
            };
            let parts: serde_json::Map<_, _> =
                object.iter().map(|(key, value)| (key.clone(), part(value))).collect();
            let schema_of_object = parameters(&value!({"properties": parts}));
            let object = serde_json::Value::Object(object);
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            for style in every_style() {
                let Ok(mut items) = written(&text, &style) else { continue };
                items.push(Item::Text("</f>".into()));
                let expected = [canonical(&respace_only(&text), &style), respace_only(&text)];
                for (parameters, expected) in [None, schema_of_object.clone()].into_iter().zip(expected) {
                    let read = read(&items, chars, &style, parameters, Ended::Cut);
                    prop_assert_eq!((read.json, &*read.rest, read.is_whole), (expected, "</f>", true));
                }
            }
            // Where a tag says what a value is, no schema is needed, and none changes it.
            let style = typed();
            if let Ok(items) = written(&text, &style) {
                prop_assert_eq!(canonical(&respace_only(&text), &style), respace_only(&text));
                for kinds in [Kinds::ANY, Kinds::STRING, Kinds::OTHER] {
                    let read = read(&items, chars, &style, schema(kinds), Ended::Closed);
                    prop_assert_eq!((read.json, read.is_whole), (respace_only(&text), true));
                }
            }
        }

        #[test]
        fn chunks_do_not_matter(items in items(), chars in 1usize..7, kinds in kinds()) {
            let has_brace = |item: &Item| matches!(item, Item::Text(text) if text.contains('{'));
            for style in every_style().chain([typed()]) {
                let whole = read(&items, usize::MAX, &style, schema(kinds), Ended::Cut);
                prop_assert_eq!(&read(&items, chars, &style, schema(kinds), Ended::Cut), &whole);
                prop_assert!(!whole.is_whole || json::is_value(&whole.json), "{}", whole.json);
                let closed = read(&items, chars, &style, schema(kinds), Ended::Closed);
                // An object in place of pairs is told as it comes.
                let is_given = closed.mended.contains(&Mended::Call) && items.iter().any(has_brace);
                let is_json = json::is_value(&closed.json);
                prop_assert!(is_json || is_given && !closed.is_whole, "{}", closed.json);
                prop_assert!(!whole.is_whole || closed.is_whole && closed.json == whole.json);
            }
        }
    }
}
