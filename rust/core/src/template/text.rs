//! Strings with provenance: each run of a string has an origin, the template or a path of the caller's data.
//!
//! Text becomes the template's in three ways: the source spells it ([`Text::source`]), this program does
//! ([`Text::template`], which takes a `'static` string), or it is a number or white space that the template computes.
//! All other text is made from a text, and has its origin.

use std::ops::Range;
use std::sync::Arc;

/// Origin of a run: the template, or one of the caller's values by its number in [`super::paths::Paths`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) const TEMPLATE: Self = Self(u32::MAX);
    const CONTENT: u32 = 1 << 31;

    /// A value of the caller's that belongs to the structure of a conversation.
    pub(crate) fn structure(path: u32) -> Self {
        Self(path)
    }

    /// A value of the caller's that is content: a text, a number, a name that the caller chose.
    pub(crate) fn content(path: u32) -> Self {
        Self(path | Self::CONTENT)
    }

    pub(crate) fn is_content(self) -> bool {
        self != Self::TEMPLATE && self.0 & Self::CONTENT != 0
    }

    /// Number of the path, if the run is the caller's.
    pub(crate) fn path(self) -> Option<u32> {
        (self != Self::TEMPLATE).then_some(self.0 & !Self::CONTENT)
    }
}

/// Where in the caller's string a run begins: a byte offset, or none for text that was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    const CHANGED: Self = Self(u32::MAX);

    pub(super) fn at(byte: usize) -> Self {
        u32::try_from(byte).map_or(Self::CHANGED, Self)
    }

    /// The byte offset; none for text that was changed.
    pub(crate) fn byte(self) -> Option<usize> {
        (self != Self::CHANGED).then_some(self.0 as usize)
    }

    /// The place so many bytes further on.
    fn after(self, bytes: usize) -> Self {
        if self == Self::CHANGED { self } else { Self::at(self.0 as usize + bytes) }
    }
}

/// A stretch of a string with one origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// One past the last byte, in the string.
    pub(crate) end: usize,
    pub(crate) origin: Origin,
    pub(crate) place: Place,
}

#[derive(Debug, Clone)]
enum Runs {
    One(Origin, Place),
    Many(Arc<[Run]>),
}

/// A string whose runs have origins.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    whole: Arc<str>,
    runs: Runs,
    /// Whether the string is `Markup`, which escapes strings that are added to it.
    pub(crate) is_markup: bool,
    /// Whether it is one of the caller's strings as it was given.
    is_whole: bool,
}

impl Text {
    /// Text of the template that this program spells, which is no caller's.
    pub(crate) fn template(text: &'static str) -> Self {
        Self::of(text, Origin::TEMPLATE)
    }

    /// Text that the template's source spells, or a special token that is the template's own. Nothing that a
    /// rendering computes comes in here.
    pub(crate) fn source(text: &str) -> Self {
        Self::of(text, Origin::TEMPLATE)
    }

    /// One of the caller's strings.
    pub(crate) fn data(text: Arc<str>, origin: Origin) -> Self {
        Self {
            whole: text,
            runs: Runs::One(origin, Place::at(0)),
            is_markup: false,
            is_whole: true,
        }
    }

    pub(crate) fn empty() -> Self {
        Self::template("")
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.whole
    }

