//! Spans to ids. Offsets, masks and sources of the ids are computed on request.
//!
//! Text between two control tokens is one run, encoded as one text. An encoding keeps the rendered
//! text, its spans, and the ids of each run and control token; everything else is derived from
//! these.

mod join;
mod labels;
mod note;
mod options;
mod placeholder;
mod slots;
mod text_markers;
mod trail;
mod unmarked_calls;

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::conversation::{Conversation, Dropped};
use crate::error::{Error, Result};
use crate::grammar::Grammar;
use crate::marker::Found;
use crate::message::Role;
use crate::render::{Follows, Rendered};
use crate::span::{Source, SourceField, Span, SpanKind};
use crate::template::Paths;
use chatcodec_vocab::Scratch;
use chatcodec_vocab::{DummyPrefix, TokenId, Vocab, with_room};

pub(crate) use join::Given;
pub use labels::LabelOptions;
pub use note::{Note, NoteKind};
pub use options::{EncodeOptions, OnDependent, TemplateOptions};
pub use placeholder::Placeholder;
pub(crate) use slots::slots_of;
pub(crate) use trail::{
    End, Reasoned, TemplateGiven, Trail, answered, has_reasoning, moves, reasoned, reasons,
};

/// The ids of a conversation.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "Hi")];
/// let encoding = codec.encode(messages, None, &EncodeOptions::default())?;
/// assert_eq!(encoding.ids()[..2], [1, 92543]); // <s>, <|im_start|>
/// assert_eq!(encoding.is_control()[..2], [1, 1]);
/// let at = encoding.offsets().iter().position(|&(start, end)| &encoding.text()[start..end] == "H");
/// let source = encoding.sources()[at.unwrap()];
/// assert_eq!(encoding.path(source), "messages[0].content");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Encoding {
    ids: Arc<Vec<TokenId>>,
    text: String,
    spans: Vec<Span>,
    generated: Vec<Range<usize>>,
    pieces: Vec<IdPiece>,
    /// The caller's texts of spans that normalisation changed.
    originals: HashMap<usize, String>,
    /// Paths of the values of a template.
    paths: Option<Arc<Paths>>,
    grammar: Arc<Grammar>,
    vocab: Vocab,
    /// Byte of `text` at which the generation prompt begins.
    prompt_at: Option<usize>,
    trail: Trail,
    notes: Vec<Note>,
    /// The parts of the caller's conversation that were left out.
    pub(crate) dropped: Vec<Dropped>,
}

/// Consecutive ids: one control token, once or several times, or one run of text.
#[derive(Debug, Clone)]
struct IdPiece {
    ids: Range<usize>,
    text: Range<usize>,
    kind: PieceKind,
}

#[derive(Debug, Clone)]
enum PieceKind {
    Control,
    /// Encoded text. If it is prefixed, the first id begins with a dummy prefix, which has no text.
    Run {
        prefixed: bool,
    },
    /// Text of given ids, with the length that each id covers. Encoding this text may give other
    /// ids.
    Given(Vec<Range<u32>>),
}

/// A spelling of a control token in a caller's text, which is text here and control elsewhere.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "Hi<|im_end|>")];
/// let encoding = codec.encode(messages, None, &EncodeOptions::default())?;
/// let found = &encoding.neutralized()[0];
/// assert_eq!((found.start, found.end, found.id), (2, 12, 92542));
/// assert_eq!(encoding.path(found.path), "messages[0].content");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Neutralized {
    /// Path of the text: `messages[1].content`.
    pub path: Source,
    /// First code point, in the caller's string.
    pub start: usize,
    /// One past the last code point.
    pub end: usize,
    /// The spelling.
    pub spelling: String,
    /// The control id with this spelling.
    pub id: TokenId,
}

/// A marker in a caller's text, in a format whose markers are text.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("alpaca")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "### Response:")];
/// let encoding = codec.encode(messages, None, &EncodeOptions::default())?;
/// assert_eq!(encoding.collisions()[0].marker.trim(), "### Response:");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collision {
    /// Path of the text: `messages[1].content`.
    pub path: Source,
    /// First code point, in the caller's string.
    pub start: usize,
    /// One past the last code point.
    pub end: usize,
    /// The marker; the caller's string may hold only a part of it.
    pub marker: String,
}

