//! Where every character of a stream went: into an event's text, or into what the format's file declares there.
//!
//! The events of a stream and the characters of its ids are laid beside each other, in order. Between the texts
//! of two events stand *gaps*: characters that no event tells. A gap is accounted for if it consists of control
//! tokens of the format and of what the patterns of its file have there: after a text, what follows that field
//! in a row of its role; before a text, what comes before it; between two control tokens, what some pattern has
//! between them. Where nothing but text was told on both sides of a place, no gap may be there at all.
//!
//! Where the format reads what it does not write (a `mended` notice), the gap may be made of any words of the
//! format and any white space.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex};

use chatcodec::{DummyPrefix, Event, EventKind, NoticeKind, Role, TokenId, Vocab};

use super::spec::{Element, Pattern, Spec, expansions, strings};
use super::table::Entry;

/// For each event, whether it tells an unknown key of a call after a control token within that call: the token may
/// stand in the middle of the key, and is told before it.
fn split_keys(events: &[Event]) -> Vec<bool> {
    let mut has_control = false;
    let is_split = |event: &Event| {
        match &event.kind {
            EventKind::ActionStart { .. } | EventKind::ActionEnd { .. } => has_control = false,
            EventKind::Notice {
                kind: NoticeKind::UnexpectedControl | NoticeKind::Malformed,
                ..
            } => has_control = true,
            EventKind::Notice { kind: NoticeKind::UnknownKey, .. } => return has_control,
            _ => {}
        }
        false
    };
    events.iter().map(is_split).collect()
}

/// The id that the end of the first of these calls tells.
fn id_at_the_end(events: &[Event]) -> Option<String> {
    events.iter().find_map(|event| match &event.kind {
        EventKind::ActionEnd { id, .. } => Some(id.clone()),
        _ => None,
    })?
}

/// The keys in JSON that may end early.
fn keys(json: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut rest = json;
    while let Some(open) = rest.find('"') {
        let is_close = |&(at, c): &(usize, char)| {
            let before = &rest[open + 1..at];
            c == '"' && (before.len() - before.trim_end_matches('\\').len()).is_multiple_of(2)
        };
        let Some((close, _)) = rest.char_indices().filter(|(at, _)| *at > open).find(is_close)
        else {
            break;
        };
        let text = &rest[open..=close];
        rest = &rest[close + 1..];
        if rest.starts_with(':') {
            keys.extend(serde_json::from_str::<String>(text).ok());
        }
    }
    keys
}

/// What one place of a stream holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Symbol {
    Char(char),
    Control(TokenId),
    /// An id that is none.
    Unknown(String),
}

/// The symbols of ids: bytes of the text between two tokens as characters, without a dummy prefix. The first text
/// has one only where it begins.
pub fn symbols(vocab: &Vocab, ids: &[TokenId], begins: bool) -> Vec<Symbol> {
    let mut symbols = Vec::new();
    let mut bytes: Vec<u8> = Vec::new();
    let control: BTreeSet<TokenId> = vocab.control().values().copied().collect();
    let prefixed = vocab.dummy_prefix() == DummyPrefix::EveryRun;
    let mut begins = begins && vocab.dummy_prefix() != DummyPrefix::Never;
    let flush = |bytes: &mut Vec<u8>, symbols: &mut Vec<Symbol>| {
        symbols.extend(String::from_utf8_lossy(bytes).chars().map(Symbol::Char));
        bytes.clear();
    };
    for &id in ids {
        if control.contains(&id) {
            flush(&mut bytes, &mut symbols);
            symbols.push(Symbol::Control(id));
            begins = prefixed;
            continue;
        }
        // By itself an id is decoded as the first of a text, without a dummy prefix.
        let token = vocab.token_bytes(id).unwrap_or_default();
        if token.is_empty() {
            flush(&mut bytes, &mut symbols);
            symbols.push(Symbol::Unknown(id.to_string()));
            continue;
        }
        let first = vocab.decode_bytes(&[id]).expect("an id of the vocabulary");
        bytes.extend_from_slice(if begins { &first } else { token });
        begins = false;
    }
    flush(&mut bytes, &mut symbols);
    symbols
}

/// What stands between two control tokens of a pattern, or beside a text: elements without control tokens.
type Stretch = Vec<Element>;

/// A text that events tell, as far as patterns tell it apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Text,
    Reasoning,
    /// Of a call.
    Delta,
    Notice,
    /// Nothing: the stream begins or ends.
    Edge,
}

/// What a format's file declares around and between its texts.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a thing that a format has or has not")]
pub struct Scaffold {
    /// Before a text of a role, from the control token before it on.
    heads: Vec<(Role, Told, Stretch)>,
    /// After a text of a role, up to the next control token.
    tails: Vec<(Role, Told, Stretch)>,
    /// After a text of a role, before the control token that opens a call.
    before_calls: Vec<Stretch>,
    /// Between two control tokens.
    between: Vec<Stretch>,
    /// Between two texts with no token between them.
    inner: Vec<Stretch>,
    /// What calls are made of beside what events tell.
    words: BTreeSet<String>,
    is_text: bool,
    has_frames: bool,
    has_pairs: bool,
    has_values: bool,
    /// Whether what closes an argument has its key again.
    repeats_key: bool,
    /// The texts that stand for characters in keys.
    escapes: Vec<(char, Vec<Symbol>)>,
    has_reasoning: bool,
    control: Vec<String>,
    /// Markers that are text.
    text: Vec<String>,
}

fn told_of(field: &str) -> Option<Told> {
    match field {
        "content" | "system" => Some(Told::Text),
        "reasoning" => Some(Told::Reasoning),
        "call" | "arguments" | "source" | "key" | "value" => Some(Told::Delta),
        _ => None,
    }
}

fn is_control(element: &Element) -> bool {
    matches!(element, Element::Control(_))
}

/// Whether a filter writes text as JSON.
fn is_json(filter: &str) -> bool {
    matches!(filter, "value" | "string")
}

