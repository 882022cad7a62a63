//! The patterns of a built-in format, spelled with the control tokens of a vocabulary.
//!
//! In: the keys of a format file, and a vocabulary. Out: the same keys, where a token that the vocabulary lacks is text,
//! and text that is a control token of the vocabulary is that token.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use aho_corasick::{AhoCorasick, MatchKind};
use toml::{Table, Value};

use super::Format;
use chatcodec_vocab::Vocab;

/// The keys with patterns that are spelled.
const WITH_PATTERNS: [&str; 7] = ["generation", "calls", "call", "also", "frame", "turn", "last"];

/// Keys below `call` and `also` that are no patterns.
const NO_PATTERNS: [&str; 3] = ["object", "escapes", "wrap"];

/// The control tokens of a vocabulary, made once for all formats.
pub(crate) struct Tokens {
    spellings: Vec<String>,
    at: HashMap<String, usize>,
    found: AhoCorasick,
    /// Spellings of the built-in formats that are one id.
    known: HashSet<String>,
}

impl Tokens {
    /// The tokens of a vocabulary; none if they are too many to be searched.
    pub(crate) fn new(vocab: &Vocab) -> Option<Self> {
        let is_usable = |spelling: &&String| !spelling.is_empty() && !spelling.contains(['{', '}']);
        let spellings: Vec<String> = vocab.control().keys().filter(is_usable).cloned().collect();
        let at = spellings.iter().enumerate().map(|(at, spelling)| (spelling.clone(), at));
        let at = at.collect();
        let kind = MatchKind::LeftmostLongest;
        let found = AhoCorasick::builder().match_kind(kind).build(&spellings).ok()?;
        // One pass over the vocabulary finds all of them.
        let formats = Format::names().filter_map(|name| Format::built_in(name).ok());
        let all: BTreeSet<String> = formats
            .flat_map(|format| {
                format.control().iter().flat_map(|(_, group)| group.clone()).collect::<Vec<_>>()
            })
            .collect();
        let groups: Vec<Vec<String>> = all.into_iter().map(|spelling| vec![spelling]).collect();
        let ids = vocab.ids_of(&groups);
        let known = groups.into_iter().zip(ids).filter(|(_, ids)| !ids.is_empty());
        let known = known.flat_map(|(group, _)| group).collect();
        Some(Self { spellings, at, found, known })
    }

    /// The spelling of a control token that no name of these has.
    pub(super) fn free(&self, used: &Table) -> Option<&str> {
        let taken: HashSet<String> = used.iter().flat_map(|(_, group)| strings(group)).collect();
        self.spellings.iter().find(|spelling| !taken.contains(*spelling)).map(String::as_str)
    }
}

/// A name of a file, and its spellings.
type Named = (String, Vec<String>);

/// The control tokens of a file, as a vocabulary has them.
pub(super) struct Spelled<'t> {
    /// Tokens of other rows, which keep their names.
    own: Table,
    tokens: &'t Tokens,
    /// Names of the vocabulary's control tokens, by their places.
    names: BTreeMap<usize, String>,
    /// The file's names for tokens and tags that are tokens of the vocabulary.
    known: Vec<Named>,
    /// The file's names for tokens that have another name.
    renamed: Vec<(String, String)>,
    /// Names that are text with tokens in it, or text alone.
    mixed: Vec<Named>,
    text: Vec<Named>,
    /// The file's own markers of text.
    markers: Vec<Named>,
    /// White space before and after tags that are text now.
    spaces: HashMap<String, [String; 2]>,
    /// Names that patterns use.
    used: BTreeSet<String>,
}

impl<'t> Spelled<'t> {
    /// Finds the tokens of `file`; those of `own` keep the names that they have there.
    pub(super) fn new(file: &Table, own: &Table, tokens: &'t Tokens) -> Option<Self> {
        let mut names = BTreeMap::new();
        let mut name_all = |name: &str, group: &[String]| {
            for at in group.iter().filter_map(|spelling| tokens.at.get(spelling)) {
                names.insert(*at, name.to_owned());
            }
        };
        for (name, group) in own {
            name_all(name, &strings(group));
        }
        let (mut known, mut mixed, mut text) = (Vec::new(), Vec::new(), Vec::new());
        let mut renamed = Vec::new();
        for (name, group) in file.get("control")?.as_table()? {
            let token: Named = (name.clone(), strings(group));
            let has_same = |(_, known): &(&String, &Value)| {
                strings(known).iter().any(|spelling| token.1.contains(spelling))
            };
            if let Some((own, _)) = own.iter().find(has_same) {
                renamed.push((name.clone(), own.clone()));
            } else if token.1.iter().any(|spelling| tokens.known.contains(spelling)) {
                name_all(name, &token.1);
                known.push(token);
            } else if token.1.first().is_some_and(|spelling| tokens.found.is_match(spelling)) {
                mixed.push(token);
            } else {
                text.push(token);
            }
        }
        let mut markers = Vec::new();
        for (name, group) in file.get("text").and_then(Value::as_table).into_iter().flatten() {
            markers.push((name.clone(), strings(group)));
        }
        let (spaces, used) = (HashMap::new(), BTreeSet::new());
        let own = own.clone();
        Some(Self { own, tokens, names, known, renamed, mixed, text, markers, spaces, used })
    }

