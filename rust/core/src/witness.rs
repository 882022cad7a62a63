//! A conversation that a refused format file would read wrongly.
//!
//! In: a format file that the loader refuses because its text could be read in two ways, and a vocabulary. Out: the
//! smallest conversation found that reads as another one. For example, a file whose rows are
//! `user = "{START}{content}"` and `assistant = "{START}{content}"` writes a user's `x` as an assistant's.
//!
//! The search loads the file without the loader's proof, and tries at most [`TRIES`] conversations, always the same
//! ones: their texts are made of the file's own patterns. It ends earlier once it has written [`MAX_WRITTEN`] bytes, so a
//! file of any size takes seconds at most. That no conversation is found proves nothing.

use std::cell::Cell;

use serde_json::Value;

use crate::codec::Codec;
use crate::encode::{EncodeOptions, Encoding};
use crate::error::Result;
use crate::event::{EventKind, NoticeKind, TurnReason};
use crate::format::{DeclaredTools, Format};
use crate::message::{Call, CallBody, Message, Role};
use chatcodec_vocab::Vocab;

/// Conversations that are tried.
const TRIES: usize = 2_000;

/// Most messages of a conversation.
const MAX_MESSAGES: usize = 5;

/// Most texts that are taken from a file, and most bytes of each.
const MAX_TEXTS: usize = 256;
const MAX_TEXT: usize = 256;

/// Most bytes that the tried conversations have together.
const MAX_WRITTEN: usize = 32 << 20;

/// Steps of reading a conversation: without the loader's proof, reading may never end.
const FUEL: u32 = 10_000;

/// Smaller conversations that are tried once one is found.
const SMALLER: usize = 2_000;

/// Texts beside those of the file.
const TEXTS: [&str; 8] = ["x", "", "\n", " ", "\n\n", "x y", "{\"a\": 1}", "\u{a0}"];

/// A conversation that a format writes, and reads as another one.
#[derive(Debug, Clone, PartialEq)]
pub struct Witness {
    /// The messages.
    pub messages: Vec<Message>,
    /// The declared tools, if there are any.
    pub tools: Option<String>,
    /// The text that the format writes, with control tokens spelled out.
    pub text: String,
    /// The messages that should come back.
    pub expected: Vec<Message>,
    /// The messages that come back instead.
    pub read: Vec<Message>,
    /// What a stream reports of the text, beside the messages.
    pub notices: Vec<String>,
}

impl Witness {
    /// Looks for a conversation that a format file, or one of its variants, reads wrongly on a vocabulary. `None`: none
    /// was found.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error) for a file that is no format even without the loader's proof, and
    /// [`Error::Vocab`](crate::Error) for a vocabulary that lacks its tokens.
    pub fn of(
        file: &str,
        text: &str,
        variant: Option<&str>,
        vocab: &Vocab,
    ) -> Result<Option<Self>> {
        let format = Format::unproved(file, text, variant)?;
        let codec = Codec::new(&format, vocab)?;
        let search = Search { codec, texts: texts_of(text), left: Cell::new(MAX_WRITTEN) };
        let mut choices = Choices(0);
        for at in 0..TRIES {
            if search.left.get() == 0 {
                break;
            }
            // Small conversations first, and those without a prompt before those with one.
            let (half, nth) = (at / (TRIES / 2), at % (TRIES / 2));
            let most = 1 + nth * MAX_MESSAGES / (TRIES / 2);
            let talk = search.talk(most, half == 1, &mut choices);
            if let Some(witness) = search.witness(&talk) {
                return Ok(Some(search.smallest(talk, witness)));
            }
        }
        Ok(None)
    }
}

