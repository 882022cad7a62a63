//! Automata of texts: a regular expression without the texts of others, as states with ranges of characters.
//!
//! In: regular expressions, and spellings that no text may hold. Out: an [`Automaton`], for backends whose grammars
//! have no complement. Made by derivatives: a state is the language of what may follow, and equal languages that
//! are written alike are one state.

use hashbrown::HashMap;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Most states of an automaton.
const MAX_STATES: usize = 4096;

/// Most derivatives, and most parts of them, on the way to an automaton.
const MAX_WORK: usize = 2_000_000;

const LAST: u32 = char::MAX as u32;

/// First and last character.
type Range = (u32, u32);

/// A language, by its number.
type Lang = usize;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Node {
    /// No text.
    Nothing,
    /// The empty text.
    Empty,
    Class(Vec<Range>),
    Then(Lang, Lang),
    Either(Vec<Lang>),
    Both(Vec<Lang>),
    Not(Lang),
    Star(Lang),
}

/// States with their edges; the first one is where a text begins.
#[derive(Debug)]
pub(super) struct Automaton {
    pub(super) states: Vec<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// Ranges of characters, and the state after each of them.
    pub(super) edges: Vec<(Vec<Range>, usize)>,
    /// Whether a text may end here.
    pub(super) is_end: bool,
}

impl Automaton {
    /// The texts that match `regex` and all of `also`, match none of `except`, and hold none of `spellings`.
    ///
    /// # Errors
    /// What is wrong: an expression that cannot be read, or too many states.
    pub(super) fn new(
        regex: &str,
        also: &[String],
        except: &[String],
        spellings: &[String],
    ) -> Result<Self, String> {
        let mut made = Maker::default();
        let mut all = vec![made.read(regex)?];
        for regex in also {
            all.push(made.read(regex)?);
        }
        for regex in except {
            let excepted = made.read(regex)?;
            all.push(made.not(excepted));
        }
        if !spellings.is_empty() {
            let mut sorted: Vec<&str> = spellings.iter().map(String::as_str).collect();
            sorted.sort_unstable();
            let spelled = made.one_of(&sorted);
            let any = made.any();
            let after = made.then(spelled, any);
            let holding = made.then(any, after);
            all.push(made.not(holding));
        }
        let start = made.both(all);
        made.automaton(start)
    }
}

/// What is left of a regular expression after a text: the texts that may follow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// Any text.
    All,
    /// The texts of this regular expression.
    Some(String),
}

/// What is left of a regular expression after a text; `None`, if the expression cannot be read.
pub(super) fn left(regex: &str, text: &str) -> Option<Left> {
    let mut made = Maker::default();
    let whole = made.read(regex).ok()?;
    let left = text.chars().fold(whole, |lang, c| made.after(lang, c as u32));
    let any = made.any();
    Some(match made.nodes[left] {
        Node::Nothing => Left::Nothing,
        _ if left == any => Left::All,
        _ => Left::Some(made.written(left)?),
    })
}

/// Whether a text matches a regular expression. One that cannot be read matches any.
pub(super) fn matched(regex: &str, text: &str) -> bool {
    let mut made = Maker::default();
    let Ok(whole) = made.read(regex) else { return true };
    let left = text.chars().fold(whole, |lang, c| made.after(lang, c as u32));
    made.is_nullable(left)
}

#[derive(Default)]
struct Maker {
    nodes: Vec<Node>,
    known: HashMap<Node, Lang>,
    is_nullable: HashMap<Lang, bool>,
    derived: HashMap<(Lang, u32), Lang>,
    /// How many languages are parts of others.
    parts: usize,
}

