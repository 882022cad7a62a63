//! The formats once more, as one would write a template by hand: what is control, what is scaffold
//! and what is a slot of the caller's text, in order. Nothing here reads a format file.

use std::collections::HashMap;

use chatcodec::{Boundary, CallBody, Message, Role, TokenId};

use super::TestCodec;
use super::conversation::Conversation;

/// A stretch of a rendered conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub text: String,
    pub is_control: bool,
    /// The path of a slot; empty for control and scaffold.
    pub path: String,
    /// The message's index, -1 for none.
    pub message: i32,
    /// Whether a model generates it.
    pub generated: bool,
}

/// A conversation as parts.
#[derive(Debug, Default)]
pub struct Template {
    pub parts: Vec<Part>,
    message: i32,
    generated: bool,
}

impl Template {
    pub fn new(codec: &TestCodec, conversation: &Conversation, generation_prompt: bool) -> Self {
        let mut template = Self { message: -1, ..Self::default() };
        let Conversation { messages, tools } = conversation;
        if codec.has_calls() || codec.format == "terse" {
            template.control("<s>");
        }
        let systems = messages.iter().take_while(|message| message.role == Role::System).count();
        let kinds = kinds(messages);
        for (at, message) in messages.iter().enumerate() {
            if at == systems {
                template.tools(tools.as_deref());
            }
            template.message = i32::try_from(at).expect("few messages");
            template.turn(codec, message, kinds.get(&at).copied());
        }
        template.message = -1;
        if systems == messages.len() {
            template.tools(tools.as_deref());
        }
        if generation_prompt {
            template.open(codec, Role::Assistant);
            template.end_line(codec);
        }
        template
    }

    pub fn text(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    /// The ids: of each run of text between two control tokens as the naive reference gives them.
    pub fn ids(&self, codec: &TestCodec, boundary: Boundary) -> Vec<TokenId> {
        let mut ids = Vec::new();
        let mut run = String::new();
        let mut first = true;
        let mut generated = false;
        for part in &self.parts {
            let begins = part.generated && !generated && !run.is_empty();
            let isolated = boundary == Boundary::Isolated && begins;
            generated = part.generated;
            if part.is_control || isolated {
                ids.extend(codec.naive.encode_run(&run, first));
                first = part.is_control;
                run.clear();
            }
            if part.is_control {
                ids.push(codec.control_id(&part.text));
            } else {
                run.push_str(&part.text);
            }
        }
        ids.extend(codec.naive.encode_run(&run, first));
        ids
    }

    fn push(&mut self, text: &str, is_control: bool, path: String) {
        if !text.is_empty() {
            let (message, generated) = (self.message, self.generated);
            self.parts.push(Part { text: text.into(), is_control, path, message, generated });
        }
    }

    fn control(&mut self, spelling: &str) {
        self.push(spelling, true, String::new());
    }

    fn scaffold(&mut self, text: &str) {
        self.push(text, false, String::new());
    }

    fn slot(&mut self, text: &str, field: &str) {
        self.push(text, false, format!("messages[{}].{field}", self.message));
    }

    /// Opens a turn, up to where a name or the line's end stands.
    fn open(&mut self, codec: &TestCodec, role: Role) {
        self.control(match (codec.format, role) {
            ("terse", Role::System) => "<|plugin|>",
            ("terse", Role::Assistant) => "<|action_start|>",
            ("plain", _) => "<s>",
            _ => "<|im_start|>",
        });
        if codec.format != "terse" {
            self.scaffold(match role {
                Role::System => "system",
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "environment",
            });
        }
    }

    fn close(&mut self, codec: &TestCodec) {
        self.control(match codec.format {
            "plain" | "terse" => "</s>",
            _ => "<|im_end|>",
        });
        self.generated = false;
        self.end_line(codec);
    }

    fn end_line(&mut self, codec: &TestCodec) {
        if codec.format != "terse" {
            self.scaffold("\n");
        }
    }

    fn tools(&mut self, tools: Option<&str>) {
        let Some(tools) = tools else { return };
        self.message = -1;
        self.control("<|im_start|>");
        self.scaffold("system name=");
        self.control("<|plugin|>");
        self.scaffold("\n");
        self.push(tools, false, "tools".into());
        self.control("<|im_end|>");
        self.scaffold("\n");
    }

    fn turn(&mut self, codec: &TestCodec, message: &Message, kind: Option<&str>) {
        self.open(codec, message.role);
        match (message.role, message.name.as_deref()) {
            (Role::User, Some(name)) => {
                self.scaffold(" name=");
                self.slot(name, "name");
            }
            (Role::System, Some(kind)) => self.kind(kind),
            (Role::Tool, _) => self.kind(kind.expect("a result has a kind")),
            _ => {}
        }
        self.end_line(codec);
        self.generated = message.role == Role::Assistant;
        self.slot(&message.content, "content");
        for (at, call) in message.calls.iter().enumerate() {
            let field = |name: &str| format!("tool_calls[{at}].{name}");
            self.control("<|action_start|>");
            match &call.body {
                CallBody::Function { name, arguments } => {
                    let quoted = serde_json::to_string(name).expect("text is JSON");
                    self.control("<|plugin|>");
                    self.scaffold("\n{\"name\": \"");
                    self.slot(&quoted[1..quoted.len() - 1], &field("function.name"));
                    self.scaffold("\", \"parameters\": ");
                    let arguments = arguments.trim_matches([' ', '\t', '\n', '\r']);
                    self.slot(arguments, &field("function.arguments"));
                    self.scaffold("}");
                }
                CallBody::Code { language, source } => {
                    self.control("<|interpreter|>");
                    self.scaffold("\n```");
                    self.slot(language.as_deref().unwrap_or_default(), &field("code.language"));
                    self.scaffold("\n");
                    self.slot(source, &field("code.source"));
                    self.scaffold("\n```");
                }
            }
            self.control("<|action_end|>");
        }
        self.close(codec);
    }

    fn kind(&mut self, kind: &str) {
        self.scaffold(" name=");
        self.control(&format!("<|{kind}|>"));
    }
}

/// The kind of every result, by the index of its message: the one it names; else that of the call
/// its id refers to; else that of the call it answers by order; else `plugin`.
fn kinds(messages: &[Message]) -> HashMap<usize, &str> {
    let kind_of = |body: &CallBody| match body {
        CallBody::Function { .. } => "plugin",
        CallBody::Code { .. } => "interpreter",
    };
    let mut kinds = HashMap::new();
    let mut calls: &[chatcodec::Call] = &[];
    let mut answered = 0;
    for (at, message) in messages.iter().enumerate() {
        if !message.calls.is_empty() {
            (calls, answered) = (&message.calls, 0);
        }
        if message.role != Role::Tool {
            continue;
        }
        let named = message.name.as_deref().filter(|name| ["plugin", "interpreter"].contains(name));
        let referred = calls.iter().find(|call| call.id.is_some() && call.id == message.call_id);
        let by_order = calls.get(answered);
        let called = referred.or(by_order).map(|call| kind_of(&call.body));
        kinds.insert(at, named.or(called).unwrap_or("plugin"));
        answered += 1;
    }
    kinds
}
