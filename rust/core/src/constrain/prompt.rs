//! What is left of a turn after the part of it that a prompt has written: a header, and an answer that has begun.

use super::automaton::{Left, left, matched};
use crate::bound::Bound;
use crate::encode;
use crate::error::{Error, Result};
use crate::expression::{Expression, Part, Rules};
use crate::format::Guarantee;
use crate::grammar::{BoundPiece, FixedText, Grammar};
use crate::message::Role;
use crate::pattern::Piece;
use crate::render;
use chatcodec_vocab::{ControlId, TokenId};

/// Most steps to find what is left.
const MAX_STEPS: usize = 20_000;

/// Most bytes of an answer that has begun.
const MAX_BYTES: usize = 1 << 20;

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    Id(TokenId),
    Text(String),
}

/// What a prompt has written of the answer's turn: the first way that a turn begins with is meant.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) ways: Vec<Way>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Way {
    parts: Vec<Written>,
    /// Whether an answer has begun after the generation prompt.
    is_begun: bool,
    /// Whether the turn is the one that follows a result without a header.
    pub(super) is_after_tool: bool,
}

impl Opened {
    /// What a prompt has written: a generation prompt at its end, or one that an answer follows.
    ///
    /// # Errors
    /// [`Error::Message`] for a prompt without a generation prompt.
    pub(super) fn new(bound: &Bound, prompt: &[TokenId]) -> Result<Self> {
        let grammar = bound.grammar();
        let mut all: Vec<(Vec<Written>, Vec<TokenId>)> =
            grammar.prompts().map(|pieces| (parts(bound, pieces), ids(bound, pieces))).collect();
        all.sort_by_key(|(_, ids)| ids.len());
        let mut ways = Vec::new();
        let mut add = |parts, is_begun, is_after_tool| {
            ways.push(Way { parts, is_begun, is_after_tool });
        };
        let ended = all.iter().rposition(|(_, ids)| prompt.ends_with(ids));
        match (ended.map(|at| &all[at]), after_text_results(bound, prompt)) {
            (Some((parts, ids)), _) if !ids.is_empty() => add(parts.clone(), false, false),
            (_, Some((lead, rest))) => {
                let rest = decoded(bound, rest)?;
                let is_begun = !rest.is_empty();
                add([lead, rest].concat(), is_begun, true);
            }
            (found, None) => {
                // From the last token on that a generation prompt begins with, or after the last one of a turn
                // that is not the assistant's.
                let begun = all.iter().filter_map(|(parts, ids)| match parts.first() {
                    // Other tags begin with the token too: the text after it says which tag it is.
                    Some(Written::Id(first)) if is_of_tag(bound, *first) => {
                        let lead = lead_of(bound, ids);
                        prompt.windows(lead.len()).rposition(|window| window == lead)
                    }
                    Some(Written::Id(first)) => prompt.iter().rposition(|id| id == first),
                    // Text and then a token: the text is encoded alone, so it has the same ids everywhere.
                    Some(Written::Text(_)) if matches!(parts.last(), Some(Written::Id(_))) => {
                        prompt.windows(ids.len()).rposition(|window| window == &ids[..])
                    }
                    // Text alone: its turn begins where a token has closed the one before.
                    Some(Written::Text(_)) if bound.format().guarantee() == Guarantee::Ids => {
                        turn_end(grammar, prompt)
                    }
                    _ if grammar.generation_prompt.is_empty() => turn_end(grammar, prompt),
                    _ => None,
                });
                if let Some(at) = begun.max() {
                    let parts = after_unread(bound, decoded(bound, &prompt[at..])?, &all)?;
                    add(parts, true, false);
                }
                if grammar.after_tool.is_some() && grammar.answer_ids.is_empty() {
                    add(Vec::new(), false, true);
                } else if let Some((parts, _)) = found {
                    add(parts.clone(), false, false);
                }
            }
        }
        if ways.is_empty() && bound.ends_with_prompt(prompt) {
            // A prompt of text, whose ids depend on the text before it.
            ways.push(Way {
                parts: parts(bound, &grammar.generation_prompt),
                is_begun: false,
                is_after_tool: false,
            });
        }
        if ways.is_empty() {
            let problem = "does not end with a generation prompt of the format, nor with an answer that has begun; \
                           expected one";
            return Err(Error::message("prompt", problem));
        }
        Ok(Self { ways })
    }

    /// The size of the parts, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.ways.iter().flat_map(|way| &way.parts);
        parts.map(|part| if let Written::Text(text) = part { text.len() } else { 4 }).sum()
    }
}

