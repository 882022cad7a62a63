//! A format bound to a vocabulary: its table with ids. `render` writes from it, and `stream` reads
//! by it.

use std::fmt::Write;
use std::sync::Arc;

mod bind;
mod places;
mod spellings;
mod starts;
mod tags;

use crate::call::{BoundShape, Prefix};
use crate::error::{Error, Result};
use crate::format::calls::Reserved;
use crate::format::{Format, ListForm, Order, RowUse};
use crate::marker::{Literal, Markers};
use crate::message::{MediaKind, Role};
use crate::pattern::{Field, Filter, Piece, walk};
use bind::Binder;
use chatcodec_vocab::{ControlId, TokenId, Vocab};
use places::Places;
pub(crate) use spellings::Spellings;
use starts::Starts;
pub(crate) use starts::{RuleOf, Start, steps_from};
pub(crate) use tags::{TagTable, TagToken};

/// Text of a format, with the details of a vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FixedText {
    Encoded(Literal),
    /// White space of a template that an adjacent control token strips: displayed, not encoded.
    Taken(String),
}

/// A node of a pattern with the ids of a vocabulary.
pub(crate) type BoundPiece = Piece<Vec<ControlId>, FixedText>;

/// One step of the program that reads a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// Any of these control tokens.
    Control(Vec<ControlId>),
    Literal(Literal),
    Field(Field, Filter),
    /// The next `len` steps are optional.
    Guard {
        field: Field,
        len: usize,
    },
    Space,
    /// Text, followed by any of these.
    Rest(Vec<ControlId>),
    /// The dummy prefix of text that is encoded separately.
    Prefix,
    /// A brace at the beginning of a text, which includes it.
    Brace,
}

/// The end of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Closer {
    /// Ordinary text between the field and its end.
    pub(crate) suffix: Suffix,
    /// Ordinary text between the field and a call, or another part of the content.
    pub(crate) before_call: Suffix,
    /// Control tokens that end the field.
    pub(crate) ids: Vec<TokenId>,
    /// Whether the text ends where something else begins.
    pub(crate) opener: bool,
    /// Texts that end the field.
    pub(crate) stops: Vec<Stop>,
    /// A bit for the first byte of each of these texts.
    pub(crate) firsts: [u64; 4],
}

impl Closer {
    /// Whether text can be emitted at once when nothing is held: no end may begin in it.
    pub(crate) fn passes(&self, text: &str) -> bool {
        // The set has few bytes, and nearly every token has none of them.
        !text.bytes().any(|byte| self.firsts[usize::from(byte) / 64] >> (byte % 64) & 1 != 0)
    }

    /// Completes the set of first bytes.
    pub(crate) fn ready(mut self) -> Self {
        let stops = self.stops.iter().map(|stop| &*stop.literal.text);
        let literals = [&*self.suffix.literal, &*self.before_call.literal].into_iter().chain(stops);
        let mut firsts = [0; 4];
        for first in literals.filter_map(|literal| literal.bytes().next()) {
            firsts[usize::from(first) / 64] |= 1 << (first % 64);
        }
        self.firsts = firsts;
        self
    }
}

/// A text that ends a field: the first `taken` bytes belong to the end, the rest to the next piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) literal: Literal,
    pub(crate) taken: usize,
}

/// The pattern's own end of a field: a literal, and white space if allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suffix {
    pub(crate) literal: String,
    pub(crate) space: bool,
}

/// A field for text, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// The index of its step.
    pub(crate) at: usize,
    pub(crate) field: Field,
    /// Whether it is JSON, whose end follows from the text.
    pub(crate) is_value: bool,
    /// Whether it is encoded separately, so that it may begin with the vocabulary's dummy prefix.
    pub(crate) prefixed: bool,
    pub(crate) closer: Closer,
    /// The step after its end.
    pub(crate) next: usize,
    /// Whether the row goes on after the control token that ends the text.
    pub(crate) goes_on: bool,
}

/// A pattern with its texts.
#[derive(Debug)]
pub(crate) struct Rule {
    /// The pattern for writing. No optional part extends beyond the last text or calls.
    pub(crate) pieces: Vec<BoundPiece>,
    /// The program that reads the pattern: without cuts; white space before an object is free.
    pub(crate) read: Vec<Op>,
    pub(crate) texts: Vec<Text>,
    /// Number of pieces up to the last text or calls. An open message ends there.
    pub(crate) open_at: usize,
    /// The same of an open message without calls: a token beside its text does not belong to it.
    pub(crate) text_at: usize,
    /// Index of the control token after the last text; the number of pieces without one.
    pub(crate) close_at: usize,
    /// The reasoning before the text, if the row has one.
    pub(crate) reasoning: Option<Reasoning>,
    /// Tokens of their own around the text, if the row has them.
    pub(crate) block: Option<ContentBlock>,
}

