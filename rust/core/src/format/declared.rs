//! Declared tools: the text that a template wrote of a list of tools, in parts that know the caller's value.
//!
//! ```text
//! [{"name": "now"}]      a caller's tools
//! declaration:now{…}     the text
//! ^^^^^^^^^^^^           the template's own
//!             ^^^        of `tools[0].name`
//! ```

use std::ops::Range;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::tools::Token;
use crate::json;
use crate::pattern::Piece;
use crate::template::{Part, Paths, RenderedTemplate};
use chatcodec_vocab::Vocab;

/// Tools as a format writes them.
///
/// ```
/// use chatcodec::DeclaredTools;
///
/// assert_eq!(DeclaredTools::from("no tools".to_owned()).text(), "no tools");
/// ```
#[derive(Debug, Clone)]
pub struct DeclaredTools {
    written: Arc<Written>,
}

#[derive(Debug, Default)]
struct Written {
    text: String,
    /// The list as JSON; none for a caller's text.
    json: Option<String>,
    runs: Vec<ToolsRun>,
    paths: Option<Arc<Paths>>,
}

/// A control token of the declaration, or text between two.
#[derive(Debug)]
pub(crate) enum ToolsRun {
    /// By its place among the tokens of the declaration.
    Token(usize),
    Text {
        text: Range<usize>,
        parts: Vec<ToolsPart>,
    },
}

impl ToolsRun {
    fn parts_mut(&mut self) -> &mut [ToolsPart] {
        match self {
            Self::Token(_) => &mut [],
            Self::Text { parts, .. } => parts,
        }
    }
}

/// A part of a text, with one source.
#[derive(Debug)]
pub(crate) struct ToolsPart {
    /// The bytes of the declaration.
    pub(crate) text: Range<usize>,
    /// The path of the caller's value; none for the template's own text.
    pub(crate) path: Option<u32>,
    /// Code points of the caller's string before the part.
    pub(crate) skipped: u32,
    /// What is searched for control tokens in place of the part, if that is another text.
    pub(crate) original: Option<Arc<str>>,
}

impl PartialEq for DeclaredTools {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for DeclaredTools {}

impl From<String> for DeclaredTools {
    /// A caller's text, which is written as it is.
    fn from(text: String) -> Self {
        let whole = 0..text.len();
        let runs = vec![ToolsRun::Text { text: whole, parts: Vec::new() }];
        Self { written: Arc::new(Written { text, runs, ..Written::default() }) }
    }
}

impl DeclaredTools {
    /// The parts of a rendered declaration of a list, which is given as JSON too.
    ///
    /// `as_given` has the caller's string for each string that normalisation changed. Without `as_given`, nobody needs
    /// positions within strings, and adjacent parts of one value are joined.
    pub(super) fn new(
        json: String,
        rendered: RenderedTemplate,
        tokens: &[Token],
        vocab: &Vocab,
        as_given: Option<&HashMap<String, String>>,
    ) -> Self {
        let mut parts = Parts {
            vocab,
            tokens,
            paths: rendered.paths(),
            variables: rendered.paths().second_argument(),
            is_joined: as_given.is_none(),
            text: String::with_capacity(rendered.text().len()),
            runs: Vec::new(),
            name: NameAt::default(),
            shown: None,
            escaped: None,
        };
        for part in rendered.parts() {
            parts.push(&part, &rendered.text()[part.text.clone()]);
        }
        let Parts { text, mut runs, .. } = parts;
        if let Some(as_given) = as_given {
            set_originals(&mut runs, &text, rendered.paths(), as_given);
        }
        let paths = Some(Arc::new(rendered.into_paths()));
        Self { written: Arc::new(Written { text, json: Some(json), runs, paths }) }
    }

    /// The text, with the control tokens spelled out.
    pub fn text(&self) -> &str {
        &self.written.text
    }

    /// The list as JSON, as the caller gave it; the text, where the caller gave text.
    pub(crate) fn json(&self) -> &str {
        self.written.json.as_ref().unwrap_or(&self.written.text)
    }

    pub(crate) fn runs(&self) -> &[ToolsRun] {
        &self.written.runs
    }

    /// The paths of the caller's values.
    pub(crate) fn paths(&self) -> Option<&Arc<Paths>> {
        self.written.paths.as_ref()
    }
}

/// The parts of a declaration, one after another.
struct Parts<'a> {
    vocab: &'a Vocab,
    tokens: &'a [Token],
    paths: &'a Paths,
    /// The first path that is of a variable of the format's, and not of the tools.
    variables: u32,
    /// Whether the parts of one value are one.
    is_joined: bool,
    text: String,
    runs: Vec<ToolsRun>,
    name: NameAt,
    /// The end of the last part of a string: its path, the byte, and the code points before it.
    shown: Option<(u32, usize, usize)>,
    /// The string in which JSON escaped the last character.
    escaped: Option<u32>,
}