    pub(crate) fn len(&self) -> usize {
        self.whole.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// The origin of a text of one origin that has no place in a caller's string.
    pub(crate) fn unplaced(&self) -> Option<Origin> {
        match &self.runs {
            Runs::One(origin, Place::CHANGED) => Some(*origin),
            _ => None,
        }
    }

    /// How many runs it has.
    pub(crate) fn run_count(&self) -> usize {
        match &self.runs {
            Runs::One(..) => 1,
            Runs::Many(runs) => runs.len(),
        }
    }

    pub(crate) fn marked(mut self, is_markup: bool) -> Self {
        self.is_markup = is_markup;
        self
    }

    /// The runs within a range of bytes: range, origin and place of each.
    pub(crate) fn runs_in(&self, range: Range<usize>) -> Vec<(Range<usize>, Origin, Place)> {
        match &self.runs {
            _ if range.is_empty() => Vec::new(),
            Runs::One(origin, place) => vec![(range.clone(), *origin, place.after(range.start))],
            Runs::Many(runs) => {
                let first = runs.partition_point(|run| run.end <= range.start);
                let mut start = if first == 0 { 0 } else { runs[first - 1].end };
                let mut within = Vec::new();
                for run in &runs[first..] {
                    if start >= range.end {
                        break;
                    }
                    let part = start.max(range.start)..run.end.min(range.end);
                    within.push((part.clone(), run.origin, run.place.after(part.start - start)));
                    start = run.end;
                }
                within
            }
        }
    }

    /// Origin of the byte at an offset; the template's for text of nothing.
    pub(crate) fn origin_at(&self, at: usize) -> Origin {
        match &self.runs {
            Runs::One(origin, _) => *origin,
            Runs::Many(runs) => {
                let run = runs.get(runs.partition_point(|run| run.end <= at)).or(runs.last());
                run.map_or(Origin::TEMPLATE, |run| run.origin)
            }
        }
    }

    /// Origin of a text that a whole text becomes: the caller's, if any of it is, and content, if any of it is.
    pub(crate) fn main_origin(&self) -> Origin {
        if let Some(content) = self.content() {
            return content;
        }
        match &self.runs {
            Runs::One(origin, _) => *origin,
            Runs::Many(runs) => {
                let mut data = runs.iter().filter(|run| run.origin != Origin::TEMPLATE);
                data.next().map_or(Origin::TEMPLATE, |run| run.origin)
            }
        }
    }

    /// Origin of the first part that is a caller's content.
    pub(super) fn content(&self) -> Option<Origin> {
        match &self.runs {
            Runs::One(origin, _) => Some(*origin).filter(|origin| origin.is_content()),
            Runs::Many(runs) => {
                runs.iter().map(|run| run.origin).find(|origin| origin.is_content())
            }
        }
    }

    /// Origins of the parts that are a caller's content.
    pub(super) fn contents(&self) -> impl Iterator<Item = Origin> + '_ {
        let (one, many) = match &self.runs {
            Runs::One(origin, _) => (Some(*origin), &[][..]),
            Runs::Many(runs) => (None, &runs[..]),
        };
        let origins = one.into_iter().chain(many.iter().map(|run| run.origin));
        origins.filter(|origin| origin.is_content())
    }

    /// How many parts are a caller's content.
    pub(super) fn content_runs(&self) -> usize {
        match &self.runs {
            _ if self.is_empty() => 0,
            Runs::One(origin, _) => usize::from(origin.is_content()),
            Runs::Many(runs) => runs.iter().filter(|run| run.origin.is_content()).count(),
        }
    }

    /// Whether the whole text has one origin.
    pub(super) fn is_of_one(&self) -> bool {
        matches!(self.runs, Runs::One(..))
    }

    /// Whether each part that is a caller's content stands as the caller gave it.
    pub(super) fn is_unchanged(&self) -> bool {
        let is_unchanged =
            |origin: Origin, place: Place| !origin.is_content() || place != Place::CHANGED;
        match &self.runs {
            Runs::One(origin, place) => is_unchanged(*origin, *place),
            Runs::Many(runs) => runs.iter().all(|run| is_unchanged(run.origin, run.place)),
        }
    }

    /// Whether the text is a stretch of one of the caller's strings, unchanged.
    pub(super) fn is_part_of_one(&self) -> bool {
        matches!(self.runs, Runs::One(_, place) if place != Place::CHANGED)
    }

