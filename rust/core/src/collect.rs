//! Events to messages.

use crate::event::{ActionKind, EventKind, Part};
use crate::message::{Call, CallBody, Media, MediaPlace, Message, Role};

/// Builds messages from events, in order.
///
/// ```
/// use chatcodec::{Collector, EventKind, Role};
///
/// let mut collector = Collector::default();
/// collector.push(&EventKind::TurnStart { role: Role::Assistant, name: None });
/// collector.push(&EventKind::Text("Hel".into()));
/// collector.push(&EventKind::Text("lo".into()));
/// assert_eq!(collector.into_messages()[0].content, "Hello");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Collector {
    messages: Vec<Message>,
    /// Whether the last message is still open.
    open: bool,
}

impl Collector {
    /// Takes the next event.
    pub fn push(&mut self, event: &EventKind) {
        match event {
            EventKind::TurnStart { role, name } => {
                let mut message = Message::new(*role, "");
                message.name.clone_from(name);
                self.messages.push(message);
                self.open = true;
            }
            EventKind::TurnEnd { id, .. } => {
                let message = self.message();
                if id.is_some() {
                    message.call_id.clone_from(id);
                }
                self.open = false;
            }
            EventKind::Text(text) => self.push_text(Part::Text, text),
            EventKind::Reasoning(text) => self.push_text(Part::Reasoning, text),
            EventKind::Media { kind, count, rows } => {
                let message = self.message();
                let place = MediaPlace::Content(message.pieces().count() as u32);
                let at = message.content.len();
                message.media.push(Media { kind: *kind, at, count: *count, rows: *rows, place });
            }
            EventKind::ActionStart { kind, name, id, .. } => {
                let body = match kind {
                    ActionKind::Function => CallBody::Function {
                        name: name.clone().unwrap_or_default(),
                        arguments: String::new(),
                    },
                    ActionKind::Code => {
                        CallBody::Code { language: name.clone(), source: String::new() }
                    }
                };
                self.message().calls.push(Call { id: id.clone(), body });
            }
            EventKind::ActionDelta { index, text } => self.push_text(Part::Action(*index), text),
            EventKind::ActionEnd { complete, name, id, .. } => {
                let Some(call) = self.message().calls.last_mut() else { return };
                if id.is_some() {
                    call.id.clone_from(id);
                }
                if let CallBody::Function { name: known, arguments } = &mut call.body {
                    if let Some(name) = name {
                        known.clone_from(name);
                    }
                    // A complete call without arguments has an empty object as its arguments.
                    if *complete && arguments.is_empty() {
                        arguments.push_str("{}");
                    }
                }
            }
            EventKind::Notice { .. } => {}
        }
    }

    /// Appends text to the turn, or to the open call.
    pub(crate) fn push_text(&mut self, part: Part, text: &str) {
        let message = self.message();
        match part {
            Part::Text => return message.content.push_str(text),
            Part::Reasoning => return message.reasoning.get_or_insert_default().push_str(text),
            Part::Action(_) => {}
        }
        match message.calls.last_mut().map(|call| &mut call.body) {
            Some(CallBody::Function { arguments, .. }) => arguments.push_str(text),
            Some(CallBody::Code { source, .. }) => source.push_str(text),
            None => {}
        }
    }

    /// The messages so far.
    pub fn into_messages(self) -> Vec<Message> {
        self.messages
    }

    /// The open message; a completion's message begins without a turn start.
    fn message(&mut self) -> &mut Message {
        if !self.open {
            self.messages.push(Message::new(Role::Assistant, ""));
            self.open = true;
        }
        let last = self.messages.len() - 1;
        &mut self.messages[last]
    }
}