impl Scaffold {
    /// What the format of an entry declares; read once.
    pub fn of(entry: &Entry) -> Arc<Self> {
        static KNOWN: LazyLock<Mutex<HashMap<&'static str, Arc<Scaffold>>>> =
            LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().expect("no test panics in here");
        let made = || {
            Arc::new(Self::new(
                &Spec::new(entry.format, entry.codec.format().text()),
                entry.is_ids(),
            ))
        };
        known.entry(entry.format).or_insert_with(made).clone()
    }

    #[allow(clippy::too_many_lines, reason = "a list of what a file declares, key by key")]
    fn new(spec: &Spec, is_ids: bool) -> Self {
        let mut rows: Vec<(Role, Pattern)> = Vec::new();
        for (role, word) in ROLES {
            rows.extend(spec.patterns(&["turn", word]).into_iter().map(|row| (role, row)));
            for name in spec.keys(&["named"]) {
                let named = spec.patterns(&["named", &name, word]);
                rows.extend(named.into_iter().map(|row| (role, row)));
            }
        }
        for path in [
            ["last", "assistant"],
            ["after_tool", "assistant"],
            ["frame", "reasoning"],
            ["frame", "content"],
        ] {
            rows.extend(spec.patterns(&path).into_iter().map(|row| (Role::Assistant, row)));
        }
        // Around results: each of them, and all of them as one text.
        let around =
            |key: &str| spec.patterns(&["results", key]).into_iter().flatten().collect::<Pattern>();
        let (open, between, close) = (around("open"), around("between"), around("close"));
        let content = Element::Field("content".into(), String::new());
        let whole = [open.clone(), vec![content], close.clone()].concat();
        if !open.is_empty() {
            rows.extend([Role::Tool, Role::User].map(|role| (role, whole.clone())));
            for result in spec.patterns(&["turn", "tool"]) {
                for row in [
                    [&open[..], &result, &between].concat(),
                    [&between[..], &result, &close].concat(),
                ] {
                    rows.push((Role::Tool, row));
                }
            }
        }
        let mut scaffold = Self {
            heads: Vec::new(),
            tails: Vec::new(),
            before_calls: vec![Vec::new()],
            between: Vec::new(),
            inner: Vec::new(),
            words: BTreeSet::new(),
            is_text: !is_ids,
            has_frames: spec.get(&["frame"]).is_some(),
            has_pairs: false,
            has_values: false,
            repeats_key: false,
            escapes: Vec::new(),
            has_reasoning: rows.iter().any(|(_, row)| {
                expansions(row).concat().iter().any(|e| told_element(e) == Some(Told::Reasoning))
            }),
            control: spec.control.values().flatten().chain(&spec.text).cloned().collect(),
            text: spec.text.clone(),
        };
        for (role, row) in &rows {
            for row in expansions(row) {
                scaffold.add_row(*role, &row);
                scaffold.add_without_reasoning(*role, &row);
            }
        }
        let mut others = spec.patterns(&["begin"]);
        others.extend(spec.patterns(&["end"]));
        for key in ["prompt", "thinking", "no_thinking"] {
            for prompt in spec.patterns(&["generation", key]) {
                // What a prompt opens is the assistant's turn, whatever follows it.
                scaffold.add_row(
                    Role::Assistant,
                    &[&prompt[..], &[Element::Field("content".into(), String::new())]].concat(),
                );
                let reasoning = Element::Field("reasoning".into(), String::new());
                scaffold.add_row(Role::Assistant, &[&prompt[..], &[reasoning]].concat());
            }
        }
        others.extend([open, between, close]);
        let mut calls: Vec<Pattern> = Vec::new();
        for key in ["call", "also"] {
            for name in spec.keys(&[key]) {
                for inner in ["item", "also", "pair", "after"] {
                    calls.extend(spec.patterns(&[key, &name, inner]));
                }
                let is_paired = |inner| spec.get(&[key, &name, inner]).is_some();
                scaffold.has_pairs |= is_paired("pair") || is_paired("quote");
                let is_key = |e: &&Element| matches!(e, Element::Field(field, _) if field == "key");
                let pairs = spec.patterns(&[key, &name, "pair"]);
                scaffold.repeats_key |=
                    pairs.iter().any(|pair| pair.iter().filter(is_key).count() > 1);
                scaffold.words.extend(strings(spec.get(&[key, &name, "list_item"])));
                for around in ["open", "close"] {
                    scaffold.words.extend(strings(spec.get(&[key, &name, "wrap", around])));
                }
                let is_type =
                    |e: &Element| matches!(e, Element::Field(field, _) if field == "type");
                if pairs.iter().flatten().any(is_type) {
                    let types = ["string", "number", "boolean", "null", "object", "array"];
                    scaffold.words.extend(types.map(str::to_owned));
                }
                let escapes = spec.get(&[key, &name, "escapes"]).and_then(toml::Value::as_table);
                scaffold.escapes.extend(escapes.into_iter().flatten().filter_map(|(of, text)| {
                    let text = text.as_str()?.chars().map(Symbol::Char).collect();
                    Some((of.chars().next()?, text))
                }));
                for member in ["name", "arguments", "id"] {
                    let keys = strings(spec.get(&[key, &name, "object", member]));
                    scaffold.words.extend(keys);
                }
            }
        }
        for key in ["open", "between", "close"] {
            calls.extend(spec.patterns(&["calls", key]));
        }
        let after =
            spec.patterns(&["calls", "after_content"]).into_iter().flatten().collect::<Pattern>();
        // The first token of calls may have text before it.
        let mut afters = vec![after.clone()];
        for open in spec.patterns(&["calls", "open"]) {
            let head = open.iter().position(is_control).unwrap_or(0);
            afters.extend((head > 0).then(|| [&after[..], &open[..head]].concat()));
        }
        for row in rows.iter().map(|(_, row)| row) {
            for row in expansions(row) {
                let at = row
                    .iter()
                    .position(|e| matches!(e, Element::Field(field, _) if field == "calls"));
                if let Some(at) = at.filter(|&at| at > 0 && !is_control(&row[at - 1])) {
                    let from = row[..at]
                        .iter()
                        .rposition(|e| told_element(e).is_some())
                        .map_or(at, |at| at + 1);
                    // After an empty text, too.
                    let head = row[..from].iter().rposition(is_control).map_or(0, |at| at + 1);
                    let around = without_texts(&row[head..at]);
                    for after in &afters {
                        scaffold.before_calls.push([&row[from..at], after].concat());
                        scaffold.between.push([&around[..], after].concat());
                    }
                }
            }
        }
        for pattern in &calls {
            for element in pattern.iter().chain(&after) {
                if let Element::Literal(literal) = element {
                    scaffold.words.insert(literal.clone());
                    // A token that means nothing may stand within.
                    for (at, _) in literal.char_indices() {
                        let (head, tail) = literal.split_at(at);
                        scaffold.words.extend([head, tail].map(str::to_owned));
                    }
                    scaffold.words.extend(literal.split_whitespace().map(str::to_owned));
                }
            }
        }
        for pattern in others.iter().chain(&calls) {
            for pattern in expansions(pattern) {
                scaffold.add_between(&pattern);
            }
        }
        if scaffold.has_pairs {
            for word in ["True", "False", "None", "true", "false", "null"] {
                scaffold.words.insert(word.to_owned());
            }
        }
        scaffold.has_values = rows.iter().any(|(_, row)| {
            row.iter().any(|e| matches!(e, Element::Field(_, filter) if is_json(filter)))
        });
        scaffold
    }