/// Control tokens around a text, inside its turn.
#[derive(Debug, Default)]
pub(crate) struct ContentBlock {
    /// Whether the format writes these tokens. Otherwise it only reads them.
    pub(crate) is_own: bool,
    pub(crate) open: Vec<TokenId>,
    /// Text of the pattern after the opening token; it may be missing in the input.
    pub(crate) before: String,
    /// The content inside the tokens, if the pattern has white space before the closing token.
    pub(crate) text: Option<Text>,
    pub(crate) close: Vec<TokenId>,
}

/// Reasoning between two control tokens.
#[derive(Debug)]
pub(crate) struct Reasoning {
    pub(crate) open: Vec<TokenId>,
    /// Text of the pattern after the opening token; it may be missing in the input.
    pub(crate) before: String,
    pub(crate) text: Text,
    /// Text of the pattern after the closing token; it may be missing in the input.
    pub(crate) after: String,
    /// Whether the closing token is written before the text also without reasoning.
    pub(crate) closes_alone: bool,
}

impl Reasoning {
    /// Whether an id opens or closes reasoning.
    pub(crate) fn is_beside(&self, id: TokenId) -> bool {
        self.open.contains(&id) || self.text.closer.ids.contains(&id)
    }
}

impl Rule {
    /// The text that begins at a step.
    pub(crate) fn text_at(&self, op: usize) -> usize {
        self.texts.iter().position(|text| text.at == op).unwrap_or(0)
    }

    /// The end of the last text.
    pub(crate) fn closer(&self) -> Option<&Closer> {
        self.texts.last().map(|text| &text.closer)
    }

    /// The steps before the first text.
    pub(super) fn head(&self) -> &[Op] {
        &self.read[..self.texts.first().map_or(0, |text| text.at)]
    }

    fn opener(&self) -> Vec<TokenId> {
        match self.read.first() {
            Some(Op::Control(ids)) => token_ids(ids),
            _ => Vec::new(),
        }
    }
}

/// One row of the table.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing about the row")]
pub(crate) struct Row {
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    pub(crate) rule: Rule,
    /// Whether it is written by its calls alone, and never read as a row.
    pub(crate) calls_only: bool,
    /// Whether it begins with text.
    pub(crate) text_first: bool,
    /// Whether it may only be the first row.
    pub(crate) first_only: bool,
    /// Whether it may only come after an assistant's message: results that are text.
    pub(crate) answer_only: bool,
    pub(crate) place: RowUse,
    /// The fields that it writes.
    pub(crate) places: Places,
    /// Words that its first word cannot be.
    pub(crate) reserved: Vec<Reserved>,
}

impl Row {
    /// Whether the row reads answers of the assistant.
    fn is_answer(&self) -> bool {
        self.role == Role::Assistant && !self.calls_only && self.place.is_read()
    }
}

/// A form of a call, written or read.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing about the way")]
pub(crate) struct Item {
    /// Which of the format's calls it is.
    pub(crate) call: usize,
    /// The pattern that opens it, with the beginning of a list of calls.
    pub(crate) rule: Rule,
    /// Names that are literals of other forms, and therefore not names of functions.
    pub(crate) reserved: Vec<Reserved>,
    /// Whether it is only read: after the beginning of a list of calls.
    pub(crate) opened: bool,
    /// Whether it is the way that is written.
    pub(crate) is_written: bool,
    /// Whether it is only read, and told as mended.
    pub(crate) is_other: bool,
    /// Whether it is another format's form, read only where no form of this format fits.
    pub(crate) is_also: bool,
    /// Whether it is the format's own form with other white space, read only where no other form fits.
    pub(crate) is_loose: bool,
    /// The shape of the arguments, if they follow a header.
    pub(crate) shape: Option<Arc<dyn BoundShape>>,
    /// The text that closes it inside a block of calls, which a token closes; empty if the arguments end by
    /// themselves.
    pub(crate) close: Option<String>,
    /// Whether its body is JSON, whose end follows from the text.
    pub(crate) ends_itself: bool,
    /// The beginning of its body, if it decides whether the text is a call.
    pub(crate) opening: Option<Prefix>,
    /// The text before the body, if the call begins with text and not with a control token.
    pub(crate) before: Option<Arc<str>>,
    /// The item for code: text after its control tokens that is not another call.
    pub(crate) or_code: Option<usize>,
    /// Whether it is looked for only where an unmarked call may begin.
    pub(crate) is_bare: bool,
}