/// What a prompt has of a message after results of text, up to the token that begins the message, and the ids after
/// that.
fn after_text_results<'p>(
    bound: &Bound,
    prompt: &'p [TokenId],
) -> Option<(Vec<Written>, &'p [TokenId])> {
    let grammar = bound.grammar();
    let ends = grammar.stop_ids();
    let ended = prompt.iter().rposition(|id| ends.contains(id))? + 1;
    let at = ended + prompt[ended..].iter().position(|&id| bound.vocab().is_control(id))?;
    let token = Some(prompt[at]).filter(|&id| grammar.opens_answer(id))?;
    let rows = grammar.rows.iter().filter(|row| row.place.is_after_tool());
    let is_own = |pieces: &&[BoundPiece]| {
        let first = pieces.iter().find_map(|piece| match piece {
            Piece::Control(ids) => Some(ids),
            _ => None,
        });
        first.is_some_and(|ids| ids.iter().any(|id| id.get() == token))
    };
    let pieces = rows.map(|row| &row.rule.pieces[..]).find(is_own)?;
    let white = pieces.first().filter(|piece| !piece.is_control());
    let lead = white.map(std::slice::from_ref).map_or_else(Vec::new, |white| parts(bound, white));
    Some(([lead, vec![Written::Id(token)]].concat(), &prompt[at + 1..]))
}

/// What a prompt has written, without pairs of control tokens that the format does not read, and the text in them:
/// a template's prompt may open and close reasoning that the format knows nothing of. The reader takes nothing for
/// such a token.
///
/// # Errors
/// [`Error::Message`] for a prompt that ends within such a pair.
fn after_unread(
    bound: &Bound,
    parts: Vec<Written>,
    prompts: &[(Vec<Written>, Vec<TokenId>)],
) -> Result<Vec<Written>> {
    let (vocab, names) = (bound.vocab(), bound.format().control());
    let spellings = names.iter().flat_map(|(_, spellings)| spellings);
    let known: Vec<TokenId> =
        spellings.filter_map(|spelling| vocab.control().get(spelling).copied()).collect();
    let is_unread = |part: &Written| matches!(part, Written::Id(id) if !known.contains(id));
    let Some(last) = parts.iter().rposition(is_unread) else { return Ok(parts) };
    let begins = |(prompt, _): &&(Vec<Written>, Vec<TokenId>)| {
        !prompt.is_empty() && parts.starts_with(prompt)
    };
    let Some((prompt, _)) = prompts.iter().rev().find(begins) else { return Ok(parts) };
    let count = parts.iter().filter(|part| is_unread(part)).count();
    if count % 2 == 0 {
        return Ok(prompt.iter().chain(&parts[last + 1..]).cloned().collect());
    }
    let spelling = match &parts[last] {
        Written::Id(id) => vocab.spelling(*id),
        Written::Text(_) => "",
    };
    let problem = format!(
        "opens `{spelling}`, which {} does not read; expected a prompt without it",
        bound.format().described()
    );
    Err(Error::message("prompt", problem))
}

/// The parts of a generation prompt, which holds no field.
fn parts(bound: &Bound, pieces: &[BoundPiece]) -> Vec<Written> {
    let (grammar, vocab) = (bound.grammar(), bound.vocab());
    let mut parts: Vec<Written> = Vec::new();
    let text = |text: &str| (!text.is_empty()).then(|| Written::Text(text.to_owned()));
    let of_token = |id: ControlId| {
        if let Some(tag) = vocab.tag(id.get()) {
            let next = tag.next.iter().map(|id| Some(Written::Id(id.get())));
            let token = Some(Written::Id(tag.token.get()));
            return [text(&tag.before), token, text(&tag.after)].into_iter().chain(next).collect();
        }
        vec![match grammar.text_of(id) {
            Some(marker) => text(marker),
            None => Some(Written::Id(id.get())),
        }]
    };
    let all = pieces.iter().flat_map(|piece| match piece {
        Piece::Control(ids) => ids.first().map_or_else(Vec::new, |&id| of_token(id)),
        Piece::Literal(FixedText::Encoded(literal)) => vec![text(&literal.text)],
        _ => Vec::new(),
    });
    let all = all.flatten();
    for part in all {
        match (parts.last_mut(), part) {
            (Some(Written::Text(before)), Written::Text(text)) => before.push_str(&text),
            (_, part) => parts.push(part),
        }
    }
    parts
}

/// Whether tags begin with a token.
fn is_of_tag(bound: &Bound, token: TokenId) -> bool {
    bound.vocab().tags().any(|(_, tag)| tag.token.get() == token)
}

/// The ids of a prompt up to its second control token.
fn lead_of<'i>(bound: &Bound, ids: &'i [TokenId]) -> &'i [TokenId] {
    let mut control = ids.iter().enumerate().filter(|(_, id)| bound.vocab().is_control(**id));
    control.nth(1).map_or(ids, |(at, _)| &ids[..at])
}

