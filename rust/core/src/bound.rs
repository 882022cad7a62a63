//! A format bound to a vocabulary, with the tables that encoding and reading share.
//!
//! A [`Codec`](crate::Codec) is the façade of a `Bound`; streams hold the `Bound` alone.

use std::sync::{Arc, OnceLock};

use chatcodec_vocab::{Spelling, TokenId, Vocab};

use crate::call::ObjectSpec;
use crate::encode::{self, OnMarker};
use crate::error::Result;
use crate::format::{CallBodySpec, Format};
use crate::grammar::{Grammar, Spellings, TagTable};
use crate::message::{Message, Role};
use crate::render::{self, RenderOptions};

/// A format, a vocabulary, and the tables that they give together.
#[derive(Debug)]
pub(crate) struct Bound {
    format: Format,
    vocab: Vocab,
    grammar: Arc<Grammar>,
    generation_prompt: Vec<TokenId>,
    /// The spelled text of each generation prompt that is not empty.
    prompts: Vec<String>,
    /// Placeholder prompt, used when the caller gives none: a conversation of one empty question.
    prompt: Vec<TokenId>,
    spellings: OnceLock<Spellings>,
    text_markers: OnceLock<Spellings>,
    tags: Option<TagTable>,
}

impl Bound {
    /// Binds a format to a vocabulary.
    ///
    /// # Errors
    /// [`Error::Vocab`](crate::Error::Vocab) if the vocabulary lacks control tokens of the format.
    pub(crate) fn new(format: &Format, vocab: &Vocab) -> Result<Self> {
        let (grammar, format, vocab) = Grammar::bind(format, vocab)?;
        let grammar = Arc::new(grammar);
        let encode = |rendered| encode::encode(rendered, &grammar, &vocab, OnMarker::Report, 1);
        let scaffold = |ops| render::render_scaffold(ops, &format, &grammar, &vocab);
        let generation_prompt = encode(scaffold(&grammar.generation_prompt))?.ids().to_vec();
        let prompts = grammar.prompts().map(|ops| scaffold(ops).text);
        let prompts = prompts.filter(|prompt| !prompt.is_empty()).collect();
        let question = [Message::new(Role::User, "")];
        let options = RenderOptions { generation_prompt: true, ..RenderOptions::default() };
        let asked = render::render(&question, &format, &grammar, &vocab, &options).and_then(encode);
        let prompt = asked.map_or_else(|_| generation_prompt.clone(), |asked| asked.ids().to_vec());
        let (spellings, text_markers) = (OnceLock::new(), OnceLock::new());
        let tags = TagTable::new(&vocab);
        Ok(Self {
            format,
            vocab,
            grammar,
            generation_prompt,
            prompts,
            prompt,
            spellings,
            text_markers,
            tags,
        })
    }

    #[inline]
    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    /// The vocabulary, with the format's spellings as aliases.
    #[inline]
    pub(crate) fn vocab(&self) -> &Vocab {
        &self.vocab
    }

    #[inline]
    pub(crate) fn grammar(&self) -> &Arc<Grammar> {
        &self.grammar
    }

    /// The ids that open an assistant's turn.
    pub(crate) fn generation_prompt(&self) -> &[TokenId] {
        &self.generation_prompt
    }

    /// Placeholder prompt, used when the caller gives none.
    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.prompt
    }

    /// The spellings of the format's control tokens, and the texts of its markers.
    #[inline]
    pub(crate) fn spellings(&self) -> &Spellings {
        self.spellings.get_or_init(|| Spellings::all(&self.format, &self.grammar, &self.vocab))
    }

    /// The texts of the format's markers that are ordinary text.
    #[inline]
    pub(crate) fn text_markers(&self) -> &Spellings {
        self.text_markers.get_or_init(|| Spellings::of_text(&self.grammar))
    }

    /// The control tokens with text around them.
    #[inline]
    pub(crate) fn tags(&self) -> Option<&TagTable> {
        self.tags.as_ref()
    }

    /// The form of the calls that an item of the grammar reads.
    pub(crate) fn body_of(&self, item: usize) -> Option<&CallBodySpec> {
        let call = self.grammar.items.get(item)?.call;
        self.format.call_as_read(call).map(|call| &call.body)
    }

    /// The keys of a call that is a JSON object.
    pub(crate) fn object_of(&self, item: usize) -> Option<&ObjectSpec> {
        match self.body_of(item)? {
            CallBodySpec::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The texts of the generation prompts.
    pub(crate) fn prompts(&self) -> impl Iterator<Item = &str> {
        self.prompts.iter().map(|prompt| &**prompt)
    }

    /// Whether ids end with a generation prompt, which may be text that has other ids beside other text.
    pub(crate) fn ends_with_prompt(&self, ids: &[TokenId]) -> bool {
        self.prompts.iter().any(|prompt| {
            // An id is at least one byte.
            let last = &ids[ids.len().saturating_sub(prompt.len() + 1)..];
            self.vocab.decode(last, Spelling::Spell).is_ok_and(|text| text.ends_with(prompt))
        })
    }
}
