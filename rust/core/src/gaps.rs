//! Reads whole conversations by what a template writes between the texts of messages.
//!
//! In: ids, and the gaps between messages. Out: messages; an answer's ids are read by the codec's reader of answers.
//! For example, between a question and its answer ChatML has `<|im_end|>`, a line break, `<|im_start|>`, `assistant` and
//! a line break. Texts of messages hold no control tokens, so the first control token after a text's beginning is the
//! gap's. None where a conversation has other gaps. Cost: linear, times the number of gaps.

mod reading;

use std::sync::Arc;

use chatcodec_vocab::{Spelling, TokenId, Vocab};

use crate::message::Message;
use reading::Reading;

/// One unit of what a template writes: a character, or a control token above all characters.
pub(crate) type Unit = u32;

const FIRST_TOKEN: Unit = 0x11_0000;

/// The most characters of an id, a name or a number within a gap.
const MOST_HELD: usize = 256;

/// The unit of a control token.
pub(crate) fn token(id: TokenId) -> Unit {
    FIRST_TOKEN + id.unsigned_abs()
}

pub(crate) fn is_token(unit: Unit) -> bool {
    unit >= FIRST_TOKEN
}

/// The control token of a unit; none for a character.
pub(crate) fn id_of(unit: Unit) -> Option<TokenId> {
    unit.checked_sub(FIRST_TOKEN).and_then(|id| TokenId::try_from(id).ok())
}

pub(crate) fn units_of(text: &str) -> impl Iterator<Item = Unit> + '_ {
    text.chars().map(u32::from)
}

/// The units of ids; none for ids outside the vocabulary, and where text is not UTF-8.
fn units(ids: &[TokenId], vocab: &Vocab) -> Option<Vec<Unit>> {
    let mut units = Vec::with_capacity(ids.len());
    for run in ids.chunk_by(|one, other| !vocab.is_control(*one) && !vocab.is_control(*other)) {
        match run {
            [id] if vocab.is_control(*id) => {
                vocab.token(*id)?;
                units.push(token(*id));
            }
            run => units.extend(units_of(&String::from_utf8(vocab.decode_bytes(run).ok()?).ok()?)),
        }
    }
    Some(units)
}

/// The ids of units, as a model writes them.
fn ids(units: &[Unit], vocab: &Vocab) -> Option<Vec<TokenId>> {
    let mut ids = Vec::new();
    for run in units.chunk_by(|one, other| !is_token(*one) && !is_token(*other)) {
        match id_of(run[0]) {
            Some(id) => ids.push(id),
            None => ids.extend(vocab.try_encode(&text(run, vocab)).ok()?),
        }
    }
    Some(ids)
}

/// The text of units; control tokens are spelled.
fn text(units: &[Unit], vocab: &Vocab) -> String {
    let mut text = String::with_capacity(units.len());
    for &unit in units {
        match id_of(unit) {
            Some(id) => text.push_str(&vocab.decode(&[id], Spelling::Spell).unwrap_or_default()),
            None => text.extend(char::from_u32(unit)),
        }
    }
    text
}

/// Where a gap begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Start,
    System,
    Question,
    Answer,
    Result,
    End,
}

/// One part of a gap.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    Units(Vec<Unit>),
    /// The id of a call.
    Id,
    /// The name of a function.
    Name,
    /// The digits of a number that a template counts.
    Number,
}

/// What a template writes between the texts of two messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Gap {
    pub(crate) from: Place,
    pub(crate) to: Place,
    pub(crate) pieces: Vec<Piece>,
}

/// A gap that was found in units: its end, and what its parts hold.
#[derive(Debug, Default)]
struct Found {
    end: usize,
    id: Option<String>,
    name: Option<String>,
}

impl Gap {
    pub(crate) fn has_token(&self) -> bool {
        self.pieces.iter().any(
            |piece| matches!(piece, Piece::Units(units) if units.iter().copied().any(is_token)),
        )
    }

    /// Where it may begin, from a unit on, if this is its first control token.
    fn start(&self, units: &[Unit], from: usize, control: usize) -> Option<usize> {
        let Some(Piece::Units(first)) = self.pieces.first() else { return None };
        if let Some(lead) = first.iter().copied().position(is_token) {
            return control.checked_sub(lead).filter(|start| *start >= from);
        }
        if self.pieces.len() == 1 {
            let is_end = self.to == Place::End && control == units.len();
            return control.checked_sub(first.len()).filter(|start| is_end && *start >= from);
        }
        // Not farther away than its parts may be long.
        let lengths = self.pieces.iter().map(|piece| match piece {
            Piece::Units(units) => units.len(),
            Piece::Id | Piece::Name | Piece::Number => MOST_HELD,
        });
        let from = from.max(control.saturating_sub(lengths.sum()));
        let last = units[from..control].windows(first.len()).rposition(|window| window == first)?;
        Some(from + last)
    }

