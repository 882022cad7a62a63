//! Arguments as tagged pairs of key and value, `<parameter=a>\n1\n</parameter>`, to and from the JSON
//! object that they are.
//!
//! Written: one JSON object becomes pairs, strings bare and the rest as JSON. Read, as they come: pairs
//! become the text of a JSON object, spaced as `json.dumps` spaces it. White space between tags is free;
//! beside a value, what the style has there is the tag's and the rest is the value's. Memory: a tag and a
//! key, and what [`BareValue`] holds of a value. Time is linear in the text.

use super::bare::BareValue;
use super::kinds::Kinds;
use super::pairs::respace;
use crate::json::{self, Lexer};
use crate::stream::HEAD_LIMIT;
use crate::vocab::{TokenId, Vocab};

/// Longer keys are refused: a reader holds a key until it has it all.
const MAX_KEY_BYTES: usize = 1024;

const SPACES: [char; 4] = [' ', '\t', '\n', '\r'];

/// A part of what stands around keys and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tag {
    Text(String),
    /// Any of these tokens; the first is written.
    Control(Vec<TokenId>),
}

/// What stands around a key and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaggedStyle {
    open: Stretch,
    between: Stretch,
    close: Stretch,
}

impl TaggedStyle {
    /// What stands before a key, between it and its value, and after the value.
    pub(crate) fn new(open: Vec<Tag>, between: Vec<Tag>, close: Vec<Tag>) -> Result<Self, String> {
        Ok(Self {
            open: Stretch::new(open)?,
            between: Stretch::new(between)?,
            close: Stretch::new(close)?,
        })
    }

    fn stretch(&self, place: Place) -> &Stretch {
        match place {
            Place::Open => &self.open,
            Place::Between => &self.between,
            Place::Close => &self.close,
        }
    }
}

/// Tags in a row. What is read is their text without the white space at its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    written: Vec<Tag>,
    read: Vec<Tag>,
    /// White space before the first tag, and so much of the tag as is text.
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
                read.push(Tag::Text(core.to_owned()));
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

    fn is_control(&self, tag: usize, id: TokenId) -> bool {
        matches!(self.read.get(tag), Some(Tag::Control(ids)) if ids.contains(&id))
    }

    /// The bytes that begin the first tag, or the white space before it.
    fn stops(&self) -> [u8; 2] {
        const NONE: u8 = 0xFF;
        [&self.first, self.core()].map(|text| text.as_bytes().first().copied().unwrap_or(NONE))
    }

    /// Where in `held` the first tag may have begun, with or without the white space before it.
    fn begins_in(&self, held: &str) -> usize {
        let begins = |&at: &usize| {
            self.first.starts_with(&held[at..]) || self.core().starts_with(&held[at..])
        };
        held.char_indices().map(|(at, _)| at).find(begins).unwrap_or(held.len())
    }

    fn write<'a>(&'a self, written: &mut Vec<Written<'a>>) {
        written.extend(self.written.iter().filter_map(|tag| match tag {
            Tag::Text(text) => Some(Written::Text(text)),
            Tag::Control(ids) => ids.first().map(|&id| Written::Control(id)),
        }));
    }

    /// Refuses text in which a reader would find the tag that comes after it.
    fn check_before(&self, text: &str) -> Result<(), String> {
        let core = self.core();
        let read = format!("{text}{}", self.first);
        if core.is_empty() || read.find(core) == Some(text.len() + self.spaces) {
            return Ok(());
        }
        Err(format!("that {core:?}, which comes after it, would end too early"))
    }
}

/// A piece of written pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written<'a> {
    /// The style's text.
    Text(&'a str),
    /// The style's token.
    Control(TokenId),
    /// A caller's key.
    Key(String),
    /// A caller's value.
    Value(String),
}

/// Arguments as they are written: spaced anew, with text as the vocabulary gives it back.
pub(crate) fn read_as(arguments: &str, vocab: &Vocab) -> String {
    vocab.canonical_text(&respace(json::trim(arguments))).into_owned()
}

