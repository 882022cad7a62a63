//! Random conversations in a format's domain, with hostile text in every field.

use chatcodec::{Boundary, Call, CallBody, EncodeOptions, Encoding, Message, Result, Role};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::text::{json, text, word};
use super::{TestCodec, declared};

/// What is encoded: messages, and the tools given beside them.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub tools: Option<String>,
}

impl Conversation {
    pub fn new(messages: Vec<Message>) -> Self {
        Self { messages, tools: None }
    }

    pub fn encode(&self, codec: &TestCodec, options: &EncodeOptions) -> Result<Encoding> {
        let tools = declared(&codec.codec, self.tools.as_deref());
        codec.codec.encode(self.messages.clone(), tools.as_ref(), options)
    }

    pub fn canonical(&self, codec: &TestCodec) -> Vec<Message> {
        let tools = declared(&codec.codec, self.tools.as_deref());
        codec.codec.canonical(self.messages.clone(), tools.as_ref())
    }

    pub fn ends_with_assistant(&self) -> bool {
        self.messages.last().is_some_and(|message| message.role == Role::Assistant)
    }

    /// The same conversation with every text that is not empty replaced: of the same shape.
    ///
    /// Header words and the closed set of names stay: they are no free text.
    pub fn refill(&self, texts: &[String], arguments: &[String]) -> Self {
        let mut texts = texts.iter().filter(|text| !text.is_empty()).cycle();
        let mut arguments = arguments.iter().cycle();
        let mut fill = |text: &mut String| {
            if let Some(next) = texts.next().filter(|_| !text.is_empty()) {
                text.clone_from(next);
            }
        };
        let mut other = self.clone();
        for message in &mut other.messages {
            fill(&mut message.content);
            for call in &mut message.calls {
                match &mut call.body {
                    CallBody::Function { name, arguments: json } => {
                        fill(name);
                        json.clone_from(arguments.next().expect("some arguments"));
                    }
                    CallBody::Code { source, .. } => fill(source),
                }
            }
        }
        if let Some(tools) = &mut other.tools {
            fill(tools);
        }
        other
    }
}

/// A conversation that the codec's format can write.
pub fn conversation(codec: &TestCodec) -> BoxedStrategy<Conversation> {
    if codec.has_calls() {
        let message = prop_oneof![system(), user(), assistant(), result()];
        (vec(message, 0..6), option::weighted(0.3, text()))
            .prop_map(|(messages, tools)| Conversation { messages, tools })
            .boxed()
    } else {
        let message = (select(vec![Role::System, Role::User, Role::Assistant]), text())
            .prop_map(|(role, content)| Message::new(role, content));
        vec(message, 0..6).prop_map(Conversation::new).boxed()
    }
}

fn named(role: Role, name: Option<String>, content: String) -> Message {
    Message { name, ..Message::new(role, content) }
}

/// `plugin`, `interpreter`, or none.
fn kind() -> impl Strategy<Value = Option<String>> {
    option::of(select(vec!["plugin", "interpreter"]).prop_map(str::to_owned))
}

fn system() -> BoxedStrategy<Message> {
    (kind(), text()).prop_map(|(name, content)| named(Role::System, name, content)).boxed()
}

fn user() -> BoxedStrategy<Message> {
    let name = option::weighted(0.3, word());
    (name, text()).prop_map(|(name, content)| named(Role::User, name, content)).boxed()
}

fn assistant() -> BoxedStrategy<Message> {
    (text(), vec(call(), 0..4))
        .prop_map(|(content, calls)| Message { calls, ..Message::new(Role::Assistant, content) })
        .boxed()
}

/// A result; a name that is no kind of result, and an id that is none of a call, are passed over.
fn result() -> BoxedStrategy<Message> {
    let name = prop_oneof![kind(), option::of(text())];
    (name, text(), call_id())
        .prop_map(|(name, content, call_id)| Message {
            call_id,
            ..named(Role::Tool, name, content)
        })
        .boxed()
}

fn call_id() -> impl Strategy<Value = Option<String>> {
    option::of(prop_oneof![select(vec!["call_0", "call_1", "x"]).prop_map(str::to_owned), text()])
}

fn call() -> impl Strategy<Value = Call> {
    let function =
        (text(), json()).prop_map(|(name, arguments)| CallBody::Function { name, arguments });
    let code = (option::of(word()), text())
        .prop_map(|(language, source)| CallBody::Code { language, source });
    (call_id(), prop_oneof![function, code]).prop_map(|(id, body)| Call { id, body })
}

/// How a conversation may be encoded so that it comes back whole.
pub fn options() -> impl Strategy<Value = EncodeOptions> {
    (any::<Option<bool>>(), any::<bool>()).prop_map(|(add_generation_prompt, isolated)| {
        let boundary = if isolated { Boundary::Isolated } else { Boundary::Reference };
        EncodeOptions { add_generation_prompt, boundary, ..EncodeOptions::default() }
    })
}
