//! The order of writing: the messages, and the places of the system message and the tools.

use crate::error::{Error, MessagePart, Result};
use crate::format::{Format, Order, SystemPlace, ToolsPlace};
use crate::grammar::{Grammar, Row};
use crate::message::{Message, Role, leading_systems};

/// A step of writing.
pub(super) enum Step<'a> {
    Tools,
    /// Tools, in the turn of a message.
    ToolsIn(usize),
    /// Tools, in the turn of an absent system message.
    ToolsInDefault(&'a str),
    /// The format's own system message, for a conversation without one.
    DefaultSystem(&'a str),
    /// The turn of a conversation without a system message.
    WithoutSystem,
    /// A message, with the system message inside its turn.
    Message {
        index: usize,
        system: Option<usize>,
    },
}

impl Step<'_> {
    /// The written message.
    pub(super) fn message(&self) -> Option<usize> {
        match *self {
            Self::ToolsIn(index) | Self::Message { index, .. } => Some(index),
            Self::Tools
            | Self::ToolsInDefault(_)
            | Self::DefaultSystem(_)
            | Self::WithoutSystem => None,
        }
    }
}

pub(super) struct Plan<'a> {
    pub(super) steps: Vec<Step<'a>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        messages: &[Message],
        format: &'a Format,
        tools: bool,
        thinking: bool,
    ) -> Result<Self> {
        let place = format.tools_place();
        if tools && place.is_none() {
            let problem = format!("have no place in {}", format.described());
            return Err(Error::unplaced_tools(problem));
        }
        check_order(messages, format)?;
        let inside = system_inside(messages, format)?;
        let is_user = |message: &Message| message.role == Role::User;
        let tools_in = format.tools_in().filter(|_| tools);
        let first_system = format.first_system(messages);
        let has_system = messages.first().is_some_and(|message| message.role == Role::System);
        let tools_in = match tools_in {
            Some(Role::System) if first_system.is_some() => first_system,
            Some(Role::User) if place == Some(ToolsPlace::LastUser) => {
                Some(user_at(messages.iter().rposition(is_user))?)
            }
            Some(Role::User) => Some(user_at(messages.iter().position(is_user))?),
            _ => None,
        };
        let tools_at = match place.filter(|_| tools && format.tools_in().is_none()) {
            // Written before the first turn.
            None | Some(ToolsPlace::System | ToolsPlace::BeforeBegin) => None,
            Some(ToolsPlace::First) => Some(0),
            Some(ToolsPlace::AfterSystem) => Some(leading_systems(messages)),
            Some(ToolsPlace::FirstUser) => Some(user_at(messages.iter().position(is_user))?),
            Some(ToolsPlace::LastUser) => Some(user_at(messages.iter().rposition(is_user))?),
        };
        let mut steps = Vec::with_capacity(messages.len() + 2);
        let begun = usize::from(format.has_begun(messages));
        let tools_first = tools_at.is_some() && place == Some(ToolsPlace::First) && begun == 0;
        if tools_first {
            steps.push(Step::Tools);
        }
        let tools_at = tools_at.filter(|_| !tools_first).map(|at| at.max(begun));
        let absent = format.absent_system(thinking);
        let default = absent.filter(|_| !has_system && !messages.is_empty());
        let tools_in_default =
            tools && format.tools_in() == Some(Role::System) && first_system.is_none();
        if tools_in_default && begun == 0 {
            steps.push(Step::ToolsInDefault(default.unwrap_or_default()));
        } else if let Some(text) = default {
            steps.push(Step::DefaultSystem(text));
        } else if format.without_system().is_some() && !has_system && !messages.is_empty() {
            steps.push(Step::WithoutSystem);
        }
        for index in 0..messages.len() {
            if tools_in_default && begun > 0 && index == begun {
                steps.push(Step::ToolsInDefault(""));
            }
            if tools_at == Some(index) {
                steps.push(Step::Tools);
            }
            match inside {
                _ if tools_in == Some(index) => steps.push(Step::ToolsIn(index)),
                Some((system, _)) if system == index => {}
                Some((system, at)) if at == index => {
                    steps.push(Step::Message { index, system: Some(system) });
                }
                _ => steps.push(Step::Message { index, system: None }),
            }
        }
        if tools_in_default && begun > 0 && begun == messages.len() {
            steps.push(Step::ToolsInDefault(""));
        }
        if tools_at == Some(messages.len()) {
            steps.push(Step::Tools);
        }
        Ok(Self { steps })
    }
}