/// Policy for a caller's text that spells a marker, in formats whose markers are text.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, OnMarker, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("alpaca")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "### Response:")];
/// let options = EncodeOptions { on_marker: OnMarker::Error, ..EncodeOptions::default() };
/// assert!(codec.encode(messages, None, &options).is_err());
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnMarker {
    /// [`Encoding::collisions`] lists the text.
    #[default]
    Report,
    /// The message is refused.
    Error,
    /// The text gets other ids than the genuine marker.
    Break,
}

/// Encodes a rendered conversation on a limited number of threads, and checks that no text became
/// control.
pub(crate) fn encode(
    rendered: Rendered,
    grammar: &Arc<Grammar>,
    vocab: &Vocab,
    on_marker: OnMarker,
    threads: usize,
) -> Result<Encoding> {
    let Rendered { text, spans, generated, originals, follows, prompt_at, paths, keys: _ } =
        rendered;
    let path = |span: usize| path_of(paths.as_deref(), spans[span].source);
    let parts = (&*text, &*spans, &*generated);
    let breaks = breaks_for(on_marker, parts, grammar, vocab, &path)?;
    let mut ids = with_room(&text);
    let mut pieces = Vec::with_capacity(spans.len());
    vocab.with_scratch(|scratch| -> Result<()> {
        let mut run: Option<Range<usize>> = None;
        let mut first = follows != Follows::Text;
        let mut flush = |run: &mut Option<Range<usize>>, first: bool, ids: &mut Vec<TokenId>| {
            let Some(range) = run.take().filter(|range| !range.is_empty()) else { return Ok(None) };
            let from = ids.len();
            let prefixed = first
                && match vocab.dummy_prefix() {
                    DummyPrefix::EveryRun => true,
                    DummyPrefix::FirstRun => from == 0 && follows == Follows::Nothing,
                    DummyPrefix::Never => false,
                };
            let mut start = range.start;
            let first = breaks.partition_point(|at| *at <= range.start);
            let within = breaks[first..].iter().take_while(|at| **at < range.end);
            for &end in within.chain([&range.end]) {
                let is_prefixed = prefixed && start == range.start;
                encode_run(vocab, threads, &text[start..end], is_prefixed, scratch, ids)?;
                start = end;
            }
            // Unreachable by construction. If a control id ever appears here, the encoding is
            // refused.
            if let Some(id) = vocab.first_control(&ids[from..]) {
                return Err(Error::vocab("control", format!("text became control id {id}")));
            }
            let ids = from..ids.len();
            Ok(Some(IdPiece { ids, text: range, kind: PieceKind::Run { prefixed } }))
        };
        for span in &spans {
            match span.kind {
                SpanKind::Literal | SpanKind::Slot { .. } => match &mut run {
                    Some(run) => run.end = span.text.end,
                    None => run = Some(span.text.clone()),
                },
                SpanKind::Control(id) | SpanKind::Repeated(id, _) => {
                    if id.is_text() {
                        // Unreachable by construction, as above.
                        return Err(Error::vocab("control", format!("has no id {}", id.get())));
                    }
                    let count =
                        if let SpanKind::Repeated(_, count) = span.kind { count } else { 1 };
                    pieces.extend(flush(&mut run, first, &mut ids)?);
                    let at = ids.len();
                    ids.extend(std::iter::repeat_n(id.get(), count as usize));
                    let text = span.text.clone();
                    let ids = at..ids.len();
                    pieces.push(IdPiece { ids, text, kind: PieceKind::Control });
                    first = true;
                }
                SpanKind::Taken | SpanKind::Given => {}
                SpanKind::Cut => {
                    if let Some(piece) = flush(&mut run, first, &mut ids)? {
                        pieces.push(piece);
                        first = false;
                    }
                }
            }
        }
        pieces.extend(flush(&mut run, first, &mut ids)?);
        Ok(())
    })?;
    ids.shrink_to_fit();
    let ids = Arc::new(ids);
    let (grammar, vocab) = (grammar.clone(), vocab.clone());
    let trail = Trail::default();
    let encoding = Encoding {
        ids,
        text,
        spans,
        generated,
        pieces,
        originals,
        paths,
        grammar,
        vocab,
        prompt_at,
        trail,
        notes: Vec::new(),
        dropped: Vec::new(),
    };
    if !breaks.is_empty() {
        encoding.check_markers()?;
    }
    Ok(encoding)
}

