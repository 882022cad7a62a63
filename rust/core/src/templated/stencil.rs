//! Conversations of one shape, which the template writes once.
//!
//! A rendering in which the template looks at no text is a function of the conversation's shape: what it writes for one
//! conversation is a stencil for the next one, with the next one's texts in place of the first one's. In: a caller's
//! values. Out: what [`super::TemplateWriter::write`] gives, or nothing where the premises of the stencil do not hold of
//! a text. Cost: linear in the values.
//!
//! Of the shape are all values but free texts: contents and reasoning of messages. A stencil is made when a shape comes
//! for the second time.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::conversation::{Dropped, Values};
use crate::encode::{EncodeOptions, End};
use crate::message::Owned;
use crate::render::{Boundary, Follows, Rendered};
use crate::span::{Source, SourceField, Span, SpanKind};
use crate::template::{Clock, Paths, Premises, RenderedTemplate, is_free_key};
use chatcodec_vocab::Vocab;

/// Shapes that are kept, and the bytes of one and of all. When they are full, all are dropped.
const MAX_SHAPES: usize = 512;
const MAX_SHAPE_BYTES: usize = 1 << 16;
const MAX_BYTES: usize = 16 << 20;

/// The largest stencil that is kept, the largest text that one writes, and the formats of times that it may ask for.
/// What is larger, the template writes, within its own bounds.
const MAX_STENCIL_BYTES: usize = 1 << 20;
const MAX_TEXT: usize = 4 << 20;
pub(super) const MAX_TIMES: usize = 16;

/// Shapes that are remembered as seen once.
const SEEN: usize = 512;

/// The shape of a conversation as bytes, and its free texts in order.
pub(super) struct Shape<'a> {
    key: Vec<u8>,
    texts: Vec<&'a str>,
}

impl<'a> Shape<'a> {
    /// None for values that are too large, or that no template is given.
    pub(super) fn new(values: &'a Values, end: End, options: &'a EncodeOptions) -> Option<Self> {
        let mut shape = Self { key: Vec::with_capacity(512), texts: Vec::new() };
        let is_isolated = options.boundary == Boundary::Isolated;
        shape.key.extend([end as u8, u8::from(is_isolated)]);
        for (name, value) in &options.template.variables {
            shape.text(name)?;
            shape.value(value)?;
        }
        shape.key.push(b'|');
        if let Some(tools) = &values.tools {
            shape.value(tools)?;
        }
        let Owned::List(messages) = &values.messages else { return None };
        for message in messages {
            let Owned::Map(members) = message else { return None };
            shape.count(b'm', members.len());
            if shape.key.len() > MAX_SHAPE_BYTES {
                return None;
            }
            for (key, value) in members {
                let key = key.as_str()?;
                shape.text(key)?;
                match value {
                    Owned::Text(text) if is_free_key(key) => shape.free_text(text),
                    Owned::List(parts) if key == "content" => shape.parts(parts)?,
                    value => shape.value(value)?,
                }
            }
        }
        Some(shape)
    }

    fn count(&mut self, tag: u8, count: usize) {
        self.key.push(tag);
        self.key.extend((count as u32).to_le_bytes());
    }

    fn text(&mut self, text: &str) -> Option<()> {
        if self.key.len() + text.len() > MAX_SHAPE_BYTES {
            return None;
        }
        self.count(b's', text.len());
        self.key.extend(text.as_bytes());
        Some(())
    }

    fn free_text(&mut self, text: &'a str) {
        if text.is_empty() {
            self.key.push(b'e');
        } else {
            self.key.push(b't');
            self.texts.push(text);
        }
    }

    fn parts(&mut self, parts: &'a [Owned]) -> Option<()> {
        self.count(b'p', parts.len());
        for part in parts {
            let Owned::Map(members) = part else {
                self.value(part)?;
                continue;
            };
            self.count(b'm', members.len());
            for (key, value) in members {
                self.value(key)?;
                match value {
                    Owned::Text(text) if key.as_str() == Some("text") => self.free_text(text),
                    value => self.value(value)?,
                }
            }
        }
        Some(())
    }