    fn add_row(&mut self, role: Role, row: &[Element]) {
        let texts: Vec<usize> =
            (0..row.len()).filter(|&at| told_element(&row[at]).is_some()).collect();
        for (nth, &at) in texts.iter().enumerate() {
            let told = told_element(&row[at]).expect("a text");
            let role = match &row[at] {
                Element::Field(field, _) if field == "system" => Role::System,
                _ => role,
            };
            let before = row[..at].iter().rposition(is_control).map_or(0, |at| at + 1);
            let head: Stretch = without_texts(&row[before..at]);
            let after =
                row[at + 1..].iter().position(is_control).map_or(row.len(), |to| at + 1 + to);
            let tail: Stretch = without_texts(&row[at + 1..after]);
            if matches!(&row[at], Element::Field(_, filter) if is_json(filter)) {
                // As JSON, with its white space; a string may be empty, and something else may follow it.
                let quote = [Element::Literal("\"".to_owned())];
                let white = [Element::White];
                let head = [&head[..], &white].concat();
                self.heads.push((role, told, head.clone()));
                self.heads.push((role, told, [&head[..], &quote].concat()));
                self.heads.push((role, told, [&head[..], &quote, &quote].concat()));
                self.tails.push((role, told, [&white[..], &tail].concat()));
                self.tails.push((role, told, [&quote[..], &white, &tail].concat()));
                self.tails.push((role, told, quote.to_vec()));
            }
            self.heads.push((role, told, head));
            self.tails.push((role, told, tail));
            if let Some(&next) = texts.get(nth + 1).filter(|&&next| next < after) {
                let mut inner = row[at + 1..next].to_vec();
                self.inner.push(inner.clone());
                // What closes the text may lack the white space after it.
                if let Some(Element::Literal(literal)) = inner.last_mut() {
                    literal.truncate(literal.trim_end().len());
                    self.inner.push(inner);
                }
            }
        }
        self.add_between(row);
        // A text that is written as JSON, and empty.
        let valued = |element: &Element| match element {
            Element::Field(_, filter) if is_json(filter) => Element::Literal("\"\"".to_owned()),
            element => element.clone(),
        };
        self.add_between(&row.iter().map(valued).collect::<Pattern>());
    }

    /// Reasoning may be missing with the tokens around it, and the white space after them.
    fn add_without_reasoning(&mut self, role: Role, row: &[Element]) {
        let is_reasoning = |e: &Element| told_element(e) == Some(Told::Reasoning);
        let Some(at) = row.iter().position(is_reasoning) else { return };
        let open = row[..at].iter().rposition(is_control).expect("a token opens reasoning");
        let close = row[at..].iter().position(is_control).expect("a token closes reasoning");
        let mut after = row[at + close + 1..].to_vec();
        if matches!(after.first(), Some(Element::Literal(text)) if text.chars().all(is_white)) {
            after.remove(0);
        }
        self.add_row(role, &[&row[..open], &after].concat());
    }

    /// Whether a text is one that a row of the assistant has before its content or reasoning.
    fn is_answers_head(&self, text: &[char]) -> bool {
        let of = |(role, ..): &&(Role, Told, Stretch)| *role == Role::Assistant;
        self.heads.iter().filter(of).any(|(_, _, head)| fits(head, text))
    }

    fn add_between(&mut self, pattern: &[Element]) {
        for stretch in pattern.split(is_control) {
            let mut stretch = without_texts(stretch);
            self.between.push(stretch.clone());
            // A header may lack the white space after it.
            if let Some(Element::Literal(literal)) = stretch.last_mut() {
                literal.truncate(literal.trim_end().len());
                self.between.push(stretch);
            }
        }
    }
}

const ROLES: [(Role, &str); 4] = [
    (Role::System, "system"),
    (Role::User, "user"),
    (Role::Assistant, "assistant"),
    (Role::Tool, "tool"),
];

fn told_element(element: &Element) -> Option<Told> {
    match element {
        Element::Field(field, _) => told_of(field),
        _ => None,
    }
}

/// Elements without texts, which may be empty, and calls.
fn without_texts(elements: &[Element]) -> Stretch {
    let is_kept = |element: &&Element| !matches!(element, Element::Field(field, _) if told_of(field).is_some() || field == "calls" || field == "tools");
    elements.iter().filter(is_kept).cloned().collect()
}