impl Parts<'_> {
    fn push(&mut self, part: &Part, shown: &str) {
        if let Some(nth) = part.path.and_then(|path| self.token(path)) {
            let spelling = &self.tokens[nth].spelling;
            let count = shown.len() / spelling.len();
            if *shown == spelling.repeat(count) {
                self.runs.extend((0..count).map(|_| ToolsRun::Token(nth)));
                self.text.push_str(shown);
                return;
            }
        }
        let path = part.path.filter(|path| *path < self.variables);
        let place = path.zip(part.place);
        let skipped = if self.is_joined { 0 } else { self.skipped(place, shown) };
        let start = self.text.len();
        let is_after_escape = place.is_some() && path == self.escaped;
        self.escaped = path.filter(|_| place.is_none() && ends_in_escape(shown));
        if is_after_escape {
            // A character may compose with the letter or digit at the end of the escape.
            let vocab = self.vocab;
            json::escape_after_escape(shown, &|text| vocab.normalise(text), &mut self.text);
        } else {
            self.text.push_str(shown);
        }
        let bytes = start..self.text.len();
        let skipped = skipped as u32;
        let added = ToolsPart { text: bytes.clone(), path, skipped, original: None };
        match self.runs.last_mut() {
            Some(ToolsRun::Text { text, parts }) => {
                text.end = bytes.end;
                match parts.last_mut() {
                    Some(last) if self.is_joined && last.path == path => {
                        last.text.end = bytes.end;
                    }
                    _ => parts.push(added),
                }
            }
            _ => self.runs.push(ToolsRun::Text { text: bytes, parts: vec![added] }),
        }
    }

    /// Code points of the caller's string before a part, which shows the string from a byte on.
    fn skipped(&mut self, place: Option<(u32, usize)>, shown: &str) -> usize {
        let Some((path, at)) = place else {
            self.name.pass(shown);
            return 0;
        };
        let Some(given) = self.paths.string(path) else {
            return self.name.points_before(at, shown);
        };
        let last = self.shown.filter(|(of, byte, _)| *of == path && *byte <= at);
        let (_, byte, points) = last.unwrap_or((path, 0, 0));
        let points = points + given.get(byte..at).map_or(0, |more| more.chars().count());
        self.shown = Some((path, at, points));
        points
    }

    /// The token whose variable a path leads to.
    fn token(&self, path: u32) -> Option<usize> {
        let name = self.paths.argument_name(path)?;
        let is_of =
            |token: &Token| matches!(&token.piece, Piece::Control(names) if names[0] == name);
        self.tokens.iter().position(is_of)
    }
}

/// How much of a member's name has been written. `Paths` has the strings of values alone, not the names of members.
#[derive(Default)]
struct NameAt {
    byte: usize,
    points: usize,
    /// Characters after `byte` that JSON has escaped.
    escapes: usize,
}

impl NameAt {
    /// Code points of the name before byte `at`, where a part of it is shown.
    fn points_before(&mut self, at: usize, shown: &str) -> usize {
        if at == 0 || at < self.byte {
            *self = Self::default();
        }
        // Of a part that is left out, the characters are not known: they count as ASCII.
        let passed = if self.escapes > 0 { self.escapes } else { at - self.byte };
        let points = self.points + passed;
        let end = points + shown.chars().count();
        *self = Self { byte: at + shown.len(), points: end, escapes: 0 };
        points
    }

    /// Passes over what JSON writes around names and for characters in them: a quote begins the next name.
    fn pass(&mut self, shown: &str) {
        for unit in json_units(shown) {
            // The second half of a surrogate pair is no character of its own.
            let is_second = matches!(unit.get(2..4), Some("dc" | "dd" | "de" | "df"));
            match unit {
                "\"" => *self = Self::default(),
                _ if unit.starts_with('\\') && !is_second => self.escapes += 1,
                _ => {}
            }
        }
    }
}

/// Whether the last that JSON writes here is an escape.
fn ends_in_escape(shown: &str) -> bool {
    json_units(shown).last().is_some_and(|unit| unit.starts_with('\\'))
}

/// The characters and escapes of JSON text.
fn json_units(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let length = match rest.as_bytes() {
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => first.len_utf8(),
        };
        let (unit, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        Some(unit)
    })
}

/// Sets the texts that are searched for control tokens in place of parts.
///
/// A string that normalisation changed is searched once, as the caller gave it, at its first part. So is a string that
/// one part shows in another spelling, such as upper case.
fn set_originals(
    runs: &mut [ToolsRun],
    declared: &str,
    paths: &Paths,
    as_given: &HashMap<String, String>,
) {
    let mut parts: Vec<&mut ToolsPart> = runs.iter_mut().flat_map(ToolsRun::parts_mut).collect();
    let mut shown: HashMap<u32, usize> = HashMap::new();
    for path in parts.iter().filter_map(|part| part.path) {
        *shown.entry(path).or_default() += 1;
    }
    let mut searched: HashSet<u32> = HashSet::new();
    for part in &mut parts {
        let Some((path, given)) = part.path.and_then(|path| Some((path, paths.string(path)?)))
        else {
            continue;
        };
        let is_changed = shown.get(&path) == Some(&1) && declared[part.text.clone()] != *given;
        part.original = match as_given.get(given) {
            Some(as_given) if searched.insert(path) => {
                part.skipped = 0;
                Some(as_given.as_str().into())
            }
            Some(_) => Some("".into()),
            None => is_changed.then(|| given.into()),
        };
    }
}
