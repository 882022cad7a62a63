//! Markers of calls and reasoning as models write them: with other white space, left out, or twice.
//!
//! What a format writes for a message is changed at one place: white space is added beside a marker or within its
//! text, a run of white space is replaced or removed, a marker is left out, or it stands twice. A marker is a control
//! token, or a tag of text. The calls must come out as they were written, or the change is in a table below, by its
//! kind; the tables are exact, so a change that is read after all is taken out of them. No change raises, and the
//! events cover all of it. The tables are `sweep.toml`.

use crate::common::events::{check_ranges, check_stream, read, read_text};
use crate::common::table::{control, function};
use chatcodec::{
    Codec, EncodeOptions, Event, EventKind, Format, MarkerPolicy, Message, Role, Stream, TokenId,
    ToolTypes, TurnReason, Vocab, VocabFiles, VocabOptions,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::Range;

const NAME: &str = "get_weather";
const THOUGHT: &str = "Hm, so.";
const ANSWER: &str = "I look.";
const ARGUMENTS: &str = r#"{"city": "New York", "days": 3}"#;

/// What is no structure: the caller's texts.
const OWN: [&str; 7] = [NAME, THOUGHT, ANSWER, "New York", "city", "days", "3"];

/// White space as models write it.
const SPACES: [&str; 3] = [" ", "\n", "\n\n  "];

/// Parts of a message: its reasoning, its content, and the number of its calls. The first that a format writes counts.
const MESSAGES: [(bool, bool, usize); 8] = [
    (true, true, 2),
    (false, true, 2),
    (true, false, 2),
    (false, false, 2),
    (true, true, 1),
    (false, true, 1),
    (true, false, 1),
    (false, false, 1),
];

/// Part of a completion.
#[derive(Debug, Clone)]
enum Part {
    Control(TokenId, String),
    Text(String),
}

impl Part {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Control(_, text) => text,
        }
    }
}

fn spelled(parts: &[Part]) -> String {
    parts.iter().map(Part::text).collect()
}

/// A completion that a format writes.
struct Written {
    codec: Codec,
    prompt: Vec<TokenId>,
    parts: Vec<Part>,
}

impl Written {
    /// What the format writes for a message, if it has a place for all of it.
    fn new(codec: &Codec, (reasoning, content, calls): (bool, bool, usize)) -> Option<Self> {
        let user = Message::new(Role::User, "x");
        let message = Message {
            reasoning: reasoning.then(|| THOUGHT.to_owned()),
            calls: vec![function(NAME, ARGUMENTS); calls],
            ..Message::new(Role::Assistant, if content { ANSWER } else { "" })
        };
        let options = EncodeOptions::default();
        let encoding = codec.encode(vec![user.clone(), message], None, &options).ok()?;
        let prompts = [None, Some(true), Some(false)].into_iter().filter_map(|thinking| {
            let add_generation_prompt = Some(true);
            let options = EncodeOptions { add_generation_prompt, thinking, ..options.clone() };
            Some(codec.encode(vec![user.clone()], None, &options).ok()?.ids().to_vec())
        });
        let is_own = |prompt: &Vec<TokenId>| encoding.ids().starts_with(prompt);
        let prompt = prompts.filter(is_own).max_by_key(Vec::len)?;
        let (control, offsets) = (encoding.is_control(), encoding.offsets());
        let mut parts: Vec<Part> = Vec::new();
        for at in prompt.len()..encoding.ids().len() {
            let text = &encoding.text()[offsets[at].0..offsets[at].1];
            match parts.last_mut() {
                _ if control[at] == 1 => {
                    let id = encoding.ids()[at];
                    parts.push(Part::Control(id, codec.vocab().spelling(id).to_owned()));
                }
                Some(Part::Text(before)) => before.push_str(text),
                _ => parts.push(Part::Text(text.to_owned())),
            }
        }
        Some(Self { codec: codec.clone(), prompt, parts })
    }

    fn ids(&self, parts: &[Part]) -> Vec<TokenId> {
        let encode = |text: &str| self.codec.vocab().try_encode(text).expect("it has all bytes");
        let (mut ids, mut text) = (Vec::new(), String::new());
        for part in parts {
            match part {
                Part::Text(more) => text.push_str(more),
                Part::Control(id, _) => {
                    ids.extend(encode(&std::mem::take(&mut text)));
                    ids.push(*id);
                }
            }
        }
        ids.extend(encode(&text));
        ids
    }

    fn stream(&self) -> Stream {
        self.codec.stream(Some(&self.prompt)).typed(&tools())
    }

    /// The changes, each at one place.
    fn changes(&self) -> Vec<Change> {
        let mut changes = Changes { parts: &self.parts, all: Vec::new() };
        let mut ahead = String::new();
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                Part::Control(_, spelling) => changes.control(at, spelling, &ahead),
                Part::Text(text) => changes.text(at, text, &ahead),
            }
            ahead.push_str(part.text());
        }
        changes.all
    }
}