impl Maker {
    fn node(&mut self, node: Node) -> Lang {
        if let Some(&known) = self.known.get(&node) {
            return known;
        }
        if let Node::Either(parts) | Node::Both(parts) = &node {
            self.parts += parts.len();
        }
        self.nodes.push(node.clone());
        self.known.insert(node, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn nothing(&mut self) -> Lang {
        self.node(Node::Nothing)
    }

    fn empty(&mut self) -> Lang {
        self.node(Node::Empty)
    }

    fn any(&mut self) -> Lang {
        let all = self.node(Node::Class(vec![(0, LAST)]));
        self.star(all)
    }

    fn then(&mut self, first: Lang, second: Lang) -> Lang {
        match (&self.nodes[first], &self.nodes[second]) {
            (Node::Nothing, _) | (_, Node::Empty) => return first,
            (_, Node::Nothing) | (Node::Empty, _) => return second,
            _ => {}
        }
        // To the right, so that one language is written in one way. A chain may be as long as a text.
        let (heads, last) = self.chain(first);
        let rest = self.node(Node::Then(last, second));
        heads.into_iter().rev().fold(rest, |rest, head| self.node(Node::Then(head, rest)))
    }

    /// The parts of a sequence before its last one.
    fn chain(&self, lang: Lang) -> (Vec<Lang>, Lang) {
        let (mut heads, mut last) = (Vec::new(), lang);
        while let Node::Then(head, rest) = self.nodes[last] {
            heads.push(head);
            last = rest;
        }
        (heads, last)
    }

    fn star(&mut self, inner: Lang) -> Lang {
        match self.nodes[inner] {
            Node::Nothing | Node::Empty => self.empty(),
            Node::Star(_) => inner,
            _ => self.node(Node::Star(inner)),
        }
    }

    fn not(&mut self, inner: Lang) -> Lang {
        match self.nodes[inner] {
            Node::Not(inner) => inner,
            _ => self.node(Node::Not(inner)),
        }
    }

    fn either(&mut self, all: Vec<Lang>) -> Lang {
        let mut flat = Vec::new();
        for lang in all {
            match &self.nodes[lang] {
                Node::Nothing => {}
                Node::Either(inner) => flat.extend(inner),
                _ => flat.push(lang),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        let any = self.any();
        match flat[..] {
            [] => self.nothing(),
            [one] => one,
            _ if flat.contains(&any) => any,
            _ => self.node(Node::Either(flat)),
        }
    }

    fn both(&mut self, all: Vec<Lang>) -> Lang {
        let any = self.any();
        let mut flat = Vec::new();
        for lang in all {
            match &self.nodes[lang] {
                Node::Nothing => return lang,
                Node::Both(inner) => flat.extend(inner),
                Node::Not(inner) if self.nodes[*inner] == Node::Nothing => {}
                _ if lang == any => {}
                _ => flat.push(lang),
            }
        }
        flat.sort_unstable();
        flat.dedup();
        match flat[..] {
            [] => any,
            [one] => one,
            _ => self.node(Node::Both(flat)),
        }
    }

    /// One of sorted texts, those with one beginning as one branch.
    fn one_of(&mut self, texts: &[&str]) -> Lang {
        let mut all = Vec::new();
        let mut rest = texts;
        while let Some((first, _)) = rest.split_first() {
            let Some(lead) = first.chars().next() else {
                all.push(self.empty());
                rest = &rest[1..];
                continue;
            };
            let count = rest.iter().take_while(|text| text.starts_with(lead)).count();
            let (group, others) = rest.split_at(count);
            let tails: Vec<&str> = group.iter().map(|text| &text[lead.len_utf8()..]).collect();
            let class = self.node(Node::Class(vec![(lead as u32, lead as u32)]));
            let tails = self.one_of(&tails);
            all.push(self.then(class, tails));
            rest = others;
        }
        self.either(all)
    }

    fn read(&mut self, regex: &str) -> Result<Lang, String> {
        let parser = ParserBuilder::new().dot_matches_new_line(true).nest_limit(100).build();
        let hir = { parser }.parse(regex).map_err(|error| error.to_string())?;
        self.of_hir(&hir)
    }

    fn of_hir(&mut self, hir: &Hir) -> Result<Lang, String> {
        Ok(match hir.kind() {
            HirKind::Empty => self.empty(),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|error| error.to_string())?;
                let mut lang = self.empty();
                for c in text.chars().rev() {
                    let class = self.node(Node::Class(vec![(c as u32, c as u32)]));
                    lang = self.then(class, lang);
                }
                lang
            }
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.iter().map(|range| (range.start() as u32, range.end() as u32));
                let ranges = ranges.collect();
                self.node(Node::Class(ranges))
            }
            HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => {
                return Err("bytes and places are not followed".to_owned());
            }
            HirKind::Repetition(repeat) => {
                let inner = self.of_hir(&repeat.sub)?;
                let mut lang = match repeat.max {
                    None => self.star(inner),
                    Some(max) => {
                        let mut lang = self.empty();
                        for _ in repeat.min..max {
                            let more = self.then(inner, lang);
                            let empty = self.empty();
                            lang = self.either(vec![empty, more]);
                        }
                        lang
                    }
                };
                for _ in 0..repeat.min {
                    lang = self.then(inner, lang);
                }
                lang
            }
            HirKind::Capture(capture) => self.of_hir(&capture.sub)?,
            HirKind::Concat(parts) => {
                let mut lang = self.empty();
                for part in parts.iter().rev() {
                    let part = self.of_hir(part)?;
                    lang = self.then(part, lang);
                }
                lang
            }
            HirKind::Alternation(parts) => {
                let all = parts.iter().map(|part| self.of_hir(part));
                let all = all.collect::<Result<Vec<_>, _>>()?;
                self.either(all)
            }
        })
    }

    /// Whether a language has the empty text.
    fn is_nullable(&mut self, lang: Lang) -> bool {
        if let Some(&known) = self.is_nullable.get(&lang) {
            return known;
        }
        let found = match self.nodes[lang].clone() {
            Node::Nothing | Node::Class(_) => false,
            Node::Empty | Node::Star(_) => true,
            Node::Then(first, second) => self.is_nullable(first) && self.is_nullable(second),
            Node::Either(all) => all.into_iter().any(|lang| self.is_nullable(lang)),
            Node::Both(all) => all.into_iter().all(|lang| self.is_nullable(lang)),
            Node::Not(inner) => !self.is_nullable(inner),
        };
        self.is_nullable.insert(lang, found);
        found
    }

    /// What may follow a character.
    fn after(&mut self, lang: Lang, c: u32) -> Lang {
        if let Some(&known) = self.derived.get(&(lang, c)) {
            return known;
        }
        let found = match self.nodes[lang].clone() {
            Node::Nothing | Node::Empty => self.nothing(),
            Node::Class(ranges) => {
                let is_in = ranges.iter().any(|&(first, last)| (first..=last).contains(&c));
                if is_in { self.empty() } else { self.nothing() }
            }
            Node::Then(first, second) => {
                let after = self.after(first, c);
                let mut all = vec![self.then(after, second)];
                if self.is_nullable(first) {
                    all.push(self.after(second, c));
                }
                self.either(all)
            }
            Node::Either(all) => {
                let all = all.into_iter().map(|lang| self.after(lang, c)).collect();
                self.either(all)
            }
            Node::Both(all) => {
                let all = all.into_iter().map(|lang| self.after(lang, c)).collect();
                self.both(all)
            }
            Node::Not(inner) => {
                let after = self.after(inner, c);
                self.not(after)
            }
            Node::Star(inner) => {
                let after = self.after(inner, c);
                self.then(after, lang)
            }
        };
        self.derived.insert((lang, c), found);
        found
    }

    /// A language as a regular expression; `None` for one with a complement.
    fn written(&self, lang: Lang) -> Option<String> {
        Some(match &self.nodes[lang] {
            Node::Nothing | Node::Both(_) | Node::Not(_) => return None,
            Node::Empty => String::new(),
            Node::Class(ranges) if ranges[..] == [(0, LAST)] => ".".to_owned(),
            Node::Class(ranges) => {
                let shown = ranges.iter().map(|&(first, last)| {
                    let end =
                        if first == last { String::new() } else { format!("-\\x{{{last:X}}}") };
                    format!("\\x{{{first:X}}}{end}")
                });
                format!("[{}]", shown.collect::<String>())
            }
            Node::Then(..) => {
                let (heads, last) = self.chain(lang);
                let parts = heads.into_iter().chain([last]).map(|part| self.written(part));
                parts.collect::<Option<String>>()?
            }
            Node::Either(all) => {
                let all = all.iter().map(|&lang| self.written(lang));
                format!("({})", all.collect::<Option<Vec<_>>>()?.join("|"))
            }
            Node::Star(inner) => format!("({})*", self.written(*inner)?),
        })
    }

    /// The first characters of ranges that no class tells apart.
    fn borders(&self) -> Vec<u32> {
        let mut borders = vec![0];
        for node in &self.nodes {
            let Node::Class(ranges) = node else { continue };
            for &(first, last) in ranges {
                borders.extend([first, last + 1]);
            }
        }
        borders.retain(|&border| border <= LAST);
        borders.sort_unstable();
        borders.dedup();
        borders
    }

    fn automaton(mut self, start: Lang) -> Result<Automaton, String> {
        let borders = self.borders();
        let mut numbers: HashMap<Lang, usize> = HashMap::from([(start, 0)]);
        let mut langs = vec![start];
        let mut states: Vec<State> = Vec::new();
        while let Some(&lang) = langs.get(states.len()) {
            let mut edges: Vec<(Vec<Range>, usize)> = Vec::new();
            for (at, &first) in borders.iter().enumerate() {
                let last = borders.get(at + 1).map_or(LAST, |next| next - 1);
                let after = self.after(lang, first);
                if self.nodes[after] == Node::Nothing {
                    continue;
                }
                let next = *numbers.entry(after).or_insert_with(|| {
                    langs.push(after);
                    langs.len() - 1
                });
                match edges.iter_mut().find(|(_, to)| *to == next) {
                    Some((ranges, _)) => match ranges.last_mut() {
                        Some((_, before)) if *before + 1 == first => *before = last,
                        _ => ranges.push((first, last)),
                    },
                    None => edges.push((vec![(first, last)], next)),
                }
            }
            let is_end = self.is_nullable(lang);
            states.push(State { edges, is_end });
            if langs.len() > MAX_STATES || self.derived.len() + self.parts > MAX_WORK {
                return Err(format!("has a text of more than {MAX_STATES} states"));
            }
        }
        let automaton = Automaton { states }.without_dead_ends();
        let is_empty =
            automaton.states.first().is_none_or(|first| !first.is_end && first.edges.is_empty());
        if is_empty { Err("has no text that is allowed".to_owned()) } else { Ok(automaton) }
    }
}

impl Automaton {
    /// Removes the states that no text ends after.
    fn without_dead_ends(mut self) -> Self {
        let mut is_alive: Vec<bool> = self.states.iter().map(|state| state.is_end).collect();
        loop {
            let before = is_alive.iter().filter(|alive| **alive).count();
            for at in (0..self.states.len()).rev() {
                let leads = self.states[at].edges.iter().any(|&(_, to)| is_alive[to]);
                is_alive[at] |= leads;
            }
            if is_alive.iter().filter(|alive| **alive).count() == before {
                break;
            }
        }
        let mut numbers = Vec::new();
        let mut count = 0;
        for (at, alive) in is_alive.iter().enumerate() {
            numbers.push(count);
            // The first state stays, whatever it is.
            count += usize::from(*alive || at == 0);
        }
        let mut at = 0;
        self.states.retain_mut(|state| {
            at += 1;
            state.edges.retain(|&(_, to)| is_alive[to]);
            for (_, to) in &mut state.edges {
                *to = numbers[*to];
            }
            is_alive[at - 1] || at == 1
        });
        self
    }

