//! What is trained on: the ids of chosen roles, and a number that a loss passes over in place of all others.
//!
//! Cost: one pass over the ids.

use super::Encoding;
use crate::message::Role;
use chatcodec_vocab::TokenId;

/// Whose ids are labels.
#[derive(Debug, Clone)]
pub struct LabelOptions {
    /// The roles: of the assistant's turns what a model generates, with the id that stops it; of others' the
    /// caller's text.
    pub roles: Vec<Role>,
    /// Only the last message of these roles.
    pub last_only: bool,
    /// What stands in place of ids that are no labels.
    pub ignore_index: TokenId,
}

impl Default for LabelOptions {
    fn default() -> Self {
        Self { roles: vec![Role::Assistant], last_only: false, ignore_index: -100 }
    }
}

impl Encoding {
    /// Per id the id itself where it is trained on, elsewhere [`LabelOptions::ignore_index`].
    ///
    /// The ids of one conversation are the labels of the same places, not of the places before them: trainers
    /// shift them by themselves.
    pub fn labels(&self, options: &LabelOptions) -> Vec<TokenId> {
        let mut labels = vec![options.ignore_index; self.ids.len()];
        let is_chosen = |role: &Role| options.roles.contains(role);
        let last = self.trail.roles.iter().rposition(is_chosen);
        let is_within = |message: usize| !options.last_only || Some(message) == last;
        let mut label = |at: usize| labels[at] = self.ids[at];
        if is_chosen(&Role::Assistant) {
            let roles = self.trail.roles.iter().enumerate().rev();
            let answers = roles.filter(|(_, role)| **role == Role::Assistant);
            // Of a conversation that began as ids, the first turns are not known.
            let known = answers.take(self.generated.len());
            let mut within: Vec<bool> = known.map(|(message, _)| is_within(message)).collect();
            within.reverse();
            for (at, turn) in self.turns_of_ids().into_iter().enumerate() {
                if turn.is_some_and(|turn| within.get(turn).copied().unwrap_or(false)) {
                    label(at);
                }
            }
        }
        if options.roles.iter().any(|role| *role != Role::Assistant) {
            for (at, source) in self.sources().into_iter().enumerate() {
                let Ok(message) = usize::try_from(source.message) else { continue };
                let role = self.trail.roles.get(message);
                let is_other = role.is_some_and(|role| *role != Role::Assistant && is_chosen(role));
                if is_other && source.is_content() && is_within(message) {
                    label(at);
                }
            }
        }
        labels
    }
}