/// The beginning of an unmarked call.
#[derive(Debug)]
pub(crate) struct BareOpening {
    pub(crate) item: usize,
    /// Whether it is the format's own form without its marker.
    pub(crate) is_own: bool,
    /// The text before the body.
    pub(crate) before: Arc<str>,
    pub(crate) opening: Prefix,
}

impl BareOpening {
    /// A bit for each possible first byte.
    pub(super) fn firsts(all: &[Self]) -> [u64; 4] {
        let mut firsts = [0; 4];
        for first in all.iter().filter_map(Self::first) {
            firsts[usize::from(first) / 64] |= 1 << (first % 64);
        }
        firsts
    }

    /// Its first byte.
    fn first(&self) -> Option<u8> {
        self.before.bytes().next().or_else(|| self.opening.first())
    }
}

impl Item {
    /// Its first token.
    pub(crate) fn opener(&self) -> Option<TokenId> {
        self.rule.opener().first().copied()
    }

    /// Whether the item reads a Python call in brackets.
    pub(crate) fn is_python(&self) -> bool {
        self.is_bare && self.opening.is_some()
    }

    /// Whether it is inside a block of calls, and its arguments end by themselves.
    pub(crate) fn ends_in_block(&self) -> bool {
        self.close.as_ref().is_some_and(String::is_empty)
    }

    /// Whether it begins with text, inside an open block.
    pub(crate) fn is_further(&self) -> bool {
        self.close.is_some() && !self.opened
    }
}

/// Meaningless text that may follow a call.
#[derive(Debug, Default)]
pub(crate) struct AfterCalls {
    pub(crate) ids: Vec<TokenId>,
    pub(crate) texts: Vec<String>,
}

/// The pieces around a list of calls.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) open: Vec<BoundPiece>,
    pub(crate) between: Vec<BoundPiece>,
    pub(crate) close: Vec<BoundPiece>,
    pub(crate) form: ListForm,
}

/// The pieces around consecutive results.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) open: Vec<BoundPiece>,
    pub(crate) between: Vec<BoundPiece>,
    pub(crate) close: Vec<BoundPiece>,
}

/// A format bound to a vocabulary.
#[derive(Debug)]
pub(crate) struct Grammar {
    /// The ids of tags.
    pub(crate) tag_ids: Vec<TokenId>,
    pub(crate) rows: Vec<Row>,
    /// Forms of a call, in the order in which they are tried.
    pub(crate) items: Vec<Item>,
    /// The beginnings of unmarked calls.
    pub(crate) bare: Vec<BareOpening>,
    /// A bit for the first byte of each of these.
    pub(crate) bare_firsts: [u64; 4],
    pub(crate) list: Option<List>,
    pub(crate) results: Option<Results>,
    /// The text between content and a call.
    pub(crate) after_content: String,
    pub(crate) tools: Option<Rule>,
    /// The control tokens in the text of the tools.
    pub(crate) declaring: Vec<BoundPiece>,
    /// The turn that declares tools in a conversation without a system message.
    pub(crate) tools_alone: Option<Rule>,
    pub(crate) begin: Vec<BoundPiece>,
    /// The first turn.
    pub(crate) begin_turn: Vec<BoundPiece>,
    /// The turn of a conversation without a system message: without tools, and with tools.
    pub(crate) without_system: [Vec<BoundPiece>; 2],
    pub(crate) end: Vec<BoundPiece>,
    pub(crate) generation_prompt: Vec<BoundPiece>,
    /// The generation prompts with and without reasoning.
    pub(crate) thinking: [Option<Vec<BoundPiece>>; 2],
    /// The row of a message after a result, if it has one of its own.
    pub(crate) after_tool: Option<usize>,
    /// The prompts after a result: the plain one, and those with and without reasoning.
    pub(crate) after_tool_prompts: (Vec<BoundPiece>, [Option<Vec<BoundPiece>>; 2]),
    /// The tokens that begin the message after a result, and end results of text.
    pub(crate) answer_ids: Vec<TokenId>,
    /// Rows in the order in which they are tried for writing a message.
    pub(crate) write_order: Vec<usize>,
    /// Rows in the order in which they are tried for reading: rows with more control tokens before
    /// their text first.
    pub(crate) read_order: Vec<usize>,
    /// Rows that are tried after these rows and after calls.
    pub(crate) read_last: Vec<usize>,
    /// The textual markers that a caller's text may spell.
    pub(crate) markers: Option<Markers>,
    /// Spellings of control tokens that are ordinary words.
    pub(crate) silent: Vec<String>,
    pub(crate) order: Order,
    /// Whether a turn of tools comes before the system message.
    pub(crate) tools_first: bool,
    /// Tokens that stop a model although no row writes them.
    pub(crate) stop: Vec<ControlId>,
    pub(super) turn_openers: Vec<TokenId>,
    pub(super) item_openers: Vec<TokenId>,
    pub(super) begin_ids: Vec<TokenId>,
    pub(super) end_ids: Vec<TokenId>,
    /// Tokens that close results and lists of calls.
    pub(super) results_close_ids: Vec<TokenId>,
    /// The pieces between results.
    pub(super) results_between_ids: Vec<TokenId>,
    pub(super) calls_close_ids: Vec<TokenId>,
    /// Control tokens that occur in calls alone.
    pub(super) call_ids: Vec<TokenId>,
    /// Control tokens inside the text that declares tools.
    pub(super) spelled_ids: Vec<TokenId>,
    pub(crate) after_calls: AfterCalls,
    /// Parts that are no text.
    pub(crate) media: Vec<MediaRule>,
    /// Control tokens that occur inside the assistant's headers alone.
    pub(super) header_ids: Vec<TokenId>,
    /// The first steps of patterns, for each place of a stream.
    pub(crate) starts: Starts,
    /// The texts of markers that are no control tokens, by the numbers of their stand-ins.
    pub(crate) text_markers: Vec<Vec<String>>,
    /// Whether a call within reasoning is a call.
    calls_in_reasoning: bool,
}