/// Positions at which text is split, so that no marker in a caller's text has the ids of the genuine one.
///
/// # Errors
/// [`Error::Message`] for text that the policy refuses, or that a split does not help.
fn breaks_for(
    on_marker: OnMarker,
    (text, spans, generated): (&str, &[Span], &[Range<usize>]),
    grammar: &Grammar,
    vocab: &Vocab,
    path: &dyn Fn(usize) -> String,
) -> Result<Vec<usize>> {
    let breaks = match on_marker {
        OnMarker::Report => return Ok(Vec::new()),
        OnMarker::Error => {
            if let Some(found) = collisions(text, spans, grammar).next() {
                let marker = &found.marker.marker.text;
                let problem = format!("spells the marker {marker:?}, expected none");
                return Err(Error::message(path(found.span), problem));
            }
            Vec::new()
        }
        OnMarker::Break => marker_breaks(text, spans, grammar, path)?,
    };
    match read_otherwise((text, spans, generated), grammar, vocab) {
        Some((span, problem)) => Err(Error::message(path(span), problem)),
        None => Ok(breaks),
    }
}

/// The first slot that a reader would take for something else whatever ids it has, and why.
fn read_otherwise(
    (text, spans, generated): (&str, &[Span], &[Range<usize>]),
    grammar: &Grammar,
    vocab: &Vocab,
) -> Option<(usize, String)> {
    if let Some(span) = unmarked_calls::first(text, spans, generated, grammar, vocab) {
        let problem = "begins as a call does, and would be read as one whatever its ids are";
        return Some((span, problem.to_owned()));
    }
    let (span, marker) = text_markers::first(text, spans, generated, grammar, vocab)?;
    let problem =
        format!("spells the marker {marker:?}, and would be read as it whatever its ids are");
    Some((span, problem))
}

/// The path of a source in the caller's arguments; empty for text of the format or template.
fn path_of(paths: Option<&Paths>, source: Source) -> String {
    match (source.field, paths) {
        (SourceField::Path(path), Some(paths)) => paths.text(path),
        _ => source.to_string(),
    }
}

/// Appends the ids of a run of text, often with one lookup. If a first run begins with a space, the
/// reference puts no space before it, and decodes it without that space; this function adds the
/// space nevertheless.
#[inline]
fn encode_run(
    vocab: &Vocab,
    threads: usize,
    text: &str,
    prefixed: bool,
    scratch: &mut Scratch,
    ids: &mut Vec<TokenId>,
) -> Result<()> {
    if prefixed && vocab.shares_first_space(text) {
        return Ok(vocab.encode_run(threads, &format!(" {text}"), false, scratch, ids)?);
    }
    Ok(vocab.encode_run(threads, text, prefixed, scratch, ids)?)
}

/// A marker that overlaps a caller's text: the first overlapping span, and the marker's position in
/// the text.
struct Collided<'a> {
    marker: Found<'a>,
    span: usize,
}

/// All markers that overlap a caller's text, nested ones included.
fn collisions<'a>(
    text: &'a str,
    spans: &'a [Span],
    grammar: &'a Grammar,
) -> impl Iterator<Item = Collided<'a>> + 'a {
    let markers = grammar.markers.as_ref();
    let found = markers.into_iter().flat_map(move |markers| {
        runs(spans).flat_map(move |run| {
            markers
                .find(&text[run.clone()])
                .map(move |found| Found { start: run.start + found.start, marker: found.marker })
        })
    });
    found.filter_map(move |marker| {
        let first = spans.partition_point(|span| span.text.end <= marker.start);
        let overlaps = |span: &&Span| span.text.start < marker.end();
        let mut within = spans[first..].iter().take_while(overlaps).enumerate();
        let is_slot =
            |span: &Span| matches!(span.kind, SpanKind::Slot { .. }) && !span.text.is_empty();
        let (nth, _) = within.find(|(_, span)| is_slot(span))?;
        Some(Collided { marker, span: first + nth })
    })
}

