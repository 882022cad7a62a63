//! Notes about an extended conversation: its differences from a new encoding.
//!
//! Cost: the answer and the new messages are encoded again; the prompt is read only if the format
//! leaves out reasoning of earlier turns.

use std::ops::Range;

use super::answer::has_reasoning_in;
use super::{ANSWER, Next, Rewritten};
use crate::encode::{self, Encoding, Note, NoteKind, OnMarker, Reasoned};
use crate::error::Error;
use crate::event::EventKind;
use crate::render::Rendered;
use crate::span::SourceField;
use chatcodec_vocab::Spelling;
use chatcodec_vocab::TokenId;
use chatcodec_vocab::excerpt;

/// Maximum length of a quoted text, in bytes.
pub(super) const SHOWN: usize = 120;

impl Next<'_> {
    /// The differences between this conversation and a new encoding of it.
    pub(super) fn notes(&self, joined: &Encoding, rewritten: Option<Rewritten>) -> Vec<Note> {
        let mut notes = Vec::new();
        match rewritten {
            Some(Rewritten::Moved(what)) => notes.push(self.moved_note(what)),
            Some(Rewritten::Earlier) => self.earlier_reasoning(&mut notes),
            Some(Rewritten::Answer) | None => {}
        }
        let base = self.prompt.ids().len();
        let note = |kind, text: String, tokens: Range<usize>| Note {
            kind,
            text,
            tokens: tokens.start + base..tokens.end + base,
            message: self.index,
        };
        match self.render(&self.turns, self.end, None) {
            Ok(fresh) => {
                notes.extend(self.begins_otherwise(&fresh));
                notes.extend(
                    self.difference(joined, fresh)
                        .map(|(kind, text, tokens)| note(kind, text, tokens)),
                );
            }
            Err(Error::Message { path, problem, .. }) if path == "completion" => {
                let text = format!("`encode` refuses this message: it {problem}");
                notes.push(note(NoteKind::Unencodable, text, 0..self.completion.len()));
            }
            Err(_) => {}
        }
        if self.answer.is_read_otherwise {
            let text = "`decode` reads another message here than `parse`".to_owned();
            notes.push(note(NoteKind::Reads, text, 0..self.completion.len()));
        }
        if self.answer.opens_another {
            let text = "`decode` reads another turn after this message".to_owned();
            notes.push(note(NoteKind::Reads, text, 0..self.completion.len()));
        }
        let tail = &joined.ids()[(base + self.completion.len()).min(joined.ids().len())..];
        for event in self.answer.events_with(tail) {
            let Some((kind, text)) = irregularity(&event.kind) else { continue };
            notes.push(note(kind, text, self.answer.place(&event)));
        }
        notes
    }

    fn moved_note(&self, what: &str) -> Note {
        let sources = self.prompt.sources();
        let is_moved = |at: &usize| {
            let source = sources[*at];
            source.field == SourceField::Tools
                || source.message == 0
                    && source.field == SourceField::Content
                    && what != "the tools"
        };
        let first = (0..sources.len()).find(is_moved).unwrap_or(0);
        let last = (0..sources.len()).rfind(is_moved).map_or(first, |last| last + 1);
        let message = sources.get(first).map_or(-1, |source| source.message);
        let name = self.format().name();
        let text = format!("format `{name}` writes {what} in the last user's turn");
        Note { kind: NoteKind::Moved, text, tokens: first..last, message }
    }

    /// Reasoning in the prompt's turns without a note.
    fn earlier_reasoning(&self, notes: &mut Vec<Note>) {
        let known: Vec<i32> = self
            .prompt
            .notes()
            .iter()
            .filter_map(|note| (note.kind == NoteKind::Reasoning).then_some(note.message))
            .collect();
        let name = self.format().name();
        for (at, source) in self.prompt.sources().into_iter().enumerate() {
            if source.field != SourceField::Reasoning || known.contains(&source.message) {
                continue;
            }
            match notes.last_mut().filter(|last| last.message == source.message) {
                Some(last) => last.tokens.end = at + 1,
                None => notes.push(Note {
                    kind: NoteKind::Reasoning,
                    text: format!("format `{name}` leaves out the reasoning of this turn"),
                    tokens: at..at + 1,
                    message: source.message,
                }),
            }
        }
        let is_told = !known.is_empty() || !notes.is_empty();
        if !is_told && self.prompt.is_given() && self.prompt.trail().reasoned != Reasoned::No {
            let text = format!("format `{name}` leaves out the reasoning of earlier turns");
            let tokens = 0..self.prompt.ids().len();
            notes.push(Note { kind: NoteKind::Reasoning, text, tokens, message: -1 });
        }
    }

    /// Whether the prompt begins the answer's turn with another text than the format's.
    fn begins_otherwise(&self, fresh: &Rendered) -> Option<Note> {
        let asked = self.prompt.asks()?;
        let is_answer = |span: &&crate::span::Span| span.source.message == ANSWER;
        let turn = fresh.spans.iter().find(is_answer)?.text.start;
        if fresh.text.get(turn..)?.starts_with(asked) {
            return None;
        }
        let text = format!("`encode` does not begin this turn with {:?}", excerpt(asked, SHOWN));
        let ids = self.prompt.ids().len();
        let tokens = self.prompt.asks_from()..ids;
        Some(Note { kind: NoteKind::Prompt, text, tokens, message: self.index })
    }

    /// Differences between the ids after the prompt and the ids of a new encoding.
    fn difference(
        &self,
        joined: &Encoding,
        fresh: Rendered,
    ) -> Option<(NoteKind, String, Range<usize>)> {
        let codec = self.codec;
        let start = self.start_in(&fresh);
        let has_reasoning = has_reasoning_in(&fresh);
        let threads = self.options.threads;
        let fresh =
            encode::encode(fresh, codec.grammar(), codec.vocab(), OnMarker::Report, threads)
                .ok()?;
        let offsets = fresh.offsets();
        let first = offsets.iter().position(|&(from, to)| from >= start || to > start);
        let base = self.prompt.ids().len();
        let seen = &joined.ids()[base..];
        // The id at the end of the prompt may have text of the answer too: equal ids then say another text.
        let spans = first.is_some_and(|at| offsets[at].0 < start);
        let said = fresh.text().get(start..).unwrap_or_default();
        let fresh = &fresh.ids()[first.unwrap_or(offsets.len())..];
        if seen == fresh && !spans {
            return None;
        }
        let (ours, theirs) = if seen == fresh { (0..1, 0..1) } else { apart(seen, fresh) };
        let text_of =
            |ids: &[TokenId]| codec.vocab().decode(ids, Spelling::Spell).unwrap_or_default();
        let control = |ids: &[TokenId]| matches!(ids, [id] if codec.vocab().is_control(*id));
        let is_reasoned = self.answer.message.reasoning.is_some();
        let shown = text_of(&fresh[theirs.clone()]);
        let name = self.format().name();
        let (kind, text) = if is_reasoned && !has_reasoning {
            let text = format!("format `{name}` leaves out the reasoning of this turn");
            (NoteKind::Reasoning, text)
        } else if text_of(seen) == if spans { said.to_owned() } else { text_of(fresh) } {
            (NoteKind::Ids, "`encode` gives this text other ids".to_owned())
        } else if control(&seen[ours.clone()]) && control(&fresh[theirs]) {
            (NoteKind::Stop, format!("`encode` writes `{shown}` here"))
        } else {
            (NoteKind::Text, format!("`encode` writes {:?} here", excerpt(&shown, SHOWN)))
        };
        Some((kind, text, ours))
    }
}

/// The parts of two lists without their common beginning and their common end.
pub(super) fn apart(one: &[TokenId], other: &[TokenId]) -> (Range<usize>, Range<usize>) {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let ends = one[same..].iter().rev().zip(other[same..].iter().rev());
    let tail = ends.take_while(|(a, b)| a == b).count();
    (same..one.len() - tail, same..other.len() - tail)
}

/// The note of an event that reports an irregularity; `None` for other events.
pub(super) fn irregularity(event: &EventKind) -> Option<(NoteKind, String)> {
    match event {
        EventKind::Notice { kind, text } => {
            let text = if text.is_empty() { kind.name() } else { text };
            Some((NoteKind::Notice(*kind), excerpt(text, SHOWN).into_owned()))
        }
        EventKind::ActionEnd { complete: false, index, .. } => {
            Some((NoteKind::Incomplete, format!("call {index} is not complete")))
        }
        _ => None,
    }
}
