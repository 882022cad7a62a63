//! Short conversations, rendered by a template: text in which each control token is one character.

use std::cell::RefCell;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::codec::Codec;
use crate::conversation::{OnUnsupported, ReadOptions};
use crate::encode::{EncodeOptions, Encoding};
use crate::gaps::{self, Unit};
use crate::templated::Needs;
use chatcodec_vocab::TokenId;

/// Texts of letters alone, which no template changes.
pub(super) const SYSTEM: &str = "Sqwz";
pub(super) const QUESTION: &str = "Qwzk";
pub(super) const ANSWER: &str = "Awzk";
pub(super) const LATER: &str = "Lwzk";
pub(super) const SECOND: &str = "Bwzk";
pub(super) const THOUGHT: &str = "Twzk";
pub(super) const RESULTS: [&str; 2] = ["70351", "70352"];
pub(super) const NAME: &str = "fnqz";
pub(super) const KEYS: [&str; 2] = ["kaqz", "kbqz"];
pub(super) const VALUES: [[&str; 2]; 2] = [["Vaqz", "Vbqz"], ["Waqz", "Wbqz"]];

/// The first of the private characters that stand for control tokens.
const FIRST_MARK: u32 = 0xF_0000;

/// Between the marks of two tokens: one of them.
pub(super) const OR: char = '\u{F_FFFE}';

/// Whether a character stands for a control token.
pub(super) fn is_mark(character: char) -> bool {
    (FIRST_MARK..FIRST_MARK + 0xFFFD).contains(&u32::from(character))
}

/// How a template is given calls.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Given {
    /// With the tool that is called.
    pub(super) tools: bool,
    /// With arguments as JSON text.
    pub(super) as_text: bool,
    /// With ids that hold the name and the index of the call.
    pub(super) named_ids: bool,
}

pub(super) fn system(text: &str) -> Value {
    json!({"role": "system", "content": text})
}

pub(super) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(super) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// An answer with reasoning under one of the keys that templates know.
pub(super) fn thinking(text: &str, key: &str, thought: &str) -> Value {
    json!({"role": "assistant", "content": text, key: thought})
}

/// The id of a call.
pub(super) fn id(given: Given, index: usize) -> String {
    if given.named_ids {
        format!("functions.{NAME}:{index}")
    } else {
        format!("call0000{}", index + 1)
    }
}

/// The arguments of a call, with as many keys.
pub(super) fn arguments(index: usize, keys: usize) -> Value {
    let pairs = KEYS.iter().zip(VALUES[index]).take(keys);
    Value::Object(pairs.map(|(key, value)| ((*key).to_owned(), json!(value))).collect())
}

/// An answer with calls.
pub(super) fn calling(text: &str, count: usize, given: Given) -> Value {
    let call = |index| {
        let arguments = arguments(index, 2);
        let arguments = if given.as_text { json!(arguments.to_string()) } else { arguments };
        json!({"id": id(given, index), "type": "function", "function": {"name": NAME, "arguments": arguments}})
    };
    json!({"role": "assistant", "content": text, "tool_calls": (0..count).map(call).collect::<Vec<_>>()})
}

/// An answer with a call whose first value is this text.
pub(super) fn calling_with(value: &str, given: Given) -> Value {
    let mut arguments = arguments(0, 2);
    arguments[KEYS[0]] = value.into();
    let mut message = calling("", 1, given);
    let arguments = if given.as_text { json!(arguments.to_string()) } else { arguments };
    message["tool_calls"][0]["function"]["arguments"] = arguments;
    message
}

/// The result of a call.
pub(super) fn result(index: usize, given: Given) -> Value {
    result_of(RESULTS[index], index, given)
}

/// A text as the result of a call.
pub(super) fn result_of(text: &str, index: usize, given: Given) -> Value {
    json!({"role": "tool", "content": text, "name": NAME, "tool_call_id": id(given, index)})
}

fn tools() -> Value {
    let text = json!({"type": "string", "description": "A text."});
    json!([{"type": "function", "function": {"name": NAME, "description": "Looks.", "parameters": {
        "type": "object", "properties": {KEYS[0]: text, KEYS[1]: text}, "required": [KEYS[0]]}}}])
}

/// A word that stands for each id of a call.
pub(super) const ID: &str = "idqzwk";

/// Ids of calls as fields of a pattern.
pub(super) fn with_fields(text: &str, given: Given) -> String {
    let text = text.replace(ID, "{id}");
    let text = text.replace(&id(given, 0), "{id}").replace(&id(given, 1), "{id}");
    text.replace(NAME, "{name}")
}