    /// Its units; of a gap with other parts, none.
    fn fixed(&self) -> &[Unit] {
        if let [Piece::Units(units)] = self.pieces.as_slice() { units } else { &[] }
    }

    fn found(&self, units: &[Unit], start: usize) -> Option<Found> {
        let mut found = Found { end: start, ..Found::default() };
        let mut pieces = self.pieces.iter().peekable();
        while let Some(piece) = pieces.next() {
            let rest = &units[found.end..];
            let length = match piece {
                Piece::Units(fixed) => rest.starts_with(fixed).then_some(fixed.len())?,
                Piece::Number => {
                    let is_digit = |unit: &&Unit| (0x30..0x3A).contains(*unit);
                    rest.iter().take(MOST_HELD).take_while(is_digit).count()
                }
                held => {
                    let next = match pieces.peek() {
                        Some(Piece::Units(next)) => next[0],
                        _ => return None,
                    };
                    let is_held = |unit: &&Unit| **unit != next && !is_token(**unit);
                    let length = rest.iter().take(MOST_HELD).take_while(is_held).count();
                    let text: String =
                        rest[..length].iter().filter_map(|unit| char::from_u32(*unit)).collect();
                    let place = if *held == Piece::Id { &mut found.id } else { &mut found.name };
                    *place = Some(text);
                    length
                }
            };
            if length == 0 {
                return None;
            }
            found.end += length;
        }
        Some(found)
    }
}

/// What a template writes between messages.
#[derive(Debug)]
pub(crate) struct Gaps {
    all: Vec<Gap>,
    /// What stands before each question, or before some of them, the longest first.
    questions: Vec<Vec<Unit>>,
    /// Whether results are written as JSON strings.
    escapes_results: bool,
}

/// The longest end that all of these have; none of none.
pub(crate) fn common_end<'u>(mut all: impl Iterator<Item = &'u [Unit]>) -> Option<&'u [Unit]> {
    let first = all.next()?;
    Some(all.fold(first, |common, other| {
        let pairs = common.iter().rev().zip(other.iter().rev());
        &common[common.len() - pairs.take_while(|(one, other)| one == other).count()..]
    }))
}

/// What stands before questions: what all gaps before them end with, or else the end of each gap from its last control
/// token on.
fn openers(gaps: &[&[Unit]]) -> Option<Vec<Vec<Unit>>> {
    let common = common_end(gaps.iter().copied())?;
    if common.iter().copied().any(is_token) {
        return Some(vec![common.to_vec()]);
    }
    let last = |gap: &[Unit]| Some(gap[gap.iter().copied().rposition(is_token)?..].to_vec());
    let mut openers: Vec<Vec<Unit>> = gaps.iter().copied().map(last).collect::<Option<_>>()?;
    openers.sort_by_key(|opener| std::cmp::Reverse(opener.len()));
    openers.dedup();
    Some(openers)
}

/// What reads an answer: its prompt, its ids, and the count of those that are its own.
pub(crate) type ReadsAnswer<'a> = dyn Fn(&[TokenId], &[TokenId], usize) -> Option<Message> + 'a;

impl Gaps {
    /// None if no question has a beginning of its own, or a gap within a conversation no control token.
    pub(crate) fn new(mut gaps: Vec<Gap>, escapes_results: bool) -> Option<Arc<Self>> {
        gaps.retain(|gap| {
            gap.has_token()
                || gap.to == Place::End
                || gap.from == Place::Start && !gap.pieces.is_empty()
        });
        let before = gaps.iter().filter(|gap| gap.to == Place::Question).map(Gap::fixed);
        let questions = openers(&before.filter(|units| !units.is_empty()).collect::<Vec<_>>())?;
        let is_read = gaps.iter().any(|gap| gap.to == Place::Answer)
            && gaps.iter().any(|gap| gap.from == Place::Answer);
        is_read.then(|| Arc::new(Self { all: gaps, questions, escapes_results }))
    }

    /// Whether the template was seen to write results of calls.
    pub(crate) fn reads_results(&self) -> bool {
        self.all.iter().any(|gap| gap.to == Place::Result)
    }

    /// The messages of a conversation; none if it has other gaps, or an answer is not read to its end.
    pub(crate) fn read(
        &self,
        all: &[TokenId],
        vocab: &Vocab,
        answer: &ReadsAnswer<'_>,
    ) -> Option<Vec<Message>> {
        let units = units(all, vocab)?;
        let reading = Reading { gaps: self, units: &units, vocab, answer };
        let mut starts: Vec<(&Gap, usize)> = self
            .all
            .iter()
            .filter(|gap| gap.from == Place::Start)
            .filter_map(|gap| Some((gap, gap.found(&units, 0)?.end)))
            .collect();
        starts.sort_by_key(|(_, end)| std::cmp::Reverse(*end));
        let known = starts.iter().find_map(|(gap, end)| {
            let mut messages = Vec::new();
            reading.rest(&mut messages, gap.to, *end).map(|()| messages)
        });
        known.or_else(|| reading.after_preamble())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Call, CallBody, Role};