/// Where the last turn ends that is not the assistant's.
fn turn_end(grammar: &Grammar, prompt: &[TokenId]) -> Option<usize> {
    let others = grammar.rows.iter().filter(|row| row.role != Role::Assistant);
    let last = others.filter_map(|row| match row.rule.pieces.last() {
        Some(Piece::Control(ids)) => Some(ids),
        _ => None,
    });
    let ends: Vec<TokenId> = last.flatten().map(|id| id.get()).collect();
    prompt.iter().rposition(|id| ends.contains(id)).map(|at| at + 1)
}

/// The ids of a generation prompt.
fn ids(bound: &Bound, pieces: &[BoundPiece]) -> Vec<TokenId> {
    let (format, vocab, grammar) = (bound.format(), bound.vocab(), bound.grammar());
    let rendered = render::render_scaffold(pieces, format, grammar, vocab);
    encode::encode(rendered, grammar, vocab, encode::OnMarker::Report, 1)
        .map_or_else(|_| Vec::new(), |encoding| encoding.ids().to_vec())
}

/// Ids as control tokens and the text between them.
fn decoded(bound: &Bound, ids: &[TokenId]) -> Result<Vec<Written>> {
    let vocab = bound.vocab();
    let mut parts = Vec::new();
    let (mut text, mut size) = (Vec::new(), 0);
    let mut flush = |text: &mut Vec<u8>, parts: &mut Vec<Written>| {
        if text.is_empty() {
            return Ok::<(), Error>(());
        }
        size += text.len();
        let expected =
            format!("expected an answer of at most {MAX_BYTES} bytes of whole characters");
        let whole = String::from_utf8(std::mem::take(text)).ok().filter(|_| size <= MAX_BYTES);
        let whole = whole.ok_or_else(|| {
            Error::message(
                "prompt",
                format!("ends with an answer that cannot be continued, {expected}"),
            )
        })?;
        parts.push(Written::Text(whole));
        Ok(())
    };
    for &id in ids {
        if vocab.is_control(id) {
            flush(&mut text, &mut parts)?;
            parts.push(Written::Id(id));
        } else {
            text.extend_from_slice(vocab.token_bytes(id).unwrap_or_default());
        }
    }
    flush(&mut text, &mut parts)?;
    Ok(parts)
}

/// The language of what follows a prompt in a turn; `None`, if the turn does not begin so.
///
/// # Errors
/// [`Error::Message`] for a prompt that ends where nothing can say what may follow.
pub(super) fn rest_of(turn: Expression, way: &Way, rules: &Rules) -> Result<Option<Expression>> {
    let is_begun = way.is_begun;
    let mut rest = Rest { rules, is_begun, found: Vec::new(), steps: 0, problem: None };
    rest.strip(vec![turn], &way.parts);
    match rest.problem {
        Some(problem) if rest.found.is_empty() => Err(Error::message("prompt", problem)),
        _ if rest.found.is_empty() => Ok(None),
        _ => Ok(Some(Expression::choice(rest.found))),
    }
}

/// The search for what follows a prompt.
struct Rest<'a> {
    rules: &'a Rules,
    is_begun: bool,
    found: Vec<Expression>,
    steps: usize,
    /// Why a way was left that may have been meant.
    problem: Option<&'static str>,
}

