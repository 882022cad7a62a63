//! One error for the whole crate: what was wrong, with what, and where.
//!
//! Nothing here carries a backtrace or a source chain: every error is about a caller's input, and
//! the place in that input is the useful part.

use std::fmt;

use chatcodec_vocab::{place, problem_excerpt};

/// What went wrong, and where in the caller's input.
///
/// `problem` reads on from its subject: a message path `messages[0].role` and a problem `is
/// "critic", expected …` display as one sentence.
///
/// ```
/// use chatcodec::{Codec, Error, Format, OnArguments, Vocab};
/// use serde_json::json;
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let error = codec.read(&json!([{"role": "critic"}]), OnArguments::Error).unwrap_err();
/// assert!(error.to_string().starts_with("`messages[0].role` is \"critic\", expected one of"));
/// assert!(matches!(error, Error::Message { path, .. } if path == "messages[0].role"));
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A conversation that a format cannot write, or a value that is not a conversation.
    Message {
        /// Where: `messages[2].name`, `tools`, `options.date`.
        path: String,
        /// What is wrong with it, and what was expected.
        problem: String,
        /// The part that [`crate::OnUnsupported::Drop`] leaves out, if it can be left out.
        droppable: Option<Droppable>,
    },
    /// A format file that breaks a rule of the format spec, or does not fit a vocabulary.
    Format {
        /// The file's name as the caller gave it, or the name of a built-in format.
        file: String,
        /// The key, dotted: `turn.user`; empty for the whole file.
        key: String,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A vocabulary file that cannot be read, or that uses a feature that is not implemented.
    Vocab {
        /// The byte offset in the file, where one is known.
        offset: Option<usize>,
        /// The part of the vocabulary: `pieces`, `normalizer_spec`, `file`, `id`.
        component: &'static str,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
    /// A chat template that cannot be parsed or rendered.
    Template {
        /// The line, from 1; 0 for the whole template.
        line: usize,
        /// The column, in characters from 1.
        column: usize,
        /// The text of the line.
        snippet: String,
        /// What is wrong there, and what was expected.
        problem: String,
        /// Whether an expression has no value for what was given, so that other values may do: tools, variables.
        /// False for a template that cannot be parsed, and for one that passes a bound.
        is_of_values: bool,
    },
}

/// A part of a conversation that can be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Droppable {
    /// A part that the reader leaves out.
    Read,
    /// A part of the message with this index.
    Part(usize, MessagePart),
    /// The tools.
    Tools,
}

/// A part of a message that a format may have no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessagePart {
    /// The message itself.
    Whole,
    /// `content`
    Content,
    /// `reasoning`
    Reasoning,
    /// `name`
    Name,
    /// `tool_call_id`
    CallId,
    /// `tool_calls`
    Calls,
    /// `tool_calls[i]`
    Call(u32),
    /// `tool_calls[i].code.language`
    Language(u32),
}

