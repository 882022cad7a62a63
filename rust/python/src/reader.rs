//! What reads the completions of a codec: given by the caller, described, and kept in pickles.

use chatcodec::{
    Answers, Codec as CoreCodec, DerivedParts, Format as CoreFormat, Reader, Recognised,
    ResponseTemplate as CoreResponse,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::errors::quoted;
use crate::format::Format;
use crate::response::ResponseTemplate;

/// What the caller says that completions are read by.
pub(crate) enum ReaderGiven {
    Format(CoreFormat),
    Response(CoreResponse),
}

impl ReaderGiven {
    pub(crate) fn from_argument(reader: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(response) = reader.cast::<ResponseTemplate>() {
            return Ok(Self::Response(response.get().inner().clone()));
        }
        Format::from_argument(reader).map(Self::Format)
    }

    pub(crate) fn split(reader: Option<Self>) -> (Option<CoreFormat>, Option<CoreResponse>) {
        match reader {
            None => (None, None),
            Some(Self::Format(format)) => (Some(format), None),
            Some(Self::Response(response)) => (None, Some(response)),
        }
    }
}

/// The line that says who writes conversations.
pub(crate) fn described_writer(
    reader: &Reader,
    format: &chatcodec::Format,
    template_lacks: Option<Vec<&str>>,
) -> String {
    match (template_lacks, reader) {
        (Some(lacks), _) if lacks.is_empty() => {
            "conversations are written by the model's chat template".into()
        }
        (Some(lacks), _) => format!(
            "conversations are written by the model's chat template, which has no place for: {}",
            lacks.join(", ")
        ),
        (None, Reader::Recognised(found)) => format!(
            "conversations are written by format `{}`, which was recognised: it writes what the model's chat template \
             does, and what that passes over: {}",
            format.name(),
            found.completes.join(", ")
        ),
        (None, _) => format!(
            "conversations are written by format `{}`, which the caller named, after {}",
            format.name(),
            format.source()
        ),
    }
}

/// The line that says who reads completions; none where a response template does.
pub(crate) fn described_reader(
    reader: &Reader,
    format: &str,
    has_template: bool,
    codec: &CoreCodec,
) -> String {
    let conversations = "whole conversations by what the template writes between messages";
    let line = match reader {
        Reader::Named if has_template => {
            format!("completions are read by format `{format}`, which the caller named")
        }
        Reader::Recognised(found) if has_template => {
            let same = found.same.len();
            let all = same + found.differs.len() + found.refused.len();
            let why = if same == 0 {
                "which reads the answers that the template writes".to_owned()
            } else if found.is_exact() {
                format!("which was recognised: it writes the same in {same} of {all} conversations")
            } else {
                format!(
                    "which reads the answers that the template writes; of whole conversations it writes {same} of \
                     {all} the same"
                )
            };
            format!("completions are read by format `{format}`, {why}")
        }
        Reader::Named | Reader::Recognised(_) => {
            format!("completions are read by format `{format}`")
        }
        Reader::Answers(Answers { format, turns }) => {
            let line = if format == "template" {
                "completions are read by a format for answers that was derived from the template"
                    .into()
            } else {
                format!("completions are read as format `{format}` reads answers")
            };
            match turns {
                _ if codec.reads_by_gaps() => line,
                Some(_) => format!(
                    "{line}, conversations by a format that was derived from the template: the texts of messages"
                ),
                None => format!("{line}; nobody reads conversations"),
            }
        }
        Reader::Derived(parts) => {
            let results = parts.results || codec.reads_results_by_gaps();
            described_parts(DerivedParts { results, ..*parts })
        }
        Reader::Text => {
            let line = "completions are read as text up to the id that stops the model";
            match codec.unread().as_slice() {
                [] => line.into(),
                unread => {
                    format!("{line}; the template writes what nobody reads: {}", unread.join(", "))
                }
            }
        }
    };
    if codec.reads_by_gaps() { format!("{line}; {conversations}") } else { line }
}

/// The line about a derived format.
fn described_parts(parts: DerivedParts) -> String {
    let all = [
        (parts.calls, "calls"),
        (parts.results, "results of calls"),
        (parts.reasoning, "reasoning"),
    ];
    let named = |is_read: bool| {
        let named = all.iter().filter(|(part, _)| *part == is_read).map(|(_, name)| *name);
        named.collect::<Vec<_>>().join(", ")
    };
    let (read, unread) = (named(true), named(false));
    let is_all = parts.is_all || unread.is_empty();
    let line = "completions are read by a format that was derived from the template: \
                the texts of messages";
    match (read.is_empty(), is_all) {
        (true, _) => format!("{line}; calls and reasoning are text"),
        (false, true) => format!("{line}, {read}"),
        (false, false) => {
            format!("{line}, {read}; of what the template writes, some is text: {unread}")
        }
    }
}

/// The reader of completions in pickles: a word, then the compared conversations, or the parts that a derived
/// format reads.
pub(crate) type ToldReader = (String, Vec<Vec<String>>);

/// The names of the parts in pickles.
const DERIVED_PARTS: [&str; 4] = ["calls", "results", "reasoning", "all"];

pub(crate) fn told_reader(reader: &Reader) -> ToldReader {
    match reader {
        Reader::Recognised(found) => {
            let Recognised { same, differs, refused, completes, .. } = found.clone();
            ("recognised".into(), vec![same, differs, refused, completes])
        }
        Reader::Derived(parts) => {
            let DerivedParts { calls, results, reasoning, is_all } = *parts;
            let read = [calls, results, reasoning, is_all];
            let names = DERIVED_PARTS.iter().zip(read).filter(|(_, is_read)| *is_read);
            ("derived".into(), vec![names.map(|(name, _)| (*name).to_owned()).collect()])
        }
        Reader::Answers(Answers { format, turns }) => {
            let turns = turns.iter().cloned().collect();
            ("answers".into(), vec![vec![format.clone()], turns])
        }
        Reader::Text => ("text".into(), Vec::new()),
        Reader::Named => ("named".into(), Vec::new()),
    }
}

pub(crate) fn known_reader((word, lists): ToldReader, format: &str) -> PyResult<Reader> {
    let mut lists = lists.into_iter();
    let mut next = || lists.next().unwrap_or_default();
    Ok(match word.as_str() {
        "recognised" => Reader::Recognised(Recognised {
            format: format.into(),
            same: next(),
            differs: next(),
            refused: next(),
            completes: next(),
        }),
        "derived" => {
            let read = next();
            let [calls, results, reasoning, is_all] =
                DERIVED_PARTS.map(|name| read.iter().any(|read| read == name));
            Reader::Derived(DerivedParts { calls, results, reasoning, is_all })
        }
        "answers" => Reader::Answers(Answers {
            format: next().pop().unwrap_or_else(|| format.into()),
            turns: next().pop(),
        }),
        "text" => Reader::Text,
        "named" => Reader::Named,
        other => {
            let message = format!("reader {} of a pickle of another version", quoted(other));
            return Err(PyValueError::new_err(message));
        }
    })
}
