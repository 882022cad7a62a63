//! Patterns of a response template, searched in text with control tokens, one symbol at a time.
//!
//! In: a pattern, then the symbols of a text. Out: the match that a backtracking search would find first, as soon as no
//! further symbol can change it. A literal that spells a control token is that token, and the spelling in text is
//! not. Cost: for each symbol at most the number of steps of the pattern.

use std::ops::Range;

use chatcodec_vocab::{TokenId, Vocab};
use hashbrown::HashMap;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

use crate::limits::HOLD_LIMIT;

/// A character, or a control token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Symbol(u32);

/// The first number that is no character.
const CONTROL: u32 = 0x11_0000;

/// What is neither a character nor an id of the vocabulary. No pattern has it.
const UNKNOWN: u32 = u32::MAX;

/// Most steps of a pattern.
const MAX_STEPS: usize = 4096;

impl Symbol {
    pub(super) fn of_char(character: char) -> Self {
        Self(u32::from(character))
    }

    pub(super) fn of_control(id: TokenId) -> Self {
        Self(CONTROL.wrapping_add(id.cast_unsigned()))
    }

    pub(super) fn char(self) -> Option<char> {
        char::from_u32(self.0)
    }

    pub(super) fn control(self) -> Option<TokenId> {
        let id = self.0.checked_sub(CONTROL).filter(|_| !self.is_unknown())?;
        TokenId::try_from(id).ok()
    }

    pub(super) fn unknown() -> Self {
        Self(UNKNOWN)
    }

    pub(super) fn is_unknown(self) -> bool {
        self.0 == UNKNOWN
    }

    pub(super) fn is_space(self) -> bool {
        self.char().is_some_and(char::is_whitespace)
    }
}

/// The symbols of a text in which spelled control tokens are control tokens: of the longest at each place.
pub(super) fn spelled(text: &str, vocab: &Vocab) -> Vec<Symbol> {
    let control = vocab.control();
    let longest = control.keys().map(String::len).max().unwrap_or(0);
    let mut symbols = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
        let ends = ends.take_while(|end| *end <= longest);
        let token = ends.filter_map(|end| Some((end, control.get(&rest[..end])?))).last();
        let length = if let Some((end, id)) = token {
            symbols.push(Symbol::of_control(*id));
            end
        } else {
            symbols.push(Symbol::of_char(character));
            character.len_utf8()
        };
        rest = &rest[length..];
    }
    symbols
}

/// The text of symbols; a control token is its spelling.
pub(super) fn text_of(symbols: &[Symbol], vocab: &Vocab) -> String {
    let mut text = String::new();
    for symbol in symbols {
        match (symbol.char(), symbol.control()) {
            (Some(character), _) => text.push(character),
            (None, Some(id)) => text.push_str(vocab.spelling(id)),
            (None, None) => {}
        }
    }
    text
}

#[derive(Debug)]
enum Step {
    /// A symbol of these ranges.
    Symbol(Box<[(u32, u32)]>),
    /// Either of two steps; the first one is preferred.
    Either(usize, usize),
    /// The begin or end of a named group.
    Save(usize),
    Match,
}

/// A pattern whose spelled control tokens are ids of one vocabulary.
#[derive(Debug)]
pub(super) struct Pattern {
    steps: Vec<Step>,
    names: Vec<String>,
}

impl Pattern {
    /// Compiles a pattern for a vocabulary.
    ///
    /// # Errors
    /// What the pattern has that is not supported.
    pub(super) fn new(hir: &Hir, vocab: &Vocab) -> std::result::Result<Self, String> {
        let mut made = Self { steps: Vec::new(), names: Vec::new() };
        made.add(hir, vocab)?;
        made.push(Step::Match)?;
        Ok(made)
    }

