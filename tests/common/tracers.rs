//! Tracers: characters that no format and no text has, each of them another, put among the ids of a stream.
//!
//! A stream that loses text loses tracers. So each tracer must be in an event, in one text at most. Where two tracers
//! are in one text, the characters between them are those between their ids. The law knows nothing of the format's
//! file.

use std::collections::BTreeSet;

use chatcodec::{DummyPrefix, Event, EventKind, Role, TokenId, Vocab};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::table::Entry;

/// Where tracers are put, and the first of them: of private use, letters, or four bytes long.
#[derive(Debug, Clone)]
pub struct Places {
    first: char,
    at: Vec<Index>,
}

const FIRST: [char; 3] = ['\u{e000}', '\u{a000}', '\u{13000}'];

pub fn places() -> impl Strategy<Value = Places> {
    let first = select(&FIRST);
    // Few, so that what means something stays whole, or many.
    let at = prop_oneof![vec(any::<Index>(), 0..6), vec(any::<Index>(), 0..60)];
    (first, at).prop_map(|(first, at)| Places { first, at })
}

impl Places {
    /// The same places with tracers that the ids do not have already; `None` if they have some of each kind.
    pub fn apart_from(self, vocab: &Vocab, ids: &[TokenId]) -> Option<Self> {
        let symbols = symbols(vocab, ids, true);
        let others = FIRST.map(|first| Self { first, ..self.clone() });
        let has_none =
            |places: &Self| !symbols.iter().filter_map(character).any(|c| places.is_tracer(c));
        [self].into_iter().chain(others).find(has_none)
    }

    /// The ids with the tracers between them.
    pub fn put(&self, vocab: &Vocab, ids: &[TokenId]) -> Vec<TokenId> {
        let mut at: Vec<usize> = self.at.iter().map(|at| at.index(ids.len() + 1)).collect();
        at.sort_unstable();
        at.dedup();
        let mut traced = Vec::with_capacity(ids.len() + 4 * at.len());
        let mut last = 0;
        for (at, tracer) in at.into_iter().zip(self.first..) {
            traced.extend(&ids[last..at]);
            let text = vocab.encode(&tracer.to_string());
            // A dummy prefix belongs to no text.
            let own = text.iter().position(|&id| !matches!(vocab.token_bytes(id), Ok(b" ")));
            traced.extend(&text[own.expect("a tracer has ids")..]);
            last = at;
        }
        traced.extend(&ids[last..]);
        traced
    }

    fn is_tracer(&self, c: char) -> bool {
        let at = u32::from(c).checked_sub(u32::from(self.first));
        at.is_some_and(|at| (at as usize) < self.at.len())
    }
}

/// What one place of a stream holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Symbol {
    Char(char),
    Control(TokenId),
    /// An id outside the vocabulary.
    Unknown(TokenId),
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
            symbols.push(Symbol::Unknown(id));
            continue;
        }
        let first = vocab.decode_bytes(&[id]).expect("an id of the vocabulary");
        bytes.extend_from_slice(if begins { &first } else { token });
        begins = false;
    }
    flush(&mut bytes, &mut symbols);
    symbols
}

/// Checks that every tracer, every rare character and every id outside the vocabulary is in an event, and that texts
/// lack nothing between tracers.
///
/// # Errors
/// What is missing, and where it stands in the stream.
pub fn check(
    entry: &Entry,
    places: &Places,
    symbols: &[Symbol],
    events: &[Event],
) -> Result<(), String> {
    let told = Told::of(events);
    let control: Vec<&str> = entry.codec.vocab().control().keys().map(|text| &**text).collect();
    let runs = symbols.split(|symbol| !matches!(symbol, Symbol::Char(_)));
    for run in runs.map(|run| run.iter().map(char_of).collect::<String>()) {
        check_run(places, &control, &run, &told)?;
    }
    for symbol in symbols {
        let Symbol::Unknown(id) = symbol else { continue };
        if !told.others.contains(&id.to_string()) {
            return Err(format!("the id {id} is told nowhere"));
        }
    }
    let is_rare = |c: &char| {
        !c.is_ascii()
            && !matches!(c, '\u{fffd}' | '\u{2581}')
            && !entry.meant.iter().any(|word| word.contains(*c))
    };
    let mut rare = symbols.iter().filter_map(character).filter(is_rare);
    // The key of an opening and a closing tag is in one event.
    let is_told =
        |c: char| told.others.contains(c) || told.texts.iter().any(|text| text.text.contains(c));
    match rare.find(|&c| !is_told(c)) {
        Some(c) => Err(format!("{c:?} is told nowhere")),
        None => Ok(()),
    }
}