/// The parts of the text between control tokens.
fn runs(spans: &[Span]) -> impl Iterator<Item = Range<usize>> + '_ {
    let is_control = |span: &Span| {
        matches!(span.kind, SpanKind::Control(_) | SpanKind::Repeated(..) | SpanKind::Given)
    };
    spans.split(is_control).filter_map(|spans| {
        let (first, last) = (spans.first()?, spans.last()?);
        Some(first.text.start..last.text.end)
    })
}

/// Positions at which text is split so that no marker in a caller's text has the ids of the genuine
/// marker.
fn marker_breaks(
    text: &str,
    spans: &[Span],
    grammar: &Grammar,
    path: &dyn Fn(usize) -> String,
) -> Result<Vec<usize>> {
    let mut breaks = Vec::new();
    for found in collisions(text, spans, grammar) {
        let before = breaks.len();
        for place in &found.marker.marker.breaks {
            let at = found.marker.start + place;
            let slot = spans.get(spans.partition_point(|span| span.text.end <= at));
            let slot = slot.filter(|span| span.text.start < at);
            if slot.is_some_and(|span| matches!(span.kind, SpanKind::Slot { .. })) {
                breaks.push(at);
            }
        }
        if breaks.len() == before {
            let marker = &found.marker.marker.text;
            let problem =
                format!("spells the marker {marker:?}, which this vocabulary cannot break");
            return Err(Error::message(path(found.span), problem));
        }
    }
    breaks.sort_unstable();
    breaks.dedup();
    Ok(breaks)
}

impl Encoding {
    /// Replaces the indices of the `count` messages from index `first` on with the caller's
    /// indices, and takes over the list of dropped parts.
    pub(crate) fn set_messages(&mut self, conversation: Conversation, count: i32, first: i32) {
        if conversation.origins.is_some() {
            for source in self.spans.iter_mut().map(|span| &mut span.source) {
                if let Ok(index) = usize::try_from(source.message - first) {
                    source.message = conversation.origin(index) as i32 + first;
                }
            }
        }
        self.trail.add_more(conversation.given as i32 - count);
        self.dropped = conversation.dropped;
    }

    /// The vocabulary of the ids.
    pub fn vocab(&self) -> &Vocab {
        &self.vocab
    }

    /// Roles of the messages, by index; fewer than the messages if the conversation began as ids.
    pub fn roles(&self) -> &[Role] {
        &self.trail.roles
    }

    /// Control tokens that a tokenizer finds in the rendered text if it looks for their spellings in
    /// the whole text, as servers that render to a string do: start and end in bytes of the text,
    /// and id. Leftmost-longest; linear in the text.
    pub fn spelled_control(&self) -> Vec<(usize, usize, TokenId)> {
        let found = self.vocab.find_control(&self.text);
        found.map(|spelled| (spelled.start, spelled.end, spelled.id)).collect()
    }

    /// The parts of the caller's conversation that were left out, in order.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// The ids.
    pub fn ids(&self) -> &[TokenId] {
        &self.ids
    }

    /// The ids, shared with all other holders.
    pub fn shared_ids(&self) -> Arc<Vec<TokenId>> {
        self.ids.clone()
    }

    /// The text that a chat template would produce, with control tokens as their spellings; for
    /// people to read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The path of a source in the caller's arguments, such as `messages[1].content`; empty for text
    /// of the format or template.
    pub fn path(&self, source: Source) -> String {
        path_of(self.paths.as_deref(), source)
    }

