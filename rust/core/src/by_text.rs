//! What text may delimit, and no control token: parts of an answer, and turns of a template.
//!
//! In: a codec. Out: the names of such parts and boundaries. Cost: one short conversation is encoded.

use crate::codec::Codec;
use crate::encode::EncodeOptions;
use crate::format::BareCalls;
use crate::message::{Message, Role};

/// The boundaries between the turns of a short conversation.
const BOUNDARIES: [&str; 2] = ["question to answer", "answer to question"];

impl Codec {
    /// What of an assistant's message text may delimit, and no control token: `calls`, `reasoning`. An assistant's text
    /// that spells such a marker is in [`Encoding::collisions`](crate::Encoding::collisions), except what only
    /// [`BareCalls`] reads as a call.
    pub fn text_parts(&self) -> Vec<&'static str> {
        let grammar = self.grammar();
        let has_bare = self.format().bare_calls() != BareCalls::Text && !grammar.bare.is_empty();
        let parts = [
            ("calls", grammar.has_calls_of_text() || has_bare),
            ("reasoning", grammar.has_reasoning_of_text()),
        ];
        parts.into_iter().filter(|(_, is_text)| *is_text).map(|(part, _)| part).collect()
    }

    /// The boundaries between turns where no control token stands, which a caller's text can spell: `question to answer`,
    /// `answer to question`. None is known of a template that refuses a short conversation.
    pub fn text_boundaries(&self) -> Vec<&'static str> {
        let turns = [Role::User, Role::Assistant, Role::User];
        let messages = turns.into_iter().map(|role| Message::new(role, "Hello")).collect();
        let Ok(encoding) = self.encode(messages, None, &EncodeOptions::default()) else {
            return Vec::new();
        };
        let (sources, control) = (encoding.sources(), encoding.is_control());
        let of = |message| {
            sources.iter().map(move |source| source.is_content() && source.message == message)
        };
        let is_text = |first: i32| {
            let (before, after) = (of(first).rposition(|is| is), of(first + 1).position(|is| is));
            // A template may leave a message out, or write messages in another order.
            let between = before.zip(after).and_then(|(start, end)| control.get(start..end));
            between.is_some_and(|between| !between.contains(&1))
        };
        (0..).zip(BOUNDARIES).filter(|(first, _)| is_text(*first)).map(|(_, name)| name).collect()
    }
}