    /// A value as it is.
    fn value(&mut self, value: &Owned) -> Option<()> {
        if self.key.len() > MAX_SHAPE_BYTES {
            return None;
        }
        match value {
            Owned::Null => self.key.push(b'0'),
            Owned::Bool(value) => self.key.push(if *value { b'+' } else { b'-' }),
            Owned::Number(number) => {
                self.key.push(b'n');
                self.text(number)?;
            }
            Owned::Text(text) => self.text(text)?,
            Owned::List(items) => {
                self.count(b'l', items.len());
                items.iter().try_for_each(|item| self.value(item))?;
            }
            Owned::Map(members) => {
                self.count(b'd', members.len());
                for (key, value) in members {
                    self.value(key)?;
                    self.value(value)?;
                }
            }
            Owned::Surrogate | Owned::Other(..) => return None,
        }
        Some(())
    }
}

/// The stencils of a template.
#[derive(Debug)]
pub(super) struct Stencils {
    known: RwLock<Known>,
    /// Hashes of shapes that came once.
    seen: Box<[AtomicU64]>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Default)]
struct Known {
    /// By shape; none where the template's text cannot serve as a stencil.
    stencils: HashMap<Vec<u8>, Option<Arc<Stencil>>>,
    bytes: usize,
}

/// What is known of a shape.
pub(super) enum Found {
    Stencil(Arc<Stencil>),
    /// It is new, or no stencil can be made.
    Nothing,
    /// It came before: a stencil is to be made.
    Again,
}

