//! Expressions: languages of control tokens and text, independent of a backend's syntax.
//!
//! Formats build them, `constrain` prints them. Text that no control token interrupts is one terminal, because
//! the lexers of backends are greedy: free text before a second terminal would never end.

use std::sync::Arc;

use chatcodec_vocab::{TokenId, Vocab};
use serde_json::Value;

/// A language of control tokens and text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    /// A sequence.
    Sequence(Vec<Expression>),
    /// Alternatives.
    Choice(Vec<Expression>),
    /// A repetition: minimum and maximum count.
    Repeat(Box<Expression>, u32, Option<u32>),
    /// A shared rule, by its number.
    Rule(usize),
    /// One of these control tokens.
    Ids(Vec<TokenId>),
    /// One of these control tokens at the end of the completion.
    End(Vec<TokenId>),
    /// Literal text.
    Literal(String),
    /// Text described by one terminal.
    Text(Vec<Part>),
    /// A JSON value by a schema.
    Json(Arc<Value>),
}

/// A part of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Literal text.
    Literal(String),
    /// Any text that matches none of these regular expressions.
    Any { except: Vec<String> },
    /// Text that matches a regular expression, and all of others, and none of these.
    Regex { regex: String, also: Vec<String>, except: Vec<String> },
}

impl Part {
    /// Text that matches a regular expression.
    pub(crate) fn regex(regex: impl Into<String>) -> Self {
        Self::Regex { regex: regex.into(), also: Vec::new(), except: Vec::new() }
    }
}

/// Shared rules by their numbers, and the texts that end what the rules describe.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    all: Vec<Expression>,
    ends: Vec<String>,
}

impl Rules {
    /// No rules, of a language that ends where one of these texts is spelled.
    pub(crate) fn ending_at(ends: Vec<String>) -> Self {
        Self { all: Vec::new(), ends }
    }

    /// The texts that no text within the language may spell.
    pub(crate) fn ends(&self) -> &[String] {
        &self.ends
    }

    pub(crate) fn get(&self, number: usize) -> Expression {
        self.all.get(number).cloned().unwrap_or(Expression::EMPTY)
    }

    /// Adds a rule and returns a reference to it. A short expression is returned itself.
    pub(crate) fn share(&mut self, expression: Expression) -> Expression {
        if matches!(expression, Expression::Rule(_) | Expression::Ids(_))
            || expression == Expression::EMPTY
        {
            return expression;
        }
        self.all.push(expression);
        Expression::Rule(self.all.len() - 1)
    }

    /// The number of a rule that [`Rules::set`] defines.
    pub(crate) fn reserve(&mut self) -> usize {
        self.all.push(Expression::EMPTY);
        self.all.len() - 1
    }

    pub(crate) fn set(&mut self, number: usize, expression: Expression) {
        if let Some(rule) = self.all.get_mut(number) {
            *rule = expression;
        }
    }

    /// Writes out the tags in all rules.
    pub(crate) fn put_tags(&mut self, vocab: &Vocab) {
        for rule in &mut self.all {
            *rule = std::mem::replace(rule, Expression::EMPTY).with_tags(vocab);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Expression> {
        self.all
    }
}

impl Expression {
    /// The language of the empty text.
    pub(crate) const EMPTY: Self = Self::Sequence(Vec::new());

    pub(crate) fn literal(text: impl Into<String>) -> Self {
        Self::Literal(text.into())
    }

    /// Any text.
    pub(crate) fn any() -> Self {
        Self::part(Part::Any { except: Vec::new() })
    }

    /// A terminal of one part.
    pub(crate) fn part(part: Part) -> Self {
        Self::Text(vec![part])
    }

    /// A control token, or a tag with its text; empty without one.
    pub(crate) fn token(vocab: &Vocab, id: Option<TokenId>) -> Self {
        let Some(id) = id else { return Self::EMPTY };
        let Some(tag) = vocab.tag(id) else { return Self::Ids(vec![id]) };
        let token = Self::Ids(vec![tag.token.get()]);
        let next = tag.next.iter().map(|next| Self::Ids(vec![next.get()]));
        let first = [Self::literal(&*tag.before), token, Self::literal(&*tag.after)];
        Self::sequence(first.into_iter().chain(next))
    }

    /// The same language with the text of each tag beside its token.
    pub(crate) fn with_tags(self, vocab: &Vocab) -> Self {
        let all = |parts: Vec<Self>| parts.into_iter().map(|part| part.with_tags(vocab));
        match self {
            Self::Ids(ids) if ids.iter().any(|&id| vocab.tag(id).is_some()) => {
                Self::choice(ids.into_iter().map(|id| Self::token(vocab, Some(id))))
            }
            Self::Sequence(parts) => Self::sequence(all(parts)),
            Self::Choice(parts) => Self::choice(all(parts)),
            Self::Repeat(part, least, most) => {
                Self::Repeat(Box::new(part.with_tags(vocab)), least, most)
            }
            other => other,
        }
    }

    /// Whether text comes first.
    pub(crate) fn begins_with_text(&self) -> bool {
        match self {
            Self::Sequence(parts) => parts.first().is_some_and(Self::begins_with_text),
            other => matches!(other, Self::Literal(_)),
        }
    }

    /// An optional expression.
    pub(crate) fn optional(self) -> Self {
        Self::Repeat(Box::new(self), 0, Some(1))
    }

    /// A sequence in which neighbouring texts are one terminal.
    pub(crate) fn sequence(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut all: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Self::Sequence(inner) => inner.into_iter().for_each(|part| push(&mut all, part)),
                part => push(&mut all, part),
            }
        }
        match all.len() {
            1 => all.remove(0),
            _ => Self::Sequence(all),
        }
    }

