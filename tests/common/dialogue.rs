//! Random conversations for any format: made of what it has a place for, with its own markers in every
//! field. A message is taken if the conversation that it ends can be written, so no order is known here.

use chatcodec::{
    Boundary, Call, CallBody, EncodeOptions, Encoding, Message, OnMarker, Result, Role,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::declared;
use super::table::Entry;
use super::text::{json, text, word};

/// What is encoded: messages, and the tools given beside them.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialogue {
    pub messages: Vec<Message>,
    pub tools: Option<String>,
}

impl Dialogue {
    pub fn encode(&self, entry: &Entry, options: &EncodeOptions) -> Result<Encoding> {
        let tools = declared(&entry.codec, self.tools.as_deref());
        entry.codec.encode(self.messages.clone(), tools.as_ref(), options)
    }

    pub fn canonical(&self, entry: &Entry) -> Vec<Message> {
        self.canonical_with(entry, &EncodeOptions::default())
    }

    pub fn canonical_with(&self, entry: &Entry, options: &EncodeOptions) -> Vec<Message> {
        let tools = declared(&entry.codec, self.tools.as_deref());
        entry.codec.canonical_with(self.messages.clone(), tools.as_ref(), options)
    }

    pub fn with(&self, message: Message) -> Self {
        let mut longer = self.clone();
        longer.messages.push(message);
        longer
    }

    pub fn ends_with_assistant(&self) -> bool {
        self.messages.last().is_some_and(|message| message.role == Role::Assistant)
    }
}

/// A conversation that the format can write.
pub fn dialogue(entry: &'static Entry) -> impl Strategy<Value = Dialogue> {
    let tools = option::weighted(0.3, hostile(entry));
    (vec(message(entry), 0..7), tools)
        .prop_map(|(messages, tools)| written(entry, messages, tools.filter(|_| entry.able.tools)))
}

/// What of the messages can be written, one after another.
fn written(entry: &Entry, messages: Vec<Message>, tools: Option<String>) -> Dialogue {
    let options = EncodeOptions::default();
    let fits = |dialogue: &Dialogue| dialogue.encode(entry, &options).is_ok();
    let mut dialogue = Dialogue { messages: Vec::new(), tools: None };
    for message in messages {
        let longer = dialogue.with(message);
        // A system text may need a user's to stand in.
        if fits(&longer) || fits(&longer.with(Message::new(Role::User, "x"))) {
            dialogue = longer;
        }
    }
    while !fits(&dialogue) && dialogue.messages.pop().is_some() {}
    let asked = Dialogue { tools, ..dialogue.clone() };
    if fits(&asked) { asked } else { dialogue }
}

/// A message of any kind that the format has a place for.
fn message(entry: &'static Entry) -> impl Strategy<Value = Message> {
    let able = &entry.able;
    let weight = |has: bool, weight: u32| if has { weight } else { 0 };
    prop_oneof![
        weight(able.system, 2) => system(entry),
        4 => user(entry),
        5 => assistant(entry),
        weight(able.results, 3) => result(entry),
    ]
}

fn named(entry: &Entry) -> impl Strategy<Value = Option<String>> + use<> {
    let names = [entry.able.named.clone(), vec!["nobody".to_owned()]].concat();
    option::weighted(0.3, select(names))
}

fn system(entry: &'static Entry) -> impl Strategy<Value = Message> {
    (named(entry), hostile(entry))
        .prop_map(|(name, content)| Message { name, ..Message::new(Role::System, content) })
}

fn user(entry: &'static Entry) -> impl Strategy<Value = Message> {
    let name = option::weighted(0.3, word());
    (name, hostile(entry))
        .prop_map(|(name, content)| Message { name, ..Message::new(Role::User, content) })
        .prop_map(
            |message| {
                if entry.able.user_name { message } else { Message { name: None, ..message } }
            },
        )
}

/// An assistant's message, with calls and reasoning where the format has some.
pub fn assistant(entry: &'static Entry) -> BoxedStrategy<Message> {
    let reasons = entry.able.reasoning;
    (answer(entry), option::of(hostile(entry)))
        .prop_map(move |(answer, reasoning)| {
            let reasoning = reasoning.filter(|reasoning| reasons && !reasoning.is_empty());
            Message { reasoning, ..answer }
        })
        .boxed()
}