/// How a media part is written and read.
#[derive(Debug)]
pub(crate) struct MediaRule {
    pub(crate) kind: MediaKind,
    pub(crate) open: Vec<BoundPiece>,
    /// The token that is written for each embedding.
    pub(crate) each: Option<ControlId>,
    /// The token between two rows.
    pub(crate) between: Option<ControlId>,
    pub(crate) close: Vec<BoundPiece>,
    /// The control tokens of `open` and `close`.
    pub(crate) opens: Vec<TokenId>,
    /// The text before each token of `opens`, without that before the part.
    pub(crate) texts: Vec<String>,
    pub(crate) closes: Vec<TokenId>,
    /// Text before it and after it.
    pub(crate) before: String,
    pub(crate) after: String,
}

impl MediaRule {
    /// Its first control token.
    fn opener(&self) -> Option<TokenId> {
        self.opens.first().copied().or(self.each.map(ControlId::get))
    }
}

impl Grammar {
    /// Binds a format. Also returns the format without the parts whose tokens the vocabulary lacks, and the
    /// vocabulary with the format's spellings as aliases.
    pub(crate) fn bind(format: &Format, vocab: &Vocab) -> Result<(Self, Format, Vocab)> {
        if vocab.collapses_spaces() {
            let problem = "`remove_extra_whitespaces` would lose text of messages; expected it off";
            return Err(Error::vocab("normalizer_spec", problem));
        }
        if let Some(text) = format.space_mark().filter(|_| vocab.reads_space_mark()) {
            let name = format.name();
            let problem = format!(
                "writes U+2581 (`\u{2581}`) as a space, and format `{name}` has it in {:?}; expected a space there",
                chatcodec_vocab::excerpt(text, 80)
            );
            return Err(Error::vocab("vocab", problem));
        }
        let own = vocab;
        let vocab = vocab.with_appended(format.append())?;
        let control = format.control();
        let groups: Vec<Vec<String>> = control.iter().map(|(_, group)| group.clone()).collect();
        let ids = vocab.ids_of(&groups);
        let missing = groups.iter().zip(&ids).filter(|(_, ids)| ids.is_empty());
        let lacking: Vec<String> =
            missing.map(|(group, _)| format!("`{}`", group.join("` or `"))).collect();
        if !lacking.is_empty() {
            let names = control.iter().zip(&ids).filter(|(_, ids)| ids.is_empty());
            let names: Vec<String> = names.map(|((name, _), _)| name.clone()).collect();
            if let Some(reduced) = format.without(&names) {
                return Self::bind(&reduced, own);
            }
            let (name, lacking) = (format.name(), lacking.join("; "));
            let mut problem = format!("lacks control tokens of format `{name}`: {lacking}");
            if let Some(other) = Format::with_tokens_of(&vocab) {
                let _ = write!(problem, "; it has those of format `{other}`");
            }
            return Err(Error::vocab("control", problem));
        }
        let is_free = |id: &TokenId| !ids.iter().flatten().any(|known| known == id);
        let has = |group: &Vec<String>| {
            let mut known = group.iter().filter_map(|spelling| vocab.control().get(spelling));
            known.next().is_some_and(is_free) && known.next().is_none()
        };
        let optional = format.optional_control().iter().filter(|(_, group)| has(group));
        // A marker of text is a control token where the vocabulary has it as one.
        let (known, text): (Vec<_>, Vec<_>) =
            format.text_markers().iter().cloned().partition(|(_, group)| has(group));
        let control: Vec<(String, Vec<String>)> =
            control.iter().chain(optional).cloned().chain(known).collect();
        let groups: Vec<Vec<String>> = control.iter().map(|(_, group)| group.clone()).collect();
        let (vocab, mut ids) = vocab.with_aliases(&groups)?;
        let (vocab, tags) = Self::bind_tags(format, vocab, &control, &ids);
        ids.extend((0..text.len()).map(|marker| ControlId::of_text(marker as u16)));
        let control: Vec<(String, Vec<String>)> = control.into_iter().chain(text.clone()).collect();
        let binder = Binder { format, control: &control, ids: &ids, tags: &tags, vocab: &vocab };
        let mut grammar = binder.grammar()?;
        grammar.text_markers = text.into_iter().map(|(_, group)| group).collect();
        let lacks = |kind: &MediaKind| grammar.media_of(*kind).is_none();
        let lacking = format.media_specs().iter().map(|spec| spec.kind).filter(lacks).collect();
        Ok((grammar, format.without_media(lacking), vocab))
    }

