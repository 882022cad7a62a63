//! The keys of the format file that write the parts of a rendered text, for people who compare a file with a model's
//! template.

use super::Renderer;
use crate::format::Format;
use crate::grammar::Row;

/// A key that writes a part of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Begin,
    BeginTurn,
    WithoutSystem,
    DefaultSystem,
    /// A row of the format, by its index.
    Row(usize),
    /// The turn of the tools, and their text in it.
    Tools,
    Declaration,
    ResultsOpen,
    ResultsBetween,
    ResultsClose,
    AfterContent,
    CallsOpen,
    CallsBetween,
    CallsClose,
    /// A kind of call, by its index.
    Call(usize),
    Prompt,
    ThinkingPrompt,
    NoThinkingPrompt,
    Stop,
    End,
}

impl Key {
    /// The key as the format file has it, dotted: `turn.assistant[1]`.
    pub(crate) fn name(self, format: &Format) -> String {
        let name = match self {
            Self::Row(row) => return format.rows()[row].key.clone(),
            Self::Call(call) => return format!("call.{}.item", format.calls()[call].kind),
            Self::Begin => "begin",
            Self::BeginTurn => "turn.begin",
            Self::WithoutSystem => "turn.without_system",
            Self::DefaultSystem => "default_system",
            Self::Tools => "turn.tools",
            Self::Declaration => "tools.declare",
            Self::ResultsOpen => "results.open",
            Self::ResultsBetween => "results.between",
            Self::ResultsClose => "results.close",
            Self::AfterContent => "calls.after_content",
            Self::CallsOpen => "calls.open",
            Self::CallsBetween => "calls.between",
            Self::CallsClose => "calls.close",
            Self::Prompt => "generation.prompt",
            Self::ThinkingPrompt => "generation.thinking",
            Self::NoThinkingPrompt => "generation.no_thinking",
            Self::Stop => "generation.stop",
            Self::End => "end",
        };
        name.to_owned()
    }
}

impl Renderer<'_> {
    /// Records, if the options ask for keys, that `key` writes what `write` writes. The key around it writes on.
    pub(super) fn keyed<T>(&mut self, key: Key, write: impl FnOnce(&mut Self) -> T) -> T {
        if !self.options.keyed {
            return write(self);
        }
        let outer = self.out.keys.last().map_or(Key::Begin, |&(_, key)| key);
        self.out.keys.push((self.out.text.len(), key));
        let written = write(self);
        self.out.keys.push((self.out.text.len(), outer));
        written
    }

    pub(super) fn row_key(&self, row: &Row) -> Key {
        let mut rows = self.grammar.rows.iter();
        rows.position(|other| std::ptr::eq(other, row)).map_or(Key::Begin, Key::Row)
    }

    /// The key of the generation prompt of these options.
    pub(super) fn prompt_key(&self) -> Key {
        let asked = |thinking: &bool| self.grammar.thinking[usize::from(!thinking)].is_some();
        match self.options.thinking.filter(asked) {
            Some(true) => Key::ThinkingPrompt,
            Some(false) => Key::NoThinkingPrompt,
            None => Key::Prompt,
        }
    }
}
