//! What rendering takes beside the messages, and what it gives.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use super::keys::Key;
use crate::format::{DeclaredTools, Format};
use crate::pattern::Field;
use crate::span::Span;
use crate::template::Paths;

/// How runs of text are joined.
///
/// ```
/// use chatcodec::{Boundary, Codec, EncodeOptions, Format, Message, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "Hi"), Message::new(Role::Assistant, "Hello")];
/// let options = EncodeOptions { boundary: Boundary::Isolated, ..EncodeOptions::default() };
/// let encoding = codec.encode(messages, None, &options)?;
/// let generated = codec.vocab().encode("Hello"); // the ids of the answer alone
/// assert!(encoding.ids().windows(generated.len()).any(|ids| ids == generated));
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// As the reference: all text between two control tokens is one run.
    #[default]
    Reference,
    /// The generated text is a run of its own, as during generation.
    Isolated,
}

/// Options and arguments of rendering beside the messages.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct RenderOptions<'a> {
    pub(crate) tools: Option<&'a DeclaredTools>,
    pub(crate) generation_prompt: bool,
    /// Whether the generation prompt asks for reasoning.
    pub(crate) thinking: Option<bool>,
    /// The date and the reasoning effort, in formats that write them.
    pub(crate) date: Option<&'a str>,
    pub(crate) effort: Option<&'a str>,
    pub(crate) continue_final: bool,
    pub(crate) stop_final: bool,
    pub(crate) boundary: Boundary,
    pub(crate) before: Before,
    /// A message that is written as if it were the last.
    pub(crate) kept: Option<Kept>,
    /// Whether [`Rendered::keys`] are recorded.
    pub(crate) keyed: bool,
}

/// What precedes the messages.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    /// Whether an answer of the assistant's does.
    pub(crate) answer: bool,
    /// Whether tools are declared.
    pub(crate) tools: bool,
    /// Number of the messages that stand already: they are written for their ends.
    pub(crate) given: usize,
}

impl<'a> RenderOptions<'a> {
    /// Whether reasoning is asked for, in the turn that begins the conversation.
    pub(super) fn thinks(&self) -> bool {
        self.thinking == Some(true) && !self.before.answer
    }

    /// The word for a field of the first turn: the caller's, or else the format's. Tools have an empty word, because
    /// they are written elsewhere.
    pub(super) fn word(&self, field: Field, format: &'a Format) -> Option<&'a str> {
        match field {
            Field::Date => self.date,
            Field::Effort => self.effort.or_else(|| format.default_effort()),
            Field::Tools => self.tools.map(|_| ""),
            _ => None,
        }
    }
}

/// An assistant's message that is written with its reasoning, regardless of later messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) index: i32,
    /// Whether the message is written as the last one.
    pub(crate) is_last: bool,
}

/// What precedes a rendered text: a vocabulary may put a space before the first text, or before each text after a
/// control token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Follows {
    /// Nothing: a conversation begins.
    #[default]
    Nothing,
    /// A control token.
    Control,
    /// Text, which the rendered text continues.
    Text,
}

/// A conversation as spans over one text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) spans: Vec<Span>,
    /// The parts of `text` that a model generates: an assistant's turn after its generation prompt,
    /// up to and including the stop token.
    pub(crate) generated: Vec<Range<usize>>,
    /// The caller's text of spans that normalisation changed.
    pub(crate) originals: HashMap<usize, String>,
    /// What precedes it in the conversation.
    pub(crate) follows: Follows,
    /// The beginning of the generation prompt in `text`, if there is one.
    pub(crate) prompt_at: Option<usize>,
    /// Paths of the values of a template.
    pub(crate) paths: Option<Arc<Paths>>,
    /// The keys of the format file that wrote the text, if they were asked for: each with its first byte.
    pub(crate) keys: Vec<(usize, Key)>,
}