    /// Text with control tokens, as units.
    fn marked(text: &str) -> Vec<Unit> {
        let vocab = Vocab::embedded();
        let mut units = Vec::new();
        for piece in text.split_inclusive("|>") {
            let at = piece.find("<|").filter(|_| piece.ends_with("|>")).unwrap_or(piece.len());
            units.extend(units_of(&piece[..at]));
            units.extend(vocab.control().get(&piece[at..]).map(|id| token(*id)));
        }
        units
    }

    fn chatml() -> Arc<Gaps> {
        let (user, answer) = ("<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n");
        let end = format!("<|im_end|>\n{user}");
        let gap = |from, to, text: &str| Gap { from, to, pieces: vec![Piece::Units(marked(text))] };
        let gaps = vec![
            gap(Place::Start, Place::Question, user),
            gap(Place::Question, Place::Answer, answer),
            gap(Place::Answer, Place::Question, &end),
            gap(Place::Answer, Place::Result, &format!("{end}<tool_response>\n")),
            gap(Place::Result, Place::Answer, &format!("\n</tool_response>{answer}")),
            gap(Place::Answer, Place::End, "<|im_end|>\n"),
        ];
        Gaps::new(gaps, false).unwrap()
    }

    /// The messages of a text: roles and contents. An answer that begins with `call` calls a function.
    fn read(text: &str) -> Option<Vec<(Role, String)>> {
        let vocab = Vocab::embedded();
        let answer = |_: &[TokenId], ids: &[TokenId], own: usize| {
            let content = vocab.decode(&ids[..own], Spelling::Spell).unwrap();
            let mut message = Message::new(Role::Assistant, content);
            if message.content.starts_with("call") {
                let body = CallBody::Function { name: "f".into(), arguments: "{}".into() };
                message.calls.push(Call { id: None, body });
            }
            Some(message)
        };
        let ids = ids(&marked(text), &vocab).unwrap();
        let messages = chatml().read(&ids, &vocab, &answer)?;
        Some(messages.into_iter().map(|message| (message.role, message.content)).collect())
    }

    #[test]
    fn messages_are_read_by_what_stands_between_them() {
        let text = "<|im_start|>user\nHi é\n<|im_end|>\n<|im_start|>assistant\ncall<|im_end|>\n<|im_start|>user\n\
                    <tool_response>\n7035\n</tool_response><|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n";
        let expected = [
            (Role::User, "Hi é\n"),
            (Role::Assistant, "call"),
            (Role::Tool, "7035"),
            (Role::Assistant, "Yes."),
        ];
        assert_eq!(read(text).unwrap(), expected.map(|(role, text)| (role, text.to_owned())));
    }

    #[test]
    fn a_text_that_spells_a_result_is_none_after_an_answer_without_calls() {
        let text = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n<|im_start|>user\n\
                    <tool_response>\n7035";
        let read = read(text).unwrap();
        assert_eq!(read.last().unwrap(), &(Role::User, "<tool_response>\n7035".to_owned()));
    }

    #[test]
    fn text_before_the_first_question_is_a_system_message() {
        let read = read("tools: f, g\n<|im_start|>user\nHi").unwrap();
        assert_eq!(read[0], (Role::System, "tools: f, g\n".to_owned()));
        assert_eq!(read[1], (Role::User, "Hi".to_owned()));
    }

    #[test]
    fn other_gaps_and_other_ids_are_read_by_others() {
        assert!(read("<|im_start|>user\nHi<|im_end|><|im_end|>\n").is_none());
        assert!(read("<|im_start|>wizard\nHi<|im_end|>\n").is_none());
        let vocab = Vocab::embedded();
        for id in [-1, TokenId::MAX] {
            assert!(chatml().read(&[id], &vocab, &|_, _, _| None).is_none());
        }
    }

    #[test]
    fn a_gap_holds_ids_names_and_numbers() {
        let units = |text: &str| units_of(text).collect::<Vec<_>>();
        let pieces = vec![
            Piece::Units(units("{\"n\": ")),
            Piece::Number,
            Piece::Units(units(", \"id\": \"")),
            Piece::Id,
            Piece::Units(units("\"}")),
        ];
        let gap = Gap { from: Place::Answer, to: Place::Result, pieces };
        let found = gap.found(&units("{\"n\": 12, \"id\": \"c7\"}"), 0).unwrap();
        assert_eq!(found.id.as_deref(), Some("c7"));
        assert!(gap.found(&units("{\"n\": x, \"id\": \"c7\"}"), 0).is_none());
        assert!(gap.found(&units("{\"n\": 12, \"id\": \"\"}"), 0).is_none());
    }
}
