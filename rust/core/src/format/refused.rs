//! Conversations that a format reads and does not write.
//!
//! The template of a family's models may write some conversations as no row of a table does: without white space, or
//! without a frame. A format file names these kinds under `refuses`. A reader takes them all.

use serde::{Deserialize, Serialize};

/// A kind of message that the template of a format's models writes otherwise.
#[derive(Deserialize, Serialize, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A system message without text.
    #[serde(rename = "empty system")]
    EmptySystem,
    /// A system message of white space or nothing.
    #[serde(rename = "blank system")]
    BlankSystem,
    /// An assistant's message of white space or nothing, without calls.
    #[serde(rename = "empty answer")]
    EmptyAnswer,
    /// Reasoning of white space or nothing.
    #[serde(rename = "empty reasoning")]
    EmptyReasoning,
    /// White space at the beginning of an assistant's text.
    #[serde(rename = "white space before answers")]
    WhiteBeforeAnswers,
    /// A line break at the beginning of an assistant's text.
    #[serde(rename = "line break before answers")]
    LineBreakBeforeAnswers,
    /// White space at the ends of a text beside calls.
    #[serde(rename = "white space beside calls")]
    WhiteBesideCalls,
    /// Objects and lists in arguments.
    #[serde(rename = "nested arguments")]
    NestedArguments,
    /// Reasoning of an answer that other turns follow, where such reasoning is left out.
    #[serde(rename = "reasoning of earlier answers")]
    EarlierReasoning,
    /// Calls where no tools are declared, after other answers, if reasoning is asked for or given.
    #[serde(rename = "calls without tools")]
    CallsWithoutTools,
    /// A result after a result.
    #[serde(rename = "several results")]
    SeveralResults,
    /// The name of a result.
    #[serde(rename = "named results")]
    NamedResults,
    /// Characters beyond ASCII in arguments.
    #[serde(rename = "JSON beyond ASCII")]
    WideJson,
    /// Reasoning that is asked for beside tools.
    #[serde(rename = "thinking beside tools")]
    ThinkingBesideTools,
    /// Messages with reasoning and messages without it, where reasoning is written.
    #[serde(rename = "mixed reasoning")]
    MixedReasoning,
}

impl Refused {
    /// The kind as a format file names it.
    pub(super) fn quoted(self) -> String {
        serde_json::to_string(&self).unwrap_or_default()
    }
}