    /// Gives the tags of a format ids of their own: the vocabulary with them, and the ids of each tag.
    fn bind_tags(
        format: &Format,
        vocab: Vocab,
        control: &[(String, Vec<String>)],
        ids: &[ControlId],
    ) -> (Vocab, Vec<(String, Vec<ControlId>)>) {
        if format.tags().is_empty() && vocab.tags().next().is_none() {
            return (vocab, Vec::new());
        }
        let token = |name: &String| {
            let mut known = control.iter().zip(ids);
            known.find(|((known, _), _)| known == name).map(|(_, id)| *id)
        };
        let (mut names, mut tags) = (Vec::new(), Vec::new());
        for (name, ways) in format.tags() {
            for way in ways {
                // An optional token may be missing, and with it the tag.
                let next = way.next.iter().map(token).collect::<Option<Vec<ControlId>>>();
                if let (Some(id), Some(next)) = (token(&way.token), next) {
                    names.push(name.clone());
                    tags.push((way.before.clone(), id, way.after.clone(), next));
                }
            }
        }
        let (vocab, of_tags) = vocab.with_tags(tags);
        let mut all: Vec<(String, Vec<ControlId>)> = Vec::new();
        for (name, id) in names.into_iter().zip(of_tags) {
            match all.last_mut() {
                Some((known, ids)) if *known == name => ids.push(id),
                _ => all.push((name, vec![id])),
            }
        }
        (vocab, all)
    }

    /// Keeps the control tokens that occur inside headers alone.
    pub(super) fn keep_header_ids(&mut self) {
        let rules = self.rows.iter().map(|row| &row.rule);
        let rules = rules.chain(self.items.iter().map(|item| &item.rule));
        let closers = rules.flat_map(|rule| &rule.texts).flat_map(|text| &text.closer.ids);
        let others = self.turn_openers.iter().chain(&self.item_openers).chain(closers);
        let others: Vec<TokenId> = others.copied().collect();
        self.header_ids.retain(|id| !others.contains(id));
    }

    /// The text that is written for the stand-in of a marker.
    pub(crate) fn text_of(&self, id: ControlId) -> Option<&str> {
        let marker = usize::try_from(-1 - id.get()).ok()?;
        self.text_markers.get(marker)?.first().map(String::as_str)
    }