/// Where elements may end that are read from the beginning of a text. A word is one of a header; a cut may have a
/// dummy prefix.
fn ends_of(elements: &[Element], text: &[char]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::from([0]);
    for element in elements {
        let run =
            |at: usize, is: fn(char) -> bool| text[at..].iter().take_while(|&&c| is(c)).count();
        let nearest = reached.first().copied();
        reached = match element {
            Element::Literal(literal) => {
                let end = |at: usize| {
                    let mut rest = text[at..].iter();
                    let is_here = literal.chars().all(|c| rest.next() == Some(&c));
                    is_here.then_some(text.len() - rest.len())
                };
                reached.into_iter().filter_map(end).collect()
            }
            // Everything after the nearest place, and so from all others.
            Element::Any => nearest.map_or(0..0, |at| at..text.len() + 1).collect(),
            Element::White => {
                reached.into_iter().flat_map(|at| at..=at + run(at, is_white)).collect()
            }
            Element::Cut => {
                let is_space = |at: usize| text.get(at) == Some(&' ');
                reached.into_iter().flat_map(|at| at..=at + usize::from(is_space(at))).collect()
            }
            Element::Field(..) => {
                reached.into_iter().flat_map(|at| at + 1..=at + run(at, is_word)).collect()
            }
            Element::Control(_) | Element::Guard(..) => BTreeSet::new(),
        };
    }
    reached
}

/// Whether elements can be read as all of a text.
fn fits(elements: &[Element], text: &[char]) -> bool {
    ends_of(elements, text).contains(&text.len())
}

/// Whether a text is stretches one after another.
fn is_chain<'s>(stretches: &(impl Iterator<Item = &'s Stretch> + Clone), text: &[char]) -> bool {
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    for at in 0..text.len() {
        if ends[at] {
            for end in stretches.clone().flat_map(|stretch| ends_of(stretch, &text[at..])) {
                ends[at + end] = true;
            }
        }
    }
    ends[text.len()]
}

/// A text with the escapes of JSON as what they stand for.
fn plain(text: &[char]) -> Vec<char> {
    let symbols: Vec<Symbol> = text.iter().copied().map(Symbol::Char).collect();
    let mut plain = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let escape = (text[at] == '\\').then(|| unescaped(&symbols[at..])).flatten();
        let (c, length) = escape.unwrap_or((text[at], 1));
        plain.push(c);
        at += length;
    }
    plain
}

fn is_white(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.:-".contains(c)
}

/// Whether a text is made of words, white space and the signs of JSON.
fn is_tiled(text: &[char], words: &BTreeSet<String>) -> bool {
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    let words: Vec<Vec<char>> = words.iter().map(|word| word.chars().collect()).collect();
    for at in 0..text.len() {
        if !ends[at] {
            continue;
        }
        if is_white(text[at]) || "{}[]()\"':,;=`\\".contains(text[at]) {
            ends[at + 1] = true;
        }
        for word in words.iter().filter(|word| !word.is_empty()) {
            if text[at..].starts_with(word) {
                ends[at + word.len()] = true;
            }
        }
    }
    ends[text.len()]
}

/// What stands on both sides of a gap, and the events between that tell no text.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each says another thing about the place")]
struct Gap {
    before: (Told, Option<Role>),
    after: (Told, Option<Role>),
    /// Whether a turn or a call begins or ends there, or something is said of it.
    is_boundary: bool,
    is_turn: bool,
    is_call: bool,
    is_mended: bool,
    /// A header that was mended, as the notice says that it was written.
    header: String,
    /// Whether no turn is open on its left, and on its right.
    is_outside: bool,
    is_left: bool,
    /// Whether the turn on its left has called.
    has_acted: bool,
    /// Names and ids that events tell there.
    names: Vec<String>,
}

/// A text that must be found in the stream, after what may stand before it.
#[derive(Debug)]
struct Step {
    text: Vec<char>,
    /// Whether the stream may have it escaped, as strings of JSON and Python are.
    is_escaped: bool,
    /// Whether it may not be there at all.
    is_optional: bool,
    gap: Option<Gap>,
    /// Control tokens that notices report. They may be inside the held text of a call.
    strays: Arc<[String]>,
}

/// What a law of bytes reads a stream with.
pub struct Account<'a> {
    pub entry: &'a Entry,
    pub scaffold: Arc<Scaffold>,
    /// Whether a control token may be spelled.
    pub is_spelled: bool,
}