/// Checks the tracers of a run of text between two control tokens.
///
/// Where a control token may be spelled as text, its spelling may have been read as the token: then the characters
/// between two tracers are not compared.
fn check_run(places: &Places, control: &[&str], run: &str, told: &Told) -> Result<(), String> {
    let mut last: Option<(usize, char, usize)> = None;
    for (at, c) in run.char_indices().filter(|&(_, c)| places.is_tracer(c)) {
        let mut texts = (0..told.texts.len()).filter(|&text| told.texts[text].text.contains(c));
        let Some(text) = texts.next() else {
            if !told.others.contains(c) {
                return Err(format!("{c:?} of {run:?} is told nowhere"));
            }
            continue;
        };
        let Text { text: whole, is_escaped } = &told.texts[text];
        if texts.next().is_some() || whole.matches(c).count() > 1 {
            return Err(format!("{c:?} of {run:?} is told twice"));
        }
        if let Some((from, first, _)) = last.filter(|&(_, _, same)| same == text && !is_escaped)
            && !control.iter().any(|spelling| run[from..at].contains(spelling))
        {
            let [from_told, at_told] = [first, c].map(|c| whole.find(c).expect("it is told"));
            if whole.get(from_told..at_told) != Some(&run[from..at]) {
                return Err(format!("{:?} is told as {whole:?}", &run[from..at]));
            }
        }
        last = Some((at, c, text));
    }
    Ok(())
}

fn character(symbol: &Symbol) -> Option<char> {
    match symbol {
        Symbol::Char(c) => Some(*c),
        _ => None,
    }
}

fn char_of(symbol: &Symbol) -> char {
    character(symbol).expect("of a run")
}

/// One text of events.
struct Text {
    text: String,
    /// Whether the stream may have had it otherwise: escaped, or with other signs.
    is_escaped: bool,
}

/// What events tell.
struct Told {
    texts: Vec<Text>,
    /// Names, ids and notices.
    others: String,
}

impl Told {
    fn of(events: &[Event]) -> Self {
        let mut told = Self { texts: Vec::new(), others: String::new() };
        let mut role = None;
        let mut is_code = false;
        for event in super::events::merged(events.to_vec()) {
            let mut others = |text: Option<String>| {
                told.others.extend(text);
                told.others.push('\n');
            };
            match event.kind {
                EventKind::Text(text) => {
                    told.texts.push(Text { text, is_escaped: role == Some(Role::Tool) });
                }
                EventKind::Reasoning(text) => told.texts.push(Text { text, is_escaped: false }),
                EventKind::ActionDelta { text, .. } => {
                    told.texts.push(Text { text, is_escaped: !is_code });
                }
                EventKind::Notice { text, .. } => others(Some(text)),
                EventKind::TurnStart { role: new, name } => {
                    role = Some(new);
                    others(name);
                }
                EventKind::ActionStart { kind, name, id, .. } => {
                    is_code = kind == chatcodec::ActionKind::Code;
                    others(name);
                    others(id);
                }
                EventKind::ActionEnd { name, id, .. } => {
                    others(name);
                    others(id);
                }
                EventKind::TurnEnd { id, .. } => others(id),
                EventKind::Media { .. } => {}
            }
        }
        told
    }
}