    fn push(&mut self, step: Step) -> std::result::Result<usize, String> {
        if self.steps.len() >= MAX_STEPS {
            return Err(format!("has more than {MAX_STEPS} steps, expected a shorter pattern"));
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn add(&mut self, hir: &Hir, vocab: &Vocab) -> std::result::Result<(), String> {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(literal) => {
                let text = String::from_utf8_lossy(&literal.0);
                for symbol in spelled(&text, vocab) {
                    self.push(Step::Symbol([(symbol.0, symbol.0)].into()))?;
                }
            }
            HirKind::Class(class) => {
                let ranges = match class {
                    Class::Unicode(class) => {
                        let range = |r: &regex_syntax::hir::ClassUnicodeRange| {
                            (u32::from(r.start()), u32::from(r.end()))
                        };
                        class.iter().map(range).collect()
                    }
                    Class::Bytes(class) => {
                        class.iter().map(|r| (r.start().into(), r.end().into())).collect()
                    }
                };
                self.push(Step::Symbol(ranges))?;
            }
            HirKind::Look(_) => {
                return Err(
                    "looks around (`^`, `$`, `\\b`), expected a pattern that does not".into()
                );
            }
            HirKind::Repetition(repetition) => self.repeat(repetition, vocab)?,
            HirKind::Capture(capture) => match &capture.name {
                None => self.add(&capture.sub, vocab)?,
                Some(name) => {
                    let known = self.names.iter().position(|known| **known == **name);
                    let group = known.unwrap_or_else(|| {
                        self.names.push(name.to_string());
                        self.names.len() - 1
                    });
                    self.push(Step::Save(2 * group))?;
                    self.add(&capture.sub, vocab)?;
                    self.push(Step::Save(2 * group + 1))?;
                }
            },
            HirKind::Concat(parts) => {
                for part in parts {
                    self.add(part, vocab)?;
                }
            }
            HirKind::Alternation(parts) => {
                let mut forks = Vec::new();
                let mut ends = Vec::new();
                for (nth, part) in parts.iter().enumerate() {
                    if let Some(fork) = forks.pop() {
                        self.set_second(fork);
                    }
                    if nth + 1 < parts.len() {
                        let at = self.steps.len();
                        forks.push(self.push(Step::Either(at + 1, 0))?);
                    }
                    self.add(part, vocab)?;
                    if nth + 1 < parts.len() {
                        ends.push(self.push(Step::Either(0, 0))?);
                    }
                }
                let end = self.steps.len();
                for at in ends {
                    self.steps[at] = Step::Either(end, end);
                }
            }
        }
        Ok(())
    }

    /// The second way of a fork leads to the next step.
    fn set_second(&mut self, at: usize) {
        let next = self.steps.len();
        if let Step::Either(_, second) = &mut self.steps[at] {
            *second = next;
        }
    }

    fn fork(&mut self, is_greedy: bool) -> std::result::Result<usize, String> {
        let at = self.steps.len();
        self.push(if is_greedy { Step::Either(at + 1, 0) } else { Step::Either(0, at + 1) })
    }

    /// The way out of a fork leads to `to`.
    fn leave(&mut self, at: usize, is_greedy: bool, to: usize) {
        if let Step::Either(first, second) = &mut self.steps[at] {
            *(if is_greedy { second } else { first }) = to;
        }
    }

    fn repeat(
        &mut self,
        repetition: &Repetition,
        vocab: &Vocab,
    ) -> std::result::Result<(), String> {
        let Repetition { min, max, greedy, sub } = repetition;
        for _ in 0..*min {
            self.add(sub, vocab)?;
        }
        match max {
            None => {
                let fork = self.fork(*greedy)?;
                self.add(sub, vocab)?;
                self.push(Step::Either(fork, fork))?;
                self.leave(fork, *greedy, self.steps.len());
            }
            Some(max) => {
                let mut forks = Vec::new();
                for _ in *min..*max {
                    forks.push(self.fork(*greedy)?);
                    self.add(sub, vocab)?;
                }
                for fork in forks {
                    self.leave(fork, *greedy, self.steps.len());
                }
            }
        }
        Ok(())
    }
}

/// A match: its place in the text, and those of its groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    saves: Box<[usize]>,
}

impl Found {
    /// The named groups that are in the match, with their places.
    pub(super) fn groups<'p>(
        &self,
        pattern: &'p Pattern,
    ) -> impl Iterator<Item = (&'p str, Range<usize>)> {
        let places: Vec<_> = self.saves.chunks(2).map(|place| (place[0], place[1])).collect();
        let named = pattern.names.iter().map(String::as_str).zip(places);
        named
            .filter(|(_, (start, end))| *start != UNSET && *end != UNSET)
            .map(|(name, (start, end))| (name, start..end))
    }
}

/// The place of a group that is not in the match.
const UNSET: usize = usize::MAX;

#[derive(Debug, Clone)]
struct Thread {
    step: usize,
    start: usize,
    saves: Box<[usize]>,
}

/// A search for the first match of a pattern.
#[derive(Debug, Clone, Default)]
pub(super) struct Search {
    /// Ways to match, the preferred first.
    threads: Vec<Thread>,
    found: Option<Found>,
    /// For each step, the number of the last symbol after which a way waits there.
    seen: Vec<usize>,
    symbols: usize,
}

impl Search {
    /// The match, if no further symbol can change it.
    pub(super) fn settled(&self) -> Option<&Found> {
        self.found.as_ref().filter(|_| self.threads.is_empty())
    }

