//! A call as a JSON object, read as it comes: `{"name": "f", "parameters": {…}}`.
//!
//! The name is emitted as soon as it is known. Arguments in JSON are passed on byte for byte; arguments in quotes
//! or in Python are passed on as the JSON that they mean. Keys come in any order and spacing. Text that does not
//! belong to a call is emitted, never dropped. Memory: one key, name or unknown member, up to [`HOLD_LIMIT`].

use super::{Member, ObjectSpec};
use crate::event::NoticeKind;
use crate::json::{self, Mender};
use crate::limits::HOLD_LIMIT;

/// The meaning of a part of the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No event yet.
    More,
    /// The name is known.
    Name(String),
    /// A part of the arguments, with the JSON that it means where that differs from the text.
    Arguments(Option<String>),
    /// An unknown or repeated member, or text that is not JSON, with the position where it begins.
    Notice(NoticeKind, String, u32),
    /// A further call begins here.
    Next,
    /// This text is not a call. Returned once; everything after it is [`NoticeKind::Malformed`].
    Broken,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Start,
    KeyOrEnd,
    Key,
    Colon,
    Value,
    Name,
    Id,
    /// The type of a call whose name stands in an object of its own.
    Type,
    Arguments,
    Other(NoticeKind),
    After,
    Done,
    Broken,
}

const SPACES: [char; 4] = [' ', '\t', '\n', '\r'];

/// Reads one call.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "what was seen of the call, each by itself")]
pub(crate) struct CallScanner {
    state: State,
    /// The key or value being read.
    value: Mender,
    /// The meaning of a key, name or id, so far.
    said: String,
    /// Whether the scanner mended anything: a spelling that is not JSON.
    is_mended: bool,
    /// The member being read, from its key on, until the scanner knows its purpose; and its
    /// position.
    raw: String,
    raw_first: u32,
    has_name: bool,
    /// The id that the model wrote for the call.
    id: Option<String>,
    /// Whether arguments have begun, and whether they were one whole value.
    arguments: Option<bool>,
    /// Number of pieces of unknown members that are objects or lists, as arguments may be.
    others: usize,
    /// Whether the call is inside a list although the format writes none.
    listed: bool,
    /// Whether the scanner is in the object that holds the name and the arguments.
    is_inner: bool,
}

