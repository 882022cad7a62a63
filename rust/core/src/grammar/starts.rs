//! Where patterns are entered: the first steps of the patterns that a marker may begin.

use super::{Grammar, Op, Rule};
use crate::message::Role;
use crate::pattern::{FieldContent, is_white};

/// Pattern of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleOf {
    Row(usize),
    Item(usize),
}

impl RuleOf {
    pub(crate) fn rule(self, grammar: &Grammar) -> &Rule {
        match self {
            Self::Row(row) => &grammar.rows[row].rule,
            Self::Item(item) => &grammar.items[item].rule,
        }
    }
}

/// Step of a pattern at which reading begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) rule: RuleOf,
    pub(crate) op: usize,
    /// Whether the text of the pattern begins here, or the pattern ends.
    pub(crate) is_text: bool,
}

/// Steps at which the patterns begin that may come at a place.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// After a control token that opens something: every row, then every shape of a call.
    pub(crate) opened: Vec<Start>,
    /// After a control token whose call is not written as the format writes it: the shapes that are only read.
    pub(crate) also: Vec<Start>,
    /// In a block of calls, after one of them.
    pub(crate) further: Vec<Start>,
    /// After a prompt that has no word of the assistant: its rows and calls.
    pub(crate) answer: Vec<Start>,
}

impl Starts {
    pub(super) fn of(grammar: &Grammar) -> Self {
        let is_opened = |row: &usize| {
            let row = &grammar.rows[*row];
            !row.calls_only && !row.text_first
        };
        let rows =
            |rows: &[usize]| rows.iter().copied().filter(is_opened).map(RuleOf::Row).collect();
        let (first, last): (Vec<_>, Vec<_>) = (rows(&grammar.read_order), rows(&grammar.read_last));
        let own = openers(grammar, Form::Own).chain(last);
        let own = own.chain(openers(grammar, Form::Also)).chain(openers(grammar, Form::Loose));
        let is_answer = |row: &usize| {
            grammar.rows[*row].role == Role::Assistant && !grammar.rows[*row].calls_only
        };
        let answers = grammar.read_order.iter().copied().filter(is_answer);
        let calls = [Form::Own, Form::Also, Form::Loose];
        let calls = calls.into_iter().flat_map(|form| openers(grammar, form));
        let further = (0..grammar.items.len()).filter(|&item| grammar.items[item].is_further());
        Self {
            opened: enter(grammar, first.into_iter().chain(own)),
            also: enter(grammar, openers(grammar, Form::Also)),
            further: enter(grammar, further.map(RuleOf::Item)),
            answer: enter(grammar, by_head(grammar, answers, calls)),
        }
    }
}

impl Grammar {
    /// Whether there are shapes of calls that are only read.
    pub(crate) fn reads_other_calls(&self) -> bool {
        !self.starts.also.is_empty()
    }

    /// Steps at which a row is read from step `op` on.
    pub(crate) fn row_from(&self, row: usize, op: usize) -> Vec<Start> {
        let rule = RuleOf::Row(row);
        let mut starts = Vec::new();
        steps_from(&rule.rule(self).read, op, &mut |op, is_text| {
            starts.push(Start { rule, op, is_text });
        });
        starts
    }

    /// Steps at which the rows begin that may come after a turn of `last`, if one of them begins with text.
    pub(crate) fn texts_after(&self, last: Option<Role>) -> Vec<Start> {
        let rows = self.rows_after(last).filter(|&row| self.rows[row].text_first);
        enter(self, by_head(self, rows, []))
    }
}

/// The first steps of patterns, in the order of the patterns.
fn enter(grammar: &Grammar, rules: impl IntoIterator<Item = RuleOf>) -> Vec<Start> {
    let mut starts = Vec::new();
    for rule in rules {
        steps_from(&rule.rule(grammar).read, 0, &mut |op, is_text| {
            starts.push(Start { rule, op, is_text });
        });
    }
    starts
}

/// Calls `found` with each step at which reading may be after the steps before `op`: that step, and the next one
/// where a step may be empty. Also whether the text begins there.
pub(crate) fn steps_from(ops: &[Op], op: usize, found: &mut impl FnMut(usize, bool)) {
    let is_scaffold = |op: &Op| match op {
        Op::Literal(text) => is_white(text),
        op => *op == Op::Space,
    };
    let rest = ops.get(op..).unwrap_or_default();
    let is_after_control = op > 0 && matches!(ops.get(op - 1), Some(Op::Control(_)));
    // White space at the end may be missing.
    let op = if is_after_control && rest.iter().all(is_scaffold) { ops.len() } else { op };
    match ops.get(op) {
        Some(Op::Guard { len, .. }) => {
            steps_from(ops, op + 1, found);
            steps_from(ops, op + len + 1, found);
        }
        Some(Op::Space | Op::Prefix | Op::Rest(_)) => {
            found(op, false);
            steps_from(ops, op + 1, found);
        }
        Some(Op::Field(field, _)) => found(op, field.holds() != FieldContent::Word),
        Some(_) => found(op, false),
        None => found(op, true),
    }
}

/// Whose form of a call it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The format's.
    Own,
    /// The format's, with other white space.
    Loose,
    /// Another format's.
    Also,
}

/// Calls of a form that a control token opens: not the calls that continue a block, nor those that begin with text.
fn openers(grammar: &Grammar, form: Form) -> impl Iterator<Item = RuleOf> + '_ {
    let is_opener = move |&item: &usize| {
        let item = &grammar.items[item];
        let is_marked = item.before.is_none() && !item.is_bare;
        let own = if item.is_loose { Form::Loose } else { Form::Own };
        let is_form = form == if item.is_also { Form::Also } else { own };
        is_form && !item.is_further() && is_marked
    };
    (0..grammar.items.len()).filter(is_opener).map(RuleOf::Item)
}

/// Rows that begin with a marker, calls, then rows that begin with a field.
fn by_head(
    grammar: &Grammar,
    rows: impl Iterator<Item = usize>,
    items: impl IntoIterator<Item = RuleOf>,
) -> Vec<RuleOf> {
    let begins_with_field = |row: &usize| {
        matches!(grammar.rows[*row].rule.read.first(),
            Some(Op::Field(field, _)) if field.holds() != FieldContent::Word)
    };
    let (fields, markers): (Vec<_>, Vec<_>) = rows.partition(begins_with_field);
    let rows = |rows: Vec<usize>| rows.into_iter().map(RuleOf::Row);
    rows(markers).chain(items).chain(rows(fields)).collect()
}