    /// Whether it is one of the caller's strings as it was given.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether both are the same string, not only equal ones.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.whole, &other.whole)
    }

    /// A part of the text, by bytes.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        if range == (0..self.len()) {
            return self.clone();
        }
        let mut part = Builder::default();
        part.push_range(self, range);
        part.finish().marked(self.is_markup)
    }

    /// The text with each character replaced, which keeps its origin.
    pub(crate) fn map(&self, mut change: impl FnMut(usize, char, &mut String)) -> Self {
        let mut mapped = Builder::default();
        for (range, origin, place) in self.runs_in(0..self.len()) {
            let mut changed = String::with_capacity(range.len());
            for (at, c) in self.whole[range.clone()].char_indices() {
                change(range.start + at, c, &mut changed);
            }
            let is_same = changed == self.whole[range];
            mapped.push(&changed, origin, if is_same { place } else { Place::CHANGED });
        }
        mapped.finish().marked(self.is_markup)
    }

    /// The characters, each a text of its own.
    pub(crate) fn chars(&self) -> Vec<Self> {
        let chars = self.whole.char_indices();
        chars.map(|(at, c)| self.slice(at..at + c.len_utf8()).marked(false)).collect()
    }

    /// A text of another value with the origin of this one: its length as a number, its name in upper case.
    pub(crate) fn changed(&self, text: &str) -> Self {
        let runs = Runs::One(self.main_origin(), Place::CHANGED);
        Self { whole: text.into(), runs, is_markup: self.is_markup, is_whole: false }
    }

    /// A text with one origin, of no place in the caller's string.
    pub(crate) fn of(text: &str, origin: Origin) -> Self {
        let runs = Runs::One(origin, Place::CHANGED);
        Self { whole: text.into(), runs, is_markup: false, is_whole: false }
    }

    pub(crate) fn concat(&self, other: &Self) -> Self {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone().marked(self.is_markup);
        }
        let mut both = Builder::with_capacity(self.len() + other.len(), 2);
        both.push_text(self);
        both.push_text(other);
        both.finish().marked(self.is_markup)
    }
}

/// A string that is being written.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    text: String,
    runs: Vec<Run>,
}

impl Builder {
    /// A builder with room for so many bytes and runs.
    pub(crate) fn with_capacity(bytes: usize, runs: usize) -> Self {
        Self { text: String::with_capacity(bytes), runs: Vec::with_capacity(runs) }
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn push(&mut self, text: &str, origin: Origin, place: Place) {
        if text.is_empty() {
            return;
        }
        let start = self.runs.len().checked_sub(2).map_or(0, |before| self.runs[before].end);
        let before = self.text.len();
        self.text.push_str(text);
        let end = self.text.len();
        if let Some(last) = self.runs.last_mut()
            && last.origin == origin
            && last.place.after(before - start) == place
        {
            last.end = end;
            return;
        }
        self.runs.push(Run { end, origin, place });
    }

    /// Text of the template so many times.
    pub(crate) fn push_repeated(&mut self, text: &'static str, count: usize) {
        self.push(&text.repeat(count), Origin::TEMPLATE, Place::CHANGED);
    }

    /// Text that a caller's string became.
    pub(crate) fn push_changed(&mut self, text: &str, origin: Origin) {
        self.push(text, origin, Place::CHANGED);
    }

    pub(crate) fn push_range(&mut self, text: &Text, range: Range<usize>) {
        for (range, origin, place) in text.runs_in(range) {
            self.push(&text.whole[range], origin, place);
        }
    }

    pub(crate) fn push_text(&mut self, text: &Text) {
        match &text.runs {
            Runs::One(origin, place) => self.push(&text.whole, *origin, *place),
            Runs::Many(_) => self.push_range(text, 0..text.len()),
        }
    }

    /// Removes the text from a byte offset to the end, and returns it.
    pub(crate) fn split_off(&mut self, start: usize) -> Text {
        let whole = self.text.split_off(start);
        let kept = self.runs.partition_point(|run| run.end <= start);
        let begin = kept.checked_sub(1).map_or(0, |last| self.runs[last].end);
        let mut runs = self.runs.split_off(kept);
        for run in &mut runs {
            run.end -= start;
        }
        if let Some(first) = runs.first_mut()
            && begin < start
        {
            // A run that began before.
            self.runs.push(Run { end: start, ..*first });
            first.place = first.place.after(start - begin);
        }
        Self { text: whole, runs }.finish()
    }

    pub(crate) fn finish(self) -> Text {
        let runs = match &self.runs[..] {
            [] => Runs::One(Origin::TEMPLATE, Place::CHANGED),
            [run] => Runs::One(run.origin, run.place),
            _ => Runs::Many(self.runs.into()),
        };
        Text { whole: self.text.into(), runs, is_markup: false, is_whole: false }
    }

    pub(crate) fn into_parts(self) -> (String, Vec<Run>) {
        (self.text, self.runs)
    }
}