    /// The name of a token here.
    fn own_name<'n>(&'n self, name: &'n str) -> &'n str {
        let mut renamed = self.renamed.iter();
        renamed.find(|(other, _)| other == name).map_or(name, |(_, own)| own)
    }

    /// Spells the tags and the patterns of a file.
    pub(super) fn write_all(&mut self, file: &mut Table) {
        self.tags(file);
        for key in WITH_PATTERNS {
            if let Some(value) = file.get_mut(key) {
                self.write(value, false);
            }
        }
        self.write_space_before_calls(file);
    }

    /// White space before and after a tag that is text now.
    fn spaces_around(&self, name: &str) -> [&str; 2] {
        self.spaces
            .get(name)
            .map(|around| around.each_ref().map(String::as_str))
            .unwrap_or_default()
    }

    /// Where white space stands before the first tag of calls, which is text now, the space stands after the content.
    fn write_space_before_calls(&self, file: &mut Table) {
        let calls = file.get_mut("calls").and_then(Value::as_table_mut);
        let Some(calls) = calls.filter(|calls| !calls.contains_key("after_content")) else {
            return;
        };
        let open = calls.get("open").and_then(Value::as_str).unwrap_or_default();
        let Some(end) = names_at(open) else { return };
        let [before, _] = self.spaces_around(&open[1..end]);
        if !before.is_empty() {
            calls.insert("after_content".into(), before.to_owned().into());
        }
    }

    /// Spells the tags of a file; those without a token become markers of text.
    fn tags(&mut self, file: &mut Table) {
        let tags = file.get_mut("tag").and_then(Value::as_table_mut);
        let Some(tags) = tags else { return };
        let mut texts = Vec::new();
        tags.retain(|name, ways| {
            let spelled: Vec<String> =
                strings(ways).iter().map(|way| self.spelled(way, true)).collect();
            if spelled.iter().any(|way| way.contains('{')) {
                *ways = Value::from(spelled);
                return true;
            }
            let first = spelled.first().map(String::as_str).unwrap_or_default();
            let (before, after) = (first.len() - first.trim_start().len(), first.trim_end().len());
            let spaces = [&first[..before], &first[after..]].map(str::to_owned);
            self.spaces.insert(name.to_string(), spaces);
            let mut seen = BTreeSet::new();
            let ways = spelled.iter().map(|way| way.trim().to_owned());
            texts.push((name.to_string(), ways.filter(|way| seen.insert(way.clone())).collect()));
            false
        });
        self.text.extend(texts);
    }

    /// Spells the patterns of a value. In the pattern of a pair, `is_pair`, no marker of text may stand.
    fn write(&mut self, value: &mut Value, is_pair: bool) {
        match value {
            Value::String(text) => *text = self.spelled(text, is_pair),
            Value::Array(items) => items.iter_mut().for_each(|item| self.write(item, is_pair)),
            Value::Table(table) => {
                for (key, value) in table {
                    match key.as_str() {
                        "stop" => self.write_stop(value),
                        key if NO_PATTERNS.contains(&key) => {}
                        key => self.write(value, key == "pair"),
                    }
                }
            }
            _ => {}
        }
    }

    /// Leaves out the tokens that the vocabulary lacks: no text stops a model.
    fn write_stop(&mut self, value: &mut Value) {
        let Value::String(text) = value else { return };
        let names = text.trim_matches(['{', '}']).split('|');
        let names: Vec<String> =
            names.filter(|name| has(&self.known, name)).map(str::to_owned).collect();
        *text = if names.is_empty() { String::new() } else { format!("{{{}}}", names.join("|")) };
        self.used.extend(names);
    }

