//! One error for the whole crate: what was wrong, with what, and where.
//!
//! Nothing here carries a backtrace or a source chain: every error is about a caller's input, and
//! the place in that input is the useful part.

use std::fmt;

/// What went wrong, and where in the caller's input.
///
/// `problem` reads on from its subject: a message path `messages[0].role` and a problem `is
/// "critic", expected …` display as one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A conversation that a format cannot write, or that is not a conversation.
    Message {
        /// Where: `messages[2].name`, `tools`, `options.date`.
        path: String,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A format file that breaks a rule of the format spec, or does not fit a vocabulary.
    Format {
        /// The file's name as the caller gave it, or the name of a built-in format.
        file: String,
        /// The key, dotted: `turn.user`; empty when the whole file is meant.
        key: String,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A vocabulary file that cannot be read, or holds something that is not implemented.
    Vocab {
        /// The byte offset in the file, where one is known.
        offset: Option<usize>,
        /// The part of the vocabulary: `pieces`, `normalizer_spec`, `file`, `id`.
        component: &'static str,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
}

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn message(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Message { path: path.into(), problem: problem.into() }
    }

    pub(crate) fn vocab(component: &'static str, problem: impl Into<String>) -> Self {
        Self::Vocab { offset: None, component, problem: problem.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { path, problem } => write!(f, "`{path}` {problem}"),
            Self::Format { file, key, problem } if key.is_empty() => {
                write!(f, "format `{file}`: {problem}")
            }
            Self::Format { file, key, problem } => write!(f, "format `{file}`: `{key}` {problem}"),
            Self::Vocab { offset: Some(at), component, problem } => {
                write!(f, "vocabulary `{component}` at byte {at}: {problem}")
            }
            Self::Vocab { offset: None, component, problem } => {
                write!(f, "vocabulary `{component}`: {problem}")
            }
        }
    }
}

impl std::error::Error for Error {}
