//! What a template is not to find in a caller's texts.
//!
//! In: the texts that the template looks for, and the spellings of control tokens. A place where a caller's text says
//! one of them is hidden from the rendering: the first character that is not white space has a mark in its place, a
//! character of no text. Out: the rendered text with the characters again, so that nothing of the text is lost, and
//! nothing that it spells was found.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use hashbrown::HashSet;

use super::RenderedTemplate;
use super::text::Place;
use chatcodec_vocab::Vocab;

/// The characters of which marks are chosen, of which Unicode says nothing.
const MARKS: std::ops::RangeInclusive<u32> = 0xE000..=0xF8FF;

/// What the texts of one conversation are searched for, and a mark for each character that is hidden.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// Where control tokens are spelled.
    vocab: Vocab,
    sought: Arc<Sought>,
    /// Which messages the template may search for what it looks for, but for control tokens; for all that.
    is_followed: Vec<Followed>,
    /// A character, and its mark.
    marks: Vec<(char, char)>,
}

/// What a template may find in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    Nothing,
    /// The switches that its author made, but no control token.
    Switches,
    All,
}

/// The texts that a template looks for.
#[derive(Debug)]
pub(crate) struct Sought(Option<AhoCorasick>);

/// Places in a text of so many bytes at most; a template whose strings are in each other has more.
const fn most_places(bytes: usize) -> usize {
    4 * bytes + 1000
}

impl Sought {
    /// The strings of a template's expressions, but for single letters.
    pub(crate) fn new(strings: impl Iterator<Item = String>) -> Self {
        let strings: BTreeSet<String> = strings.map(|text| text.trim().to_owned()).collect();
        let is_sought = |text: &&String| {
            !text.is_empty()
                && (text.chars().count() > 1 || !text.chars().all(char::is_alphanumeric))
        };
        let sought = strings.iter().filter(is_sought);
        Self(AhoCorasick::builder().ascii_case_insensitive(true).build(sought).ok())
    }

    /// The first byte of each place.
    fn places(&self, text: &str) -> Vec<usize> {
        let found = self.0.iter().flat_map(|sought| sought.find_overlapping_iter(text));
        found.take(most_places(text.len())).map(|found| found.start()).collect()
    }
}

impl Hidden {
    /// None where no character is left for a mark. `texts` are all of the caller's.
    pub(crate) fn new(
        vocab: &Vocab,
        sought: &Arc<Sought>,
        is_followed: Vec<Followed>,
        texts: &[&str],
    ) -> Option<Self> {
        let mut hidden =
            Self { vocab: vocab.clone(), sought: sought.clone(), is_followed, marks: Vec::new() };
        let mut firsts = BTreeSet::new();
        for text in texts {
            let places = hidden.places(text, Followed::Nothing);
            firsts.extend(places.into_iter().filter_map(|at| text[at..].chars().next()));
        }
        let used: HashSet<char> = texts.iter().flat_map(|text| text.chars()).collect();
        let is_free = |mark: &char| {
            let spelled = escaped(*mark);
            !used.contains(mark) && !texts.iter().any(|text| text.contains(&spelled))
        };
        let mut free = MARKS.filter_map(char::from_u32).filter(is_free);
        for first in firsts {
            hidden.marks.push((first, free.next()?));
        }
        Some(hidden)
    }

    /// The text that the rendering is given for a text of a message, or of none.
    pub(super) fn hide(&self, text: &str, message: i32) -> Arc<str> {
        let message = usize::try_from(message).ok().and_then(|at| self.is_followed.get(at));
        let places = self.places(text, message.copied().unwrap_or(Followed::Nothing));
        let mut shown = String::with_capacity(text.len() + 2 * places.len());
        let mut from = 0;
        for at in places {
            let first = text[at..].chars().next();
            let mark = self.marks.iter().find(|(known, _)| Some(*known) == first);
            let Some((first, mark)) = mark else { continue };
            shown.push_str(&text[from..at]);
            shown.push(*mark);
            from = at + first.len_utf8();
        }
        shown.push_str(&text[from..]);
        shown.into()
    }

    /// The first byte of each place that is hidden, in order.
    fn places(&self, text: &str, followed: Followed) -> Vec<usize> {
        if followed == Followed::All {
            return Vec::new();
        }
        let mut places: Vec<usize> = self.vocab.find_control(text).map(|it| it.start).collect();
        if followed == Followed::Nothing {
            places.extend(self.sought.places(text));
        }
        // A mark for white space would be kept where a template strips.
        for at in &mut places {
            *at += text[*at..].len() - text[*at..].trim_start().len();
        }
        places.retain(|at| *at < text.len());
        places.sort_unstable();
        places.dedup();
        places
    }

    /// A text with the characters again.
    fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        for (first, mark) in &self.marks {
            for mark in [mark.to_string(), escaped(*mark)] {
                if shown.contains(&mark) {
                    shown = Cow::Owned(shown.replace(&mark, first.encode_utf8(&mut [0; 4])));
                }
            }
        }
        shown
    }

    /// Puts the characters back into a rendered text.
    pub(super) fn restore(&self, rendered: &mut RenderedTemplate) {
        let mut whole = String::with_capacity(rendered.text.len());
        // Ends of runs, and where they come to be.
        let mut moved: Vec<(usize, usize)> = vec![(0, 0)];
        let mut start = 0;
        for run in &mut rendered.runs {
            let said = &rendered.text[start..run.end];
            let is_content = run.origin.is_content();
            if let Some(path) = run.origin.path().filter(|_| is_content)
                && let Some(place) = run.place.byte()
                && let Some(given) = rendered.paths.string(path)
                && let Some(before) = given.get(..place)
            {
                run.place = Place::at(self.shown(before).len());
            }
            let end = run.end;
            whole.push_str(&if is_content { self.shown(said) } else { Cow::Borrowed(said) });
            run.end = whole.len();
            moved.push((end, whole.len()));
            start = end;
        }
        let moved = |at: usize| {
            let next = moved.partition_point(|(from, _)| *from < at);
            let (end, to) = moved.get(next).copied().unwrap_or((at, whole.len()));
            if end == at { to } else { to.saturating_sub(end - at) }
        };
        for (from, _) in &mut rendered.messages {
            *from = moved(*from);
        }
        for range in &mut rendered.generated {
            *range = moved(range.start)..moved(range.end);
        }
        for text in rendered.paths.strings_mut() {
            if let Cow::Owned(shown) = self.shown(text) {
                *text = shown.into();
            }
        }
        rendered.text = whole;
    }
}

/// A character as JSON in ASCII writes it.
fn escaped(mark: char) -> String {
    format!("\\u{:04x}", u32::from(mark))
}
