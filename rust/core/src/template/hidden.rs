//! Renders a template that cannot find what it looks for in a caller's texts.
//!
//! In: the strings that the template looks for, and the spellings of control tokens. Where a caller's text holds one,
//! its first character that is not white space is replaced by a mark: a character that no text of the caller's has.
//! Out: the rendered text, with each mark replaced by its character. Cost: linear in the texts.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use hashbrown::{HashMap, HashSet};

use super::RenderedTemplate;
use super::text::Place;
use chatcodec_vocab::Vocab;

/// Marks are characters of the private use area, to which Unicode gives no meaning.
const MARKS: RangeInclusive<u32> = 0xE000..=0xF8FF;

/// What is hidden in the texts of one conversation, and the marks that hide it.
#[derive(Debug)]
pub(crate) struct Hidden {
    /// Where control tokens are spelled.
    vocab: Vocab,
    sought: Arc<Sought>,
    /// What the template may find in each message.
    followed: Vec<Followed>,
    /// The mark of a character.
    marks: HashMap<char, char>,
    /// The character of a mark.
    firsts: HashMap<char, char>,
}

/// What a template may find in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Followed {
    Nothing,
    /// The switches that its author made, but no control token.
    Switches,
}

/// The texts that a template looks for.
#[derive(Debug)]
pub(crate) struct Sought(Option<AhoCorasick>);

/// Most places that are hidden in a text of so many bytes. Only strings that contain one another have more.
const fn most_places(bytes: usize) -> usize {
    4 * bytes + 1000
}

impl Sought {
    /// The strings of a template's expressions; those of one letter or digit are left out.
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
        followed: Vec<Followed>,
        texts: &[&str],
    ) -> Option<Self> {
        let (vocab, sought) = (vocab.clone(), sought.clone());
        let (marks, firsts) = (HashMap::new(), HashMap::new());
        let mut hidden = Self { vocab, sought, followed, marks, firsts };
        let mut used: HashSet<char> = HashSet::new();
        for text in texts {
            used.extend(text.chars());
            used.extend(escapes(text).map(|(_, c)| c));
        }
        let mut free = MARKS.filter_map(char::from_u32).filter(|mark| !used.contains(mark));
        for text in texts {
            for at in hidden.places(text, Followed::Nothing) {
                let Some(first) = text[at..].chars().next() else { continue };
                if !hidden.marks.contains_key(&first) {
                    let mark = free.next()?;
                    hidden.marks.insert(first, mark);
                    hidden.firsts.insert(mark, first);
                }
            }
        }
        Some(hidden)
    }

    /// The text that the rendering is given for a text of a message, or of none.
    pub(super) fn hide(&self, text: &str, message: i32) -> Arc<str> {
        let message = usize::try_from(message).ok().and_then(|at| self.followed.get(at));
        let places = self.places(text, message.copied().unwrap_or(Followed::Nothing));
        let mut shown = String::with_capacity(text.len() + 2 * places.len());
        let mut from = 0;
        for at in places {
            let Some(first) = text[at..].chars().next() else { continue };
            let Some(mark) = self.marks.get(&first) else { continue };
            shown.push_str(&text[from..at]);
            shown.push(*mark);
            from = at + first.len_utf8();
        }
        shown.push_str(&text[from..]);
        shown.into()
    }

    /// The first byte of each place that is hidden, in order.
    fn places(&self, text: &str, followed: Followed) -> Vec<usize> {
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

    /// Where marks stand in a text, as they are or as JSON in ASCII escapes them, and the characters that they hide.
    fn marks_in(&self, text: &str) -> Vec<(Range<usize>, char)> {
        let plain = text.char_indices().map(|(at, c)| (at..at + c.len_utf8(), c));
        let found = plain.filter(|(_, c)| MARKS.contains(&u32::from(*c))).chain(escapes(text));
        let mut found: Vec<_> =
            found.filter_map(|(at, c)| Some((at, *self.firsts.get(&c)?))).collect();
        found.sort_unstable_by_key(|(at, _)| at.start);
        found
    }

    /// A text with the characters again.
    fn shown<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let marks = self.marks_in(text);
        if marks.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut shown = String::with_capacity(text.len());
        let mut from = 0;
        for (at, first) in marks {
            shown.push_str(&text[from..at.start]);
            shown.push(first);
            from = at.end;
        }
        shown.push_str(&text[from..]);
        Cow::Owned(shown)
    }

    /// The end of each mark in a text, and the bytes that the text up to there has with the characters again.
    fn lengths(&self, given: &str) -> Vec<(usize, usize)> {
        let (mut from, mut length) = (0, 0);
        let marks = self.marks_in(given).into_iter();
        let lengths = marks.map(|(at, first)| {
            length += at.start - from + first.len_utf8();
            from = at.end;
            (from, length)
        });
        lengths.collect()
    }

    /// Puts the characters back into a rendered text.
    pub(super) fn restore(&self, rendered: &mut RenderedTemplate) {
        let mut whole = String::with_capacity(rendered.text.len());
        // Ends of runs, and where they come to be.
        let mut moved: Vec<(usize, usize)> = vec![(0, 0)];
        let mut start = 0;
        let mut lengths: HashMap<u32, Vec<(usize, usize)>> = HashMap::new();
        for run in &mut rendered.runs {
            let said = &rendered.text[start..run.end];
            let is_content = run.origin.is_content();
            if let Some(path) = run.origin.path().filter(|_| is_content)
                && let Some(place) = run.place.byte()
                && let Some(given) = rendered.paths.string(path)
            {
                let lengths = lengths.entry(path).or_insert_with(|| self.lengths(given));
                let next = lengths.partition_point(|(end, _)| *end <= place);
                let last = next.checked_sub(1).map(|last| lengths[last]);
                run.place = Place::at(last.map_or(place, |(end, length)| length + place - end));
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

/// Characters that are escaped in a text, `\ue000`, of those that may be marks.
fn escapes(text: &str) -> impl Iterator<Item = (Range<usize>, char)> + '_ {
    text.match_indices("\\u").filter_map(|(at, _)| {
        let digits = at + 2..at + 6;
        let code = u32::from_str_radix(text.get(digits.clone())?, 16).ok()?;
        let c = char::from_u32(code).filter(|_| MARKS.contains(&code))?;
        Some((at..digits.end, c))
    })
}