    /// Differences from the ids that [`crate::Codec::encode`] gives the conversation, where
    /// [`crate::Codec::extend`] kept other ids.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Byte range of each id in [`Encoding::text`], `start..end`. Empty for a dummy prefix.
    pub fn offsets(&self) -> Vec<(usize, usize)> {
        let mut offsets = Vec::with_capacity(self.ids.len());
        for piece in &self.pieces {
            self.piece_offsets(piece, |start, end| {
                offsets.push((start, end));
                true
            });
        }
        offsets
    }

    /// Calls `take` with the byte range of each id of a piece, until it returns false.
    fn piece_offsets(&self, piece: &IdPiece, mut take: impl FnMut(usize, usize) -> bool) {
        let begin = piece.text.start;
        match &piece.kind {
            PieceKind::Control => {
                let each = piece.text.len() / piece.ids.len().max(1);
                (0..piece.ids.len()).all(|n| take(begin + n * each, begin + (n + 1) * each));
            }
            PieceKind::Given(covered) => {
                covered.iter().all(|of| take(begin + of.start as usize, begin + of.end as usize));
            }
            PieceKind::Run { prefixed } => {
                let text = &self.text[piece.text.clone()];
                let ids = &self.ids[piece.ids.clone()];
                let surplus = if *prefixed { self.prefix_bytes(ids) } else { None };
                let mut at = 0;
                for (nth, &id) in ids.iter().enumerate() {
                    let covered = match (nth, surplus) {
                        (0, Some(rest)) => self.vocab.covered_by(rest, &text[at..]),
                        _ => self.vocab.covered(id, text, at),
                    };
                    if !take(begin + at, begin + at + covered) {
                        return;
                    }
                    at += covered;
                }
            }
        }
    }

    /// The bytes of the first token without the dummy prefix.
    fn prefix_bytes(&self, ids: &[TokenId]) -> Option<&[u8]> {
        self.vocab.token_bytes(*ids.first()?).ok()?.strip_prefix(b" ")
    }

    /// Code point range of each id in [`Encoding::text`], `start..end`. All ids of one character
    /// have the range of that character.
    pub fn char_offsets(&self) -> Vec<(usize, usize)> {
        let mut chars = Vec::with_capacity(self.text.len() + 1);
        let mut count = 0;
        for at in 0..self.text.len() {
            count += usize::from(self.text.is_char_boundary(at));
            // Number of code points up to and including the one that contains byte `at`.
            chars.push(count);
        }
        let start = |at: usize| chars.get(at).map_or(count, |&n| n - 1);
        let end = |at: usize| if at == 0 { 0 } else { chars[at - 1] };
        let points = |(s, e)| if s == e { (start(s), start(s)) } else { (start(s), end(e)) };
        self.offsets().into_iter().map(points).collect()
    }

    /// Source of each id. An id that holds both a caller's text and the format's text has the
    /// caller's source.
    pub fn sources(&self) -> Vec<Source> {
        let mut spans = &self.spans[..];
        let mut sources = Vec::with_capacity(self.ids.len());
        for (start, end) in self.offsets() {
            while let [span, rest @ ..] = spans
                && span.text.end <= start
                && !rest.is_empty()
            {
                spans = rest;
            }
            let within = spans.iter().take_while(|span| span.text.start < end.max(start + 1));
            let slot = within.clone().find(|span| {
                matches!(span.kind, SpanKind::Slot { .. }) && start < end && span.text.end > start
            });
            let span = slot.or_else(|| within.clone().find(|span| !span.text.is_empty()));
            sources.push(match span {
                Some(span) if slot.is_some() => span.source,
                Some(span) => span.source.of_own(),
                None => Source::NONE,
            });
        }
        sources
    }

    /// 1 for a control token, 0 for text, for each id.
    pub fn is_control(&self) -> Vec<u8> {
        let mut mask = vec![0; self.ids.len()];
        for piece in &self.pieces {
            if matches!(piece.kind, PieceKind::Control) {
                mask[piece.ids.clone()].fill(1);
            }
        }
        mask
    }

    /// 1 for an id that holds a caller's text, 0 for all others.
    pub fn is_content(&self) -> Vec<u8> {
        self.sources().into_iter().map(|source| u8::from(source.is_content())).collect()
    }