impl CallScanner {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Start,
            value: Mender::plain(),
            said: String::new(),
            is_mended: false,
            raw: String::new(),
            raw_first: 0,
            has_name: false,
            id: None,
            arguments: None,
            others: 0,
            listed: false,
            is_inner: false,
        }
    }

    /// A scanner for the next call of a block that holds several.
    pub(crate) fn next(&self) -> Self {
        Self { listed: self.listed, ..Self::new() }
    }

    /// Whether the call is inside a list although the format writes none.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Whether arguments have begun.
    pub(crate) fn has_arguments(&self) -> bool {
        self.arguments.is_some()
    }

    /// Whether the arguments are one whole JSON value; for a call without arguments, whether it was
    /// closed, and no other member may be its arguments.
    pub(crate) fn is_complete(&self) -> bool {
        match self.arguments {
            Some(complete) if self.state != State::Arguments => complete,
            Some(_) => self.value.is_complete_at_end(),
            None => self.state == State::Done && self.others == 0,
        }
    }

    /// Whether the scanner mended anything: a spelling that is not JSON.
    pub(crate) fn is_mended(&self) -> bool {
        self.is_mended || self.state == State::Arguments && self.value.is_mended()
    }

    /// The held part of the arguments, when the call ends early.
    pub(crate) fn finish_arguments(&mut self) -> String {
        if self.state == State::Arguments { self.value.finish() } else { String::new() }
    }

    /// All held text, when the call ends early, and its position.
    pub(crate) fn finish(&mut self) -> Option<(String, u32)> {
        let held = std::mem::take(&mut self.raw);
        let is_own = self.listed && self.state == State::Done;
        (!held.is_empty() && !is_own).then_some((held, self.raw_first))
    }

    /// Whether the held text can only become a notice: it need not wait for its end.
    pub(crate) fn take_odd(&mut self) -> Option<(NoticeKind, String, u32)> {
        let kind = match self.state {
            State::Broken => NoticeKind::Malformed,
            State::Other(kind) => kind,
            _ => return None,
        };
        let held = std::mem::take(&mut self.raw);
        (!held.is_empty()).then_some((kind, held, self.raw_first))
    }

    /// Reads text, if all of it is surely part of the arguments.
    pub(crate) fn take_same(&mut self, text: &str) -> bool {
        self.state == State::Arguments && self.value.push_within(text)
    }

    /// Reads a comma of the arguments with the text beside it: see [`Mender::push_joined`].
    pub(crate) fn take_joined(&mut self, text: &str, out: &mut String) -> bool {
        self.state == State::Arguments && self.value.push_joined(text, out)
    }

    /// Reads one part of `text`. Returns how many bytes it has and its meaning. `first` is the
    /// position of its first character.
    pub(crate) fn step(&mut self, text: &str, first: u32, keys: &ObjectSpec) -> (usize, Step) {
        if self.raw.is_empty() {
            self.raw_first = first;
        }
        match self.state {
            State::Key => self.key(text),
            State::Value => self.value(text, keys),
            State::Name => self.name(text),
            State::Id | State::Type => self.id_value(text),
            State::Arguments => self.arguments(text),
            State::Other(kind) => self.other(text, kind),
            State::Broken => {
                self.raw.push_str(text);
                (text.len(), self.overflow(NoticeKind::Malformed))
            }
            State::Done if keys.several => self.after(text),
            State::Start if keys.several && !self.listed => {
                let bracket = text.trim_start_matches(SPACES).strip_prefix('[');
                self.listed = bracket.is_some();
                let rest = bracket.unwrap_or(text);
                let (taken, step) = self.structure(rest);
                (text.len() - rest.len() + taken, step)
            }
            _ => self.structure(text),
        }
    }

    /// After an object: white space, a comma and another object, or the end of their list.
    fn after(&mut self, text: &str) -> (usize, Step) {
        let spaces = text.bytes().take_while(|&byte| json::is_space(byte)).count();
        let is_first = self.raw.is_empty();
        if !is_first {
            self.raw.push_str(&text[..spaces]);
        }
        match text.as_bytes().get(spaces) {
            None if self.raw.len() <= HOLD_LIMIT => (spaces, Step::More),
            Some(b'{') if !self.raw.starts_with(']') => {
                self.raw.clear();
                (spaces, Step::Next)
            }
            Some(b']') if self.listed && self.raw.starts_with(',') => {
                self.raw.clear();
                self.raw.push(']');
                (spaces + 1, Step::More)
            }
            Some(&sign @ (b',' | b']')) if is_first && (sign == b',' || self.listed) => {
                self.raw.push(char::from(sign));
                (spaces + 1, Step::More)
            }
            _ => (spaces, self.broken()),
        }
    }

    /// White space and punctuation between keys and values.
    fn structure(&mut self, text: &str) -> (usize, Step) {
        let spaces = text.bytes().take_while(|&byte| json::is_space(byte)).count();
        let Some(&byte) = text.as_bytes().get(spaces) else {
            return (text.len(), self.keep(text));
        };
        let next = match (&self.state, byte) {
            (State::Start, b'{') | (State::After, b',') => State::KeyOrEnd,
            (State::KeyOrEnd, b'"' | b'\'') => State::Key,
            (State::KeyOrEnd | State::After, b'}') if self.is_inner => {
                self.is_inner = false;
                State::After
            }
            (State::KeyOrEnd | State::After, b'}') => State::Done,
            (State::Colon, b':') => State::Value,
            _ => {
                self.keep(&text[..spaces]);
                return (spaces, self.broken());
            }
        };
        match next {
            State::Key => {
                // The quote itself is left for the lexer.
                self.raw.clear();
                self.begin(Mender::plain());
                self.state = State::Key;
                return (spaces, Step::More);
            }
            State::Value => {
                self.state = next;
                return (spaces + 1, self.keep(&text[..=spaces]));
            }
            _ => {}
        }
        self.state = next;
        (spaces + 1, Step::More)
    }

    /// Between a key and its value, every character is part of the member.
    fn keep(&mut self, text: &str) -> Step {
        if matches!(self.state, State::Colon | State::Value) {
            self.raw.push_str(text);
        }
        if self.raw.len() > HOLD_LIMIT { self.broken() } else { Step::More }
    }

    fn key(&mut self, text: &str) -> (usize, Step) {
        let (taken, is_end) = self.word(text);
        if self.is_too_long(is_end) {
            return (taken, self.broken());
        }
        if is_end {
            self.state = State::Colon;
        }
        (taken, Step::More)
    }

    /// Begins a key or value.
    fn begin(&mut self, value: Mender) {
        self.value = value;
        self.said.clear();
    }

    /// Continues a key, name or id, which are held back. Returns how many bytes it took and whether
    /// the string has ended.
    fn word(&mut self, text: &str) -> (usize, bool) {
        let (taken, said, is_end) = self.value.push(text);
        self.said.push_str(&said);
        self.raw.push_str(&text[..taken]);
        if is_end {
            self.is_mended |= self.value.is_mended();
        }
        (taken, is_end)
    }

    /// The string that has been read.
    fn string(&mut self) -> String {
        let said = std::mem::take(&mut self.said);
        let end = said.len().saturating_sub(1);
        json::unescape(said.get(1..end).unwrap_or_default())
    }

    /// Whether a string exceeded the limit before its closing quote, however the input was split.
    fn is_too_long(&self, is_end: bool) -> bool {
        self.raw.len() - usize::from(is_end) > HOLD_LIMIT
    }

    fn value(&mut self, text: &str, keys: &ObjectSpec) -> (usize, Step) {
        let spaces = text.bytes().take_while(|&byte| json::is_space(byte)).count();
        if spaces > 0 {
            return (spaces, self.keep(&text[..spaces]));
        }
        let key = self.string();
        if keys.by_name && !self.has_name {
            // Its value comes next.
            self.has_name = true;
            self.raw.clear();
            return (0, Step::Name(key));
        }
        let is_string = text.starts_with(['"', '\'']);
        if let Some(within) = keys.within.as_deref().filter(|_| !self.is_inner) {
            if key == within && text.starts_with('{') {
                self.is_inner = true;
                self.raw.clear();
                self.state = State::KeyOrEnd;
                return (1, Step::More);
            }
            if key == "type" && is_string {
                self.value = Mender::plain();
                self.raw.clear();
                self.state = State::Type;
                return (0, Step::More);
            }
        }
        self.value = Mender::plain();
        let is_arguments = keys.by_name && self.arguments.is_none();
        let member = if is_arguments { Some(Member::Arguments) } else { keys.member(&key) };
        self.state = match member {
            Some(Member::Name) if !self.has_name => {
                if !is_string {
                    return (0, self.broken());
                }
                self.raw.clear();
                State::Name
            }
            Some(Member::Arguments) if self.arguments.is_none() => {
                self.raw.clear();
                self.value = Mender::default();
                self.arguments = Some(false);
                State::Arguments
            }
            Some(Member::Id) if self.id.is_none() && is_string => {
                self.raw.clear();
                State::Id
            }
            Some(Member::Name | Member::Arguments) => State::Other(NoticeKind::DuplicateKey),
            Some(Member::Id) if self.id.is_some() => State::Other(NoticeKind::DuplicateKey),
            _ => State::Other(NoticeKind::UnknownKey),
        };
        (0, Step::More)
    }

    /// The id that the model wrote for the call, once it is known.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Whether a string is open: its content ends nothing.
    pub(crate) fn is_in_string(&self) -> bool {
        matches!(
            self.state,
            State::Key | State::Name | State::Id | State::Type | State::Arguments | State::Other(_)
        ) && self.value.is_in_string()
    }

    /// Whether the object has begun and may go on.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Done | State::Broken)
    }

    /// Whether a part of the object has come, and not its end.
    pub(crate) fn is_within(&self) -> bool {
        self.is_open() && self.state != State::Start
    }

    /// Whether the object has been closed.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    fn id_value(&mut self, text: &str) -> (usize, Step) {
        let (taken, is_end) = self.word(text);
        if self.is_too_long(is_end) {
            let kind = NoticeKind::UnknownKey;
            self.state = if is_end { State::After } else { State::Other(kind) };
            return (taken, Step::Notice(kind, std::mem::take(&mut self.raw), self.raw_first));
        }
        if is_end {
            let is_id = self.state == State::Id;
            self.state = State::After;
            self.raw.clear();
            let said = self.string();
            self.id = if is_id { Some(said) } else { self.id.take() };
        }
        (taken, Step::More)
    }

    fn name(&mut self, text: &str) -> (usize, Step) {
        let (taken, is_end) = self.word(text);
        if self.is_too_long(is_end) {
            return (taken, self.broken());
        }
        if !is_end {
            return (taken, Step::More);
        }
        self.has_name = true;
        self.state = State::After;
        self.raw.clear();
        (taken, Step::Name(self.string()))
    }

    fn arguments(&mut self, text: &str) -> (usize, Step) {
        let (taken, said, is_end) = self.value.push(text);
        if is_end {
            self.arguments = Some(self.value.is_valid());
            self.is_mended |= self.value.is_mended();
            self.state = State::After;
        }
        if said.is_empty() {
            return (taken, Step::More);
        }
        let said = (said != text[..taken]).then(|| said.into_owned());
        (taken, Step::Arguments(said))
    }

    fn other(&mut self, text: &str, kind: NoticeKind) -> (usize, Step) {
        let (taken, _, is_end) = self.value.push(text);
        self.raw.push_str(&text[..taken]);
        self.others += usize::from(text[..taken].contains(['{', '[']));
        if is_end {
            self.state = State::After;
            return (taken, Step::Notice(kind, std::mem::take(&mut self.raw), self.raw_first));
        }
        (taken, self.overflow(kind))
    }

    /// Emits held text that does not belong to the call before it grows long.
    fn overflow(&mut self, kind: NoticeKind) -> Step {
        if self.raw.len() < HOLD_LIMIT {
            return Step::More;
        }
        Step::Notice(kind, std::mem::take(&mut self.raw), self.raw_first)
    }

    fn broken(&mut self) -> Step {
        self.state = State::Broken;
        Step::Broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> ObjectSpec {
        let key = |member, key: &str| (member, vec![key.to_owned()]);
        ObjectSpec {
            members: vec![
                key(Member::Name, "name"),
                key(Member::Arguments, "arguments"),
                key(Member::Id, "id"),
            ],
            several: false,
            by_name: false,
            within: None,
        }
    }

    /// The reported parts, with neighbours of one kind joined, and the final state.
    fn read(text: &str, chars: usize) -> (Vec<(String, String)>, bool, Option<String>) {
        let mut scanner = CallScanner::new();
        let mut told: Vec<(String, String)> = Vec::new();
        let mut tell = |kind: String, text: &str| match told.last_mut() {
            Some((last, before)) if *last == kind => before.push_str(text),
            _ => told.push((kind, text.to_owned())),
        };
        for chunk in text.chars().collect::<Vec<_>>().chunks(chars) {
            let chunk: String = chunk.iter().collect();
            let mut rest = chunk.as_str();
            while !rest.is_empty() {
                let taken = if scanner.take_same(rest) {
                    tell("arguments".into(), rest);
                    rest.len()
                } else {
                    let (taken, step) = scanner.step(rest, 0, &keys());
                    match step {
                        Step::More | Step::Broken => {}
                        Step::Next => return (told, scanner.is_complete(), None),
                        Step::Name(name) => tell("name".into(), &name),
                        Step::Arguments(said) => {
                            tell("arguments".into(), said.as_deref().unwrap_or(&rest[..taken]));
                        }
                        Step::Notice(kind, text, _) => tell(format!("{kind:?}"), &text),
                    }
                    taken
                };
                rest = &rest[taken..];
            }
        }
        let (complete, id) = (scanner.is_complete(), scanner.id().map(str::to_owned));
        if let Some((kind, text, _)) = scanner.take_odd() {
            tell(format!("{kind:?}"), &text);
        }
        if let Some((held, _)) = scanner.finish() {
            tell("held".into(), &held);
        }
        (told, complete, id)
    }

    #[test]
    fn long_words_are_refused_however_they_come() {
        for length in HOLD_LIMIT - 3..HOLD_LIMIT + 3 {
            let long = "x".repeat(length);
            for text in [
                format!("{{\"{long}\": 1, \"name\": \"f\"}}"),
                format!("{{\"name\": \"{long}\"}}"),
                format!("{{\"id\": \"{long}\", \"name\": \"f\"}}"),
            ] {
                let whole = read(&text, usize::MAX);
                for chars in [1, 7] {
                    assert!(read(&text, chars) == whole, "{} of {length}", &text[..10]);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn arguments_are_complete_that_are_json(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", "\"a\"", "\"", ":", ",", " ", "\n", "true", "tr", "ue", "null", "1", "-", ".5",
                    "\\u00", "e9", "\\", "n", "é",
                ]),
                0..8),
            chars in 1usize..5,
        ) {
            let arguments = parts.concat();
            let text = format!("{{\"name\": \"f\", \"arguments\": [{arguments}]}}");
            let (told, is_complete, _) = read(&text, chars);
            let told: String =
                told.iter().filter(|(kind, _)| kind == "arguments").map(|(_, text)| &**text).collect();
            let is_json = serde_json::from_str::<&serde_json::value::RawValue>(&told).is_ok();
            prop_assert_eq!(is_complete, is_json, "{}", told);
        }

        #[test]
        fn chunks_do_not_matter(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "\"name\"", "\"arguments\"", "\"id\"", "\"x\"", ":", ",", " ", "\n", "\"f\"",
                    "1", "true", "[", "]", "\"", "\\", "é", "{}",
                ]),
                0..18),
            chars in 1usize..5,
        ) {
            let text = format!("{{{}", parts.concat());
            prop_assert_eq!(read(&text, chars), read(&text, usize::MAX), "{}", text);
        }
    }
}
