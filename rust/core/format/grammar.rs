//! A format bound to a vocabulary: the same table with ids in it, walked by `render` to write and by
//! `stream` to read.

use super::Format;
use super::pattern::{Field, Grammar as FieldGrammar, Piece, is_white};
use crate::error::{Error, Result};
use crate::message::Role;
use crate::vocab::{ControlId, TokenId, Vocab};

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// The first is written, any of them read.
    Control(Vec<ControlId>),
    Literal(String),
    Field(Field),
    /// The next `len` steps, if the field is present.
    Guard {
        field: Field,
        len: usize,
    },
    Space,
    Cut,
}

/// What ends a stretch of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closer {
    /// Ordinary text between the field and the control token.
    pub(crate) suffix: Suffix,
    pub(crate) ids: Vec<TokenId>,
}

/// The end of a stretch that belongs to the pattern: a literal, and white space if allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Suffix {
    pub(crate) literal: String,
    pub(crate) space: bool,
}

/// One pattern with its text field and what ends that.
#[derive(Debug)]
pub(crate) struct Rule {
    /// As written.
    pub(crate) ops: Vec<Op>,
    /// As read: without cuts; white space before an object is free.
    pub(crate) read: Vec<Op>,
    pub(crate) closer: Closer,
    /// Where in `ops` the text has been written, and its calls: what is left open ends here.
    pub(crate) open_at: usize,
    /// Where in `ops` the control token is that ends the text.
    pub(crate) close_at: usize,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) role: Role,
    pub(crate) name: Option<String>,
    /// Whether calls may follow the text.
    pub(crate) calls: bool,
    pub(crate) rule: Rule,
}

/// One way to write or read a call.
#[derive(Debug)]
pub(crate) struct Item {
    /// Which of the format's calls it is.
    pub(crate) call: usize,
    pub(crate) rule: Rule,
}

/// A format bound to a vocabulary.
#[derive(Debug)]
pub(crate) struct Grammar {
    pub(crate) rows: Vec<Row>,
    /// Ways to read a call, tried in this order; the first of each kind is written.
    pub(crate) items: Vec<Item>,
    pub(crate) tools: Option<Rule>,
    pub(crate) begin: Vec<Op>,
    pub(crate) end: Vec<Op>,
    pub(crate) generation_prompt: Vec<Op>,
    turn_openers: Vec<TokenId>,
    item_openers: Vec<TokenId>,
    begin_ids: Vec<TokenId>,
    end_ids: Vec<TokenId>,
}

impl Grammar {
    /// Binds a format; also gives the vocabulary in which the format's spellings are aliases.
    pub(crate) fn bind(format: &Format, vocab: &Vocab) -> Result<(Self, Vocab)> {
        if vocab.collapses_spaces() {
            let problem = "`remove_extra_whitespaces` would lose text of messages; expected it off";
            return Err(Error::vocab("normalizer_spec", problem));
        }
        let control = format.control();
        let groups: Vec<Vec<String>> = control.iter().map(|(_, group)| group.clone()).collect();
        let ids = vocab.ids_of(&groups);
        let missing = groups.iter().zip(&ids).filter(|(_, ids)| ids.is_empty());
        let lacking: Vec<String> =
            missing.map(|(group, _)| format!("`{}`", group.join("` or `"))).collect();
        if !lacking.is_empty() {
            let (name, lacking) = (format.name(), lacking.join("; "));
            let problem = format!("lacks control tokens of format `{name}`: {lacking}");
            return Err(Error::vocab("control", problem));
        }
        let (vocab, ids) = vocab.with_aliases(&groups)?;
        let binder = Binder { control, ids: &ids };
        let rows: Vec<Row> = format
            .rows()
            .iter()
            .map(|row| Row {
                role: row.role,
                name: row.name.clone(),
                calls: row.pieces.contains(&Piece::Field(Field::Calls)),
                rule: binder.rule(&row.pieces),
            })
            .collect();
        let mut items = Vec::new();
        for (call, spec) in format.calls().iter().enumerate() {
            items.extend(spec.items.iter().map(|pieces| Item { call, rule: binder.rule(pieces) }));
        }
        let (begin, end) = (binder.ops(format.begin()), binder.ops(format.end()));
        let grammar = Self {
            turn_openers: openers(rows.iter().map(|row| &row.rule)),
            item_openers: openers(items.iter().map(|item| &item.rule)),
            begin_ids: begin.iter().flat_map(control_ids).collect(),
            end_ids: end.iter().flat_map(control_ids).collect(),
            rows,
            items,
            tools: format.tools_pieces().map(|pieces| binder.rule(pieces)),
            begin,
            end,
            generation_prompt: binder.ops(format.generation_prompt()),
        };
        Ok((grammar, vocab))
    }