    /// Index of the message of each id; -1 for ids of no message: the beginning of the
    /// conversation, `tools`, the generation prompt.
    pub fn message_indices(&self) -> Vec<i32> {
        self.sources().into_iter().map(|source| source.message).collect()
    }

    /// 1 for an id that a model generates, 0 for all others. A model generates an assistant's turn
    /// from the first id that ends after the generation prompt, up to and including the id that
    /// stops the turn. If that id is the opener of the next turn, it still belongs to the next
    /// message.
    pub fn assistant_mask(&self) -> Vec<u8> {
        let mut mask = vec![0; self.ids.len()];
        for (ids, _) in self.generated_ids() {
            mask[ids].fill(1);
        }
        mask
    }

    /// Ranges of ids that a model generates, in order, each with the number of its turn. Offsets are
    /// computed only for pieces that a border of a turn crosses.
    fn generated_ids(&self) -> Vec<(Range<usize>, usize)> {
        let mut turns = self.generated.iter().enumerate().peekable();
        let mut found: Vec<(Range<usize>, usize)> = Vec::with_capacity(self.generated.len());
        let mut add = |ids: Range<usize>, turn: usize| match found.last_mut() {
            Some((last, known)) if *known == turn && last.end == ids.start => last.end = ids.end,
            _ => found.push((ids, turn)),
        };
        for piece in &self.pieces {
            let text = &piece.text;
            while turns.next_if(|(_, turn)| turn.end < text.start).is_some() {}
            let Some(&(nth, turn)) = turns.peek() else { break };
            if turn.start > text.end {
                continue;
            }
            if turn.start < text.start && turn.end > text.end {
                add(piece.ids.clone(), nth);
                continue;
            }
            let mut at = piece.ids.start;
            self.piece_offsets(piece, |start, end| {
                // A dummy prefix covers no bytes: it belongs to the text after it, or is the whole of
                // a turn.
                let is_all = |turn: &Range<usize>| *turn == (start..end);
                let is_over = |turn: &Range<usize>| turn.end < end || turn.end <= start;
                while turns.next_if(|(_, turn)| is_over(turn) && !is_all(turn)).is_some() {}
                let begins = |(_, turn): &&(usize, &Range<usize>)| {
                    turn.start < end || (start == end && turn.start == end)
                };
                let Some(&(nth, turn)) = turns.peek().filter(begins) else {
                    at += 1;
                    return true;
                };
                // All other ids of the piece belong to the turn, if it ends after the piece.
                let has_rest = turn.start < start && turn.end > text.end;
                let after = if has_rest { piece.ids.end } else { at + 1 };
                add(at..after, nth);
                at = after;
                !has_rest
            });
        }
        found
    }

    /// Spellings of control tokens in the caller's text: leftmost-longest, in every slot.
    pub fn neutralized(&self) -> Vec<Neutralized> {
        let mut found = Vec::new();
        for (at, span) in self.spans.iter().enumerate() {
            let SpanKind::Slot { escaped } = span.kind else { continue };
            let (text, escaped) = match self.originals.get(&at) {
                Some(original) => (original.as_str(), false),
                None => (&self.text[span.text.clone()], escaped),
            };
            let mut counted = (0, span.skipped as usize);
            for spelled in self.vocab.find_control(text) {
                if self.grammar.silent.iter().any(|silent| silent == spelled.spelling) {
                    continue;
                }
                let mut points = |to: usize| {
                    counted = (to, counted.1 + code_points(&text[counted.0..to], escaped));
                    counted.1
                };
                let (start, end) = (points(spelled.start), points(spelled.end));
                let (spelling, id) = (spelled.spelling.to_owned(), spelled.id);
                found.push(Neutralized { path: span.source, start, end, spelling, id });
            }
        }
        found
    }