/// A template's codec, and the control tokens that it was seen to write.
pub(super) struct Probes<'a> {
    pub(super) codec: &'a Codec,
    /// Whether drafts read answers alone.
    pub(super) answers_only: bool,
    control: RefCell<Vec<TokenId>>,
}

impl<'a> Probes<'a> {
    pub(super) fn new(codec: &'a Codec) -> Self {
        Self { codec, answers_only: false, control: RefCell::new(Vec::new()) }
    }

    /// Probes of drafts that read answers alone.
    pub(super) fn of_answers(codec: &'a Codec) -> Self {
        Self { answers_only: true, ..Self::new(codec) }
    }

    /// A control token that was not seen.
    pub(super) fn free_mark(&self) -> Option<char> {
        let ids = self.codec.vocab().control().values();
        let free = ids.copied().filter(|id| !self.control.borrow().contains(id)).min();
        free.map(|id| self.mark(id))
    }

    /// Encodes a conversation; none if the template refuses it.
    pub(super) fn encoded(
        &self,
        messages: &[Value],
        given: Given,
        prompted: bool,
    ) -> Option<Encoding> {
        let messages = Value::Array(messages.to_vec());
        let needs_tools = self.codec.writer().is_some_and(|writer| *writer.needs() == Needs::Tools);
        let tools = (given.tools || needs_tools).then(tools);
        let read =
            self.codec.read_conversation(&messages, tools.as_ref(), ReadOptions::default()).ok()?;
        let options = EncodeOptions {
            add_generation_prompt: Some(prompted),
            on_unsupported: OnUnsupported::Drop,
            ..EncodeOptions::default()
        };
        self.codec.encode_conversation(read, &options).ok()
    }

    /// The text of a conversation, with a mark for each control token.
    pub(super) fn text(&self, messages: &[Value], given: Given, prompted: bool) -> Option<String> {
        let units = self.units(messages, given, prompted)?;
        let mark =
            |unit| gaps::id_of(unit).map_or_else(|| char::from_u32(unit), |id| Some(self.mark(id)));
        units.into_iter().map(mark).collect()
    }

    /// The units of a conversation.
    pub(super) fn units(
        &self,
        messages: &[Value],
        given: Given,
        prompted: bool,
    ) -> Option<Vec<Unit>> {
        let encoding = self.encoded(messages, given, prompted)?;
        let (text, offsets, is_control) =
            (encoding.text(), encoding.offsets(), encoding.is_control());
        let (mut units, mut at) = (Vec::with_capacity(text.len()), 0);
        for ((id, &(start, end)), is_control) in
            encoding.ids().iter().zip(offsets.iter()).zip(is_control.iter())
        {
            if *is_control == 1 {
                units.extend(gaps::units_of(text.get(at..start)?));
                units.push(gaps::token(*id));
                at = end;
            }
        }
        units.extend(gaps::units_of(text.get(at..)?));
        Some(units)
    }

    /// The character of a control token.
    pub(super) fn mark(&self, id: TokenId) -> char {
        let mut control = self.control.borrow_mut();
        let at = control.iter().position(|known| *known == id).unwrap_or_else(|| {
            control.push(id);
            control.len() - 1
        });
        char::from_u32(FIRST_MARK + at as u32).unwrap_or_default()
    }

    /// The control token of a mark.
    pub(super) fn id(&self, mark: char) -> Option<TokenId> {
        let at = u32::from(mark).checked_sub(FIRST_MARK)?;
        self.control.borrow().get(at as usize).copied()
    }

    /// The ids of a text with marks, as a model writes them.
    pub(super) fn ids(&self, marked: &str) -> Vec<TokenId> {
        let vocab = self.codec.vocab();
        let mut ids = Vec::new();
        for piece in marked.split_inclusive(is_mark) {
            let text = piece.trim_end_matches(is_mark);
            ids.extend(vocab.encode(text));
            ids.extend(piece[text.len()..].chars().filter_map(|mark| self.id(mark)));
        }
        ids
    }

    /// A text with marks as a pattern of a format file.
    pub(super) fn pattern(marked: &str) -> String {
        let mut pattern = String::new();
        for character in marked.chars() {
            if is_mark(character) {
                let _ = write!(pattern, "{{C{}}}", u32::from(character) - FIRST_MARK);
            } else {
                pattern.push(character);
            }
        }
        pattern.replace(&format!("}}{OR}{{"), "|")
    }
}

/// The bytes of the longest common beginning.
pub(super) fn common_start(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b);
    same.map(|(character, _)| character.len_utf8()).sum()
}

/// The bytes of the longest common end.
pub(super) fn common_end(one: &str, other: &str) -> usize {
    let same = one.chars().rev().zip(other.chars().rev()).take_while(|(a, b)| a == b);
    same.map(|(character, _)| character.len_utf8()).sum()
}