impl Account<'_> {
    /// Whether every symbol is in an event or declared where it stands; what is not, in words.
    ///
    /// # Errors
    /// Where the characters end that can be accounted for.
    pub fn check(&self, symbols: &[Symbol], events: &[Event]) -> Result<(), String> {
        let steps = self.steps(events);
        // A text told character by character has a place for a gap between each two.
        self.search(symbols, &steps, true).or_else(|_| self.search(symbols, &steps, false))
    }

    /// As `check`. `is_greedy`: where a text may go on without a gap, no gap is looked for within it.
    fn search(&self, symbols: &[Symbol], steps: &[Step], is_greedy: bool) -> Result<(), String> {
        let is_spelled = self.is_spelled || !self.scaffold.text.is_empty();
        let places = if is_spelled { 0..symbols.len() } else { 0..0 };
        let spelled: Vec<Vec<usize>> = places.map(|at| self.spelled(&symbols[at..])).collect();
        let mut reached = BTreeSet::from([0]);
        for (nth, step) in steps.iter().enumerate() {
            let mut next = if step.is_optional { reached.clone() } else { BTreeSet::new() };
            match &step.gap {
                None => next.extend(reached.iter().flat_map(|&at| self.ends(step, symbols, at))),
                Some(gap) => {
                    let first = reached.first().copied().unwrap_or(0);
                    for at in first..=symbols.len() {
                        let ends = self.ends(step, symbols, at);
                        let is_declared = |&from: &usize| {
                            let spelled = is_spelled.then(|| &spelled[from..at]);
                            self.is_declared(&symbols[from..at], spelled, gap)
                        };
                        // One way there is enough, and the shortest gap is the soonest looked at.
                        if !ends.is_empty() && reached.range(..=at).rev().any(is_declared) {
                            next.extend(ends);
                            if is_greedy && !gap.is_boundary && reached.last() == Some(&at) {
                                break;
                            }
                        }
                    }
                }
            }
            if next.is_empty() {
                let furthest = reached.last().copied().unwrap_or(0);
                return Err(format!(
                    "from {:?} on, {:?} [after] {:?} is not accounted for before {:?} (event text {nth}, {:?})",
                    reached,
                    self.shown(&symbols[furthest.saturating_sub(60)..furthest]),
                    self.shown(&symbols[furthest..]),
                    step.text.iter().collect::<String>(),
                    step.gap,
                ));
            }
            reached = next;
        }
        Ok(())
    }

    /// The texts of events, and an empty one at the end.
    #[allow(clippy::too_many_lines, reason = "one match of the kinds of events")]
    fn steps(&self, events: &[Event]) -> Vec<Step> {
        let mut steps: Vec<Step> = Vec::new();
        let mut role: Option<Role> = None;
        let mut open = false;
        let mut in_call = false;
        let mut acted = false;
        let mut in_string = false;
        let mut is_code = false;
        let mut arguments = String::new();
        let split = split_keys(events);
        let odd: Vec<String> = events
            .iter()
            .zip(&split)
            .filter_map(|(event, is_split)| match &event.kind {
                EventKind::Notice { kind: NoticeKind::Malformed, text } => Some(text.as_str()),
                EventKind::Notice { text, .. } if *is_split => Some(text.as_str()),
                _ => None,
            })
            .flat_map(|text| text.chars().map(String::from))
            .collect();
        let mended = |event: &Event| {
            matches!(event.kind, EventKind::Notice { kind: NoticeKind::Mended, .. })
        };
        let any_mended = events.iter().any(mended);
        let fresh = |before, is_outside| Gap {
            before,
            after: (Told::Edge, None),
            is_boundary: false,
            is_turn: false,
            is_call: false,
            is_mended: false,
            header: String::new(),
            is_outside,
            is_left: false,
            has_acted: false,
            names: Vec::new(),
        };
        let mut gap = fresh((Told::Edge, None), true);
        gap.is_boundary = true;
        let push = |steps: &mut Vec<Step>,
                    gap: &mut Gap,
                    told: Told,
                    role: Option<Role>,
                    open: bool,
                    text: &str,
                    is_escaped: bool| {
            let mut taken = std::mem::replace(gap, fresh((told, role), !open));
            taken.after = (told, role);
            taken.is_left = !open;
            taken.is_boundary |= taken.before.0 != told;
            let is_same = taken.before.0 == told && !taken.is_boundary;
            let is_frame = self.scaffold.has_frames
                && role == Some(Role::Assistant)
                && matches!(told, Told::Text | Told::Reasoning)
                && text.starts_with('\n');
            let is_held = is_same && !is_frame && !(told == Told::Delta && is_escaped);
            if is_frame {
                // Two parts of a message are told as lines of one text: the line's end is of no id.
                let before = (!is_same).then(|| taken.clone());
                taken.is_boundary = true;
                let (line, text) = text.split_at(1);
                let line = line.chars().collect();
                steps.push(Step {
                    text: line,
                    is_escaped,
                    is_optional: true,
                    gap: before,
                    strays: Arc::default(),
                });
                if text.is_empty() {
                    *gap = taken;
                    return;
                }
                let text = text.chars().collect();
                steps.push(Step {
                    text,
                    is_escaped,
                    is_optional: false,
                    gap: Some(taken),
                    strays: Arc::default(),
                });
                return;
            }
            let text = text.chars().collect();
            let gap =
                (!is_held || self.scaffold.has_reasoning && told != Told::Delta).then_some(taken);
            steps.push(Step { text, is_escaped, is_optional: false, gap, strays: Arc::default() });
        };
        for (nth, (event, is_split)) in events.iter().zip(split).enumerate() {
            match &event.kind {
                EventKind::TurnStart { role: new, name } => {
                    (role, open, in_call, acted) = (Some(*new), true, false, false);
                    (gap.is_boundary, gap.is_turn) = (true, true);
                    gap.names.extend(name.clone());
                }
                EventKind::TurnEnd { id, .. } => {
                    open = false;
                    (gap.is_boundary, gap.is_turn) = (true, true);
                    gap.names.extend(id.clone());
                }
                EventKind::ActionStart { name, id, kind, .. } => {
                    (in_call, in_string) = (true, false);
                    arguments.clear();
                    is_code = *kind == chatcodec::ActionKind::Code;
                    (gap.is_boundary, gap.is_call) = (true, true);
                    gap.names.extend(name.iter().chain(id).cloned());
                    // An id may be told at the end of a call that has it before its arguments.
                    gap.names.extend(id_at_the_end(&events[nth..]));
                }
                EventKind::ActionEnd { name, id, .. } => {
                    (in_call, acted) = (false, true);
                    (gap.is_boundary, gap.is_call) = (true, true);
                    gap.names.extend(name.iter().chain(id).cloned());
                    gap.names.extend(keys(&arguments));
                }
                EventKind::Media { .. } => gap.is_boundary = true,
                EventKind::Text(text) => {
                    let is_value = self.scaffold.has_values && role == Some(Role::Tool);
                    push(&mut steps, &mut gap, Told::Text, role, open, text, is_value);
                }
                EventKind::Reasoning(text) => {
                    push(&mut steps, &mut gap, Told::Reasoning, role, open, text, false);
                }
                EventKind::ActionDelta { text, .. } => {
                    if is_code || !(self.scaffold.has_pairs || any_mended) {
                        push(&mut steps, &mut gap, Told::Delta, role, open, text, false);
                        continue;
                    }
                    if self.scaffold.repeats_key {
                        arguments.push_str(text);
                        gap.names.extend(keys(&arguments));
                    }
                    for (text, begins) in chunks(text, &mut in_string) {
                        gap.is_boundary |= begins;
                        gap.is_call |= begins;
                        if !text.is_empty() {
                            push(&mut steps, &mut gap, Told::Delta, role, open, &text, true);
                        }
                    }
                }
                EventKind::Notice { kind: NoticeKind::Mended, text } => {
                    (gap.is_boundary, gap.is_mended) = (true, true);
                    gap.header += text.split_once(": ").map_or("", |(_, header)| header);
                }
                EventKind::Notice { text, .. } if text.is_empty() => gap.is_boundary = true,
                EventKind::Notice { kind, text }
                    if in_call
                        && (is_split
                            || matches!(
                                kind,
                                NoticeKind::Malformed | NoticeKind::UnexpectedControl
                            )) =>
                {
                    // What does not belong to a call is told where it ends, or before.
                    gap.is_boundary = true;
                    let first = steps.len();
                    let names = gap.names.clone();
                    push(&mut steps, &mut gap, Told::Notice, role, open, text, false);
                    steps[first..].iter_mut().for_each(|step| step.is_optional = true);
                    gap.names = names;
                    gap.is_boundary = true;
                    gap.is_call = true;
                }
                EventKind::Notice { text, .. } => {
                    gap.is_call |= in_call;
                    if in_call {
                        gap.names.extend(id_at_the_end(&events[nth..]));
                    }
                    push(&mut steps, &mut gap, Told::Notice, role, open, text, false);
                    gap.is_boundary = true;
                    gap.is_call = in_call;
                    gap.has_acted = acted;
                }
            }
        }
        gap.is_boundary = true;
        steps.push(Step {
            text: Vec::new(),
            is_escaped: false,
            is_optional: false,
            gap: Some(gap),
            strays: Arc::default(),
        });
        let strays: Arc<[String]> = events
            .iter()
            .filter_map(|event| match &event.kind {
                EventKind::Notice {
                    kind: NoticeKind::UnexpectedControl | NoticeKind::Malformed,
                    text,
                } => Some(text.clone()),
                _ => None,
            })
            .collect();
        for step in &mut steps {
            step.strays = strays.clone();
        }
        // Text that belongs to no pair of a call is told together, and not where it stands.
        for gap in steps.iter_mut().filter_map(|step| step.gap.as_mut()).filter(|gap| gap.is_call) {
            gap.names.extend(odd.iter().cloned());
        }
        steps
    }

    /// Where a step's text may end that begins at a place; nowhere, if it does not stand there.
    fn ends(&self, step: &Step, symbols: &[Symbol], at: usize) -> BTreeSet<usize> {
        if step.text.is_empty() {
            return BTreeSet::from_iter((at == symbols.len()).then_some(at));
        }
        let mut ends = BTreeSet::new();
        let mut ways = vec![(0, at)];
        let mut seen = BTreeSet::new();
        while let Some((told, at)) = ways.pop() {
            if told == step.text.len() {
                ends.insert(at);
            } else if seen.insert((told, at)) {
                ways.extend(self.next(step, told, symbols, at));
            }
        }
        ends
    }

    /// Ways to go on in a step's text and in the stream.
    fn next(&self, step: &Step, told: usize, symbols: &[Symbol], at: usize) -> Vec<(usize, usize)> {
        let rest = &step.text[told..];
        let strip = |text: &str| {
            let text: Vec<char> = text.chars().collect();
            rest.starts_with(&text).then_some((told + text.len(), at + 1))
        };
        match symbols.get(at) {
            Some(Symbol::Char(c)) => {
                let is_same = *c == rest[0] || step.is_escaped && c.eq_ignore_ascii_case(&rest[0]);
                let mut ways = Vec::from_iter(is_same.then_some((told + 1, at + 1)));
                if step.is_escaped && told == 0 && rest == ['n', 'u', 'l', 'l'] {
                    let in_python = "None".chars().map(Symbol::Char).collect::<Vec<_>>();
                    ways.extend(symbols[at..].starts_with(&in_python).then_some((4, at + 4)));
                }
                if step.is_escaped {
                    let mut escapes = self.scaffold.escapes.iter();
                    let found = escapes
                        .find(|(of, text)| *of == rest[0] && symbols[at..].starts_with(text));
                    ways.extend(found.map(|(_, text)| (told + 1, at + text.len())));
                }
                if step.is_escaped && *c == '\\' {
                    let escape = unescaped(&symbols[at..]).filter(|(c, _)| *c == rest[0]);
                    ways.extend(escape.map(|(_, length)| (told + 1, at + length)));
                    // In Python, the line goes on.
                    let goes_on = symbols.get(at + 1) == Some(&Symbol::Char('\n'));
                    ways.extend(goes_on.then_some((told, at + 2)));
                }
                ways
            }
            Some(Symbol::Control(id)) => {
                let known = self.entry.codec.vocab().control().iter();
                known
                    .filter(|(_, known)| *known == id)
                    .flat_map(|(text, _)| {
                        // A notice tells it before the text around it, which was held.
                        let is_stray = step.is_escaped && told > 0 && step.strays.contains(text);
                        strip(text).into_iter().chain(is_stray.then_some((told, at + 1)))
                    })
                    .collect()
            }
            Some(Symbol::Unknown(text)) => strip(text).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Whether what no event tells is declared where it stands. `spelled` are the lengths of the control tokens that
    /// each of the symbols begins to spell.
    fn is_declared(&self, symbols: &[Symbol], spelled: Option<&[Vec<usize>]>, gap: &Gap) -> bool {
        // What spells a control token may be part of a name.
        let header = &gap.header;
        let split = spelled.and_then(|spelled| self.stretches(symbols, spelled, header));
        let ways = split.into_iter().chain(self.stretches(symbols, &[], header));
        ways.into_iter().any(|stretches| self.are_declared(&stretches, symbols.is_empty(), gap))
            || spelled.is_some() && gap.is_call && self.is_spelled_call(symbols, gap)
    }

    /// Whether all of a gap may be of a call, with control tokens spelled within names and beside them.
    fn is_spelled_call(&self, symbols: &[Symbol], gap: &Gap) -> bool {
        let Some(stretches) = self.stretches(symbols, &[], "") else { return false };
        let scaffold = &*self.scaffold;
        let mut words = scaffold.words.clone();
        words.extend(scaffold.control.iter().chain(&gap.names).cloned());
        let around = scaffold.heads.iter().chain(&scaffold.tails).map(|(_, _, stretch)| stretch);
        let literals = around.chain(&scaffold.between).flatten();
        words.extend(
            literals
                .filter_map(|element| match element {
                    // A header may lack the white space after it.
                    Element::Literal(literal) => {
                        Some([literal.clone(), literal.trim_end().to_owned()])
                    }
                    _ => None,
                })
                .flatten(),
        );
        stretches.iter().all(|text| is_tiled(text, &words) || is_tiled(&plain(text), &words))
    }

    #[allow(
        clippy::too_many_lines,
        reason = "each line is a place where characters may be declared"
    )]
    fn are_declared(&self, stretches: &[Vec<char>], is_empty: bool, gap: &Gap) -> bool {
        let is_around_reasoning = self.scaffold.has_reasoning && stretches.len() > 1;
        if !gap.is_boundary && !is_around_reasoning {
            return is_empty;
        }
        let scaffold = &*self.scaffold;
        let names = gap.names.iter().cloned();
        let is_made = |text: &[char]| {
            text.is_empty() || {
                let words = scaffold.words.iter().cloned().chain(names.clone()).collect();
                is_tiled(text, &words) || is_tiled(&plain(text), &words)
            }
        };
        let any = |list: &[Stretch], text: &[char]| list.iter().any(|stretch| fits(stretch, text));
        let lists = [&scaffold.between, &scaffold.inner, &scaffold.before_calls];
        let heads = || scaffold.heads.iter().map(|(_, _, head)| head);
        let tails = || scaffold.tails.iter().map(|(_, _, tail)| tail);
        // Turns that text tells apart may be empty.
        let is_text_turn = scaffold.is_text && gap.is_turn;
        // Between such turns, white space is read.
        let white = [vec![Element::White]];
        let all = || scaffold.between.iter().chain(heads()).chain(tails()).chain(&white);
        let is_known = |text: &[char]| {
            text.iter().copied().all(is_white)
                || is_text_turn && is_chain(&all(), text)
                || lists.iter().any(|list| any(list, text))
                || heads().chain(tails()).any(|e| fits(e, text))
        };
        if gap.is_mended {
            let is_header = |text: &[char]| {
                let text = text.iter().collect::<String>();
                gap.header.contains(text.trim_matches(is_white))
            };
            return stretches.iter().all(|text| is_known(text) || is_made(text) || is_header(text));
        }
        let is_head = |text: &[char]| {
            let (told, role) = gap.after;
            let of = |known: &&(Role, Told, Stretch)| match told {
                Told::Text | Told::Reasoning => {
                    known.1 == told && Some(known.0) == role.or(Some(Role::Assistant))
                }
                _ => true,
            };
            scaffold.heads.iter().filter(of).any(|(_, _, head)| fits(head, text))
        };
        let is_tail = |text: &[char]| {
            let (told, role) = gap.before;
            let of = |known: &&(Role, Told, Stretch)| match told {
                Told::Text | Told::Reasoning => {
                    known.1 == told && Some(known.0) == role.or(Some(Role::Assistant))
                }
                _ => true,
            };
            text.is_empty()
                || scaffold.tails.iter().filter(of).any(|(_, _, tail)| fits(tail, text))
                || gap.is_call && any(&scaffold.before_calls, text)
        };
        let is_space = |text: &[char]| text.iter().copied().all(is_white);
        if let [text] = stretches {
            let is_around = is_text_turn
                && (0..=text.len()).any(|at| is_tail(&text[..at]) && is_chain(&all(), &text[at..]));
            let leads_text = || is_space(text) && heads().any(|head| fits(head, text));
            let begin = text.iter().take_while(|c| is_white(**c)).count();
            return text.is_empty()
                || gap.before.0 == Told::Edge && (is_head(text) || is_head(&text[begin..]))
                // A token that means nothing may come between, before what leads a text, or after a call.
                || gap.before.0 == Told::Notice && (gap.has_acted && is_space(text) || leads_text())
                || gap.before.0 == Told::Notice && gap.is_outside && is_head(&text[begin..])
                || gap.is_call && is_made(text)
                || any(&scaffold.inner, text)
                || (gap.is_turn || scaffold.has_values) && is_tail(text)
                || gap.is_left && gap.after.0 != Told::Text && text.iter().copied().all(is_white)
                || is_around;
        }
        let [first, middle @ .., last] = stretches else { return true };
        // A turn without text: its header, then what stands before its closing token.
        let is_empty_turn = |text: &[char]| {
            let begin = text.iter().take_while(|c| is_white(**c)).count();
            let opens = |text: &[char]| heads().any(|head| fits(head, text));
            let closes = |text: &[char]| tails().any(|tail| fits(tail, text));
            (begin..=text.len()).any(|at| opens(&text[begin..at]) && closes(&text[at..]))
        };
        let is_first = match gap.before.0 {
            Told::Delta => is_made(first),
            Told::Edge => is_known(first) || is_empty_turn(first),
            Told::Notice if gap.has_acted && is_space(first) => true,
            Told::Notice if gap.is_outside || gap.is_call => {
                is_known(first) || is_made(first) || is_empty_turn(first)
            }
            _ if is_text_turn => {
                (0..=first.len()).any(|at| is_tail(&first[..at]) && is_chain(&all(), &first[at..]))
            }
            _ => is_tail(first) || gap.is_call && scaffold.is_text && is_made(first),
        };
        // Calls that begin with text follow a header.
        let opens_calls = |text: &[char]| {
            let opens = |at: usize| scaffold.is_answers_head(&text[..at]) && is_made(&text[at..]);
            is_made(text) || (0..=text.len()).any(opens)
        };
        let is_last = match gap.after.0 {
            Told::Delta => is_made(last) || gap.is_call && opens_calls(last),
            Told::Edge => is_known(last) || gap.is_call && is_made(last),
            Told::Notice => {
                last.is_empty()
                    || is_head(last)
                    || is_text_turn && is_chain(&all(), last)
                    || is_space(last) && gap.is_left
                    || gap.is_call && opens_calls(last)
            }
            // What is spelled is text where it means nothing; before it, white space is not.
            _ if self.is_spelled && gap.is_turn && is_space(last) => true,
            // As the pattern of a call ends, before text.
            _ if gap.is_call && any(&scaffold.between, last) => true,
            _ if gap.is_call && last.last().is_none_or(|c| !is_white(*c)) && is_made(last) => true,
            _ if is_text_turn => (0..=last.len()).any(|at| {
                is_chain(&all(), &last[..at]) && (at == last.len() || is_head(&last[at..]))
            }),
            _ => last.is_empty() || is_head(last),
        };
        let is_between = |text: &Vec<char>| {
            is_known(text) || gap.is_call && is_made(text) || gap.is_turn && is_empty_turn(text)
        };
        // A header may have anything in it, tokens too.
        let is_any = |text: &[char]| {
            let ends = |stretch: &&Stretch| matches!(stretch.last(), Some(Element::Any));
            scaffold.between.iter().filter(ends).any(|stretch| fits(stretch, text))
        };
        let mut pairs = stretches.iter().zip(middle);
        is_first && is_last && pairs.all(|(before, text)| is_between(text) || is_any(before))
    }

    /// The characters between control tokens, and between those that are spelled with one of these lengths; none, if a
    /// control token is not of the format.
    fn stretches(
        &self,
        symbols: &[Symbol],
        spelled: &[Vec<usize>],
        header: &str,
    ) -> Option<Vec<Vec<char>>> {
        let vocab = self.entry.codec.vocab();
        let mut stretches = vec![Vec::new()];
        let mut at = 0;
        while let Some(symbol) = symbols.get(at) {
            at += 1;
            match symbol {
                Symbol::Char(c) => {
                    let lengths = spelled.get(at - 1).into_iter().flatten();
                    let longest = lengths.filter(|length| **length <= symbols.len() + 1 - at).max();
                    if let Some(length) = longest {
                        at += length - 1;
                        stretches.push(Vec::new());
                    } else {
                        stretches.last_mut()?.push(*c);
                    }
                }
                Symbol::Control(id) => {
                    let known = &self.scaffold.control;
                    if !known.iter().any(|known| vocab.control().get(known) == Some(id)) {
                        return None;
                    }
                    stretches.push(Vec::new());
                }
                // The notice of a header that was mended tells it as it was written.
                Symbol::Unknown(text) if header.contains(text) => stretches.push(Vec::new()),
                Symbol::Unknown(_) => return None,
            }
        }
        Some(stretches)
    }

    /// How long the control tokens are that are spelled at the beginning of symbols.
    fn spelled(&self, symbols: &[Symbol]) -> Vec<usize> {
        let begins = |spelling: &String| {
            let mut symbols = symbols.iter();
            spelling.chars().all(|c| symbols.next() == Some(&Symbol::Char(c)))
        };
        let known = if self.is_spelled { &self.scaffold.control } else { &self.scaffold.text };
        let known = known.iter().filter(|spelling| begins(spelling));
        known.map(|spelling| spelling.chars().count()).collect()
    }

    fn shown(&self, symbols: &[Symbol]) -> String {
        let vocab = self.entry.codec.vocab();
        let spelling = |id: TokenId| {
            vocab.control().iter().find(|(_, known)| **known == id).map_or("?", |(text, _)| text)
        };
        symbols
            .iter()
            .map(|symbol| match symbol {
                Symbol::Char(c) => c.to_string(),
                Symbol::Control(id) => format!("⟦{}⟧", spelling(*id)),
                Symbol::Unknown(text) => format!("⟦id {text}⟧"),
            })
            .collect()
    }
}

