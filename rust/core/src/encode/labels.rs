//! Labels for training: the ids of chosen roles; all other places have the number that a loss
//! ignores.
//!
//! Cost: one pass over the ids.

use std::ops::Range;

use super::Encoding;
use crate::message::Role;
use chatcodec_vocab::TokenId;

/// Which ids are labels.
///
/// ```
/// use chatcodec::{Codec, EncodeOptions, Format, LabelOptions, Message, Role, Vocab};
///
/// let codec = Codec::new(&Format::built_in("internlm2")?, &Vocab::embedded())?;
/// let messages = vec![Message::new(Role::User, "Hi"), Message::new(Role::Assistant, "Yo")];
/// let encoding = codec.encode(messages, None, &EncodeOptions::default())?;
/// let labels = encoding.labels(&LabelOptions::default());
/// let trained: Vec<i32> = labels.into_iter().filter(|&label| label != -100).collect();
/// assert_eq!(codec.parse(&trained, None).message.content, "Yo");
/// assert_eq!(trained.last(), Some(&92542)); // <|im_end|>
/// # Ok::<(), chatcodec::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LabelOptions {
    /// The roles. Labels of an assistant's turn are the ids that a model generates, the stop id
    /// included; labels of another role's turn are the ids of the caller's text.
    pub roles: Vec<Role>,
    /// Only the last message of these roles.
    pub last_only: bool,
    /// The number at places without a label.
    pub ignore_index: TokenId,
}

impl Default for LabelOptions {
    fn default() -> Self {
        Self { roles: vec![Role::Assistant], last_only: false, ignore_index: -100 }
    }
}

impl Encoding {
    /// The label of each id: the id itself or [`LabelOptions::ignore_index`].
    ///
    /// A label has the position of its id, not the position before it: trainers shift labels
    /// themselves.
    pub fn labels(&self, options: &LabelOptions) -> Vec<TokenId> {
        let mut labels = vec![options.ignore_index; self.ids.len()];
        for ids in self.labelled(options) {
            labels[ids.clone()].copy_from_slice(&self.ids[ids]);
        }
        labels
    }

    /// The ids that are labels, as ranges of their positions; two ranges may overlap.
    pub fn labelled(&self, options: &LabelOptions) -> Vec<Range<usize>> {
        let is_chosen = |role: &Role| options.roles.contains(role);
        let last = self.trail.roles.iter().rposition(is_chosen);
        let is_within = |message: usize| !options.last_only || Some(message) == last;
        let mut labelled = Vec::new();
        if is_chosen(&Role::Assistant) {
            let roles = self.trail.roles.iter().enumerate().rev();
            let answers = roles.filter(|(_, role)| **role == Role::Assistant);
            // The first turns of a conversation that began as ids are unknown.
            let known = answers.take(self.generated.len());
            let mut within: Vec<bool> = known.map(|(message, _)| is_within(message)).collect();
            within.reverse();
            let chosen = |turn: usize| within.get(turn).copied().unwrap_or(false);
            let generated = self.generated_ids().into_iter();
            labelled.extend(generated.filter(|(_, turn)| chosen(*turn)).map(|(ids, _)| ids));
        }
        if options.roles.iter().any(|role| *role != Role::Assistant) {
            for (at, source) in self.sources().into_iter().enumerate() {
                let Ok(message) = usize::try_from(source.message) else { continue };
                let role = self.trail.roles.get(message);
                let is_other = role.is_some_and(|role| *role != Role::Assistant && is_chosen(role));
                if is_other && source.is_content() && is_within(message) {
                    match labelled.last_mut() {
                        Some(ids) if ids.end == at => ids.end += 1,
                        _ => labelled.push(at..at + 1),
                    }
                }
            }
        }
        labelled
    }
}