    pub(crate) fn opens_turn(&self, id: TokenId) -> bool {
        self.turn_openers.contains(&id)
    }

    pub(crate) fn opens_item(&self, id: TokenId) -> bool {
        self.item_openers.contains(&id)
    }

    /// Whether an id may stand before the first turn.
    pub(crate) fn begins(&self, id: TokenId) -> bool {
        self.begin_ids.contains(&id)
    }

    /// Whether an id may stand after the last turn.
    pub(crate) fn ends(&self, id: TokenId) -> bool {
        self.end_ids.contains(&id)
    }

    /// The row that text outside a turn is read by: the assistant's first.
    pub(crate) fn assistant(&self) -> usize {
        self.rows.iter().position(|row| row.role == Role::Assistant).unwrap_or(0)
    }

    /// The ids that end an assistant's turn.
    pub(crate) fn stop_ids(&self) -> Vec<TokenId> {
        let assistants = self.rows.iter().filter(|row| row.role == Role::Assistant);
        let mut ids: Vec<TokenId> =
            assistants.flat_map(|row| row.rule.closer.ids.iter().copied()).collect();
        let mut seen = Vec::new();
        ids.retain(|id| {
            !seen.contains(id) && {
                seen.push(*id);
                true
            }
        });
        ids
    }
}

fn openers<'a>(rules: impl Iterator<Item = &'a Rule>) -> Vec<TokenId> {
    let mut ids: Vec<TokenId> =
        rules.filter_map(|rule| rule.read.first()).flat_map(control_ids).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn control_ids(op: &Op) -> Vec<TokenId> {
    match op {
        Op::Control(ids) => ids.iter().map(|id| id.get()).collect(),
        _ => Vec::new(),
    }
}

struct Binder<'a> {
    control: &'a [(String, Vec<String>)],
    ids: &'a [ControlId],
}

impl Binder<'_> {
    fn ops(&self, pieces: &[Piece]) -> Vec<Op> {
        pieces.iter().map(|piece| self.op(piece)).collect()
    }

    fn op(&self, piece: &Piece) -> Op {
        match piece {
            Piece::Control(names) => {
                let known = self.control.iter().zip(self.ids);
                let id = |name| known.clone().find(|((n, _), _)| n == name).map(|(_, &id)| id);
                Op::Control(names.iter().filter_map(id).collect())
            }
            Piece::Literal(text) => Op::Literal(text.clone()),
            &Piece::Field(field) => Op::Field(field),
            &Piece::Guard { field, len } => Op::Guard { field, len },
            Piece::Space => Op::Space,
            Piece::Cut => Op::Cut,
        }
    }

    /// Loading the format has checked that there is one text field, closed by a control token.
    fn rule(&self, pieces: &[Piece]) -> Rule {
        let ops = self.ops(pieces);
        let text_at = ops.iter().position(is_text).unwrap_or(0);
        let is_control = |op: &Op| matches!(op, Op::Control(_));
        let close_at =
            ops[text_at..].iter().position(is_control).map_or(ops.len(), |at| text_at + at);
        let mut suffix = Suffix::default();
        for op in ops.get(text_at + 1..close_at).unwrap_or_default() {
            match op {
                Op::Literal(text) => suffix.literal.push_str(text),
                Op::Space => suffix.space = true,
                _ => {}
            }
        }
        let ids = ops.get(close_at).map(control_ids).unwrap_or_default();
        // A guard of calls and the calls follow the text directly.
        let has_calls = matches!(ops.get(text_at + 1), Some(Op::Guard { .. }));
        let open_at = text_at + if has_calls { 3 } else { 1 };
        Rule { read: read(&ops), closer: Closer { suffix, ids }, open_at, close_at, ops }
    }
}

fn is_text(op: &Op) -> bool {
    matches!(op, Op::Field(field)
        if matches!(field.grammar(), FieldGrammar::Text | FieldGrammar::Object))
}

/// The steps as they are read: white space around an object means nothing.
fn read(ops: &[Op]) -> Vec<Op> {
    let mut read: Vec<Op> = ops.iter().filter(|op| **op != Op::Cut).cloned().collect();
    for at in 1..read.len() {
        if read[at] == Op::Field(Field::Call)
            && let Op::Literal(text) = &read[at - 1]
            && is_white(text)
        {
            read[at - 1] = Op::Space;
        }
    }
    read
}