    /// All texts of the stand-ins among some ids.
    fn texts_of<'a>(&'a self, ids: &'a [TokenId]) -> impl Iterator<Item = &'a str> + 'a {
        let markers = ids.iter().filter_map(|id| usize::try_from(-1 - id).ok());
        markers.filter_map(|at| self.text_markers.get(at)).flatten().map(String::as_str)
    }

    /// Whether a text that no caller asks for may be read as a call.
    pub(crate) fn has_calls_of_text(&self) -> bool {
        self.bare_items().next().is_some() || !self.text_of_calls().is_empty()
    }

    /// Whether a marker that is text stands around reasoning.
    pub(crate) fn has_reasoning_of_text(&self) -> bool {
        let is_text = |op: &Op| matches!(op, Op::Control(ids) if ids.iter().any(|id| id.get() < 0));
        let thinks = |op: &Op| matches!(op, Op::Field(Field::Reasoning, _));
        let reads = self.rows.iter().map(|row| &row.rule.read);
        reads.filter(|read| read.iter().any(thinks)).any(|read| read.iter().any(is_text))
    }

    /// The texts that begin calls, of markers that are text.
    pub(crate) fn text_of_calls(&self) -> Vec<&str> {
        self.texts_of(&self.item_openers).collect()
    }

    /// The texts that end a call: of markers that close it or a list of calls, or begin the next call.
    pub(crate) fn text_ends_of_calls(&self) -> Vec<&str> {
        let closers = self.items.iter().filter_map(|item| item.rule.closer());
        let ends = closers.flat_map(|closer| self.texts_of(&closer.ids));
        ends.chain(self.texts_of(&self.calls_close_ids)).chain(self.text_of_calls()).collect()
    }

    /// The texts that open or close the reasoning of a row.
    pub(crate) fn text_around_any_reasoning(&self) -> Vec<&str> {
        let around = self.rows.iter().filter_map(|row| row.rule.reasoning.as_ref());
        let texts = around
            .flat_map(|own| self.texts_of(&own.open).chain(self.texts_of(&own.text.closer.ids)));
        texts.collect()
    }

    /// The texts that open an answer.
    pub(crate) fn text_opens_answer(&self) -> Vec<&str> {
        let blocks = self.rows.iter().filter_map(|row| row.rule.block.as_ref());
        blocks.flat_map(|block| self.texts_of(&block.open)).collect()
    }

    /// The texts that open reasoning.
    pub(crate) fn text_opens_reasoning(&self) -> Vec<&str> {
        let around = self.rows.iter().filter_map(|row| row.rule.reasoning.as_ref());
        around.flat_map(|own| self.texts_of(&own.open)).collect()
    }

    /// The texts that end reasoning, and where calls may be in it those that begin calls.
    pub(crate) fn text_within_reasoning(&self) -> Vec<&str> {
        let around = self.rows.iter().filter_map(|row| row.rule.reasoning.as_ref());
        let ends = around.flat_map(|own| self.texts_of(&own.text.closer.ids));
        let calls = self.calls_in_reasoning.then(|| self.text_of_calls());
        ends.chain(calls.into_iter().flatten()).collect()
    }

    /// Whether the body of each call is JSON.
    pub(crate) fn has_json_calls(&self) -> bool {
        self.items.iter().all(|item| item.ends_itself)
    }

    /// Whether an id is the stand-in of a marker that is text.
    pub(crate) fn is_text_marker(id: TokenId) -> bool {
        id < 0
    }

    pub(crate) fn opens_turn(&self, id: TokenId) -> bool {
        self.turn_openers.contains(&id)
    }

    pub(crate) fn opens_item(&self, id: TokenId) -> bool {
        self.item_openers.contains(&id)
    }

    /// Whether an id may come before the first turn.
    pub(crate) fn begins(&self, id: TokenId) -> bool {
        self.begin_ids.contains(&id)
    }

    /// Whether an id may come after the last turn.
    pub(crate) fn ends(&self, id: TokenId) -> bool {
        self.end_ids.contains(&id)
    }

    /// The shape of the arguments of functions, if they follow a header.
    pub(crate) fn written_shape(&self) -> Option<&dyn BoundShape> {
        let mut written = self.items.iter().filter(|item| item.is_written);
        written.find_map(|item| item.shape.as_deref())
    }

    /// Whether the end of a call follows from its text, and other calls may follow.
    pub(crate) fn ends_calls(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.form != ListForm::Tokens)
    }

    /// Whether the end of a call in this form follows from its text, and other calls may follow.
    pub(crate) fn ends_call(&self, item: usize) -> bool {
        let item = &self.items[item];
        let is_open = |closer: &Closer| closer.ids.is_empty() && closer.suffix == Suffix::default();
        if item.is_python() || item.ends_in_block() {
            return true;
        }
        if item.is_also || !self.ends_calls() {
            return item.ends_itself && item.rule.closer().is_none_or(is_open);
        }
        true
    }

    /// The generation prompts: the plain one, and those with and without reasoning.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &[BoundPiece]> {
        let thinking = self.thinking.iter().flatten();
        [&self.generation_prompt].into_iter().chain(thinking).map(Vec::as_slice)
    }

    /// Whether an answer begins without a prompt and without a header.
    pub(crate) fn begins_answer_with_text(&self) -> bool {
        let mut rows = self.rows.iter();
        self.generation_prompt.is_empty()
            && rows.any(|row| row.role == Role::Assistant && row.text_first)
    }

    /// Whether something closes each answer, other than what opens the next turn.
    pub(crate) fn closes_answers(&self) -> bool {
        let answers = self.rows.iter().filter(|row| row.is_answer());
        answers.filter_map(|row| row.rule.closer()).all(|closer| !closer.opener)
    }

    /// Whether calls are in brackets.
    pub(crate) fn has_brackets(&self) -> bool {
        self.list.as_ref().is_some_and(|list| list.form == ListForm::Brackets)
    }

    /// The forms of a call that begin with text.
    pub(crate) fn bare_items(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.items.len()).filter(|&item| self.items[item].before.is_some())
    }

    /// Whether an unmarked call may begin with a byte.
    pub(crate) fn may_be_bare(&self, byte: u8) -> bool {
        self.bare_firsts[usize::from(byte) / 64] >> (byte % 64) & 1 != 0
    }

    /// Whether an id occurs inside headers alone.
    pub(crate) fn is_in_header(&self, id: TokenId) -> bool {
        self.header_ids.contains(&id)
    }

    /// Whether results are text, which comes after an assistant's message only.
    pub(crate) fn has_text_results(&self) -> bool {
        self.rows.iter().any(|row| row.answer_only)
    }

    /// Whether an id begins the message after results of text.
    pub(crate) fn opens_answer(&self, id: TokenId) -> bool {
        self.answer_ids.contains(&id)
    }

    /// Whether an id closes consecutive results.
    pub(crate) fn closes_results(&self, id: TokenId) -> bool {
        self.results_close_ids.contains(&id)
    }

    /// Whether an id separates results.
    pub(crate) fn parts_results(&self, id: TokenId) -> bool {
        self.results_between_ids.contains(&id)
    }

    /// Whether a result ends with its turn, without pieces around consecutive results.
    pub(crate) fn results_end_alone(&self) -> bool {
        self.results_close_ids.is_empty()
    }

    /// Whether a control token closes a list of calls.
    pub(crate) fn has_list_end(&self) -> bool {
        !self.calls_close_ids.is_empty()
    }

    /// Whether an id closes a list of calls.
    pub(crate) fn closes_calls(&self, id: TokenId) -> bool {
        self.calls_close_ids.contains(&id)
    }

    /// Whether an id closes a call of an item: the item's own token, or the list's if the item has
    /// none.
    pub(crate) fn closes_item(&self, item: usize, id: TokenId) -> bool {
        let own = self.items[item].rule.closer().map_or(&[][..], |closer| &closer.ids);
        own.contains(&id) || own.is_empty() && self.closes_calls(id)
    }

    /// Whether an id occurs in calls alone.
    pub(crate) fn is_of_calls(&self, id: TokenId) -> bool {
        self.call_ids.contains(&id)
    }

    /// The control tokens that occur in calls alone: those of lists, of items, and of pairs.
    pub(super) fn own_call_ids(&self) -> Vec<TokenId> {
        let lists = self.list.iter().flat_map(|list| [&list.open, &list.between, &list.close]);
        let pieces = lists.chain(self.items.iter().map(|item| &item.rule.pieces));
        let pieces = pieces.flat_map(|pieces| walk(pieces));
        let shapes = self.items.iter().filter_map(|item| item.shape.as_ref());
        let tags = shapes.flat_map(|shape| shape.control().iter().map(|id| id.get()));
        let closes = |row: &Row, id| row.rule.closer().is_some_and(|c| c.ids.contains(&id));
        let mut ids: Vec<TokenId> = pieces.flat_map(control_ids).chain(tags).collect();
        ids.retain(|&id| {
            !self.opens_turn(id) && !self.stops(id) && !self.rows.iter().any(|row| closes(row, id))
        });
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// How a media part is written.
    pub(crate) fn media_of(&self, kind: MediaKind) -> Option<&MediaRule> {
        self.media.iter().find(|rule| rule.kind == kind)
    }

    /// Whether an id opens a media part.
    pub(crate) fn opens_media(&self, id: TokenId) -> bool {
        self.media.iter().any(|rule| rule.opener() == Some(id))
    }

    /// Whether an id is read as its spelling in the text that declares tools.
    pub(crate) fn is_spelled(&self, id: TokenId) -> bool {
        self.spelled_ids.contains(&id)
    }

    /// Whether an id stops the model, whatever else it does.
    pub(crate) fn stops(&self, id: TokenId) -> bool {
        self.stop.iter().any(|stop| stop.get() == id)
    }

    /// The row for text outside a turn: the assistant's first.
    pub(crate) fn assistant(&self) -> usize {
        self.rows.iter().position(Row::is_answer).unwrap_or(0)
    }

    /// The token before the assistant's text.
    pub(crate) fn text_token(&self) -> Option<TokenId> {
        match self.rows[self.assistant()].rule.head().last()? {
            Op::Control(ids) => ids.first().map(|id| id.get()),
            _ => None,
        }
    }

    /// The words of the assistant's rows right after a control token within the header, with that token.
    fn channels(&self) -> impl Iterator<Item = (&[ControlId], &str)> {
        let rows =
            self.rows.iter().filter(|row| row.role == Role::Assistant && row.place.is_read());
        let pairs = rows.flat_map(|row| row.rule.head().windows(2).skip(1));
        pairs.filter_map(|pair| match pair {
            [Op::Control(ids), Op::Literal(text)] => {
                Some((&ids[..], text.text.split_ascii_whitespace().next()?))
            }
            _ => None,
        })
    }

    /// Whether the word of a channel comes after an id.
    pub(crate) fn opens_channel(&self, id: TokenId) -> bool {
        self.channels().any(|(ids, _)| ids.iter().any(|known| known.get() == id))
    }

    /// The channel that a text begins with.
    pub(crate) fn channel_of(&self, text: &str) -> Option<&str> {
        let length = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
        self.channels().map(|(_, word)| word).find(|word| *word == &text[..length])
    }

    /// The rows that may follow a turn of `last`, or come first: text there may begin one of them.
    pub(crate) fn rows_after(&self, last: Option<Role>) -> impl Iterator<Item = usize> + '_ {
        let fits = move |row: &Row| {
            !row.calls_only
                && row.place.is_read()
                && (!row.first_only
                    || last.is_none()
                    || last == Some(Role::System) && self.tools_first)
                && (!row.answer_only || last == Some(Role::Assistant))
                && (row.role == Role::System || self.order.follows(last, row.role))
        };
        self.read_order
            .iter()
            .chain(&self.read_last)
            .copied()
            .filter(move |&row| fits(&self.rows[row]))
    }

    /// The ids that end an assistant's turn.
    pub(crate) fn stop_ids(&self) -> Vec<TokenId> {
        let assistants = self.rows.iter().filter(|row| row.role == Role::Assistant);
        let closers = assistants.filter_map(|row| row.rule.closer());
        let stop = self.stop.iter().map(|id| id.get());
        let mut ids = Vec::new();
        for id in closers.flat_map(|closer| closer.ids.iter().copied()).chain(stop) {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        // After a frame the model continues.
        let frames = self.rows.iter().filter(|row| row.place.is_frame());
        let closers: Vec<&Closer> = frames.filter_map(|row| row.rule.closer()).collect();
        ids.retain(|id| !closers.iter().any(|closer| closer.ids.contains(id)));
        // A tag stops no model: its last token does.
        ids.retain(|id| !self.tag_ids.contains(id));
        ids
    }

    /// Whether an assistant's message may have several turns.
    pub(crate) fn has_frames(&self) -> bool {
        self.rows.iter().any(|row| row.place.is_frame())
    }
}

pub(super) fn openers<'a>(rules: impl Iterator<Item = &'a Rule>) -> Vec<TokenId> {
    let mut ids: Vec<TokenId> = rules.flat_map(Rule::opener).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The ids of a control token; none for other pieces.
pub(super) fn control_ids(piece: &BoundPiece) -> Vec<TokenId> {
    match piece {
        Piece::Control(ids) => token_ids(ids),
        _ => Vec::new(),
    }
}

pub(super) fn token_ids(ids: &[ControlId]) -> Vec<TokenId> {
    ids.iter().map(|id| id.get()).collect()
}
