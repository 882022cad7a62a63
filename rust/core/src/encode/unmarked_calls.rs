//! An assistant's text that would be read as a call, in formats whose calls begin with text.
//!
//! In: a rendered conversation. Out: the slots that begin like a call, found by the stream's own
//! reader. Cost: for each assistant's text, at most the bytes that a reader holds back.

use std::ops::Range;

use super::{Collision, Encoding};
use crate::call::{Opener, Verdict};
use crate::grammar::Grammar;
use crate::limits::HOLD_LIMIT;
use crate::span::{SourceField, Span, SpanKind};
use chatcodec_vocab::Vocab;

/// A slot that begins like a call, and the number of characters that a reader needs to recognise
/// it.
struct BareCall {
    span: usize,
    chars: usize,
}

/// The assistant's slots that would be read as calls.
fn bare_calls<'a>(
    text: &'a str,
    spans: &'a [Span],
    generated: &'a [Range<usize>],
    grammar: &'a Grammar,
    vocab: &'a Vocab,
) -> impl Iterator<Item = BareCall> + 'a {
    let openers = |field: SourceField| -> Vec<Opener> {
        let items = grammar.items.iter();
        let of_item = items.filter_map(|item| match field {
            SourceField::Content => {
                Some(Opener::new(item.before.as_ref()?, item.opening.as_ref()?))
            }
            SourceField::Code(_) => {
                let body = item.or_code.and(item.opening.as_ref());
                body.map(|body| Opener::new(&"".into(), body).after_token())
            }
            _ => None,
        });
        of_item.collect()
    };
    let content = openers(SourceField::Content);
    let code = openers(SourceField::Code(0));
    let has_calls = !(content.is_empty() && code.is_empty());
    let spans = spans.iter().enumerate().filter(move |_| has_calls);
    spans.filter_map(move |(nth, span)| {
        let openers = match (span.kind, span.source.field) {
            (SpanKind::Slot { .. }, SourceField::Content) => &content,
            (SpanKind::Slot { .. }, SourceField::Code(_)) => &code,
            _ => return None,
        };
        let turn = generated.partition_point(|turn| turn.end <= span.text.start);
        if generated.get(turn).is_none_or(|turn| turn.start > span.text.start) {
            return None;
        }
        // Normalisation may shorten a character, to one byte at least.
        let slot: String = text[span.text.clone()].chars().take(HOLD_LIMIT + 1).collect();
        let slot = vocab.canonical_text(&slot);
        let chars = openers.iter().find_map(|opener| chars_of(opener.clone(), &slot))?;
        Some(BareCall { span: nth, chars })
    })
}

/// Number of characters after which a reader recognises a text as a call.
fn chars_of(mut opener: Opener, text: &str) -> Option<usize> {
    for (nth, c) in text.chars().enumerate() {
        match opener.push(c.encode_utf8(&mut [0; 4])) {
            Verdict::Open => {}
            Verdict::No => return None,
            Verdict::Call => return Some(nth + 1),
        }
    }
    None
}

/// The first slot that would be read as a call.
pub(super) fn first(
    text: &str,
    spans: &[Span],
    generated: &[Range<usize>],
    grammar: &Grammar,
    vocab: &Vocab,
) -> Option<usize> {
    bare_calls(text, spans, generated, grammar, vocab).next().map(|call| call.span)
}

impl Encoding {
    /// The part of an assistant's text that would be read as a call.
    pub(super) fn bare_calls(&self) -> Vec<Collision> {
        let Self { text, spans, generated, grammar, vocab, .. } = self;
        let collision = |call: BareCall| {
            let span = &self.spans[call.span];
            let marker = self.text[span.text.clone()].chars().take(call.chars).collect();
            let start = span.skipped as usize;
            Collision { path: span.source, start, end: start + call.chars, marker }
        };
        bare_calls(text, spans, generated, grammar, vocab).map(collision).collect()
    }
}