/// The pairs that say what `arguments`, one JSON value, does.
pub(crate) fn write<'a>(
    arguments: &str,
    style: &'a TaggedStyle,
) -> Result<Vec<Written<'a>>, String> {
    let members =
        members(arguments).ok_or("is no JSON object, which tagged pairs are made from")?;
    let mut written = Vec::new();
    for Member { key, value } in members {
        if key.len() > MAX_KEY_BYTES {
            return Err(format!("has a key of over {MAX_KEY_BYTES} bytes"));
        }
        if json::trim(&key) != key {
            return Err(format!("has the key {key:?}, expected no white space at its ends"));
        }
        let is_string = matches!(value, Value::String(_));
        let value = value.bare();
        if is_string && !reads_back(&value) {
            let problem = "has a text that is JSON for more than is held and then goes on, \
                           which would be read as JSON";
            return Err(problem.to_owned());
        }
        style.between.check_before(&key).map_err(|why| format!("has a key {why}"))?;
        style.close.check_before(&value).map_err(|why| format!("has a value {why}"))?;
        style.open.write(&mut written);
        written.push(Written::Key(key));
        style.between.write(&mut written);
        written.push(Written::Value(value));
        style.close.write(&mut written);
    }
    Ok(written)
}

/// What comes back without a schema: a string that is JSON of another kind comes back as that.
pub(crate) fn canonical(arguments: &str) -> String {
    let Some(members) = members(arguments) else { return arguments.to_owned() };
    let mut out = String::from("{");
    for (i, Member { key, value }) in members.into_iter().enumerate() {
        write_key(&key, i > 0, &mut out);
        let mut reader = BareValue::new(Kinds::ANY, &mut out);
        reader.push(&value.bare(), &mut out);
        reader.end(&mut out);
    }
    out.push('}');
    out
}

/// Whether a text that is written bare is read as some value.
fn reads_back(text: &str) -> bool {
    let mut out = String::new();
    let mut reader = BareValue::new(Kinds::ANY, &mut out);
    reader.push(text, &mut out);
    reader.end(&mut out)
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

impl Value<'_> {
    fn bare(self) -> String {
        match self {
            Self::String(text) => text,
            Self::Other(value) => respace(value),
        }
    }
}

/// The members of a JSON object, in order.
fn members(object: &str) -> Option<Vec<Member<'_>>> {
    let mut members = Vec::new();
    let mut rest = json::trim(object).strip_prefix('{')?.trim_start_matches(SPACES);
    while rest != "}" {
        if !members.is_empty() {
            rest = rest.strip_prefix(',')?.trim_start_matches(SPACES);
        }
        let (key, after) = split_value(rest)?;
        let (value, after) = split_value(after.strip_prefix(':')?.trim_start_matches(SPACES))?;
        let value = unquote(value).map_or(Value::Other(value), Value::String);
        members.push(Member { key: unquote(key)?, value });
        rest = after;
    }
    Some(members)
}

/// A JSON value, and what comes after it and white space.
fn split_value(text: &str) -> Option<(&str, &str)> {
    let mut lexer = Lexer::default();
    let end = lexer.push(text.as_bytes()).filter(|_| lexer.is_valid())?;
    Some((&text[..end], text[end..].trim_start_matches(SPACES)))
}

fn unquote(value: &str) -> Option<String> {
    Some(json::unescape(value.strip_prefix('"')?.strip_suffix('"')?))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a stretch: which of its tags, and how much of that has come.
    Tags { place: Place, tag: usize, read: usize },
    /// In a key, which begins at this place of what is held.
    Key { start: usize },
    /// In a value: so much has come of the white space that is the tag's before it.
    Value { skipped: usize },
    /// Something came that begins no further pair.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Open,
    Between,
    Close,
}

const OPEN: State = State::Tags { place: Place::Open, tag: 0, read: 0 };

/// Reads tagged pairs up to what is none.
#[derive(Debug, Clone)]
pub(crate) struct TaggedScanner {
    state: State,
    /// The text of the tags and the key being read; in a value, what may be the tag after it.
    held: String,
    key: String,
    value: Option<BareValue>,
    has_pairs: bool,
    is_valid: bool,
}

/// What says which kinds of value a key may have.
pub(crate) type KindsOf<'a> = &'a dyn Fn(&str) -> Kinds;

impl TaggedScanner {
    pub(crate) fn new() -> Self {
        Self {
            state: OPEN,
            held: String::new(),
            key: String::new(),
            value: None,
            has_pairs: false,
            is_valid: true,
        }
    }