    /// The match as it is at the end of the text.
    pub(super) fn at_end(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// The first place at which a match may begin or has begun that is not settled.
    pub(super) fn pending(&self) -> Option<usize> {
        let first = self.threads.first()?.start;
        Some(self.found.as_ref().map_or(first, |found| found.start.min(first)))
    }

    /// Reads the symbol at a place.
    pub(super) fn push(&mut self, pattern: &Pattern, symbol: Symbol, at: usize) {
        if self.settled().is_some() {
            return;
        }
        if self.seen.is_empty() {
            self.seen = vec![UNSET; pattern.steps.len()];
        }
        if self.found.is_none() {
            let saves = vec![UNSET; 2 * pattern.names.len()].into();
            self.wait(pattern, Thread { step: 0, start: at, saves }, at);
        }
        let threads = std::mem::take(&mut self.threads);
        self.symbols += 1;
        for thread in threads {
            let Step::Symbol(ranges) = &pattern.steps[thread.step] else { continue };
            if !contains(ranges, symbol.0) {
                continue;
            }
            if self.wait(pattern, Thread { step: thread.step + 1, ..thread }, at + 1) {
                break;
            }
        }
    }

    /// Gives up matches that are longer than what a reader holds back.
    pub(super) fn limit(&mut self, at: usize) {
        if self.pending().is_some_and(|start| start + HOLD_LIMIT < at) {
            self.threads.retain(|thread| thread.start + HOLD_LIMIT >= at);
        }
    }

    /// Adds the ways that begin with a step, at a place, in order. Whether one of them is a match: what would come
    /// after it is not preferred to it.
    fn wait(&mut self, pattern: &Pattern, thread: Thread, at: usize) -> bool {
        let mut stack = vec![thread];
        while let Some(mut thread) = stack.pop() {
            if std::mem::replace(&mut self.seen[thread.step], self.symbols) == self.symbols {
                continue;
            }
            match &pattern.steps[thread.step] {
                Step::Symbol(_) => self.threads.push(thread),
                Step::Either(first, second) => {
                    let (first, second) = (*first, *second);
                    if first != second {
                        stack.push(Thread { step: second, ..thread.clone() });
                    }
                    thread.step = first;
                    stack.push(thread);
                }
                Step::Save(place) => {
                    thread.saves[*place] = at;
                    thread.step += 1;
                    stack.push(thread);
                }
                Step::Match => {
                    let Thread { start, saves, .. } = thread;
                    self.found = Some(Found { start, end: at, saves });
                    return true;
                }
            }
        }
        false
    }
}

fn contains(ranges: &[(u32, u32)], symbol: u32) -> bool {
    match ranges {
        [(start, end)] => (*start..=*end).contains(&symbol),
        _ => ranges
            .binary_search_by(|(start, end)| {
                if *end < symbol {
                    std::cmp::Ordering::Less
                } else if *start > symbol {
                    std::cmp::Ordering::Greater
                } else {
                    std::cmp::Ordering::Equal
                }
            })
            .is_ok(),
    }
}

/// The place of a match, and of its groups by their names.
pub(super) type Place<'p> = (Range<usize>, HashMap<&'p str, Range<usize>>);

/// All matches in a text, one after the other, with their groups.
pub(super) fn find_all<'p>(pattern: &'p Pattern, symbols: &[Symbol]) -> Vec<Place<'p>> {
    let mut all = Vec::new();
    let mut from = 0;
    // A pattern that looks far ahead and takes little reads the same symbols again and again.
    let mut left = 64 * symbols.len() + 4096;
    while from < symbols.len() {
        let mut search = Search::default();
        for (at, symbol) in symbols.iter().enumerate().skip(from) {
            search.push(pattern, *symbol, at);
            left = left.saturating_sub(1);
            if search.settled().is_some() || left == 0 {
                break;
            }
        }
        let Some(found) = search.at_end() else { break };
        all.push((found.start..found.end, found.groups(pattern).collect()));
        from = found.end;
        if left == 0 {
            break;
        }
    }
    all
}

/// A pattern in the syntax of Python.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(pattern: &str) -> std::result::Result<Hir, String> {
    if pattern.len() > MAX_STEPS {
        return Err(format!("has {} bytes, expected at most {MAX_STEPS}", pattern.len()));
    }
    let mut parser =
        regex_syntax::ParserBuilder::new().dot_matches_new_line(true).nest_limit(64).build();
    let hir = parser.parse(&with_braces(pattern)).map_err(|error| {
        let reason = match &error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            _ => error.to_string(),
        };
        format!("is no pattern that can be searched as the text comes: {reason}")
    })?;
    check_length(&hir)?;
    Ok(hir)
}