fn tools() -> ToolTypes {
    let properties = json!({"city": {"type": "string"}, "days": {"type": "integer"}});
    let parameters = json!({"type": "object", "properties": properties});
    ToolTypes::read(&json!([{"name": NAME, "parameters": parameters}])).expect("they are tools")
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    White,
    Missing,
    Doubled,
}

#[derive(Debug)]
struct Change {
    kind: Kind,
    marker: String,
    parts: Vec<Part>,
}

struct Changes<'a> {
    parts: &'a [Part],
    all: Vec<Change>,
}

/// Whether a text ends within a tag.
fn is_in_tag(text: &str) -> bool {
    text.rfind('<').is_some_and(|open| text.rfind('>').is_none_or(|close| close < open))
}

impl Changes<'_> {
    fn add(&mut self, kind: Kind, marker: &str, at: Range<usize>, with: Vec<Part>) {
        let mut parts = self.parts.to_vec();
        parts.splice(at, with);
        self.all.push(Change { kind, marker: marker.to_owned(), parts });
    }

    fn control(&mut self, at: usize, spelling: &str, ahead: &str) {
        let own = self.parts[at].clone();
        for white in SPACES.map(|white| Part::Text(white.to_owned())) {
            if !is_in_tag(ahead) {
                self.add(Kind::White, spelling, at..at, vec![white.clone()]);
            }
            if !is_in_tag(&format!("{ahead}{spelling}")) {
                self.add(Kind::White, spelling, at + 1..at + 1, vec![white]);
            }
        }
        self.add(Kind::Missing, spelling, at..at + 1, vec![]);
        self.add(Kind::Doubled, spelling, at..at, vec![own]);
    }

    fn text(&mut self, at: usize, text: &str, ahead: &str) {
        for span in structure(text) {
            let is_white = |c: char| c.is_ascii_whitespace();
            let marker = &text[span.clone()];
            let before = format!("{ahead}{}", &text[..span.start]);
            let beside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let is_joint =
                beside(before.chars().next_back()) && beside(text[span.end..].chars().next());
            let mut put = |kind, new: &str| {
                let mut changed = text.to_owned();
                changed.replace_range(span.clone(), new);
                self.add(kind, marker, at..at + 1, vec![Part::Text(changed)]);
            };
            if marker.contains(is_white) {
                if !is_in_tag(&before) {
                    let none = if is_joint { None } else { Some("") };
                    SPACES.into_iter().chain(none).for_each(|white| put(Kind::White, white));
                }
                continue;
            }
            if marker.contains(['"', '{', '}']) {
                // A part of JSON.
                continue;
            }
            put(Kind::Missing, "");
            put(Kind::Doubled, &format!("{marker}{marker}"));
            for white in SPACES {
                if !is_in_tag(&before) && !beside(before.chars().next_back()) {
                    put(Kind::White, &format!("{white}{marker}"));
                }
                let end = format!("{before}{marker}");
                if !is_in_tag(&end) && !beside(text[span.end..].chars().next()) {
                    put(Kind::White, &format!("{marker}{white}"));
                }
            }
        }
    }
}

/// Ranges of the white space and the words of the structure in a text: of all but the caller's strings.
fn structure(text: &str) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    let (mut at, mut is_begun) = (0, None);
    while let Some(c) = text[at..].chars().next() {
        if let Some(own) = OWN.iter().find(|own| text[at..].starts_with(**own)) {
            (at, is_begun) = (at + own.len(), None);
            continue;
        }
        let (end, is_white) = (at + c.len_utf8(), c.is_ascii_whitespace());
        match spans.last_mut() {
            Some(last) if is_begun == Some(is_white) => last.end = end,
            _ => spans.push(at..end),
        }
        (at, is_begun) = (end, Some(is_white));
    }
    spans
}

/// Calls as they come out: name, arguments, and whether they are complete.
type Calls = Vec<(Option<String>, Option<Value>, bool)>;

fn calls(events: &[Event]) -> Calls {
    fn trimmed(mut value: Value) -> Value {
        if let Value::Object(members) = &mut value {
            for member in members.values_mut() {
                if let Value::String(text) = member {
                    *text = text.trim().to_owned();
                }
            }
        }
        value
    }
    let mut calls: Vec<(Option<String>, String, bool)> = Vec::new();
    for event in events {
        match (&event.kind, calls.last_mut()) {
            (EventKind::ActionStart { name, .. }, _) => {
                calls.push((name.clone(), String::new(), false));
            }
            (EventKind::ActionDelta { text, .. }, Some(last)) => last.1.push_str(text),
            (EventKind::ActionEnd { complete, name, .. }, Some(last)) => {
                (last.0, last.2) = (name.clone(), *complete);
            }
            _ => {}
        }
    }
    // White space beside a marker may be a value's.
    let value = |text: &str| serde_json::from_str(text).ok().map(trimmed);
    calls.into_iter().map(|(name, text, is_whole)| (name, value(&text), is_whole)).collect()
}

