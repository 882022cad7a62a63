//! Markup in an assistant's text: reasoning and calls that are spelled in its content, as public data has them.
//!
//! In: messages as a caller gave them. Out: the same messages, where what the codec's reader reads in such a text stands
//! in fields of its own; or an error. Only an assistant's own text is read: a user's, a tool's and a system's stay text.

use std::sync::Arc;

use crate::bound::Bound;
use crate::collect::Collector;
use crate::conversation::{Alias, Conversation, Markup};
use crate::error::{Error, MessagePart, Result};
use crate::event::{Event, EventKind, NoticeKind, TurnReason};
use crate::message::{CallBody, Message, Owned, Role};
use crate::response::BoundResponse;
use crate::schema::ToolTypes;
use crate::stream::{MarkerPolicy, State, Stream};
use crate::template::REASONING_KEYS;
use crate::templated::known_role;
use chatcodec_vocab::TokenId;

/// Reads the texts of assistants as completions.
#[derive(Debug)]
pub(crate) struct MarkupReader {
    bound: Arc<Bound>,
    /// What reads completions in place of the format.
    response: Option<Arc<BoundResponse>>,
    /// Where a text may begin.
    starts: Vec<Start>,
}

/// A place where an answer's text begins.
#[derive(Debug)]
struct Start {
    state: State,
    /// The opener of reasoning, which is read before the text; mostly none.
    opener: String,
}

/// What is done with markup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy<'a> {
    pub(crate) markup: Markup,
    /// The types of arguments that are written without quotes.
    pub(crate) types: &'a ToolTypes,
}

/// What a reader finds in a text.
enum Found {
    /// Text alone.
    Text,
    /// Text, reasoning and calls.
    Fields(Box<Message>),
    /// Markers that do not read as an answer; the first of them.
    Broken(String),
}

impl MarkupReader {
    pub(crate) fn new(bound: &Arc<Bound>, response: Option<&Arc<BoundResponse>>) -> Self {
        let prompt = bound.prompt();
        let said = |before: &[TokenId], rest: &[TokenId]| {
            let mut stream = Stream::after(bound, State::after_prompt(bound, before));
            let mut events = Vec::new();
            stream.push_all(rest, &mut events);
            stream.push_text("x", &mut events);
            stream.finish(TurnReason::Length, &mut events);
            let message = first_message(&events);
            (message.content, message.reasoning)
        };
        let thought = (String::new(), Some("x".to_owned()));
        let text = ("x".to_owned(), None);
        let after = |prompt: &[TokenId], opener: &str| Start {
            state: State::after_prompt(bound, prompt),
            opener: opener.to_owned(),
        };
        let mut starts = Vec::new();
        if said(prompt, &[]) == thought {
            // The header of the turn ends where the prompt opens reasoning.
            let is_header = |&at: &usize| {
                let (before, rest) = prompt.split_at(at);
                said(before, &[]) == text && said(before, rest) == thought
            };
            let header = (0..prompt.len()).rev().find(is_header);
            starts.extend(header.map(|at| after(&prompt[..at], "")));
            starts.push(after(prompt, ""));
        } else {
            starts.push(after(prompt, ""));
            // Some texts lack what opens their reasoning.
            starts.extend(opener(bound).map(|opener| after(prompt, opener)));
        }
        Self { bound: bound.clone(), response: response.cloned(), starts }
    }

    /// Reads the markup in a conversation's messages.
    ///
    /// # Errors
    /// [`Error::Message`] for a text with markup, if the policy is [`Markup::Error`]; for markup that does not read as
    /// an answer; and for reasoning or calls of a message that has them in fields, too.
    pub(crate) fn read(&self, conversation: &mut Conversation, policy: Policy<'_>) -> Result<()> {
        for at in 0..conversation.messages.len() {
            let message = &conversation.messages[at];
            if message.role != Role::Assistant || !message.media.is_empty() {
                continue;
            }
            let path = conversation.path_of(at, MessagePart::Content);
            let taken = Taken {
                reasoning: message.reasoning.as_ref().is_some_and(|it| !it.is_empty()),
                calls: !message.calls.is_empty(),
            };
            let Some(read) = self.fields(&message.content, taken, policy, &path)? else { continue };
            let calls = (0..read.calls.len() as u32).map(MessagePart::Call);
            let reasoning = read.reasoning.as_ref().map(|_| MessagePart::Reasoning);
            conversation.add_aliases(at, calls.chain(reasoning), &path);
            let message = &mut conversation.messages[at];
            message.content = read.content;
            if read.reasoning.is_some() {
                message.reasoning = read.reasoning;
            }
            if !read.calls.is_empty() {
                message.calls = read.calls;
            }
        }
        Ok(())
    }