fn answer(entry: &'static Entry) -> BoxedStrategy<Message> {
    let able = &entry.able;
    if !able.functions && !able.codes {
        return hostile(entry).prop_map(|text| Message::new(Role::Assistant, text)).boxed();
    }
    let function = (name(entry), arguments())
        .prop_map(|(name, arguments)| CallBody::Function { name, arguments });
    let code = (option::of(word()), hostile(entry))
        .prop_map(|(language, source)| CallBody::Code { language, source });
    let body = prop_oneof![
        u32::from(able.functions) => function,
        u32::from(able.codes) => code,
    ];
    let call = (call_id(), body).prop_map(|(id, body)| Call { id, body });
    // Some formats have no place for text beside calls.
    let content = prop_oneof![Just(String::new()), hostile(entry)];
    (content, prop_oneof![Just(Vec::new()), vec(call, 1..4)])
        .prop_map(|(content, calls)| Message { calls, ..Message::new(Role::Assistant, content) })
        .boxed()
}

fn name(entry: &'static Entry) -> BoxedStrategy<String> {
    if entry.able.free_names { prop_oneof![word(), hostile(entry)].boxed() } else { word().boxed() }
}

/// One value, more often than not an object, which some formats demand.
fn arguments() -> impl Strategy<Value = String> {
    let member = (text(), json()).prop_map(|(key, value)| {
        format!("{}: {value}", serde_json::to_string(&key).expect("text is JSON"))
    });
    let object = vec(member, 0..3).prop_map(|members| format!("{{{}}}", members.join(", ")));
    prop_oneof![1 => json(), 2 => object]
}

fn result(entry: &'static Entry) -> impl Strategy<Value = Message> {
    // A bare value is written as it is where results stand in JSON.
    let content = prop_oneof![3 => hostile(entry), 1 => json()];
    (named(entry), content, call_id()).prop_map(|(name, content, call_id)| Message {
        name,
        call_id,
        ..Message::new(Role::Tool, content)
    })
}

fn call_id() -> impl Strategy<Value = Option<String>> {
    option::of(prop_oneof![
        select(vec!["call_0", "call_1", "call00000", "abcDEF123"]).prop_map(str::to_owned),
        word(),
    ])
}

/// What a call begins with that no token marks, and what it almost begins with.
const NEAR_CALLS: &[&str] = &[
    "{\"name\": \"f\", \"parameters\": {",
    " \n{\"name\":\"f\",\"arguments\":{}}",
    "{\"name\": \"f\", \"parameters\": 3}",
    "{\"name\": \"Bob\", \"age\": 3}",
    "{\"name\": 5",
    "{\"name\": \"f\", \"para",
    "[f(a=1), g()]",
    "[f(a=1), g(2)]",
    "[f(x) for x in y]",
    "[1, 2, 3]",
    "[link](url)",
    "[f(a==1",
    "functools[{\"name\": \"f\", \"arguments\": {",
    "functools[1",
    "functools is",
];

/// Any text: what is hostile everywhere, and what the format itself writes.
pub fn hostile(entry: &'static Entry) -> impl Strategy<Value = String> {
    let own = select(&entry.meant[..]);
    let spellings: Vec<&str> = entry.codec.vocab().control().keys().map(String::as_str).collect();
    let spelling = select(spellings).prop_map(str::to_owned);
    let edge =
        select(vec!["", " ", "\n", "\n\n", "\t", "\u{a0}", "\u{301}", "\u{2581}", "x", "\""]);
    let piece = prop_oneof![
        4 => own,
        2 => spelling,
        3 => edge.prop_map(str::to_owned),
        2 => text(),
        1 => any::<char>().prop_map(String::from),
    ];
    let near_call = (select(NEAR_CALLS), text()).prop_map(|(near, text)| near.to_owned() + &text);
    prop_oneof![
        4 => vec(piece, 0..6).prop_map(|pieces| pieces.concat()),
        u32::from(entry.able.bare_calls) => near_call,
        1 => text(),
        1 => Just("Hello".to_owned()),
    ]
}

/// How a conversation may be encoded so that it comes back whole.
pub fn options() -> impl Strategy<Value = EncodeOptions> {
    let on_marker = select(vec![OnMarker::Report, OnMarker::Error, OnMarker::Break]);
    (any::<Option<bool>>(), any::<bool>(), on_marker).prop_map(
        |(add_generation_prompt, isolated, on_marker)| {
            let boundary = if isolated { Boundary::Isolated } else { Boundary::Reference };
            EncodeOptions { add_generation_prompt, boundary, on_marker, ..EncodeOptions::default() }
        },
    )
}

/// A message without the ids of its calls.
pub fn unnumbered(message: &Message) -> Message {
    let mut message = message.clone();
    message.calls.iter_mut().for_each(|call| call.id = None);
    message
}
