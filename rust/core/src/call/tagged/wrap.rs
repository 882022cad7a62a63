//! A wrap: texts around a string in tagged pairs, such as `<![CDATA[` and `]]>`.
//!
//! Written: a string that holds one of some texts has the wrap. Read: the wrap is taken off, and the inside is a
//! string, whatever it looks like; if the schema allows no string, it is read as a bare value. The text that opens
//! the wrap holds one of those texts, and no JSON begins with it, so each written value that begins with it has
//! the wrap. Memory: the beginning of a value that may open the wrap, and an end that may close it.

use super::SPACES;
use crate::call::Mended;
use crate::call::unquoted::BareValue;
use crate::limits::HOLD_LIMIT;
use crate::schema::Kinds;

/// Maximum amount of white space after the text that closes a wrap.
const MAX_SPACES: usize = 64;

/// Texts around a string that holds one of some texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrap {
    pub(super) open: String,
    pub(super) close: String,
    pub(super) when: Vec<String>,
}

impl Wrap {
    /// Whether a string is written with the wrap.
    pub(super) fn holds(&self, text: &str) -> bool {
        self.when.iter().any(|when| text.contains(when.as_str()))
    }

    /// The key of the first text around strings that passes a test.
    pub(super) fn name_of(&self, test: impl Fn(&str) -> bool) -> Option<&'static str> {
        let texts = [("open", &self.open), ("close", &self.close)];
        texts.into_iter().find_map(|(name, text)| test(text).then_some(name))
    }

    /// A string as it is written.
    pub(super) fn around(&self, text: &str) -> String {
        [&self.open, text, &self.close].concat()
    }

    /// Whether text is, or begins, what closes the wrap at the end of a value.
    fn may_close(&self, text: &str) -> bool {
        self.close.starts_with(text)
            || text.strip_prefix(self.close.as_str()).is_some_and(|rest| {
                rest.len() <= MAX_SPACES && rest.trim_start_matches(SPACES).is_empty()
            })
    }
}

#[derive(Debug, Clone)]
enum State {
    /// White space and a part of the text that opens the wrap.
    Begin(String),
    /// A value without a wrap.
    Bare(BareValue),
    /// Inside the wrap, with the text that may close it.
    Inside(BareValue, String),
}

/// Reads one value of a pair.
#[derive(Debug, Clone)]
pub(super) struct PairValue {
    state: State,
    kinds: Kinds,
    is_mended: bool,
}

impl PairValue {
    /// Begins a value.
    pub(super) fn new(kinds: Kinds, wrap: Option<&Wrap>, out: &mut String) -> Self {
        let state = match wrap {
            Some(_) => State::Begin(String::new()),
            None => State::Bare(BareValue::new(kinds, out)),
        };
        Self { state, kinds, is_mended: false }
    }

    /// A value that has begun, and has no wrap.
    pub(super) fn bare(value: BareValue, kinds: Kinds) -> Self {
        Self { state: State::Bare(value), kinds, is_mended: false }
    }

    /// Whether text is emitted as it is, as the inside of a JSON string.
    pub(super) fn is_same(&self, text: &str, wrap: Option<&Wrap>) -> bool {
        match (&self.state, wrap) {
            (State::Begin(_), _) | (State::Inside(..), None) => false,
            (State::Bare(value), _) => value.is_text(),
            (State::Inside(value, held), Some(wrap)) => {
                value.is_text() && held.is_empty() && !text.contains(&wrap.close[..first_of(wrap)])
            }
        }
    }

    /// Reads a part of the value.
    pub(super) fn push(&mut self, text: &str, wrap: Option<&Wrap>, out: &mut String) {
        match (&mut self.state, wrap) {
            (State::Bare(value), _) | (State::Inside(value, _), None) => value.push(text, out),
            (State::Begin(held), Some(wrap)) => {
                held.push_str(text);
                let begun = held.trim_start_matches(SPACES);
                if let Some(inside) = begun.strip_prefix(wrap.open.as_str()) {
                    self.is_mended = begun.len() < held.len();
                    let inside = inside.to_owned();
                    self.begin_inside(out);
                    self.push(&inside, Some(wrap), out);
                } else if !wrap.open.starts_with(begun) || held.len() > HOLD_LIMIT {
                    self.begin_bare(out);
                }
            }
            (State::Begin(_), None) => {}
            (State::Inside(value, held), Some(wrap)) => {
                held.push_str(text);
                let places = held.match_indices(&wrap.close[..first_of(wrap)]);
                let mut places = places.map(|(at, _)| at);
                let at = places.find(|&at| wrap.may_close(&held[at..])).unwrap_or(held.len());
                let rest = held.split_off(at);
                value.push(held, out);
                *held = rest;
            }
        }
    }

    /// Ends a whole value: whether it was understood, and what was mended.
    pub(super) fn end(mut self, wrap: Option<&Wrap>, out: &mut String) -> (bool, Option<Mended>) {
        if matches!(self.state, State::Begin(_)) {
            self.begin_bare(out);
        }
        let mut mended = self.is_mended.then_some(Mended::Wrap);
        let value = match self.state {
            State::Begin(_) => return (false, mended),
            State::Bare(value) => value,
            State::Inside(mut value, held) => {
                let spaces = wrap.and_then(|wrap| held.strip_prefix(wrap.close.as_str()));
                if spaces.is_none() {
                    value.push(&held, out);
                }
                if spaces != Some("") {
                    mended = Some(Mended::Wrap);
                }
                value
            }
        };
        let whole = value.end(out);
        (whole.is_understood, mended.or(whole.is_mended.then_some(Mended::Value)))
    }

    /// Ends a truncated value: emits the held part, unless it belongs to the wrap.
    pub(super) fn cut(mut self, wrap: Option<&Wrap>, out: &mut String) {
        if let State::Begin(held) = &self.state {
            if wrap.is_some_and(|wrap| wrap.holds(held.trim_start_matches(SPACES))) {
                return;
            }
            self.begin_bare(out);
        }
        match self.state {
            State::Begin(_) => {}
            State::Bare(value) => value.cut(out),
            State::Inside(mut value, held) => {
                if wrap.is_none_or(|wrap| !held.starts_with(&wrap.close)) {
                    value.push(&held, out);
                }
                value.cut(out);
            }
        }
    }

    fn begin_bare(&mut self, out: &mut String) {
        let State::Begin(held) = &mut self.state else { return };
        let held = std::mem::take(held);
        let mut value = BareValue::new(self.kinds, out);
        value.push(&held, out);
        self.state = State::Bare(value);
    }

    fn begin_inside(&mut self, out: &mut String) {
        let kinds = if self.kinds.meets(Kinds::STRING) { Kinds::STRING } else { self.kinds };
        self.state = State::Inside(BareValue::new(kinds, out), String::new());
    }
}

/// The length of the first character of what closes a wrap.
fn first_of(wrap: &Wrap) -> usize {
    wrap.close.chars().next().map_or(0, char::len_utf8)
}