/// The texts of a file's patterns: the parts between braces, two neighbouring parts together, and lines.
fn texts_of(file: &str) -> Vec<String> {
    fn walk(value: &toml::Value, found: &mut Vec<String>) {
        match value {
            toml::Value::String(text) => {
                let parts = text.split(['{', '}']);
                let parts = parts.filter(|part| (1..=MAX_TEXT).contains(&part.len()));
                found.extend(parts.take(MAX_TEXTS - found.len()).map(str::to_owned));
            }
            toml::Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            toml::Value::Table(table) => table.iter().for_each(|(_, value)| walk(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for (key, value) in toml::from_str::<toml::Table>(file).unwrap_or_default() {
        if !matches!(&*key, "name" | "source" | "vocabulary" | "guarantee") {
            walk(&value, &mut found);
        }
    }
    let joined: Vec<String> = found.windows(2).map(<[String]>::concat).collect();
    let lines: Vec<String> =
        found.iter().flat_map(|text| text.split('\n').map(str::to_owned)).collect();
    found.extend(joined);
    found.extend(lines);
    found.sort();
    found.dedup();
    found
}

/// Choices that are always the same.
struct Choices(u64);

impl Choices {
    /// A number below another one, which is not zero.
    fn below(&mut self, count: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 33) as usize % count.max(1)
    }

    fn may(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A conversation to try.
#[derive(Debug, Clone)]
struct Talk {
    messages: Vec<Message>,
    tools: Option<String>,
    /// Whether the generation prompt is written.
    has_prompt: bool,
}

struct Search {
    codec: Codec,
    texts: Vec<String>,
    /// Number of bytes that may still be written.
    left: Cell<usize>,
}

impl Search {
    fn text(&self, choices: &mut Choices) -> String {
        let mut text = String::new();
        for _ in 0..=choices.below(3) {
            if choices.may(45) && !self.texts.is_empty() {
                text.push_str(&self.texts[choices.below(self.texts.len())]);
            } else {
                text.push_str(TEXTS[choices.below(TEXTS.len())]);
            }
        }
        text
    }

    fn message(&self, choices: &mut Choices) -> Message {
        let text = self.text(choices);
        match choices.below(10) {
            0..3 => {
                let name = choices.may(15).then(|| "ada".to_owned());
                Message { name, ..Message::new(Role::User, text) }
            }
            3..7 => {
                let reasoning = choices.may(35).then(|| self.text(choices));
                let calls: Vec<Call> = match choices.below(6) {
                    0 => vec![function(choices)],
                    1 => vec![function(choices), function(choices)],
                    2 if choices.may(50) => vec![code(self.text(choices))],
                    _ => Vec::new(),
                };
                let text = if !calls.is_empty() && choices.may(50) { String::new() } else { text };
                Message { reasoning, calls, ..Message::new(Role::Assistant, text) }
            }
            7 => Message::new(Role::System, text),
            _ => {
                let call_id = choices.may(60).then(|| "call_0".to_owned());
                let name = choices.may(40).then(|| "f".to_owned());
                Message { name, call_id, ..Message::new(Role::Tool, text) }
            }
        }
    }

    /// Encodes a conversation; `None` if the format refuses it, or if all bytes of the search are written.
    fn encode(
        &self,
        messages: &[Message],
        tools: Option<&DeclaredTools>,
        options: &EncodeOptions,
    ) -> Option<Encoding> {
        if self.left.get() == 0 {
            return None;
        }
        let encoding = self.codec.encode(messages.to_vec(), tools, options).ok()?;
        self.left.set(self.left.get().saturating_sub(encoding.text().len()));
        Some(encoding)
    }

    /// A conversation of at most `most` messages, each of which the format can write after the messages before it.
    fn talk(&self, most: usize, has_prompt: bool, choices: &mut Choices) -> Talk {
        let mut messages = Vec::new();
        if choices.may(35) {
            messages.push(Message::new(Role::System, self.text(choices)));
        }
        for _ in 0..most {
            messages.push(self.message(choices));
            let plain = EncodeOptions::default();
            let is_system_alone = messages.len() == 1 && messages[0].role == Role::System;
            if !is_system_alone && self.encode(&messages, None, &plain).is_none() {
                messages.pop();
            }
        }
        let tools = ["[]", "{\"a\": 1}", "x\n"][choices.below(3)];
        let tools = choices.may(25).then(|| tools.to_owned());
        Talk { messages, tools, has_prompt }
    }

    fn declared(&self, talk: &Talk) -> Option<DeclaredTools> {
        let text = talk.tools.as_ref()?;
        let read = self.codec.read_tools(&Value::from(text.as_str())).ok().flatten();
        Some(read.unwrap_or_else(|| text.clone().into()))
    }

    /// What shows that a conversation reads as another one, if it does.
    fn witness(&self, talk: &Talk) -> Option<Witness> {
        let tools = self.declared(talk);
        let options = EncodeOptions {
            add_generation_prompt: Some(talk.has_prompt),
            ..EncodeOptions::default()
        };
        let encoding = self.encode(&talk.messages, tools.as_ref(), &options)?;
        if !encoding.collisions().is_empty() {
            return None;
        }
        let expected = self.codec.canonical(talk.messages.clone(), tools.as_ref());
        let stream = self.codec.read_stream().with_fuel(FUEL);
        let read = self.codec.decode_ids(stream, encoding.ids());
        let mut events = Vec::new();
        let mut stream = self.codec.read_stream().with_fuel(FUEL);
        stream.push_all(encoding.ids(), &mut events);
        stream.finish(TurnReason::Stop, &mut events);
        let notices: Vec<String> = events.iter().filter_map(|event| odd(&event.kind)).collect();
        (read != expected || !notices.is_empty()).then(|| Witness {
            messages: talk.messages.clone(),
            tools: talk.tools.clone(),
            text: encoding.text().to_owned(),
            expected,
            read,
            notices,
        })
    }

    /// The same with fewer and shorter parts, as long as it reads as another conversation.
    fn smallest(&self, mut talk: Talk, mut witness: Witness) -> Witness {
        let mut left = SMALLER;
        'again: loop {
            for smaller in smaller(&talk) {
                let Some(less) = left.checked_sub(1) else { return witness };
                left = less;
                if let Some(found) = self.witness(&smaller) {
                    (talk, witness) = (smaller, found);
                    continue 'again;
                }
            }
            return witness;
        }
    }
}

fn function(choices: &mut Choices) -> Call {
    let arguments = ["{\"a\": 1}", "{}", "{\"a\": \"x\"}"][choices.below(3)];
    Call {
        id: None,
        body: CallBody::Function { name: "f".to_owned(), arguments: arguments.to_owned() },
    }
}

fn code(source: String) -> Call {
    Call { id: None, body: CallBody::Code { language: None, source } }
}

/// The text of a notice that a written conversation does not have.
fn odd(kind: &EventKind) -> Option<String> {
    match kind {
        EventKind::Notice { kind: NoticeKind::Trailing, text } if text.trim().is_empty() => None,
        EventKind::Notice { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Conversations with one part less, or a shorter one.
fn smaller(talk: &Talk) -> Vec<Talk> {
    let mut all = Vec::new();
    if talk.tools.is_some() {
        all.push(Talk { tools: None, ..talk.clone() });
    }
    if talk.has_prompt {
        all.push(Talk { has_prompt: false, ..talk.clone() });
    }
    for at in 0..talk.messages.len() {
        if talk.messages.len() > 1 {
            let mut fewer = talk.clone();
            fewer.messages.remove(at);
            all.push(fewer);
        }
        let mut change = |change: &dyn Fn(&mut Message)| {
            let mut changed = talk.clone();
            change(&mut changed.messages[at]);
            if changed.messages != talk.messages {
                all.push(changed);
            }
        };
        change(&|message| message.calls.clear());
        change(&|message| message.calls.truncate(1));
        change(&|message| message.reasoning = None);
        change(&|message| message.name = None);
        change(&|message| message.call_id = None);
        let content = &talk.messages[at].content;
        for text in shorter(content) {
            change(&|message| message.content.clone_from(&text));
        }
        for text in talk.messages[at].reasoning.iter().flat_map(|text| shorter(text)) {
            change(&|message| message.reasoning = Some(text.clone()));
        }
    }
    all
}

/// Shorter texts: none, `x`, each half, and the text without one character, where there are few.
fn shorter(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    if text.is_empty() {
        return all;
    }
    all.push(String::new());
    if text.len() > 1 {
        all.push("x".to_owned());
    }
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    if let Some(&half) = places.get(places.len() / 2).filter(|&&half| half > 0) {
        all.extend([text[..half].to_owned(), text[half..].to_owned()]);
    }
    if places.len() <= 24 {
        all.extend(places.iter().map(|&at| {
            let mut chars = text[at..].chars();
            chars.next();
            text[..at].to_owned() + chars.as_str()
        }));
    }
    all
}