/// The format with the embedded vocabulary and its control tokens.
fn codec(format: &Format) -> Codec {
    let bytes = include_bytes!("../../rust/vocab/src/vocab/embedded.model");
    let own = Vocab::load(bytes).expect("a vocabulary");
    let (size, known) = (i32::try_from(own.size()).expect("few ids"), own.control());
    let new = control(format.text()).into_iter().filter(|token| !known.contains_key(token));
    let options =
        VocabOptions { special_tokens: new.zip(size..).collect(), ..VocabOptions::default() };
    let files = VocabFiles { options, ..VocabFiles::one(bytes) };
    Codec::new(format, &Vocab::load_files(files).expect("a vocabulary")).expect("it binds")
}

type Found = BTreeSet<(String, String)>;

/// The pairs of a table that are of these formats.
fn of_table(tables: &toml::Table, name: &str, formats: &BTreeSet<&str>) -> Found {
    let texts = |kind: &toml::Value, key: &str| -> Vec<String> {
        let texts = kind[key].as_array().into_iter().flatten();
        texts.filter_map(toml::Value::as_str).map(str::to_owned).collect()
    };
    let kinds = tables.get(name).and_then(toml::Value::as_array).into_iter().flatten();
    let pairs = kinds.flat_map(|kind| {
        assert!(kind["why"].is_str(), "{kind:?} has no reason");
        let markers = texts(kind, "markers");
        let formats = texts(kind, "formats").into_iter();
        formats.flat_map(move |format| {
            markers.clone().into_iter().map(move |marker| (format.clone(), marker))
        })
    });
    pairs.filter(|(format, _)| formats.contains(&**format)).collect()
}

/// The name of a format without its variant.
fn family(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

#[test]
fn markers_with_other_white_space_missing_or_twice() {
    let only = std::env::var("CHATCODEC_FORMATS").unwrap_or_default();
    let asked: BTreeSet<&str> = Format::names()
        .filter(|name| only.is_empty() || only.split(',').any(|o| o == *name))
        .collect();
    let [mut white, mut missing, mut doubled, mut other] = [const { Found::new() }; 4];
    for name in &asked {
        let codec = codec(&Format::built_in(name).expect("it loads"));
        let written = |message| Some((Written::new(&codec, message)?, message.2));
        if let Some((written, count)) = MESSAGES.into_iter().find_map(written) {
            let own = written.ids(&written.parts);
            let base = calls(&read(written.stream(), &[&own], TurnReason::Stop));
            assert_eq!(base.len(), count, "{name}");
            assert!(base.iter().all(|call| call.2), "{name}");
            for (nth, change) in written.changes().into_iter().enumerate() {
                let ids = written.ids(&change.parts);
                let is_tried = nth % 32 == 0;
                let events = if is_tried {
                    let events = check_stream(&written.stream(), &ids, [ids.len() / 2]);
                    events.unwrap_or_else(|e| panic!("{name}: {:?}: {e}", spelled(&change.parts)))
                } else {
                    read(written.stream(), &[&ids], TurnReason::Stop)
                };
                check_ranges(&events, ids.len()).expect("the ranges cover all");
                let text = spelled(&change.parts);
                let stream = written.stream().reading(MarkerPolicy::Text);
                let by_text = read_text(stream, [&*text], TurnReason::Stop);
                for got in [calls(&events), calls(&by_text)] {
                    let pair = (family(name).to_owned(), change.marker.trim().to_owned());
                    let pair =
                        if pair.1.is_empty() { (pair.0, change.marker.clone()) } else { pair };
                    if got.iter().any(|call| call.2 && !base.contains(call)) {
                        other.insert(pair.clone());
                    }
                    if got != base {
                        let found = match change.kind {
                            Kind::White => &mut white,
                            Kind::Missing => &mut missing,
                            Kind::Doubled => &mut doubled,
                        };
                        found.insert(pair);
                    }
                }
            }
        }
    }
    let families = asked.iter().map(|name| family(name)).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/laws/sweep.toml");
    let tables = std::fs::read_to_string(path).expect("the tables");
    let tables: toml::Table = tables.parse().expect("TOML");
    let mut odd = Vec::new();
    for (name, found) in
        [("white", white), ("missing", missing), ("doubled", doubled), ("complete", other)]
    {
        let listed = of_table(&tables, name, &families);
        odd.extend(found.difference(&listed).map(|pair| format!("{name}: {pair:?} is not read")));
        let read = listed.difference(&found);
        odd.extend(read.map(|pair| format!("{name}: {pair:?} is read, take it out of the table")));
    }
    assert!(odd.is_empty(), "{}", odd.join("\n"));
}