    /// Markers that overlap the caller's text, in formats whose markers are text: leftmost-longest.
    /// In formats with unmarked calls, also the assistant's text or code that would be read as a
    /// call. In formats with markers that are text, also the assistant's text that spells one where it would be
    /// read as the marker.
    pub fn collisions(&self) -> Vec<Collision> {
        let mut collisions = self.markers();
        collisions.extend(self.bare_calls());
        collisions.extend(self.text_markers());
        collisions
    }

    fn markers(&self) -> Vec<Collision> {
        let mut found: Vec<Collided<'_>> =
            collisions(&self.text, &self.spans, &self.grammar).collect();
        found.sort_by_key(|found| (found.marker.start, std::cmp::Reverse(found.marker.end())));
        let mut collisions: Vec<Collision> = Vec::new();
        let mut end = 0;
        // Number of counted code points of each span: positions come in ascending order.
        let mut counted = (usize::MAX, 0, 0);
        for Collided { marker, span } in found {
            if marker.start < end {
                continue;
            }
            end = marker.end();
            let nth = span;
            let span = &self.spans[nth];
            let escaped = span.kind == SpanKind::Slot { escaped: true };
            let slot = &self.text[span.text.clone()];
            if counted.0 != nth {
                counted = (nth, 0, span.skipped as usize);
            }
            let mut points = |at: usize| {
                let at = at.clamp(span.text.start, span.text.end) - span.text.start;
                let more = code_points(&slot[counted.1..at], escaped);
                counted = (nth, at, counted.2 + more);
                counted.2
            };
            collisions.push(Collision {
                path: span.source,
                start: points(marker.start),
                end: points(end),
                marker: marker.marker.text.clone(),
            });
        }
        collisions
    }

    /// Checks that the genuine markers have the ids by which a reader recognises them.
    fn check_markers(&self) -> Result<()> {
        let Some(markers) = &self.grammar.markers else { return Ok(()) };
        let ends: hashbrown::HashSet<usize> =
            self.offsets().into_iter().map(|(_, end)| end).collect();
        let collided: hashbrown::HashSet<usize> =
            collisions(&self.text, &self.spans, &self.grammar).map(|c| c.marker.start).collect();
        for run in runs(&self.spans) {
            for found in markers.find(&self.text[run.clone()]) {
                let start = run.start + found.start;
                let is_broken = found.marker.breaks.iter().any(|at| ends.contains(&(start + at)));
                if is_broken && !collided.contains(&start) {
                    let marker = &found.marker.text;
                    let problem = format!(
                        "is `break`, and the format's own {marker:?} has other ids beside this text"
                    );
                    return Err(Error::message("on_marker", problem));
                }
            }
        }
        Ok(())
    }
}

/// The code points of the caller's string for a part of a slot.
fn code_points(text: &str, escaped: bool) -> usize {
    let mut chars = text.chars();
    let mut count = 0;
    while let Some(c) = chars.next() {
        count += 1;
        if escaped && c == '\\' && chars.next() == Some('u') {
            chars.by_ref().take(4).for_each(drop);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use chatcodec_vocab::Vocab;

    use crate::codec::Codec;
    use crate::encode::EncodeOptions;
    use crate::error::Error;
    use crate::format::Format;
    use crate::message::{Message, Role};

    /// The encoder makes no control id. If it ever does, the encoding is refused.
    #[test]
    fn a_control_id_in_text_is_refused() {
        let format = Format::built_in("internlm2").unwrap();
        let whole = Vocab::embedded();
        let encode = |vocab: &Vocab, text: &str| {
            let codec = Codec::new(&format, vocab).unwrap();
            codec.encode(vec![Message::new(Role::User, text)], None, &EncodeOptions::default())
        };
        let id = *whole.encode("Paris weather").last().unwrap();
        let broken = whole.with_leaking(id);
        assert_eq!(broken.encode("Paris weather"), whole.encode("Paris weather"));
        assert!(encode(&whole, "Paris weather").is_ok());
        assert!(encode(&broken, "Hi").is_ok());
        match encode(&broken, "Paris weather") {
            Err(Error::Vocab { problem, .. }) => {
                assert_eq!(problem, format!("text became control id {id}"));
            }
            other => panic!("{other:?}"),
        }
    }
}