    /// A pattern with the vocabulary's tokens; with `no_markers`, a marker of text becomes its text.
    fn spelled(&mut self, pattern: &str, no_markers: bool) -> String {
        // What is no token becomes text, which may be, with the text beside it, a token.
        let mut text = String::new();
        let mut rest = pattern;
        while let Some(at) = rest.find('{') {
            text.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(end) = names_at(rest) else {
                text.push('{');
                rest = &rest[1..];
                continue;
            };
            let hole: Vec<&str> = rest[1..end].split('|').collect();
            // Beside a token, no text is another way.
            let is_token = |name: &str| has(&self.known, name) || self.own_name(name) != name;
            let has_token = hole.iter().any(|name| is_token(name));
            let is_text = |name: &str| {
                has(&self.mixed, name)
                    || (has_token || no_markers)
                        && (has(&self.text, name) || has(&self.markers, name))
            };
            let kept = hole.iter().copied().filter(|name| !is_text(name));
            let names: Vec<String> = kept.map(|name| self.own_name(name).to_owned()).collect();
            if names.is_empty() {
                let mut all = self.mixed.iter().chain(&self.text).chain(&self.markers);
                let group = all.find(|(name, _)| name == hole[0]).map(|(_, group)| group);
                let spelling = group.and_then(|group| group.first()).map(String::as_str);
                let [before, after] = self.spaces_around(hole[0]);
                text.extend([before, spelling.unwrap_or_default(), after]);
            } else {
                text.extend(["{", &names.join("|"), "}"]);
                // A pattern may have spaces of its own there.
                let [_, after] = self.spaces_around(&names[0]);
                let goes_on = rest[end + 1..].starts_with(char::is_whitespace);
                text.extend((!goes_on).then_some(after));
                self.used.extend(names);
            }
            rest = &rest[end + 1..];
        }
        text.push_str(rest);
        let (mut spelled, mut done) = (String::new(), 0);
        for hit in self.tokens.found.find_iter(&text) {
            let at = hit.pattern().as_usize();
            let name = self.names.entry(at).or_insert_with(|| format!("TOKEN_{at}")).clone();
            spelled.extend([&text[done..hit.start()], "{", &name, "}"]);
            self.used.insert(name);
            done = hit.end();
        }
        spelled.push_str(&text[done..]);
        spelled
    }

    /// What a spelled pattern begins with: text, or a token. Empty for a field or a tag.
    pub(super) fn opening(&self, pattern: &str) -> String {
        let (text, rest) = pattern.split_at(pattern.find('{').unwrap_or(pattern.len()));
        if !text.trim().is_empty() {
            return text.trim().to_owned();
        }
        let Some(end) = names_at(rest) else { return String::new() };
        let name = rest[1..end].split('|').next().unwrap_or_default();
        if let Some((at, _)) = self.names.iter().find(|(_, own)| *own == name) {
            return self.tokens.spellings[*at].clone();
        }
        let mut others = self.known.iter().chain(&self.text).chain(&self.markers);
        let group = others.find(|(other, _)| other == name).map(|(_, group)| group);
        group.and_then(|group| group.first()).cloned().unwrap_or_default()
    }

    /// Adds the tokens and markers that patterns use to a file, and leaves out tags that none uses.
    pub(super) fn add_tokens(&self, file: &mut Table) {
        let mut control = self.own.clone();
        let tokens = self
            .names
            .iter()
            .map(|(at, name)| (name.clone(), self.tokens.spellings[*at].clone().into()));
        let known = self.known.iter().map(|(name, group)| (name.clone(), group.clone().into()));
        for (name, group) in known.chain(tokens) {
            if self.used.contains(&name) && !control.contains_key(&name) {
                control.insert(name, group);
            }
        }
        file.insert("control".into(), control.into());
        let text = self.text.iter().chain(&self.markers);
        let text = text.filter(|(name, _)| self.used.contains(name));
        let text: Table = text.map(|(name, group)| (name.clone(), group.clone().into())).collect();
        if !text.is_empty() {
            file.insert("text".into(), text.into());
        }
        if let Some(tags) = file.get_mut("tag").and_then(Value::as_table_mut) {
            tags.retain(|name, _| self.used.iter().any(|used| used == name));
        }
    }
}

fn has(named: &[Named], name: &str) -> bool {
    named.iter().any(|(known, _)| known == name)
}

/// A string, or a list of strings.
pub(super) fn strings(value: &Value) -> Vec<String> {
    match value {
        Value::String(one) => vec![one.clone()],
        value => value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    }
}

/// The end of a hole for control tokens, `{A|B}`, at the start of a text.
pub(super) fn names_at(hole: &str) -> Option<usize> {
    let end = hole.find('}')?;
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    hole[1..end].split('|').all(is_name).then_some(end)
}