fn user_at(found: Option<usize>) -> Result<usize> {
    found.ok_or_else(|| Error::message("tools", "have no user message to stand before"))
}

/// A system message without a role of its own.
fn is_plain_system(message: &Message, format: &Format) -> bool {
    let named = message.name.as_ref().is_some_and(|name| format.is_named(name, Role::System));
    message.role == Role::System && !named
}

/// The system messages after the first message, where a format has no place for them.
pub(super) fn late_systems<'a>(
    messages: &'a [Message],
    format: &'a Format,
) -> impl Iterator<Item = usize> + 'a {
    let is_late = move |message| is_plain_system(message, format);
    let has_place = format.system_place() == SystemPlace::Own;
    let late = messages.iter().enumerate().skip(1).filter(move |(_, message)| is_late(message));
    late.filter(move |_| !has_place).map(|(at, _)| at)
}

/// A system message inside a user's turn: its index and the user's.
fn system_inside(messages: &[Message], format: &Format) -> Result<Option<(usize, usize)>> {
    let place = format.system_place();
    if place == SystemPlace::Own {
        return Ok(None);
    }
    if let Some(at) = late_systems(messages, format).next() {
        let problem = "is a system message, which can only stand first";
        let path = format!("messages[{at}].role");
        return Err(Error::unplaced(path, problem, at, MessagePart::Whole));
    }
    if place == SystemPlace::First
        || !messages.first().is_some_and(|it| is_plain_system(it, format))
    {
        return Ok(None);
    }
    let is_user = |message: &Message| message.role == Role::User;
    let user = match place {
        SystemPlace::LastUser => messages.iter().rposition(is_user),
        _ => messages.iter().position(is_user),
    };
    if messages[0].name.is_some() {
        let problem = format!("has no place in a system message of {}", format.described());
        return Err(Error::unplaced("messages[0].name", problem, 0, MessagePart::Name));
    }
    let user = user.ok_or_else(|| {
        Error::message("messages[0]", "is a system message without a user message to stand in")
    })?;
    Ok(Some((0, user)))
}

/// Checks that roles alternate, in formats that require it.
fn check_order(messages: &[Message], format: &Format) -> Result<()> {
    if format.order() == Order::Free {
        return Ok(());
    }
    let mut last = None;
    for (index, message) in messages.iter().enumerate() {
        if message.role == Role::System {
            continue;
        }
        if !Order::Alternate.follows(last, message.role) {
            let (role, after) = (message.role.name(), last.map(Role::name));
            let place = after.map_or("first".to_owned(), |after| format!("after `{after}`"));
            let problem = format!("is `{role}` {place}, expected user and assistant to alternate");
            return Err(Error::message(format!("messages[{index}].role"), problem));
        }
        last = Some(message.role);
    }
    Ok(())
}

/// Checks that neither an answer nor a generation prompt directly follows a system text that only a user's
/// message ends: in formats with alternating roles and no control token after it.
pub(super) fn check_answers(messages: &[Message], prompted: bool, grammar: &Grammar) -> Result<()> {
    let is_open = |row: &Row| {
        row.role == Role::System && row.rule.closer().is_some_and(|closer| closer.ids.is_empty())
    };
    if grammar.order == Order::Free || !grammar.rows.iter().any(is_open) {
        return Ok(());
    }
    let is_before_answer = |at: &usize| {
        messages[*at].role == Role::System
            && match messages.get(at + 1) {
                Some(next) => !matches!(next.role, Role::System | Role::User),
                None => prompted,
            }
    };
    let Some(at) = (0..messages.len()).find(is_before_answer) else { return Ok(()) };
    let problem = "is a system message right before an answer, expected a user's message between";
    Err(Error::message(format!("messages[{at}].role"), problem))
}