    /// Whether the automaton has a text.
    #[cfg(test)]
    fn accepts(&self, text: &str) -> bool {
        let mut at = 0;
        for c in text.chars() {
            let is_in = |ranges: &Vec<Range>| {
                ranges.iter().any(|&(first, last)| (first..=last).contains(&(c as u32)))
            };
            match self.states[at].edges.iter().find(|(ranges, _)| is_in(ranges)) {
                Some(&(_, next)) => at = next,
                None => return false,
            }
        }
        self.states[at].is_end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Automaton, Left, left};

    const REGEXES: [&str; 8] = [
        ".*",
        r#""([^"\\\x00-\x1f]|\\["n])*""#,
        "-?(0|[1-9][0-9]{0,3})",
        r".*</a>.*",
        r"(.*\n)?\s*(<b=|\{).*",
        "a{2,4}b?",
        "",
        "[^é]+",
    ];

    proptest! {
        #[test]
        fn texts_are_those_of_the_expressions(
            regex in 0..REGEXES.len(),
            also in 0..REGEXES.len(),
            except in proptest::collection::vec(0..REGEXES.len(), 0..3),
            spellings in proptest::collection::vec("[ab<|>é]{1,4}", 0..4),
            text in "[ab<|>/{=é\"\\\\\n 0-2]{0,12}",
        ) {
            let matches = |at: usize| {
                let whole = format!(r"(?s)\A(?:{})\z", REGEXES[at]);
                fancy_regex::Regex::new(&whole).unwrap().is_match(&text).unwrap()
            };
            let excepted: Vec<String> = except.iter().map(|&at| REGEXES[at].to_owned()).collect();
            let others = [REGEXES[also].to_owned()];
            let made = Automaton::new(REGEXES[regex], &others, &excepted, &spellings);
            let accepts = match made {
                Ok(made) => made.accepts(&text),
                Err(problem) => {
                    prop_assert_eq!(problem, "has no text that is allowed");
                    false
                }
            };
            let expected = matches(regex)
                && matches(also)
                && !except.iter().any(|&at| matches(at))
                && !spellings.iter().any(|spelling| text.contains(spelling.as_str()));
            prop_assert_eq!(accepts, expected);
        }
    }

    #[test]
    fn a_chain_as_long_as_a_text_needs_no_stack() {
        assert!(Automaton::new("\"a{90000}\"", &[], &[], &[]).is_err());
        let Some(Left::Some(rest)) = left("\"a{90000}\"", "\"a") else { panic!("it is read") };
        assert_eq!(rest.matches('a').count() + rest.matches("61").count(), 89_999);
    }

    #[test]
    fn too_many_states_are_an_error() {
        assert!(Automaton::new("(a|b)*a(a|b){13}", &[], &[], &[]).is_err());
        assert!(Automaton::new("(", &[], &[], &[]).is_err());
    }
}
