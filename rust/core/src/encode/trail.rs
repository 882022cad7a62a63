//! The part of earlier turns that the next turn depends on.

use std::sync::Arc;

use super::TemplateOptions;
use crate::conversation::{Linker, Values};
use crate::format::{Format, SystemPlace, ToolsPlace};
use crate::grammar::Grammar;
use crate::message::{Message, Role};
use crate::render::Before;

/// The part of earlier turns that the next turn depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trail {
    pub(crate) roles: Vec<Role>,
    /// Number of further messages of the caller.
    pub(crate) more: i32,
    pub(crate) end: End,
    pub(crate) linker: Linker,
    /// The parts that the format writes in the last user's turn; a later user's turn moves them.
    pub(crate) moves: Option<&'static str>,
    /// Whether a model has answered since the user's last message, and may have reasoned.
    pub(crate) reasons: bool,
    /// Whether the assistant's last message is an answer, if there is an assistant's message.
    pub(crate) answered: Option<bool>,
    /// Whether an assistant's message is an answer.
    pub(crate) has_answer: bool,
    /// Where messages were given with reasoning.
    pub(crate) reasoned: Reasoned,
    /// Whether tools are declared.
    pub(crate) tools: bool,
    /// What a template was given.
    pub(crate) given: Option<Arc<TemplateGiven>>,
}

/// Where messages were given with reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Reasoned {
    #[default]
    No,
    /// Up to the last answer, in it too.
    Before,
    /// After the last answer, and perhaps before.
    After,
}

/// What a template was given.
#[derive(Debug, Clone, Default)]
pub(crate) struct TemplateGiven {
    pub(crate) values: Values,
    pub(crate) options: TemplateOptions,
    pub(crate) date: Option<String>,
}

/// End of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// A closed turn.
    #[default]
    Closed,
    /// The generation prompt.
    Prompted,
    /// An open message of the assistant's, for the model to continue.
    Open,
}

impl End {
    pub(crate) fn new(generation_prompt: bool, continue_final: bool) -> Self {
        match (generation_prompt, continue_final) {
            (true, _) => Self::Prompted,
            (_, true) => Self::Open,
            _ => Self::Closed,
        }
    }
}

impl Trail {
    pub(crate) fn new(
        messages: &[Message],
        tools: bool,
        linker: Linker,
        end: End,
        format: &Format,
    ) -> Self {
        let system = messages.first().is_some_and(|message| message.role == Role::System);
        let roles = messages.iter().map(|message| message.role).collect();
        let reasons = reasons(messages, false);
        let (answered, reasoned) = (answered(messages), reasoned(messages, Reasoned::No));
        let has_answer = messages.iter().any(Message::is_answer);
        let moves = moves(format, system, tools);
        let more = 0;
        Self {
            roles,
            more,
            end,
            linker,
            moves,
            reasons,
            answered,
            has_answer,
            reasoned,
            tools,
            given: None,
        }
    }

    /// Adds to the number of further messages of the caller.
    pub(crate) fn add_more(&mut self, more: i32) {
        self.more = self.more.saturating_add(more);
    }

    /// The caller's index of the answer.
    pub(crate) fn answer_index(&self) -> i32 {
        self.roles.len() as i32 - i32::from(self.end == End::Open) + self.more
    }

    /// What precedes the messages after these.
    pub(crate) fn before(&self) -> Before {
        Before { answer: self.has_answer, tools: self.tools, ..Before::default() }
    }

    /// Whether the answer follows a result, in a format that writes such an answer differently.
    pub(crate) fn answers_result(&self, grammar: &Grammar) -> bool {
        let answer =
            self.roles.len() - usize::from(self.end == End::Open && !self.roles.is_empty());
        grammar.after_tool.is_some() && self.roles[..answer].last() == Some(&Role::Tool)
    }
}

/// Whether the assistant's last message is an answer: a message without calls.
pub(crate) fn answered(messages: &[Message]) -> Option<bool> {
    let last = messages.iter().rfind(|message| message.role == Role::Assistant)?;
    Some(last.is_answer())
}

pub(crate) fn has_reasoning(messages: &[Message]) -> bool {
    messages.iter().any(|message| message.reasoning.is_some())
}

/// Where messages have reasoning, if others came before these.
pub(crate) fn reasoned(messages: &[Message], before: Reasoned) -> Reasoned {
    messages.iter().fold(before, |reasoned, message| {
        let has_some = message.reasoning.is_some() || reasoned == Reasoned::After;
        match (has_some, message.is_answer()) {
            (true, true) => Reasoned::Before,
            (true, false) => Reasoned::After,
            (false, _) => reasoned,
        }
    })
}

/// Whether a model has answered since the user's last message, if it had before these.
pub(crate) fn reasons(messages: &[Message], before: bool) -> bool {
    messages.iter().fold(before, |reasons, message| match message.role {
        Role::User => false,
        role => reasons || role == Role::Assistant,
    })
}

/// The parts of a conversation that a format writes in the last user's turn.
pub(crate) fn moves(format: &Format, system: bool, tools: bool) -> Option<&'static str> {
    if system && format.system_place() == SystemPlace::LastUser {
        return Some("the system message");
    }
    (tools && format.tools_place() == Some(ToolsPlace::LastUser)).then_some("the tools")
}