impl Rest<'_> {
    /// Collects what follows a prompt in a sequence, whose parts are in reverse.
    fn strip(&mut self, mut rest: Vec<Expression>, prompt: &[Written]) {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return;
        }
        let Some((first, others)) = prompt.split_first() else {
            rest.reverse();
            let left = Expression::sequence(rest);
            if !self.found.contains(&left) {
                self.found.push(left);
            }
            return;
        };
        let Some(next) = rest.pop() else { return };
        match next {
            Expression::Sequence(parts) => {
                rest.extend(parts.into_iter().rev());
                self.strip(rest, prompt);
            }
            Expression::Choice(all) => {
                for alternative in all {
                    let mut rest = rest.clone();
                    rest.push(alternative);
                    self.strip(rest, prompt);
                }
            }
            Expression::Repeat(inner, least, most) => {
                if least == 0 {
                    self.strip(rest.clone(), prompt);
                }
                if most != Some(0) {
                    let (least, most) = (least.saturating_sub(1), most.map(|most| most - 1));
                    if most != Some(0) {
                        rest.push(Expression::Repeat(inner.clone(), least, most));
                    }
                    rest.push(*inner);
                    self.strip(rest, prompt);
                }
            }
            Expression::Rule(number) => {
                rest.push(self.rules.get(number));
                self.strip(rest, prompt);
            }
            Expression::Ids(ids) => {
                if let Written::Id(id) = first
                    && ids.contains(id)
                {
                    self.strip(rest, others);
                }
            }
            Expression::Literal(text) => self.strip_literal(&text, rest, prompt),
            Expression::Text(parts) => {
                let Some((part, more)) = parts.split_first() else {
                    return self.strip(rest, prompt);
                };
                if !more.is_empty() {
                    rest.push(Expression::Text(more.to_vec()));
                }
                match part {
                    // No field of an answer is in its generation prompt.
                    Part::Any { .. } if !self.is_begun => {}
                    Part::Regex { regex, .. } if !self.is_begun && regex != SPACE => {}
                    Part::Literal(text) => self.strip_literal(text, rest, prompt),
                    Part::Any { except } => self.strip_any(except, rest, prompt),
                    Part::Regex { regex, .. } => self.strip_regex(regex, rest, prompt),
                }
            }
            Expression::End(_) => {}
            Expression::Json(_) if !self.is_begun => {}
            Expression::Json(_) => {
                self.problem = Some(
                    "ends with an answer in JSON that has begun; expected a generation prompt, which no JSON \
                     follows",
                );
            }
        }
    }

    fn strip_literal(&mut self, text: &str, mut rest: Vec<Expression>, prompt: &[Written]) {
        let Some((Written::Text(first), others)) = prompt.split_first() else { return };
        if let Some(left) = text.strip_prefix(&**first) {
            if !left.is_empty() {
                rest.push(Expression::literal(left));
            }
            self.strip(rest, others);
        } else if let Some(left) = first.strip_prefix(text) {
            self.strip(rest, &with_first(left, others));
        }
    }

    /// The same of any text, which ends at a token, or before what follows it in the turn.
    fn strip_any(&mut self, except: &[String], rest: Vec<Expression>, prompt: &[Written]) {
        let Some((Written::Text(first), others)) = prompt.split_first() else {
            return self.strip(rest, prompt);
        };
        let mut left_out = Vec::new();
        let mut is_text = true;
        for regex in except {
            match left(regex, first) {
                Some(Left::Nothing) => {}
                Some(Left::Some(regex)) => left_out.push(regex),
                Some(Left::All) | None => is_text = false,
            }
        }
        if is_text {
            let mut rest = rest.clone();
            rest.push(Expression::part(Part::Any { except: left_out }));
            self.strip(rest, others);
        } else {
            self.problem = Some(
                "ends within a call that no token marks; expected a prompt that ends before it",
            );
        }
        let Some(literal) = rest.last().and_then(first_literal) else { return };
        let begins =
            |at: usize| first[at..].starts_with(literal) || literal.starts_with(&first[at..]);
        let ends = first.char_indices().map(|(at, _)| at).filter(|&at| begins(at));
        for at in ends.collect::<Vec<_>>() {
            if !except.iter().any(|regex| matched(regex, &first[..at])) {
                self.strip(rest.clone(), &with_first(&first[at..], others));
            }
        }
    }

    /// The same of a regular expression, of which a prompt has written none.
    fn strip_regex(&mut self, regex: &str, rest: Vec<Expression>, prompt: &[Written]) {
        if regex != SPACE {
            self.problem = Some(
                "ends within a call; expected a generation prompt, or an answer whose text has begun",
            );
            return;
        }
        if let Some((Written::Text(first), others)) = prompt.split_first()
            && let Some(left) = first.strip_prefix(' ')
        {
            self.strip(rest.clone(), &with_first(left, others));
        }
        self.strip(rest, prompt);
    }
}

/// The space that a vocabulary puts before a text.
pub(super) const SPACE: &str = " ?";

/// The text that a language begins with, if it begins with one.
fn first_literal(expression: &Expression) -> Option<&str> {
    match expression {
        Expression::Literal(text) => Some(text),
        Expression::Sequence(parts) => parts.first().and_then(first_literal),
        Expression::Text(parts) => match parts.first() {
            Some(Part::Literal(text)) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// A prompt with another text at its beginning.
fn with_first(text: &str, others: &[Written]) -> Vec<Written> {
    let first = (!text.is_empty()).then(|| Written::Text(text.to_owned()));
    first.into_iter().chain(others.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Left, left};

    proptest! {
        /// What is left of a regular expression is what it has after the text.
        #[test]
        fn what_is_left_is_what_may_follow(
            lead in proptest::sample::select(vec![r"\s*", ".*", r"(.*\n)?\s*"]),
            text in "[ab{\n ]{0,6}",
            more in "[ab{\n ]{0,6}",
        ) {
            let regex = format!(r"{lead}(a\{{|ba[^ ]).*");
            let matches = |regex: &str, text: &str| {
                let whole = format!(r"(?s)\A(?:{regex})\z");
                fancy_regex::Regex::new(&whole).unwrap().is_match(text).unwrap()
            };
            let is_left = match left(&regex, &text).unwrap() {
                Left::Nothing => false,
                Left::All => true,
                Left::Some(left) => matches(&left, &more),
            };
            prop_assert_eq!(is_left, matches(&regex, &format!("{text}{more}")));
        }
    }
}