/// A character that an escape of JSON or Python stands for, and how long the escape is.
fn unescaped(symbols: &[Symbol]) -> Option<(char, usize)> {
    let at = |nth: usize| match symbols.get(nth) {
        Some(Symbol::Char(c)) => Some(*c),
        _ => None,
    };
    let code = |from: usize, count: usize| {
        let digits: Option<String> = (from..from + count).map(at).collect();
        u32::from_str_radix(&digits?, 16).ok()
    };
    let simple = |c| Some((c, 2));
    match at(1)? {
        'n' => simple('\n'),
        't' => simple('\t'),
        'r' => simple('\r'),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        'a' => simple('\u{7}'),
        'v' => simple('\u{b}'),
        c @ ('"' | '\'' | '\\' | '/') => simple(c),
        'x' => Some((char::from_u32(code(2, 2)?)?, 4)),
        'U' => Some((char::from_u32(code(2, 8)?)?, 10)),
        'u' => {
            let high = code(2, 4)?;
            if let Some(c) = char::from_u32(high) {
                return Some((c, 6));
            }
            let low = (at(6) == Some('\\') && at(7) == Some('u')).then(|| code(8, 4)).flatten();
            let pair = low.filter(|low| (0xDC00..0xE000).contains(low)).and_then(|low| {
                char::from_u32(0x10000 + ((high.checked_sub(0xD800)?) << 10) + (low - 0xDC00))
            });
            Some(pair.map_or(('\u{fffd}', 6), |c| (c, 12)))
        }
        _ => None,
    }
}

/// JSON text as the texts that its strings and words hold, unescaped. With each, whether the signs of JSON stand
/// before it: there the stream may have others. Where the text was cut within an escape, it is taken as it is.
fn chunks(text: &str, in_string: &mut bool) -> Vec<(String, bool)> {
    let symbols: Vec<Symbol> = text.chars().map(Symbol::Char).collect();
    let mut chunks = vec![(String::new(), false)];
    let mut at = 0;
    while let Some(Symbol::Char(c)) = symbols.get(at) {
        if *in_string
            && *c == '\\'
            && let Some((c, length)) = unescaped(&symbols[at..])
        {
            chunks.last_mut().expect("one").0.push(c);
            at += length;
            continue;
        }
        at += 1;
        if *c == '"' {
            *in_string = !*in_string;
            chunks.push((String::new(), true));
        } else if *in_string || !"{}[]:, \t\r\n".contains(*c) {
            chunks.last_mut().expect("one").0.push(*c);
        } else {
            chunks.push((String::new(), true));
        }
    }
    chunks
}