    /// Reads the markup in messages for a template; gives the paths of the parts that were read.
    ///
    /// # Errors
    /// As [`MarkupReader::read`].
    pub(crate) fn read_values(
        &self,
        messages: &mut Owned,
        policy: Policy<'_>,
    ) -> Result<Vec<Alias>> {
        let mut aliases = Vec::new();
        let Owned::List(messages) = messages else { return Ok(aliases) };
        for (at, message) in messages.iter_mut().enumerate() {
            let is_given = |key: &&str| match message.get(key) {
                None | Some(Owned::Null) => false,
                Some(Owned::Text(text)) => !text.is_empty(),
                Some(Owned::List(items)) => !items.is_empty(),
                Some(_) => true,
            };
            let role = message.get("role").and_then(Owned::as_str).and_then(known_role);
            if role != Some(Role::Assistant) {
                continue;
            }
            let taken = Taken {
                reasoning: REASONING_KEYS.iter().any(is_given),
                calls: is_given(&"tool_calls"),
            };
            let Some(text) = message.get("content").and_then(text_of) else { continue };
            let path = format!("messages[{at}].content");
            let Some(read) = self.fields(&text, taken, policy, &path)? else { continue };
            let alias = |part| Alias { message: at, part, path: path.clone() };
            aliases.extend(read.reasoning.as_ref().map(|_| alias(MessagePart::Reasoning)));
            aliases.extend(read.calls.first().map(|_| alias(MessagePart::Calls)));
            let Owned::Map(read) = Owned::of_message(&read) else { continue };
            for (key, value) in read {
                let name = key.as_str().unwrap_or_default();
                match message.get_mut(name) {
                    Some(known) if name != "role" => *known = value,
                    Some(_) => {}
                    None => message.insert(key, value),
                }
            }
        }
        Ok(aliases)
    }

    /// The fields that a text spells, if it is to be read.
    fn fields(
        &self,
        text: &str,
        taken: Taken,
        policy: Policy<'_>,
        path: &str,
    ) -> Result<Option<Message>> {
        let Some(marker) = self.first_marker(text) else { return Ok(None) };
        if policy.markup == Markup::Error {
            let problem = format!(
                "spells {} in an assistant's text, expected reasoning and calls in fields of their own; \
                 `markup=\"parse\"` reads them there, `markup=\"text\"` writes them as ordinary text",
                quoted(&marker)
            );
            return Err(Error::message(path, problem));
        }
        let problem = match self.found(text, policy.types) {
            Found::Text => return Ok(None),
            Found::Fields(read) => match (&read.reasoning, taken.reasoning) {
                (Some(_), true) => "spells reasoning beside the field for it".to_owned(),
                _ if taken.calls && !read.calls.is_empty() => {
                    "spells calls beside `tool_calls`".to_owned()
                }
                _ => return Ok(Some(*read)),
            },
            Found::Broken(marker) => {
                format!("spells {}, and does not read as an answer", quoted(&marker))
            }
        };
        let expected =
            "expected markup as the model writes it; `markup=\"text\"` writes it as ordinary text";
        Err(Error::message(path, format!("{problem}, {expected}")))
    }

    /// The first marker of the reader, or control token, that a text spells.
    fn first_marker(&self, text: &str) -> Option<String> {
        let own = self.own_markers(text).next().map(str::to_owned);
        own.or_else(|| {
            let found = self.bound.vocab().find_control(text).next();
            found.map(|found| found.spelling.to_owned())
        })
    }

