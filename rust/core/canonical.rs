//! What a conversation reads as after a round trip: the losses of a format and a vocabulary, as a function.

use crate::action::pairs;
use crate::format::grammar::{Grammar, Op};
use crate::format::pattern::{Field, Filter};
use crate::format::{CallBodySpec, Format, SystemPlace, ToolsPlace};
use crate::json;
use crate::message::{self, CallBody, Message, Role, leading_systems};
use crate::render;
use crate::vocab::Vocab;

/// The canonical form of messages and tools.
pub(crate) fn canonical(
    mut messages: Vec<Message>,
    tools: Option<String>,
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
) -> Vec<Message> {
    message::link(&mut messages, format);
    let filters = render::filters(&messages, format, grammar, vocab);
    for (message, filter) in messages.iter_mut().zip(filters) {
        trim(&mut message.content, filter);
    }
    if format.folds_system() {
        fold_system(&mut messages, format, grammar);
    }
    let has_system = messages.first().is_none_or(|message| message.role == Role::System);
    if let Some(tools) = tools {
        insert_tools(&mut messages, &tools, format);
    }
    if let Some(text) = format.default_system().filter(|_| !has_system) {
        messages.insert(0, Message::new(Role::System, text));
    }
    let is_pairs = format.calls().iter().any(|call| matches!(call.body, CallBodySpec::Pairs(_)));
    let canonical = |text: &mut String| {
        if let std::borrow::Cow::Owned(changed) = vocab.canonical_text(text) {
            *text = changed;
        }
    };
    for message in &mut messages {
        canonical(&mut message.content);
        for call in &mut message.calls {
            match &mut call.body {
                CallBody::Function { name, arguments } => {
                    canonical(name);
                    if json::trim(arguments).len() < arguments.len() {
                        *arguments = json::trim(arguments).to_owned();
                    }
                    if is_pairs {
                        *arguments = pairs::respace(arguments);
                    }
                    canonical(arguments);
                }
                CallBody::Code { source, .. } => canonical(source),
            }
        }
    }
    messages
}

fn trim(text: &mut String, filter: Filter) {
    let trimmed = filter.trim(text);
    if trimmed.len() < text.len() {
        *text = trimmed.to_owned();
    }
}

/// A system text that stands in a user's turn and is read as the user's.
fn fold_system(messages: &mut Vec<Message>, format: &Format, grammar: &Grammar) {
    let is_user = |message: &Message| message.role == Role::User;
    let user = match format.system_place() {
        SystemPlace::LastUser => messages.iter().rposition(is_user),
        _ => messages.iter().position(is_user),
    };
    let first = messages.first();
    let is_system = first.is_some_and(|m| m.role == Role::System && m.name.is_none());
    let (Some(user), true) = (user, is_system) else { return };
    let between = grammar.rows.iter().find_map(|row| {
        let at = row.rule.ops.iter().position(|op| matches!(op, Op::Field(Field::System, _)))?;
        match row.rule.ops.get(at + 1) {
            Some(Op::Literal(literal)) => Some(literal.text.clone()),
            _ => Some(String::new()),
        }
    });
    let system = messages[0].content.clone();
    let content = &mut messages[user].content;
    *content = format!("{system}{}{content}", between.unwrap_or_default());
    messages.remove(0);
}

/// The turn that declares tools, as the system message that it is read as.
fn insert_tools(messages: &mut Vec<Message>, tools: &str, format: &Format) {
    let (before, after) = format.tools_frame();
    let mut turn = Message::new(Role::System, format!("{before}{tools}{after}"));
    turn.name = format.tools_name().map(str::to_owned);
    let is_user = |message: &Message| message.role == Role::User;
    let at = match format.tools_place() {
        Some(ToolsPlace::AfterSystem) => leading_systems(messages),
        Some(ToolsPlace::FirstUser) => messages.iter().position(is_user).unwrap_or(0),
        Some(ToolsPlace::LastUser) => messages.iter().rposition(is_user).unwrap_or(0),
        Some(ToolsPlace::First) | None => 0,
    };
    messages.insert(at, turn);
}
