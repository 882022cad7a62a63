//! Generation prompts that a template writes after its messages: the end of a conversation, and no message.
//!
//! In: how the template's codec encodes a conversation. Out: its prompts, by which [`Prompts::cut`] finds the end of
//! the messages. Cost: two short renderings for each of a dozen conversations, once; then the length of the last text.

use std::ops::Range;

use crate::encode::{EncodeOptions, Encoding, TemplateOptions};
use crate::message::{Message, Owned, Role};
use chatcodec_vocab::{Spelling, TokenId, Vocab};

/// The variables by which templates take a wish about reasoning.
const REASONING: [&str; 2] = ["thinking", "enable_thinking"];

/// The prompts of a template.
#[derive(Debug)]
pub(crate) struct Prompts {
    /// The longest first.
    prompts: Vec<Prompt>,
}

/// A prompt: text, and the ids from its first control token on.
#[derive(Debug, PartialEq, Eq)]
struct Prompt {
    text: String,
    ids: Vec<TokenId>,
}

/// The messages before a prompt: whole ids, and the text after them.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) ids: usize,
    pub(crate) text: String,
}

impl Prompts {
    /// The prompts after a question and after an answer, with reasoning on, off and as it is by default. `encode`
    /// encodes messages.
    pub(crate) fn new(
        encode: impl Fn(Vec<Message>, &EncodeOptions) -> Option<Encoding>,
        vocab: &Vocab,
    ) -> Self {
        let history = [Message::new(Role::User, "q"), Message::new(Role::Assistant, "a")];
        let mut prompts: Vec<Prompt> = Vec::new();
        for thinking in [None, Some(true), Some(false)] {
            let wished = thinking.into_iter().flat_map(|thinking| {
                REASONING.map(|name| (name.to_owned(), Owned::Bool(thinking)))
            });
            let template = TemplateOptions { variables: wished.collect(), ..Default::default() };
            for count in 1..=history.len() {
                let encode = |prompted| {
                    let add_generation_prompt = Some(prompted);
                    let template = template.clone();
                    let options =
                        EncodeOptions { add_generation_prompt, template, ..Default::default() };
                    encode(history[..count].to_vec(), &options)
                };
                let (Some(with), Some(without)) = (encode(true), encode(false)) else { continue };
                let found = Prompt::between(&with, &without, vocab);
                prompts.extend(found.filter(|found| !prompts.contains(found)));
            }
        }
        prompts.sort_by_key(|prompt| std::cmp::Reverse((prompt.ids.len(), prompt.text.len())));
        Self { prompts }
    }

    /// The messages before a prompt that ends `ids`. With `by_text`, text alone may be a prompt after other text;
    /// otherwise a control token must stand in or before the prompt, as any other text may be a caller's.
    pub(crate) fn cut(&self, ids: &[TokenId], by_text: bool, vocab: &Vocab) -> Option<Cut> {
        self.prompts.iter().find_map(|prompt| prompt.cut(ids, by_text, vocab))
    }
}

impl Prompt {
    /// What a template writes for the prompt, after the same text without it.
    fn between(with: &Encoding, without: &Encoding, vocab: &Vocab) -> Option<Self> {
        let added = with.text().strip_prefix(without.text())?;
        let count = without.ids().iter().filter(|id| vocab.is_control(**id)).count();
        let mut controls = with.ids().iter().enumerate().filter(|(_, id)| vocab.is_control(**id));
        let ids = controls.nth(count).map_or(&[][..], |(first, _)| &with.ids()[first..]);
        let after = vocab.decode(ids, Spelling::Spell).ok()?;
        let text = added.strip_suffix(&*after)?.to_owned();
        (!added.is_empty()).then(|| Self { text, ids: ids.to_vec() })
    }

    fn cut(&self, ids: &[TokenId], by_text: bool, vocab: &Vocab) -> Option<Cut> {
        let before = ids.strip_suffix(&*self.ids)?;
        if self.text.is_empty() {
            return Some(Cut { ids: before.len(), text: String::new() });
        }
        let Range { start, end } = last_text(before, vocab);
        let text = vocab.decode(&before[start..end], Spelling::Spell).ok()?;
        let kept = text.strip_suffix(&*self.text)?;
        let is_known = !self.ids.is_empty() || by_text || start > 0 && kept.is_empty();
        is_known.then(|| Cut { ids: start, text: kept.to_owned() })
    }
}

/// The ids after the last control token.
fn last_text(ids: &[TokenId], vocab: &Vocab) -> Range<usize> {
    let last = ids.iter().rposition(|id| vocab.is_control(*id));
    last.map_or(0, |last| last + 1)..ids.len()
}
