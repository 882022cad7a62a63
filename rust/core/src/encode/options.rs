//! Options for encoding a conversation.

use super::OnMarker;
use crate::conversation::OnUnsupported;
use crate::message::Owned;
use crate::render::Boundary;
use crate::template::Clock;

/// Options for encoding a conversation.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Message, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let open = EncodeOptions { continue_final: true, ..EncodeOptions::default() };
/// let messages = vec![Message::new(Role::User, "Hi"), Message::new(Role::Assistant, "Hello")];
/// let ids = codec.encode(messages, None, &open)?.ids().to_vec();
/// assert_ne!(ids.last(), Some(&92542)); // no <|im_end|>: the model continues
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct EncodeOptions {
    /// Whether to write the generation prompt. By default it is written unless the last message is
    /// the assistant's.
    pub add_generation_prompt: Option<bool>,
    /// Leaves the last message open for the model to continue; the message must be an assistant's.
    pub continue_final: bool,
    /// Writes the stop id after an assistant's last message, in formats whose turns end at the
    /// opener of the next turn.
    pub stop_final: bool,
    /// How runs of text are joined.
    pub boundary: Boundary,
    /// Whether the generation prompt asks for reasoning; by default the format's own prompt.
    pub thinking: Option<bool>,
    /// Date of the conversation, such as `2025-06-28`, in formats that write a date.
    pub date: Option<String>,
    /// Reasoning effort, in formats that write an effort: one of the format's words.
    pub effort: Option<String>,
    /// Policy for a caller's text that spells a marker, in formats whose markers are text.
    pub on_marker: OnMarker,
    /// Policy for parts of messages that the format cannot write.
    pub on_unsupported: OnUnsupported,
    /// Maximum number of threads for a long text, see
    /// [`try_encode_on`](chatcodec_vocab::Vocab::try_encode_on). 0 means 1.
    pub threads: usize,
    /// Options of a chat template.
    pub template: TemplateOptions,
}

/// Options for rendering a chat template.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, Owned, Template, TemplateOptions, Vocab};
///
/// let template = Template::parse("{{ greeting }}{% for m in messages %}{{ m.content }}{% endfor %}")?;
/// let format = Format::built_in("internlm2")?;
/// let codec = Codec::with_template(&template, &[], &format, &Vocab::embedded())?;
/// let variables = vec![("greeting".to_owned(), Owned::Text("Hey. ".into()))];
/// let template = TemplateOptions { variables, ..TemplateOptions::default() };
/// let options = EncodeOptions { template, ..EncodeOptions::default() };
/// let messages = vec![chatcodec::Message::new(chatcodec::Role::User, "Hi")];
/// assert_eq!(codec.encode(messages, None, &options)?.text(), "Hey. Hi");
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TemplateOptions {
    /// The template's variables, by name.
    pub variables: Vec<(String, Owned)>,
    /// Policy for a caller's text on which the template's control tokens depend.
    pub on_dependent: OnDependent,
    /// The time that `strftime_now` gives; by default the present time in UTC.
    pub clock: Option<Clock>,
}

/// Policy for a caller's text on which the template's control tokens depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDependent {
    /// The control tokens are those of a harmless text, wherever the text can be hidden from the template; that it
    /// looks is reported by [`super::Encoding::notes`].
    #[default]
    Text,
    /// The template is followed, and [`super::Encoding::notes`] reports it.
    Template,
    /// The messages are refused.
    Error,
}