impl MessagePart {
    /// Its key in a message, and its name in a word.
    pub(crate) fn key(self) -> (String, &'static str) {
        let (key, what) = match self {
            Self::Whole => ("role", "message"),
            Self::Content => ("content", "content"),
            Self::Reasoning => ("reasoning", "reasoning"),
            Self::Name => ("name", "name"),
            Self::CallId => ("tool_call_id", "tool_call_id"),
            Self::Calls => ("tool_calls", "tool_calls"),
            Self::Call(at) => return (format!("tool_calls[{at}]"), "call"),
            Self::Language(at) => return (format!("tool_calls[{at}].code.language"), "language"),
        };
        (key.to_owned(), what)
    }
}

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn message(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Message { path: path.into(), problem: problem.into(), droppable: None }
    }

    pub(crate) fn unsupported(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Message {
            path: path.into(),
            problem: problem.into(),
            droppable: Some(Droppable::Read),
        }
    }

    /// A part of a message that a format has no place for.
    pub(crate) fn unplaced(
        path: impl Into<String>,
        problem: impl Into<String>,
        message: usize,
        part: MessagePart,
    ) -> Self {
        let droppable = Some(Droppable::Part(message, part));
        Self::Message { path: path.into(), problem: problem.into(), droppable }
    }

    /// Tools that a format has no place for.
    pub(crate) fn unplaced_tools(problem: String) -> Self {
        let (path, droppable) = ("tools".to_owned(), Some(Droppable::Tools));
        Self::Message { path, problem, droppable }
    }

    /// The part that can be left out so that the conversation can be written.
    pub(crate) fn droppable(&self) -> Option<Droppable> {
        match self {
            Self::Message { droppable, .. } => *droppable,
            _ => None,
        }
    }

    /// The same error at another path.
    #[must_use]
    pub fn with_path(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Message { path, problem, droppable } => {
                Self::Message { path: change(path), problem, droppable }
            }
            error => error,
        }
    }

    /// The same error with another problem.
    #[must_use]
    pub fn with_problem(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Message { path, problem, droppable } => {
                Self::Message { path, problem: change(problem), droppable }
            }
            error => error,
        }
    }

    /// The same error, with a hint how the conversation is accepted.
    pub(super) fn or_ignore(mut self) -> Self {
        if let Self::Message { problem, .. } = &mut self {
            problem.push_str("; `unknown=\"ignore\"` leaves it out");
        }
        self
    }

    pub(crate) fn vocab(component: &'static str, problem: impl Into<String>) -> Self {
        Self::Vocab { offset: None, component, problem: problem.into() }
    }
}

/// The text is two kilobytes at most, however long the caller's input is.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { path, problem, droppable } => {
                let way = droppable.map_or("", |_| "; `on_unsupported=\"drop\"` leaves it out");
                write!(f, "`{}` {}{way}", place(path), problem_excerpt(problem))
            }
            Self::Format { file, key, problem } if key.is_empty() => {
                write!(f, "format `{}`: {}", place(file), problem_excerpt(problem))
            }
            Self::Format { file, key, problem } => {
                write!(f, "format `{}`: `{}` {}", place(file), place(key), problem_excerpt(problem))
            }
            Self::Vocab { offset, component, problem } => {
                let problem = problem_excerpt(problem).into_owned();
                chatcodec_vocab::Error { offset: *offset, component, problem }.fmt(f)
            }
            Self::Template { line: 0, problem, .. } => {
                write!(f, "template: {}", problem_excerpt(problem))
            }
            Self::Template { line, column, snippet, problem, .. } => {
                let problem = problem_excerpt(problem);
                write!(f, "template, line {line}, column {column}: {problem}: `{}`", place(snippet))
            }
        }
    }
}

impl From<chatcodec_vocab::Error> for Error {
    fn from(error: chatcodec_vocab::Error) -> Self {
        let chatcodec_vocab::Error { offset, component, problem } = error;
        Self::Vocab { offset, component, problem }
    }
}

impl std::error::Error for Error {}

/// A problem with one key of a format file.
pub(crate) struct KeyProblem {
    /// The key, dotted: `turn.user`.
    pub(crate) key: String,
    /// What is wrong with its value, and what was expected.
    pub(crate) problem: String,
}

/// The result of a check of a format file.
pub(crate) type Checked<T> = std::result::Result<T, KeyProblem>;

/// A problem with a key, as the result of a check.
pub(crate) fn wrong<T>(key: impl Into<String>, problem: impl Into<String>) -> Checked<T> {
    Err(KeyProblem { key: key.into(), problem: problem.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_error_is_short(path in ".{0,3000}", problem in ".{0,9000}") {
            let error = Error::message(path.clone(), problem.clone()).to_string();
            prop_assert!(error.len() <= 2048, "{}", error.len());
            let (file, key) = (path.clone(), path.clone());
            let error = Error::Format { file, key, problem: problem.clone() }.to_string();
            prop_assert!(error.len() <= 2048, "{}", error.len());
        }
    }
}