    /// The markers of the reader that a text spells.
    fn own_markers<'t>(&'t self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let finder = self.bound.spellings().finder.iter();
        finder.flat_map(move |finder| finder.find_iter(text)).map(|found| &text[found.range()])
    }

    fn found(&self, text: &str, types: &ToolTypes) -> Found {
        let read = self.starts.iter().filter_map(|start| self.read_from(start, text, types));
        // Markers that are ordinary text may be left in the content: the fewer, the more is read.
        let left = |message: &Message| self.own_markers(&message.content).count();
        match read.min_by_key(left) {
            Some(read) if is_text(&read, text) => Found::Text,
            Some(read) => Found::Fields(Box::new(read)),
            None => {
                let marker = self.own_markers(text).next();
                Found::Broken(marker.unwrap_or_default().to_owned())
            }
        }
    }

    /// A text as a whole answer; none where a part of it is left over, or does not fit.
    fn read_from(&self, start: &Start, text: &str, types: &ToolTypes) -> Option<Message> {
        let Start { state, opener } = start;
        let text = &format!("{opener}{text}");
        let stream = Stream::after(&self.bound, state.clone()).typed(types);
        let mut events = Vec::new();
        let (mut stream, length) = if let Some(response) = &self.response {
            let mut stream = stream.responding(response, &[]);
            let ids = self.spelled_ids(text);
            stream.push_all(&ids, &mut events);
            (stream, ids.len())
        } else {
            let mut stream = stream.reading(MarkerPolicy::Text);
            stream.push_text(text, &mut events);
            (stream, text.chars().count())
        };
        let (mut longer, mut more) = (stream.clone(), events.clone());
        // White space at the end is the text's, but after calls the format's.
        let calls = events.iter().any(|it| matches!(it.kind, EventKind::ActionStart { .. }));
        let reason = if calls { TurnReason::Stop } else { TurnReason::Length };
        stream.finish(reason, &mut events);
        let is_end = |event: &Event| matches!(event.kind, EventKind::TurnEnd { .. });
        let end = events.iter().position(is_end).unwrap_or(events.len());
        let is_whole = events.get(end).is_none_or(|Event { tokens, .. }| {
            let end = tokens.end as usize;
            match self.response {
                Some(_) => end >= length,
                None => text.chars().skip(end).all(char::is_whitespace),
            }
        });
        events.truncate(end);
        if !is_whole || !is_answer(&events) {
            return None;
        }
        let message = first_message(&events);
        let is_mended = events.iter().any(|it| matches!(it.kind, EventKind::Notice { .. }));
        if is_mended && !self.holds_words(&message, text) {
            return None;
        }
        longer.push_text("x", &mut more);
        longer.finish(TurnReason::Length, &mut more);
        let thought = |message: &Message| message.reasoning.as_ref().map_or(0, String::len);
        // Reasoning that more text would belong to has no end, and no answer after it.
        let is_open = thought(&first_message(&more)) > thought(&message);
        (!is_open).then_some(message)
    }

    /// Whether each word of a text is in a field of the message, or is one that the format's file has.
    fn holds_words(&self, message: &Message, text: &str) -> bool {
        let calls = message.calls.iter().flat_map(|call| {
            let [name, body] = match &call.body {
                CallBody::Function { name, arguments } => [Some(name), Some(arguments)],
                CallBody::Code { language, source } => [language.as_ref(), Some(source)],
            };
            [name, body, call.id.as_ref()].into_iter().flatten()
        });
        let fields = [&message.content].into_iter().chain(&message.reasoning).chain(calls);
        let fields: Vec<&str> =
            fields.map(String::as_str).chain([self.bound.format().text()]).collect();
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        words.all(|word| fields.iter().any(|field| field.contains(word)))
    }

    /// The ids of a text, in which control tokens are spelled.
    fn spelled_ids(&self, text: &str) -> Vec<TokenId> {
        let vocab = self.bound.vocab();
        let (mut ids, mut at) = (Vec::new(), 0);
        for found in vocab.find_control(text) {
            ids.extend(vocab.encode(&text[at..found.start]));
            ids.push(found.id);
            at = found.end;
        }
        ids.extend(vocab.encode(&text[at..]));
        ids
    }
}

/// Whether events are reasoning, then text, then whole calls, with no notice but of what was mended. Text in another
/// order would be moved.
fn is_answer(events: &[Event]) -> bool {
    let mut reached = 0;
    let mut follows = |place: u8| {
        let follows = reached <= place;
        reached = reached.max(place);
        follows
    };
    events.iter().all(|event| match &event.kind {
        EventKind::Notice { kind, .. } => *kind == NoticeKind::Mended,
        EventKind::ActionEnd { complete, .. } => *complete,
        EventKind::Reasoning(text) => text.trim().is_empty() || follows(0),
        EventKind::Text(text) => text.trim().is_empty() || follows(1),
        EventKind::ActionStart { .. } => follows(2),
        _ => true,
    })
}

/// The text that opens reasoning.
fn opener(bound: &Bound) -> Option<&str> {
    let grammar = bound.grammar();
    let of_text = || grammar.text_opens_reasoning().first().copied();
    let mut answers = grammar.rows.iter().filter(|row| row.role == Role::Assistant);
    let id = answers.find_map(|row| row.rule.reasoning.as_ref()?.open.first());
    id.map(|&id| bound.vocab().spelling(id)).filter(|text| !text.is_empty()).or_else(of_text)
}

/// What a message has in fields of its own.
#[derive(Clone, Copy)]
struct Taken {
    reasoning: bool,
    calls: bool,
}

fn first_message(events: &[Event]) -> Message {
    let mut collector = Collector::default();
    for event in events {
        collector.push(&event.kind);
    }
    let first = collector.into_messages().into_iter().next();
    first.unwrap_or_else(|| Message::new(Role::Assistant, ""))
}

/// Whether a message says this text alone.
fn is_text(message: &Message, text: &str) -> bool {
    message.content == text && message.reasoning.is_none() && message.calls.is_empty()
}

/// A content of text, or of parts that are texts.
fn text_of(content: &Owned) -> Option<String> {
    match content {
        Owned::Text(text) => Some(text.clone()),
        Owned::List(parts) => {
            let text = |part: &Owned| match part.get("type").and_then(Owned::as_str) {
                Some("text") => part.get("text").and_then(Owned::as_str).map(str::to_owned),
                _ => None,
            };
            parts.iter().map(text).collect()
        }
        _ => None,
    }
}

fn quoted(marker: &str) -> String {
    format!("`{}`", chatcodec_vocab::place(marker))
}
