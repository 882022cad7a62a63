//! The changes of a round trip, computed from a format's table.

use super::{CallBodySpec, Format, ReasoningWhen, RowSpec, WithoutSystem};
use crate::call::json_arguments;
use crate::message::Role;
use crate::pattern::{Filter, Piece, walk};

impl Format {
    /// The losses of a conversation on a round trip, computed from the table: a sentence for each.
    pub fn losses(&self) -> Vec<&'static str> {
        let spec = &*self.spec;
        let mut losses = vec!["content given as parts: comes back joined"];
        let filters = |wanted: Filter| {
            let of = |row: &RowSpec| {
                walk(&row.pieces).any(|p| matches!(p, Piece::Field(_, f) if *f == wanted))
            };
            spec.rows.iter().any(of)
        };
        let trims = [
            Filter::Trim,
            Filter::TrimEnd,
            Filter::TrimEndSpaces,
            Filter::TrimLines,
            Filter::TrimLinesStart,
        ];
        if trims.into_iter().any(filters) {
            losses.push("white space around content, where the rows trim it");
        }
        if spec.without_system.as_ref().is_some_and(WithoutSystem::has_control) {
            losses.push(
                "that there was no system message: the default one comes back, its control tokens as text",
            );
        } else if spec.default_system.is_some() || spec.without_system.is_some() {
            losses.push("that there was no system message: the default one comes back");
        }
        if self.tells_thinking() {
            losses.push("that there was no system message: an empty one comes back, if reasoning is asked for");
        }
        if spec.folds_system {
            losses.push("a system message: comes back as the beginning of the user's");
        }
        match spec.reasoning {
            ReasoningWhen::All => {}
            ReasoningWhen::SinceLastUser => {
                losses.push("reasoning: what stands before the last user message");
            }
            ReasoningWhen::Last => losses.push("reasoning: what stands before the last message"),
            ReasoningWhen::UntilAnswered => {
                losses.push("reasoning: up to the first answer, where the last message of the assistant's is one");
            }
            ReasoningWhen::SinceLastAnswer => {
                losses.push("reasoning: up to the assistant's last message without calls");
            }
            ReasoningWhen::None => losses.push("reasoning"),
        }
        if spec.results.as_ref().is_some_and(|results| results.folded.is_some()) {
            losses.push(
                "that a text was a result: it comes back as the text of the turn that holds it",
            );
        }
        for call in &spec.calls {
            let loss = match &call.body {
                CallBodySpec::Object(_) => json_arguments::LOSS,
                CallBodySpec::Arguments(shape) => shape.loss,
                CallBodySpec::Code => continue,
            };
            if !losses.contains(&loss) {
                losses.push(loss);
            }
        }
        if !spec.calls.is_empty() && !self.writes_ids() {
            losses.push("call ids: numbered `call_0…` in order, results answer calls in order");
        }
        if spec.calls.iter().any(|call| self.is_named(&call.kind, Role::Tool)) {
            losses.push("a result's name: it takes the kind of the call that it answers");
        }
        if self.names_results() {
            losses.push("a result's name: it takes that of the call that it answers");
        }
        if let Some(begin) = &spec.begin_turn {
            losses.push(if begin.has_control() {
                "that the format's own turn was not given: it comes back as a message, its control tokens as text"
            } else {
                "that the format's own turn was not given: it comes back as a message"
            });
        }
        if self.has_role(Role::Tool) && spec.calls.is_empty() {
            losses.push("the call that a result answers: its `tool_call_id`");
        }
        if !self.media().is_empty() {
            losses.push("images and other parts: their kind and number of ids come back, no data");
        }
        if spec.tools.is_some() {
            losses.push("`tools`: come back as the system message that declares them");
        }
        losses
    }
}