    /// Alternatives without duplicates.
    pub(crate) fn choice(alternatives: impl IntoIterator<Item = Self>) -> Self {
        let mut all: Vec<Self> = Vec::new();
        for alternative in alternatives {
            match alternative {
                Self::Choice(inner) => {
                    for alternative in inner {
                        if !all.contains(&alternative) {
                            all.push(alternative);
                        }
                    }
                }
                alternative if all.contains(&alternative) => {}
                alternative => all.push(alternative),
            }
        }
        match all.len() {
            1 => all.remove(0),
            _ => Self::Choice(all),
        }
    }
}

/// Appends an expression; text joins text before it.
fn push(all: &mut Vec<Expression>, part: Expression) {
    match (all.last_mut(), part) {
        (_, Expression::Literal(text)) if text.is_empty() => {}
        (Some(Expression::Literal(before)), Expression::Literal(text)) => before.push_str(&text),
        (Some(Expression::Text(before)), Expression::Literal(text)) => {
            before.push(Part::Literal(text));
        }
        (Some(before @ Expression::Literal(_)), Expression::Text(mut parts)) => {
            if let Expression::Literal(literal) = before {
                parts.insert(0, Part::Literal(std::mem::take(literal)));
            }
            *before = Expression::Text(parts);
        }
        (Some(Expression::Text(before)), Expression::Text(parts)) => before.extend(parts),
        (_, part) => all.push(part),
    }
}

/// A regular expression that matches this text alone.
pub(crate) fn escape_regex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~\"".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The texts without those that have another one as their prefix, and without duplicates.
pub(crate) fn shortest(mut all: Vec<String>) -> Vec<String> {
    all.sort_by_key(String::len);
    let mut kept: Vec<String> = Vec::new();
    for text in all {
        if !kept.iter().any(|shorter| text.starts_with(&**shorter)) {
            kept.push(text);
        }
    }
    kept
}

/// What matches the texts that spell one of some texts, alone or together with the texts `before` and `after` them.
pub(crate) fn spelling_between<'t>(
    texts: impl IntoIterator<Item = &'t str>,
    before: &str,
    after: &str,
) -> Vec<String> {
    let [mut anywhere, mut first, mut last, mut whole] = [const { Vec::<&str>::new() }; 4];
    for text in texts {
        anywhere.push(text);
        let cuts = || text.char_indices().skip(1).map(|(at, _)| at);
        let begins = |at: &usize| is_cut(before, &text[..*at], |one, other| one.ends_with(other));
        let ends = |at: &usize| is_cut(after, &text[*at..], |one, other| one.starts_with(other));
        first.extend(cuts().filter(begins).map(|at| &text[at..]));
        last.extend(cuts().filter(ends).map(|at| &text[..at]));
        for from in cuts().filter(begins) {
            let ends = cuts().filter(|to| *to >= from).filter(ends);
            whole.extend(ends.map(|to| &text[from..to]));
        }
    }
    let all = anywhere.clone();
    anywhere.retain(|text| !all.iter().any(|other| other != text && text.contains(other)));
    let ways = [(anywhere, ".*", ".*"), (first, "", ".*"), (last, ".*", ""), (whole, "", "")];
    let some = ways.into_iter().filter(|(texts, _, _)| !texts.is_empty());
    some.map(|(texts, open, close)| format!("{open}{}{close}", any_of(texts))).collect()
}

/// A regular expression that matches these texts alone. What several begin with stands there once, as each text that
/// has begun multiplies the states of a lexer.
fn any_of(mut texts: Vec<&str>) -> String {
    texts.sort_unstable();
    texts.dedup();
    let mut ways = Vec::new();
    // An empty text is sorted first.
    let is_end = texts.first().is_some_and(|text| text.is_empty());
    let mut rest = &texts[usize::from(is_end)..];
    while let Some(first) = rest.first().and_then(|text| text.chars().next()) {
        let count = rest.iter().take_while(|text| text.starts_with(first)).count();
        let (same, others) = rest.split_at(count);
        // Sorted texts begin alike as far as the first and the last of them do.
        let pairs = same[0].chars().zip(same[count - 1].chars());
        let shared = pairs.take_while(|(one, other)| one == other).map(|(c, _)| c.len_utf8()).sum();
        let ends = same.iter().map(|text| &text[shared..]).collect();
        ways.push(escape_regex(&same[0][..shared]) + &any_of(ends));
        rest = others;
    }
    match (&ways[..], is_end) {
        ([], _) => String::new(),
        ([way], false) => way.clone(),
        (ways, false) => format!("({})", ways.join("|")),
        (ways, true) => format!("({})?", ways.join("|")),
    }
}

/// Whether two texts that are not empty pass a test, in either order.
fn is_cut(one: &str, other: &str, test: impl Fn(&str, &str) -> bool) -> bool {
    !one.is_empty() && !other.is_empty() && (test(one, other) || test(other, one))
}