/// One of several texts; of two that begin at one place, the longer.
pub(super) fn one_of(texts: &[String]) -> Hir {
    let mut texts: Vec<&String> = texts.iter().collect();
    texts.sort_by_key(|text| std::cmp::Reverse(text.chars().count()));
    Hir::alternation(texts.iter().map(|text| Hir::literal(text.as_bytes())).collect())
}

fn check_length(hir: &Hir) -> std::result::Result<(), String> {
    match hir.properties().minimum_len() {
        Some(0) => {
            Err("matches the empty text, expected a pattern of one character at least".into())
        }
        None => Err("matches no text, expected a pattern that does".into()),
        Some(_) => Ok(()),
    }
}

/// Python reads a `{` that begins no count as itself.
fn with_braces(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern;
    while let Some(character) = rest.chars().next() {
        let (head, tail) = rest.split_at(character.len_utf8());
        if character == '\\' {
            let next = tail.chars().next().map_or(0, char::len_utf8);
            out.push_str(&rest[..=next]);
            rest = &tail[next..];
            continue;
        }
        let is_count = || {
            tail.split_once('}').is_some_and(|(count, _)| {
                !count.is_empty()
                    && count != ","
                    && count.chars().all(|c| c.is_ascii_digit() || c == ',')
            })
        };
        if character == '{' && !is_count() {
            out.push('\\');
        }
        out.push_str(head);
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A random pattern of the letters `a` to `c`.
    fn patterns() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("a".to_owned()),
            Just("b".to_owned()),
            Just("ab".to_owned()),
            Just("[^a]".to_owned()),
            Just(".".to_owned()),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            let group = |inner: String| format!("(?:{inner})");
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}{b}")),
                (inner.clone(), inner.clone()).prop_map(move |(a, b)| group(format!("{a}|{b}"))),
                (inner.clone(), "[*+?][?]?|\\{1,2\\}[?]?")
                    .prop_map(move |(a, count)| format!("{}{count}", group(a))),
                inner.prop_map(|a| format!("(?P<g>{})", a.replace("(?P<g>", "(?:"))),
            ]
        })
    }

    fn found(pattern: &Pattern, text: &str) -> Option<Found> {
        let mut search = Search::default();
        for (at, character) in text.chars().enumerate() {
            let settled = search.settled().cloned();
            search.push(pattern, Symbol::of_char(character), at);
            if settled.is_some() {
                assert_eq!(search.settled().cloned(), settled, "a settled match stays");
            }
        }
        search.at_end().cloned()
    }

    proptest! {
        /// The match is the one that a backtracking search finds, with its groups.
        #[test]
        fn the_first_match_is_that_of_backtracking(source in patterns(), text in "[abc]{0,12}") {
            let Ok(hir) = parse(&source) else { return Ok(()) };
            let pattern = Pattern::new(&hir, &Vocab::embedded()).expect("a short pattern");
            // Python refuses a pattern with two groups of one name.
            prop_assume!(source.matches("(?P<g>").count() <= 1);
            let oracle = fancy_regex::Regex::new(&source).expect("a pattern");
            let expected = oracle.captures(&text).expect("a short text").map(|captures| {
                let whole = captures.get(0).expect("the match");
                let group = captures.name("g").map(|group| group.start()..group.end());
                (whole.start()..whole.end(), group)
            });
            let have = found(&pattern, &text).map(|found| {
                let group = found.groups(&pattern).next().map(|(_, place)| place);
                (found.start..found.end, group)
            });
            prop_assert_eq!(have, expected, "{} in {}", source, text);
        }
    }

    #[test]
    fn a_spelled_control_token_is_its_id() {
        let vocab = Vocab::embedded();
        let hir = parse(r"\s*(?:<\|im_end\|>|<\|im_start\|>x{1,2})").expect("a pattern");
        let pattern = Pattern::new(&hir, &vocab).expect("a short pattern");
        assert_eq!(found(&pattern, "a <|im_end|>"), None);
        let symbols = spelled("a <|im_end|>", &vocab);
        assert_eq!(symbols.len(), 3);
        let (place, _) = find_all(&pattern, &symbols).remove(0);
        assert_eq!(place, 1..3);
    }

    #[test]
    fn a_brace_that_counts_nothing_is_itself() {
        for (source, text) in [("{", "{"), ("a{,}", "a{,}"), (r"\{a{2}", "{aa"), ("{x}", "{x}")] {
            let hir = parse(source).expect("a pattern");
            let pattern = Pattern::new(&hir, &Vocab::embedded()).expect("a short pattern");
            let found = found(&pattern, text).expect("a match");
            assert_eq!((found.start, found.end), (0, text.len()), "{source}");
        }
    }
}
