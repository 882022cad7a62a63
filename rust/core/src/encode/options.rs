//! How a conversation is encoded.

use super::OnMarker;
use crate::conversation::OnUnsupported;
use crate::render::Boundary;

/// How a conversation is encoded.
#[derive(Debug, Clone, Default)]
pub struct EncodeOptions {
    /// Whether the generation prompt is written; by default unless the last message is the
    /// assistant's.
    pub add_generation_prompt: Option<bool>,
    /// Leaves the last message, an assistant's, open for the model to continue.
    pub continue_final: bool,
    /// Writes the stop id after the last message, an assistant's, in formats whose turns end at the opener of the
    /// next turn.
    pub stop_final: bool,
    /// How runs of text are joined.
    pub boundary: Boundary,
    /// Whether the generation prompt asks for reasoning, or for none; the format's own prompt if not given.
    pub thinking: Option<bool>,
    /// The day of the conversation, where the format has a place for it: a header word such as `2025-06-28`.
    pub date: Option<String>,
    /// How much the model is to think, where the format says so: one of its words.
    pub effort: Option<String>,
    /// What is done about a caller's text that spells a marker, where markers are text.
    pub on_marker: OnMarker,
    /// What is done about parts of messages that the format has no place for.
    pub on_unsupported: OnUnsupported,
    /// How many threads may share a long text, see [`try_encode_on`](chatcodec_vocab::Vocab::try_encode_on).
    /// 0 means 1.
    pub threads: usize,
}
