//! The one error of this crate: what is wrong with a vocabulary, a text or an id, and where.

use std::borrow::Cow;
use std::fmt;

/// How many bytes of a path, a file's name or a key an error shows.
const SHOWN_PLACE: usize = 256;

/// How many bytes of a problem an error shows.
const SHOWN_PROBLEM: usize = 1024;

/// A vocabulary that cannot be read, a text that it cannot encode, or an id that it does not have.
///
/// ```
/// use chatcodec_vocab::Vocab;
///
/// let error = Vocab::embedded().token_bytes(92544).unwrap_err();
/// assert_eq!(error.to_string(), "vocabulary `id`: 92544 is outside the vocabulary of 92544 ids");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The byte offset in the file, where one is known.
    pub offset: Option<usize>,
    /// The part of the vocabulary: `pieces`, `normalizer_spec`, `file`, `id`.
    pub component: &'static str,
    /// What was found and what was expected.
    pub problem: String,
}

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error without an offset.
    pub fn new(component: &'static str, problem: impl Into<String>) -> Self {
        Self { offset: None, component, problem: problem.into() }
    }

    /// Whether this is the problem.
    #[cfg(feature = "foreign")]
    pub(crate) fn says(&self, problem: &str) -> bool {
        self.problem == problem
    }
}

/// The text is two kilobytes at most, however long the caller's input is.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, component, problem } = self;
        let problem = problem_excerpt(problem);
        match offset {
            Some(at) => write!(f, "vocabulary `{component}` at byte {at}: {problem}"),
            None => write!(f, "vocabulary `{component}`: {problem}"),
        }
    }
}

impl std::error::Error for Error {}

/// A text of at most `most` bytes, or its beginning and its end with its length.
///
/// Errors quote the caller's input, which may have any length; this function shortens every quotation.
pub fn excerpt(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let is_boundary = |at: &usize| text.is_char_boundary(*at);
    let head = (0..=most - most / 3).rev().find(is_boundary).unwrap_or(0);
    let tail = (text.len() - most / 3..text.len()).find(is_boundary).unwrap_or(text.len());
    let count = text.chars().count();
    Cow::Owned(format!("{}… ({count} characters) …{}", &text[..head], &text[tail..]))
}

/// A path, a file's name or a key, as errors show it.
pub fn place(text: &str) -> Cow<'_, str> {
    excerpt(text, SHOWN_PLACE)
}

/// A problem, as errors show it.
pub fn problem_excerpt(problem: &str) -> Cow<'_, str> {
    excerpt(problem, SHOWN_PROBLEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_text_is_shown_by_its_ends() {
        let text = format!("is \"{}\", expected one of `user`", "a".repeat(200_000));
        let shown = excerpt(&text, 60);
        assert!(shown.starts_with("is \"aaa") && shown.ends_with("one of `user`"), "{shown}");
        assert!(shown.contains("… (200029 characters) …"), "{shown}");
        assert_eq!(excerpt("short", 5), "short");
    }

    proptest! {
        #[test]
        fn an_error_is_short(problem in ".{0,9000}", most in 0usize..100) {
            let error = Error::new("id", problem.clone()).to_string();
            prop_assert!(error.len() <= 2048, "{}", error.len());
            prop_assert!(excerpt(&problem, most).len() <= most + 40);
        }
    }
}