impl Default for Stencils {
    fn default() -> Self {
        Self {
            known: RwLock::default(),
            seen: (0..SEEN).map(|_| AtomicU64::new(0)).collect(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl Stencils {
    pub(super) fn find(&self, shape: &Shape<'_>, clock: &Clock) -> Found {
        let known = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.stencils.get(&shape.key).cloned()
        };
        match known {
            Some(Some(stencil)) if stencil.is_of_time(clock) => Found::Stencil(stencil),
            Some(Some(_)) => Found::Again,
            Some(None) => Found::Nothing,
            None => {
                let hash = self.hasher.hash_one(&shape.key);
                let seen = &self.seen[hash as usize % SEEN];
                if seen.swap(hash, Ordering::Relaxed) == hash {
                    Found::Again
                } else {
                    Found::Nothing
                }
            }
        }
    }

    /// Keeps what a template wrote for a shape. Where the premises do not hold of this conversation's texts, nothing is
    /// kept: they may hold of another one's.
    pub(super) fn learn(
        &self,
        shape: Shape<'_>,
        premises: Option<Premises>,
        written: &Written<'_>,
    ) {
        let stencil = match premises {
            Some(premises) if !shape.texts.iter().all(|text| premises.hold(text)) => return,
            Some(premises) => Stencil::new(premises, written, &shape),
            None => None,
        };
        let bytes = shape.key.len() + stencil.as_ref().map_or(0, Stencil::bytes);
        if bytes > MAX_STENCIL_BYTES {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.stencils.len() >= MAX_SHAPES || known.bytes + bytes > MAX_BYTES {
            *known = Known::default();
        }
        known.bytes += bytes;
        known.stencils.insert(shape.key, stencil.map(Arc::new));
    }
}

/// What a template writes for the conversations of a shape, without their free texts.
#[derive(Debug)]
pub(super) struct Stencil {
    premises: Premises,
    /// What `strftime_now` gave, by its format.
    times: Vec<(String, Option<String>)>,
    /// The text of the pieces that are the same in each conversation.
    fixed: String,
    pieces: Vec<Piece>,
    generated: Vec<Range<Position>>,
    prompt_at: Option<Position>,
    originals: HashMap<usize, String>,
    paths: Arc<Paths>,
    dropped: Vec<Dropped>,
}

/// A span of a conversation.
#[derive(Debug)]
struct Piece {
    kind: SpanKind,
    source: Source,
    skipped: u32,
    text: PieceText,
}

#[derive(Debug)]
enum PieceText {
    /// Bytes of the fixed text.
    Fixed(Range<usize>),
    /// The number of a free text.
    Free(usize),
}

/// A place in the text: so many bytes after the beginning of a piece.
#[derive(Debug, Clone, Copy)]
struct Position {
    piece: usize,
    bytes: usize,
}

/// What a template wrote for a conversation.
pub(super) struct Written<'a> {
    pub(super) rendered: &'a Rendered,
    /// The same before the vocabulary normalised it.
    pub(super) template: &'a RenderedTemplate,
    /// What `strftime_now` gave, by its format.
    pub(super) times: Vec<(String, Option<String>)>,
    pub(super) dropped: &'a [Dropped],
}

impl Stencil {
    /// None if the text has a free text changed or in part, or if a mask would begin or end within one.
    fn new(premises: Premises, written: &Written<'_>, shape: &Shape<'_>) -> Option<Self> {
        let Written { rendered, template, times, dropped } = written;
        let strings = template.paths();
        let paths: Vec<u32> = (0..strings.len() as u32)
            .filter(|&path| strings.is_free(path) && strings.string(path) != Some(""))
            .collect();
        let same = |(path, text): (&u32, &&str)| strings.string(*path) == Some(*text);
        let is_same = paths.len() == shape.texts.len() && paths.iter().zip(&shape.texts).all(same);
        // A length may be the text by chance: `1`.
        let is_changed = template.parts().iter().any(|part| {
            part.place.is_none() && part.path.is_some_and(|path| paths.binary_search(&path).is_ok())
        });
        let is_small = times.len() <= MAX_TIMES;
        if !is_same || is_changed || !is_small || rendered.text != template.text() {
            return None;
        }
        let contents: HashMap<i32, u32> = paths
            .iter()
            .filter(|&&path| strings.key_of_message(path) == Some("content"))
            .map(|&path| (strings.message(path), path))
            .collect();
        let free = |source: Source| {
            let path = match source.field {
                SourceField::Content => contents.get(&source.message).copied(),
                SourceField::Path(path) => Some(path),
                _ => None,
            };
            paths.binary_search(&path?).ok()
        };
        let mut fixed = String::new();
        let mut pieces = Vec::with_capacity(rendered.spans.len());
        for (nth, span) in rendered.spans.iter().enumerate() {
            let Span { kind, source, skipped, .. } = *span;
            let said = &rendered.text[span.text.clone()];
            let is_slot = matches!(kind, SpanKind::Slot { .. });
            let text = if let Some(at) = free(source).filter(|_| is_slot) {
                let is_whole = said == shape.texts[at] && skipped == 0;
                if !is_whole || rendered.originals.contains_key(&nth) {
                    return None;
                }
                PieceText::Free(at)
            } else {
                let start = fixed.len();
                fixed.push_str(said);
                PieceText::Fixed(start..fixed.len())
            };
            pieces.push(Piece { kind, source, skipped, text });
        }
        let position = |at: usize| {
            let piece = rendered.spans.partition_point(|span| span.text.end <= at);
            let bytes = at - rendered.spans.get(piece).map_or(at, |span| span.text.start);
            let is_free = pieces.get(piece).is_some_and(|it| matches!(it.text, PieceText::Free(_)));
            (bytes == 0 || !is_free).then_some(Position { piece, bytes })
        };
        let range = |range: &Range<usize>| Some(position(range.start)?..position(range.end)?);
        let generated = rendered.generated.iter().map(range).collect::<Option<_>>()?;
        let prompt_at = match rendered.prompt_at {
            Some(at) => Some(position(at)?),
            None => None,
        };
        Some(Self {
            premises: premises.prepared(),
            times: times.clone(),
            fixed,
            pieces,
            generated,
            prompt_at,
            originals: rendered.originals.clone(),
            paths: Arc::new(strings.clone().without_strings()),
            dropped: dropped.to_vec(),
        })
    }

    /// Whether `strftime_now` gives the same at a time.
    fn is_of_time(&self, clock: &Clock) -> bool {
        self.times.iter().all(|(format, text)| clock.format(format) == *text)
    }

    /// A bound of its size.
    fn bytes(&self) -> usize {
        let originals: usize = self.originals.values().map(String::len).sum();
        let parts =
            self.pieces.len() + self.paths.len() + self.generated.len() + self.dropped.len();
        self.fixed.len() + originals + parts * 2 * size_of::<Piece>()
    }

    /// What the template writes for a conversation of the shape, and what it passes over; none where the premises do
    /// not hold of a text.
    pub(super) fn write(
        &self,
        shape: &Shape<'_>,
        vocab: &Vocab,
    ) -> Option<(Rendered, Vec<Dropped>)> {
        if !shape.texts.iter().all(|text| self.premises.hold(text)) {
            return None;
        }
        let length = |piece: &Piece| match &piece.text {
            PieceText::Fixed(range) => range.len(),
            PieceText::Free(at) => shape.texts[*at].len(),
        };
        let bytes: usize = self.pieces.iter().map(length).sum();
        if bytes > MAX_TEXT {
            return None;
        }
        let mut text = String::with_capacity(bytes);
        let mut spans: Vec<Span> = Vec::with_capacity(self.pieces.len());
        for Piece { kind, source, skipped, text: piece } in &self.pieces {
            let start = text.len();
            text.push_str(match piece {
                PieceText::Fixed(range) => &self.fixed[range.clone()],
                PieceText::Free(at) => shape.texts[*at],
            });
            let (kind, source, skipped) = (*kind, *source, *skipped);
            spans.push(Span { kind, text: start..text.len(), source, skipped });
        }
        if !is_normal(&text, &spans, vocab) {
            return None;
        }
        let place = |at: Position| {
            spans.get(at.piece).map_or(text.len(), |span| span.text.start + at.bytes)
        };
        let generated = self.generated.iter();
        let generated = generated.map(|range| place(range.start)..place(range.end)).collect();
        let prompt_at = self.prompt_at.map(place);
        let (originals, paths) = (self.originals.clone(), Some(self.paths.clone()));
        let follows = Follows::Nothing;
        let rendered = Rendered {
            text,
            spans,
            generated,
            originals,
            follows,
            prompt_at,
            paths,
            keys: Vec::new(),
        };
        Some((rendered, self.dropped.clone()))
    }
}

/// Whether the vocabulary normalises each text between control tokens to itself.
fn is_normal(text: &str, spans: &[Span], vocab: &Vocab) -> bool {
    let is_text = |span: &Span| {
        matches!(span.kind, SpanKind::Literal | SpanKind::Slot { .. } | SpanKind::Cut)
    };
    spans.chunk_by(|one, next| is_text(one) && is_text(next)).all(|run| match run {
        [first, .., last] | [first @ last] if is_text(first) => {
            let run = &text[first.text.start..last.text.end];
            matches!(vocab.normalise(run), Cow::Borrowed(normal) if normal == run)
        }
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::super::TemplateWriter;
    use super::{Found, MAX_SHAPES, SEEN, Shape};
    use crate::conversation::Values;
    use crate::encode::{EncodeOptions, End};
    use crate::error::Result;
    use crate::message::Owned;
    use crate::template::{Clock, Template};
    use chatcodec_vocab::Vocab;

    const SOURCE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n\
        {% if m.content.startswith('<b>') %}{{ raise_exception('b') }}{% endif %}\
        {{ strftime_now('%d') }}{{ m.content.rstrip('!') }}<|im_end|>\n{% endfor %}";

    fn writer(source: &str) -> Result<TemplateWriter> {
        Ok(TemplateWriter::new(&Template::parse(source)?, &[]))
    }

    fn values(role: &str, content: &str) -> Values {
        let text = |text: &str| Owned::Text(text.to_owned());
        let message = vec![(text("role"), text(role)), (text("content"), text(content))];
        Values { messages: Owned::List(vec![Owned::Map(message)]), tools: None }
    }

    fn on(day: &str) -> EncodeOptions {
        EncodeOptions {
            add_generation_prompt: Some(false),
            date: Some(day.to_owned()),
            ..EncodeOptions::default()
        }
    }

    /// Whether a conversation is written by a stencil.
    fn is_known(writer: &TemplateWriter, content: &str, day: &str) -> bool {
        let (values, options) = (values("user", content), on(day));
        let (Some(shape), Some(clock)) =
            (Shape::new(&values, End::Closed, &options), Clock::parse_day(day))
        else {
            return false;
        };
        let found = writer.stencils.find(&shape, &clock);
        matches!(found, Found::Stencil(it) if it.write(&shape, &Vocab::embedded()).is_some())
    }

    #[test]
    fn a_stencil_is_made_the_second_time_and_holds_under_its_premises() -> Result<()> {
        let (writer, vocab) = (writer(SOURCE)?, Vocab::embedded());
        for content in ["Hello", "Hi", "Good day"] {
            writer.write(&values("user", content), &vocab, &on("2026-01-31"))?;
        }
        for (content, holds) in [
            ("Good evening", true),
            (" a! b", true),
            ("Hi!", false),
            ("a <b> c", false),
            (" \n", false),
            ("", false),
        ] {
            assert_eq!(is_known(&writer, content, "2026-01-31"), holds, "{content}");
        }
        assert!(!is_known(&writer, "Hello", "2026-02-01"), "the day is another one");
        let dear = writer.write(&values("user", "Dear"), &vocab, &on("2026-01-31"))?;
        assert_eq!(dear.rendered.text, "<|im_start|>user\n31Dear<|im_end|>\n");
        Ok(())
    }

    #[test]
    fn texts_that_look_teach_nothing_and_are_no_hindrance() -> Result<()> {
        let (writer, vocab) = (writer(SOURCE)?, Vocab::embedded());
        for content in ["Hi!", "Hi!", "Hi!", "Hello"] {
            assert!(!is_known(&writer, content, "2026-01-31"));
            writer.write(&values("user", content), &vocab, &on("2026-01-31"))?;
        }
        assert!(is_known(&writer, "Good day", "2026-01-31"));
        Ok(())
    }

    #[test]
    fn a_length_that_is_the_text_by_chance_is_no_text() -> Result<()> {
        let writer = writer("{% for m in messages %}{{ m.content | length }};{% endfor %}")?;
        for (content, written) in [("1", "1;"), ("1", "1;"), ("1", "1;"), ("Hello", "5;")] {
            let values = values("user", content);
            let made = writer.write(&values, &Vocab::embedded(), &on("2026-01-31"))?;
            assert_eq!(made.rendered.text, written);
        }
        Ok(())
    }

    #[test]
    fn a_text_of_more_than_a_stencil_writes_is_the_templates() -> Result<()> {
        let (writer, vocab) =
            (writer(&"{{ messages[0].content }},".repeat(1_000))?, Vocab::embedded());
        for content in ["Hello", "Hello", "Hello"] {
            writer.write(&values("user", content), &vocab, &on("2026-01-31"))?;
        }
        assert!(is_known(&writer, "Hello", "2026-01-31"));
        assert!(is_known(&writer, &"x".repeat(4_000), "2026-01-31"));
        assert!(!is_known(&writer, &"x".repeat(5_000), "2026-01-31"));
        Ok(())
    }

    #[test]
    fn shapes_are_bounded() -> Result<()> {
        let (writer, vocab) = (writer(SOURCE)?, Vocab::embedded());
        for nth in 0..3 * SEEN {
            for _ in 0..2 {
                writer.write(&values(&format!("role {nth}"), "Hi"), &vocab, &on("2026-01-31"))?;
            }
        }
        let known = writer.stencils.known.read().map_or(0, |known| known.stencils.len());
        assert!((1..=MAX_SHAPES).contains(&known), "{known}");
        Ok(())
    }
}