    /// Whether something came that begins no further pair.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Whether the pairs have ended and were understood.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_done() && self.is_valid
    }

    /// Whether text is within a string, and says in JSON what it says here.
    pub(crate) fn is_same(&self, text: &str, style: &TaggedStyle) -> bool {
        let stops = style.close.stops();
        let is_plain =
            |byte: u8| byte >= 0x20 && !matches!(byte, b'"' | b'\\') && !stops.contains(&byte);
        matches!(self.state, State::Value { skipped } if skipped == style.between.after.len())
            && self.held.is_empty()
            && self.value.as_ref().is_some_and(BareValue::is_text)
            && text.bytes().all(is_plain)
    }

    /// What was read, and is no pair or comes after the pairs.
    pub(crate) fn take_rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Reads text; how much of it was taken, told or held, and the JSON that it says.
    pub(crate) fn push(
        &mut self,
        text: &str,
        style: &TaggedStyle,
        kinds_of: KindsOf<'_>,
    ) -> (usize, String) {
        let mut out = String::with_capacity(text.len() + 2);
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let taken = match self.state {
                State::Done => break,
                State::Tags { place, tag, read } => {
                    if self.tag(c, style.stretch(place), tag, read) {
                        self.settle(style, kinds_of, &mut out);
                        c.len_utf8()
                    } else {
                        self.stop(style, &mut out);
                        0
                    }
                }
                State::Key { start } => {
                    self.held.push(c);
                    let core = style.between.core();
                    if !core.is_empty() && self.held[start..].ends_with(core) {
                        self.end_key(start, core.len());
                        self.settle(style, kinds_of, &mut out);
                    } else if self.held.len() > HEAD_LIMIT {
                        self.stop(style, &mut out);
                    }
                    c.len_utf8()
                }
                State::Value { skipped } => {
                    let taken = self.value(rest, skipped, style, &mut out);
                    self.settle(style, kinds_of, &mut out);
                    taken
                }
            };
            rest = &rest[taken..];
        }
        (text.len() - rest.len(), out)
    }

    /// Reads a control token; whether it is one of the pairs', and the JSON that it says.
    pub(crate) fn push_control(
        &mut self,
        id: TokenId,
        style: &TaggedStyle,
        kinds_of: KindsOf<'_>,
    ) -> (bool, String) {
        let mut out = String::new();
        match self.state {
            State::Tags { place, tag, read: 0 } if style.stretch(place).is_control(tag, id) => {
                self.state = State::Tags { place, tag: tag + 1, read: 0 };
            }
            State::Key { start } if style.between.is_control(0, id) => self.end_key(start, 0),
            State::Value { skipped } if style.close.is_control(0, id) => {
                self.end_skip(skipped, style, &mut out);
                self.end_value(style, &mut out);
            }
            State::Tags { .. } => {
                self.stop(style, &mut out);
                return (false, out);
            }
            _ => return (false, out),
        }
        self.settle(style, kinds_of, &mut out);
        (true, out)
    }

    /// Nothing more comes: what is held of a value. Of other things, [`Self::take_rest`] has it. Where a
    /// token has `closed` the call, it makes what was told JSON.
    pub(crate) fn finish(&mut self, style: &TaggedStyle, closed: bool) -> String {
        let mut out = String::new();
        if let State::Value { skipped } = self.state {
            self.end_skip(skipped, style, &mut out);
            if let Some(mut value) = self.value.take() {
                value.push(&std::mem::take(&mut self.held), &mut out);
                if closed {
                    value.end(&mut out);
                } else {
                    value.cut(&mut out);
                }
            }
        }
        if !self.is_done() {
            if closed {
                self.close(&mut out);
            }
            self.is_valid = false;
            self.state = State::Done;
        }
        out
    }

    /// Takes a character of a tag; `false` if it is none.
    fn tag(&mut self, c: char, stretch: &Stretch, tag: usize, read: usize) -> bool {
        let is_space = SPACES.contains(&c);
        let start = self.held.len() - read;
        self.held.push(c);
        let came = &self.held[start..];
        let next = read + c.len_utf8();
        let whole = match stretch.read.get(tag) {
            Some(Tag::Text(text)) if text.starts_with(came) => Some(next == text.len()),
            _ => None,
        };
        if let State::Tags { tag, read, .. } = &mut self.state {
            match whole {
                Some(true) => (*tag, *read) = (*tag + 1, 0),
                Some(false) => *read = next,
                None if is_space && *read == 0 && self.held.len() <= HEAD_LIMIT => {}
                None => {
                    self.held.pop();
                    return false;
                }
            }
        }
        true
    }

    /// Goes on with what comes after tags that have all come.
    fn settle(&mut self, style: &TaggedStyle, kinds_of: KindsOf<'_>, out: &mut String) {
        let State::Tags { place, tag, .. } = self.state else { return };
        if tag < style.stretch(place).read.len() {
            return;
        }
        match place {
            Place::Open => self.state = State::Key { start: self.held.len() },
            Place::Between => {
                self.held.clear();
                if !self.has_pairs {
                    out.push('{');
                }
                write_key(&self.key, self.has_pairs, out);
                self.has_pairs = true;
                let kinds = kinds_of(&self.key);
                self.value = Some(BareValue::new(kinds, out));
                self.state = State::Value { skipped: 0 };
            }
            Place::Close => {
                self.held.clear();
                self.state = OPEN;
            }
        }
    }

    fn end_key(&mut self, start: usize, tag: usize) {
        let key = &self.held[start..self.held.len() - tag];
        self.key = json::trim(key).to_owned();
        self.state = State::Tags { place: Place::Between, tag: 1, read: 0 };
    }

    /// Reads some of a value; how much.
    fn value(
        &mut self,
        text: &str,
        skipped: usize,
        style: &TaggedStyle,
        out: &mut String,
    ) -> usize {
        let (close, after) = (&style.close, &style.between.after);
        let Some(c) = text.chars().next() else { return 0 };
        if skipped < after.len() {
            if after[skipped..].starts_with(c) {
                self.state = State::Value { skipped: skipped + c.len_utf8() };
                return c.len_utf8();
            }
            self.end_skip(skipped, style, out);
            return 0;
        }
        if self.held.is_empty() {
            let stops = close.stops();
            let plain = text.bytes().position(|byte| stops.contains(&byte)).unwrap_or(text.len());
            if plain > 0 {
                self.tell(&text[..plain], out);
                return plain;
            }
        }
        self.held.push(c);
        let core = close.core();
        if !core.is_empty() && self.held.ends_with(core) {
            self.held.truncate(self.held.len() - core.len());
            self.end_value(style, out);
        } else {
            let rest = self.held.split_off(close.begins_in(&self.held));
            let told = std::mem::replace(&mut self.held, rest);
            self.tell(&told, out);
        }
        c.len_utf8()
    }

    /// The white space that begins a value is all there or none of the tag's.
    fn end_skip(&mut self, skipped: usize, style: &TaggedStyle, out: &mut String) {
        let after = &style.between.after;
        if skipped < after.len() {
            self.tell(&after[..skipped], out);
            self.state = State::Value { skipped: after.len() };
        }
    }

    fn tell(&mut self, text: &str, out: &mut String) {
        if let Some(value) = &mut self.value {
            value.push(text, out);
        }
    }

    /// The first tag after a value has come; what is held comes before it.
    fn end_value(&mut self, style: &TaggedStyle, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let before = &style.close.first[..style.close.spaces];
        self.tell(held.strip_suffix(before).unwrap_or(&held), out);
        if let Some(value) = self.value.take() {
            self.is_valid &= value.end(out);
        }
        self.state = State::Tags { place: Place::Close, tag: 1, read: 0 };
    }

    /// Something came that does not go on with a pair, which may have begun.
    fn stop(&mut self, style: &TaggedStyle, out: &mut String) {
        match self.state {
            State::Tags { place: Place::Open, tag, .. } => {
                // A token cannot be given back.
                let is_token = |tag: &Tag| matches!(tag, Tag::Control(_));
                self.is_valid &= !style.open.read[..tag].iter().any(is_token);
                if self.has_pairs && self.held.starts_with(&style.close.after) {
                    self.held.drain(..style.close.after.len());
                }
            }
            _ => self.is_valid = false,
        }
        self.close(out);
        self.state = State::Done;
    }

    fn close(&self, out: &mut String) {
        out.push_str(if self.has_pairs { "}" } else { "{}" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    /// Text with white space inside the tags; without; and tokens.
    fn styles() -> [TaggedStyle; 3] {
        [
            [vec![text("<p=")], vec![text(">\n")], vec![text("\n</p>\n")]],
            [vec![text("<p name=\"")], vec![text("\">")], vec![text("</p>\n")]],
            [
                vec![token(KEY)],
                vec![token(KEY_END), text("\n"), token(VALUE)],
                vec![token(VALUE_END), text("\n")],
            ],
        ]
        .map(|[open, between, close]| TaggedStyle::new(open, between, close).unwrap())
    }

    #[derive(Debug, Clone)]
    enum Item {
        Text(String),
        Control(TokenId),
    }

    /// What was told, what was not, and whether it is complete.
    fn read(
        items: &[Item],
        chars: usize,
        style: &TaggedStyle,
        kinds_of: KindsOf<'_>,
    ) -> (String, String, bool) {
        let (mut scanner, mut out, after) = scan(items, chars, style, kinds_of);
        let complete = scanner.is_complete();
        out.push_str(&scanner.finish(style, false));
        (out, scanner.take_rest() + &after, complete)
    }

    /// The same where a token closes the call: the arguments, and whether they are complete.
    fn read_closed(
        items: &[Item],
        chars: usize,
        style: &TaggedStyle,
        kinds_of: KindsOf<'_>,
    ) -> (String, bool) {
        let (mut scanner, mut out, _) = scan(items, chars, style, kinds_of);
        let complete = scanner.is_complete();
        out.push_str(&scanner.finish(style, true));
        (out, complete)
    }

    /// The scanner at the end, what was told, and what was not.
    fn scan(
        items: &[Item],
        chars: usize,
        style: &TaggedStyle,
        kinds_of: KindsOf<'_>,
    ) -> (TaggedScanner, String, String) {
        let mut scanner = TaggedScanner::new();
        let mut out = String::new();
        let mut after = String::new();
        for item in items {
            let text = match item {
                Item::Control(id) => {
                    let (accepted, said) = scanner.push_control(*id, style, kinds_of);
                    out.push_str(&said);
                    if !accepted {
                        after.push('#');
                    }
                    continue;
                }
                Item::Text(text) => text,
            };
            for chunk in text.chars().collect::<Vec<_>>().chunks(chars) {
                let chunk: String = chunk.iter().collect();
                let same = scanner.is_same(&chunk, style);
                let (taken, said) = scanner.push(&chunk, style, kinds_of);
                assert!(!same || (taken, said.as_str()) == (chunk.len(), chunk.as_str()));
                assert!(taken == chunk.len() || scanner.is_done());
                out.push_str(&said);
                if scanner.is_done() {
                    after.push_str(&scanner.take_rest());
                }
                after.push_str(&chunk[taken..]);
            }
        }
        (scanner, out, after)
    }

    fn unknown(_: &str) -> Kinds {
        Kinds::ANY
    }

    fn written(arguments: &str, style: &TaggedStyle) -> Result<Vec<Item>, String> {
        let pieces = write(arguments, style)?;
        Ok(pieces
            .into_iter()
            .map(|piece| match piece {
                Written::Text(text) => Item::Text(text.into()),
                Written::Control(id) => Item::Control(id),
                Written::Key(text) | Written::Value(text) => Item::Text(text),
            })
            .collect())
    }

    /// What text that ends the pairs makes of it, at every size of chunk.
    fn read_text(text: &str, style: &TaggedStyle, kind: Kinds) -> (String, String, bool) {
        let items = [Item::Text(text.into())];
        let whole = read(&items, usize::MAX, style, &|_| kind);
        for chars in 1..6 {
            assert_eq!(read(&items, chars, style, &|_| kind), whole, "{text}");
        }
        whole
    }

    #[test]
    fn pairs_are_read_as_json() {
        let [style, ..] = styles();
        for (pairs, json, rest) in [
            ("</f>", "{}", "</f>"),
            ("\n</f>", "{}", "\n</f>"),
            ("<p=a>\n1\n</p>\n</f>", r#"{"a": 1}"#, "</f>"),
            ("<p=a>1</p><p=b>x</p></f>", r#"{"a": 1, "b": "x"}"#, "</f>"),
            ("<p= a >\n\n1\n\n</p>\n\n</f>", r#"{"a": 1}"#, "\n</f>"),
            ("<p=a>\n\nx\n\n</p>\n;", r#"{"a": "\nx\n"}"#, ";"),
            ("<p=a></p><p=b>\n\n</p><p=c>\n\n\n</p>;", r#"{"a": "", "b": "", "c": "\n"}"#, ";"),
            (
                "<p=a>1 2</p><p=b> {} </p><p=c>{}[]</p>;",
                r#"{"a": "1 2", "b": {}, "c": "{}[]"}"#,
                ";",
            ),
            (
                "<p=a>\"x\"</p><p=b>tru</p><p=c>null</p>;",
                r#"{"a": "\"x\"", "b": "tru", "c": null}"#,
                ";",
            ),
            ("<p=a>x<</</p</p>;", r#"{"a": "x<</</p"}"#, ";"),
            ("<p=a>{\"x\": [1, \"}\"]}\n</p>;", r#"{"a": {"x": [1, "}"]}}"#, ";"),
            ("<p=a>1</p><p=a>2</p>;", r#"{"a": 1, "a": 2}"#, ";"),
        ] {
            let read = read_text(pairs, &style, Kinds::ANY);
            assert_eq!(read, (json.to_owned(), rest.to_owned(), true), "{pairs}");
        }
    }

    #[test]
    fn a_schema_decides() {
        let [style, ..] = styles();
        for (value, kind, json) in [
            ("1", Kinds::STRING, r#""1""#),
            (" 1 ", Kinds::OTHER, "1"),
            ("\"1\"", Kinds::OTHER, r#""\"1\"""#),
            ("one", Kinds::OTHER, r#""one""#),
            ("1 or 2", Kinds::OTHER, r#""1 or 2""#),
            (" ", Kinds::OTHER, r#"" ""#),
            ("True", Kinds::OTHER, "true"),
            (" True \n", Kinds::OTHER, "true"),
            ("True x", Kinds::OTHER, r#""True x""#),
            ("Truer", Kinds::OTHER, r#""Truer""#),
            ("True", Kinds::ANY, r#""True""#),
            (" {\"a\": 1}\t", Kinds::OTHER, r#"{"a": 1}"#),
            ("{1} 2", Kinds::OTHER, r#""{1} 2""#),
            ("{\"a\": 1", Kinds::OTHER, r#""{\"a\": 1""#),
        ] {
            let (read, _, complete) = read_text(&format!("<p=a>{value}</p>;"), &style, kind);
            assert_eq!((read, complete), (format!("{{\"a\": {json}}}"), true), "{value}");
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
        for (pairs, json) in [
            ("", "{}"),
            ("<p=a", "{}"),
            ("<p=a>", r#"{"a": ""}"#),
            ("<p=a>\n1", r#"{"a": 1}"#),
            ("<p=a>\n[1", r#"{"a": "[1"}"#),
            ("<p=a>\nx\n</p", r#"{"a": "x\n</p"}"#),
            ("<p=a>x</p><p=b", r#"{"a": "x"}"#),
        ] {
            let items = [Item::Text(pairs.into())];
            let read = read_closed(&items, 1, &style, &unknown);
            assert_eq!(read, (json.to_owned(), false), "{pairs}");
        }
    }

    /// An array that is told before its end and turns out to be none: the rest is a string in it.
    #[test]
    fn what_broke_late_is_mended() {
        let [_, style, _] = styles();
        let long = " ".repeat(HEAD_LIMIT);
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
                let (told, rest, complete) = read(&items, chars, &style, &unknown);
                assert_eq!(told, format!("{{\"a\": {mended}}}"), "{}", value.trim());
                let is_whole = json::is_value(json::trim(&value));
                assert_eq!((&*rest, complete), ("</f>", is_whole), "{told}");
            }
        }
    }

    #[test]
    fn long_values_are_not_held() {
        let [style, ..] = styles();
        let long = "1, ".repeat(HEAD_LIMIT);
        for (value, begins) in [(format!("[{long}"), "{\"a\": [1, "), (long, "{\"a\": \"1, ")] {
            let mut scanner = TaggedScanner::new();
            let (_, said) = scanner.push(&format!("<p=a>\n{value}"), &style, &unknown);
            assert!(said.len() > value.len() && said.starts_with(begins));
        }
    }

    #[test]
    fn what_could_not_be_read_back_is_refused() {
        let [with_space, quoted, tokens] = styles();
        assert!(write("[1]", &tokens).is_err());
        for (key, value) in [(">", "x"), (" a", "x"), ("a", "x</p>"), ("a", "</p>\\n</p>")] {
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
                " "
            ])
            .prop_map(str::to_owned),
        ];
        prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
    }

    fn json_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<f32>().prop_map(Into::into),
            value_text().prop_map(Into::into),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                prop::collection::vec((value_text(), inner), 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
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
        ]);
        let item = prop_oneof![
            4 => tag.prop_map(|tag| Item::Text(tag.into())),
            2 => value_text().prop_map(Item::Text),
            2 => (1..6).prop_map(Item::Control),
        ];
        prop::collection::vec(item, 0..24)
    }

    fn kinds_of_any(key: &str) -> Kinds {
        [Kinds::STRING, Kinds::OTHER, Kinds::ANY][key.len() % 3]
    }

    /// Text that is JSON for about as much as is held, and then anything.
    fn long_text() -> impl Strategy<Value = String> {
        let begin =
            vec!["[", "{", "[[{\"k\": [", "{\"k\": {\"", "[\"", "[1", "5", "", "\"", "[{}, "];
        let long = vec!["a", " ", "1", "1,", "\"\",", "[", "\\n", "é", "\n"];
        (prop::sample::select(begin), prop::sample::select(long), 0usize..16).prop_flat_map(
            |(begin, long, more)| {
                let length = HEAD_LIMIT - 10 + more;
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

    /// Whether what was told of a value is its beginning, and the rest as a string in that.
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
            kind in prop::sample::select(vec![Kinds::STRING, Kinds::OTHER, Kinds::ANY]),
            is_closed in any::<bool>(),
        ) {
            let [_, style, _] = styles();
            let close = if is_closed { "</p></f>" } else { "" };
            let items = [Item::Text(format!("<p name=\"a\">{value}{close}"))];
            let (told, complete) = read_closed(&items, chars, &style, &|_| kind);
            prop_assert!(json::is_value(&told), "{told}");
            let told = told.strip_prefix("{\"a\": ").and_then(|told| told.strip_suffix('}'));
            let told = told.expect("it is the only one");
            let is_read =
                told == json::trim(&value) || told == format!("\"{}\"", escaped(&value));
            prop_assert!(is_read || is_mended(told, &value), "{told}");
            prop_assert_eq!(complete, is_read && is_closed);
            let (cut, ..) = read(&items, chars, &style, &|_| kind);
            let mut lexer = Lexer::default();
            lexer.push(cut.as_bytes());
            prop_assert!(lexer.is_valid(), "{cut}");
            // What cannot be read back as it was given is not written.
            let given = format!("{{\"a\": \"{}\"}}", escaped(&value));
            if let Ok(mut items) = written(&given, &style) {
                items.push(Item::Text("</f>".into()));
                prop_assert_eq!(read_closed(&items, chars, &style, &unknown), (canonical(&given), true));
            }
        }

        #[test]
        fn what_is_written_reads_back(
            members in prop::collection::vec((value_text(), json_value()), 0..4),
            chars in 1usize..7,
            pretty in any::<bool>(),
        ) {
            let object: serde_json::Map<_, _> =
                members.into_iter().map(|(key, value)| (json::trim(&key).to_owned(), value)).collect();
            let kinds = object.clone();
            let kinds_of = |key: &str| match kinds.get(key) {
                Some(serde_json::Value::String(_)) => Kinds::STRING,
                _ => Kinds::OTHER,
            };
            let object = serde_json::Value::Object(object);
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            for style in styles() {
                let Ok(mut items) = written(&text, &style) else { continue };
                items.push(Item::Text("</f>".into()));
                let expected = |json: String| (json, "</f>".to_owned(), true);
                prop_assert_eq!(
                    read(&items, chars, &style, &unknown), expected(canonical(&text)));
                prop_assert_eq!(
                    read(&items, chars, &style, &kinds_of), expected(respace(&text)));
            }
        }

        #[test]
        fn chunks_do_not_matter(items in items(), chars in 1usize..7) {
            for style in styles() {
                let whole = read(&items, usize::MAX, &style, &kinds_of_any);
                prop_assert_eq!(&read(&items, chars, &style, &kinds_of_any), &whole);
                prop_assert!(!whole.2 || json::is_value(&whole.0), "{}", whole.0);
                let (closed, complete) = read_closed(&items, chars, &style, &kinds_of_any);
                prop_assert!(json::is_value(&closed) && complete == whole.2, "{closed}");
                prop_assert!(closed.starts_with(&whole.0) || !complete);
            }
        }
    }
}
