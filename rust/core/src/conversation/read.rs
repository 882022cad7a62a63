//! Reader of a caller's value as messages.
//!
//! In: any value. Out: messages, or an error with the path of the invalid part. Messages are dicts as
//! OpenAI's and Anthropic's clients send them. Keys for the server alone (`cache_control`) are ignored; keys
//! that no format can write (`annotations`) are listed as dropped.

use super::{Conversation, Dropped, OnUnknown, OnUnsupported, ReadOptions};
use crate::error::{Error, MessagePart, Result};
use crate::format::Format;
use crate::json;
use crate::message::{Call, CallBody, Message, OnArguments, Role};
use crate::message::{Node, View};
use crate::path::Path;

/// The keys of a message that are written, for errors.
const KEYS: &str = "`role`, `content`, `name`, `tool_calls`, `tool_call_id`, `reasoning`, \
                    `reasoning_content`";

/// Keys of a response that is sent back as a message; a model does not see them. They are accepted
/// together with `type`.
const OF_RESPONSES: &[&str] = &[
    "id",
    "status",
    "phase",
    "model",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "usage",
    "container",
    "context_management",
    "diagnostics",
];

/// Reads and checks a conversation.
pub(crate) fn read<N: Node>(
    messages: &N,
    format: &Format,
    options: ReadOptions,
) -> Result<Conversation> {
    let path = Path::Argument("messages");
    let nodes = match messages.view() {
        View::List(nodes) => nodes,
        View::Map(members) => return Err(no_list(&members, path)),
        other => return Err(Error::message(path, other.expected("a list"))),
    };
    let mut reader = Reader::new(format, options, nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        reader.message(node, path.item(i), i)?;
    }
    Ok(reader.read)
}

/// The error text for a dict in place of messages.
fn no_list<N: Node>(members: &[(N, N)], path: Path<'_>) -> Error {
    let has = |wanted: &str| {
        members.iter().any(|(key, _)| matches!(key.view(), View::Text(key) if key == wanted))
    };
    let instead = if has("conversations") {
        SHAREGPT
    } else if has("messages") {
        "; its `messages` are what is expected here"
    } else {
        ""
    };
    Error::message(path, format!("is a dict, expected a list{instead}"))
}

/// The functions that take rows of other schemas.
const SHAREGPT: &str = "; `chatcodec.rows.from_sharegpt` reads rows of ShareGPT";

/// Reads messages, one after another.
pub(super) struct Reader<'a> {
    pub(super) format: &'a Format,
    options: ReadOptions,
    pub(super) read: Conversation,
    /// Whether the last message has an item of Responses, which later items continue.
    has_item: bool,
}

/// A message whose keys are being read.
#[derive(Default)]
pub(super) struct Draft {
    role: Option<Role>,
    /// Whether the message is left out because the format lacks its role.
    is_dropped: bool,
    pub(super) message: Message,
    /// The rare parts of a message; boxed, because most messages have none.
    more: Option<Box<More>>,
}

/// The rare parts of a message.
#[derive(Default)]
pub(super) struct More {
    /// Results inside a user's message.
    pub(super) results: Vec<Message>,
    refusal: Option<String>,
    function_call: Option<Call>,
    /// Paths of parts that are not under their own keys.
    pub(super) places: Vec<(MessagePart, String)>,
    /// The value of `type`.
    kind: Option<String>,
    /// The unknown keys of a message.
    odd: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(format: &'a Format, options: ReadOptions, messages: usize) -> Self {
        let read = Conversation {
            messages: Vec::with_capacity(messages),
            given: messages,
            ..Conversation::default()
        };
        Self { format, options, read, has_item: false }
    }

    /// Reads a message, or an item in place of one.
    fn message<N: Node>(&mut self, node: &N, path: Path<'_>, at: usize) -> Result<()> {
        let dropped = self.read.dropped.len();
        let members = members_of(node, path)?;
        let mut draft = Draft::default();
        for_each(&members, path, |key, node, value| self.key(key, node, value, path, &mut draft))?;
        if draft.role.is_none()
            && !draft.is_dropped
            && let Some(kind) = draft.take_kind()
        {
            return self.item(&kind, &members, path, at, draft.message);
        }
        if draft.is_dropped {
            self.read.dropped.truncate(dropped);
            self.read.dropped.push(Dropped::new(path, "message"));
            return Ok(());
        }
        let Draft { role, mut message, more, .. } = draft;
        if role == Some(Role::Assistant) && !message.media.is_empty() {
            self.media_of_assistant(&mut message, at)?;
        }
        let missing = || Error::message(path.key("role"), "is missing");
        let Some(more) = more else {
            message.role = role.ok_or_else(missing)?;
            self.add(message, at, false);
            return Ok(());
        };
        self.odd_keys(&message, &more, &members, path)?;
        message.role = role.ok_or_else(missing)?;
        self.whole(message, *more, path, at)
    }

    fn key<N: Node>(
        &mut self,
        key: &str,
        node: &N,
        value: View<'_, N>,
        message: Path<'_>,
        draft: &mut Draft,
    ) -> Result<()> {
        let path = message.key(key);
        match key {
            "role" => match self.role(value, path)? {
                Some(role) => draft.role = Some(role),
                None => draft.is_dropped = true,
            },
            "content" => self.content(value, path, draft)?,
            "name" => draft.message.name = non_empty(value.text(path)?),
            "tool_calls" => {
                for (i, call) in value.list(path)?.iter().enumerate() {
                    let call = self.call(call, path.item(i))?;
                    draft.message.calls.push(call);
                }
            }
            "tool_call_id" => draft.message.call_id = non_empty(value.text(path)?),
            "reasoning" | "reasoning_content" => {
                let text = non_empty(value.text(path)?);
                let known = &mut draft.message.reasoning;
                if text.is_some() && known.is_some() && text != *known {
                    let problem = "differs from the message's other key for reasoning";
                    return Err(Error::message(path, problem));
                }
                *known = text.or(known.take());
                if self.drops() {
                    draft.more().places.push((MessagePart::Reasoning, path.into()));
                }
            }
            "refusal" => {
                draft.more().refusal = non_empty(value.text(path)?);
                if self.drops() {
                    draft.more().places.push((MessagePart::Content, path.into()));
                    draft.more().places.push((MessagePart::Content, message.key("content").into()));
                }
            }
            "function_call" => {
                let body = self.function(node, path)?;
                draft.more().function_call = Some(Call { id: None, body });
                if self.drops() {
                    draft.more().places.push((MessagePart::Call(0), path.into()));
                }
            }
            "audio" => {
                self.unsupported(path, "audio", "is audio, expected text: its transcript")?;
            }
            "annotations" => self.note(path, key),
            "type" => draft.more().kind = Some(value.text(path)?.to_owned()),
            // Keys for the server, and keys that a client derived from the text.
            "cache_control" | "parsed" => {}
            _ => draft.more().odd.push(key.to_owned()),
        }
        Ok(())
    }

    /// Refuses or lists the keys that no client sends.
    fn odd_keys<N: Node>(
        &mut self,
        message: &Message,
        more: &More,
        members: &[(N, N)],
        path: Path<'_>,
    ) -> Result<()> {
        let kind = more.kind.as_deref();
        if let Some(kind) = kind.filter(|kind| *kind != "message") {
            let problem = format!("is {kind:?}, expected \"message\" beside `role`");
            return Err(Error::message(path.key("type"), problem));
        }
        let mut unknown = None;
        for key in &more.odd {
            if kind.is_some() && OF_RESPONSES.contains(&&**key) {
                continue;
            }
            let path = path.key(key);
            if matches!(&**key, "from" | "value") {
                let problem =
                    format!("is not a key of a message, expected one of {KEYS}{SHAREGPT}");
                return Err(Error::message(path, problem));
            }
            self.unknown(path, "a message", KEYS)?;
            unknown.get_or_insert(key);
        }
        // In an empty message, an ignored key may have been the text.
        let is_key = |key: &N| match key.view() {
            View::Text(key) => {
                matches!(key, "content" | "tool_calls" | "refusal" | "function_call")
            }
            _ => false,
        };
        match unknown {
            Some(key) if more.is_empty(message) && !members.iter().any(|(key, _)| is_key(key)) => {
                Err(unknown_key(path.key(key), "a message, which has no `content`", KEYS))
            }
            _ => Ok(()),
        }
    }

    /// Adds a message after all its keys, with its rare parts.
    fn whole(&mut self, mut message: Message, more: More, path: Path<'_>, at: usize) -> Result<()> {
        let More { results, refusal, function_call, kind, places, .. } = more;
        match refusal {
            Some(refusal) if !message.has_content() => message.content = refusal,
            Some(refusal) if refusal != message.content => {
                let problem = "is given together with `content`, expected only one of them";
                return Err(Error::message(path.key("refusal"), problem));
            }
            _ => {}
        }
        if let Some(call) = function_call {
            if !message.calls.is_empty() {
                let problem = "is given together with `tool_calls`, expected only one of them";
                return Err(Error::message(path.key("function_call"), problem));
            }
            message.calls.push(call);
        }
        let is_typed = kind.is_some() && message.role == Role::Assistant;
        if results.is_empty() {
            let calls = self.add(message, at, is_typed);
            self.read.place(places, calls);
            return Ok(());
        }
        if message.role != Role::User {
            let role = message.role.name();
            let problem = format!("holds results in a message of `{role}`, expected `user`");
            return Err(Error::message(path.key("content"), problem));
        }
        for result in results {
            self.add(result, at, false);
        }
        if message != Message::default() {
            self.add(message, at, false);
        }
        Ok(())
    }

    /// Adds a message, or continues the last one: a run of the assistant's items is one turn. Returns the
    /// number of calls before its own.
    ///
    /// Two messages of chat completions have no item among them, and are two turns.
    pub(super) fn add(&mut self, message: Message, at: usize, is_item: bool) -> u32 {
        let has_item = self.has_item || is_item;
        let last = self.read.messages.last_mut().filter(|last| has_item && joins(last, &message));
        let Some(last) = last else {
            self.has_item = is_item;
            self.read.push(message, at);
            return 0;
        };
        self.has_item = true;
        let calls = last.calls.len();
        if let Some(reasoning) = message.reasoning {
            last.reasoning.get_or_insert_default().push_str(&reasoning);
        }
        last.push_content(&message.content, &message.media);
        last.calls.extend(message.calls);
        last.name = last.name.take().or(message.name);
        calls as u32
    }

    /// Adds an item with one part; its path is that of the part.
    pub(super) fn add_item(
        &mut self,
        message: Message,
        at: usize,
        part: MessagePart,
        path: Path<'_>,
    ) {
        let calls = self.add(message, at, true);
        if self.drops() {
            self.read.place(vec![(part, path.into())], calls);
        }
    }

    fn role<N>(&self, value: View<'_, N>, path: Path<'_>) -> Result<Option<Role>> {
        let word = value.text(path)?;
        if let Some(role) = self.format.role(word) {
            return Ok(Some(role));
        }
        let is_known = Role::parse(word).is_some();
        if is_known && self.drops() {
            return Ok(None);
        }
        let known = self.format.role_names().join("`, `");
        let without = self.format.lacking();
        let problem = format!("is {word:?}, expected one of `{known}`{without}");
        Err(if is_known {
            Error::unsupported(path, problem)
        } else {
            Error::message(path, problem)
        })
    }

    fn call<N: Node>(&mut self, node: &N, path: Path<'_>) -> Result<Call> {
        let mut id = None;
        let mut body = None;
        let mut kind = None;
        for_each(&members_of(node, path)?, path, |key, node, value| {
            let path = path.key(key);
            match key {
                "id" => id = non_empty(value.text(path)?),
                "type" => kind = Some(value.text(path)?.to_owned()),
                "function" | "code" if body.is_some() => {
                    return Err(Error::message(
                        path,
                        "is a second body, expected only one of `function` and `code`",
                    ));
                }
                "function" => body = Some(("function", self.function(node, path)?)),
                "code" => body = Some(("code", self.code(node, path)?)),
                // The index of a call in a stream's deltas.
                "index" | "cache_control" => {}
                _ => return self.unknown(path, "a call", "`id`, `type`, `function`, `code`"),
            }
            Ok(())
        })?;
        let (found, body) =
            body.ok_or_else(|| Error::message(path, "has no body, expected `function` or `code`"))?;
        if let Some(kind) = kind
            && kind != found
        {
            let problem = format!("is {kind:?}, expected \"{found}\" beside `{found}`");
            return Err(Error::message(path.key("type"), problem));
        }
        Ok(Call { id, body })
    }

    fn function<N: Node>(&mut self, node: &N, path: Path<'_>) -> Result<CallBody> {
        let (mut name, mut arguments) = (None, None);
        for_each(&members_of(node, path)?, path, |key, node, value| {
            let path = path.key(key);
            match key {
                "name" => name = Some(value.text(path)?.to_owned()),
                "arguments" => arguments = Some(self.arguments(node, value, path)?),
                "parsed_arguments" => {}
                _ => return self.unknown(path, "a function call", "`name`, `arguments`"),
            }
            Ok(())
        })?;
        let missing = |key| Error::message(path.key(key), "is missing");
        let name = name.ok_or_else(|| missing("name"))?;
        let arguments = arguments.ok_or_else(|| missing("arguments"))?;
        Ok(CallBody::Function { name, arguments })
    }

    pub(super) fn arguments<N: Node>(
        &self,
        node: &N,
        value: View<'_, N>,
        path: Path<'_>,
    ) -> Result<String> {
        if matches!(value, View::Map(_)) {
            let mut text = String::new();
            json::write(node, path, &mut text)?;
            return Ok(text);
        }
        let text = value.text_or(path, "a string or a dict")?;
        // Clients write a call without arguments so; `collect` reads one as `{}`.
        if json::trim(text).is_empty() {
            return Ok("{}".to_owned());
        }
        let Err(problem) = json::check_value(json::trim(text)) else { return Ok(text.to_owned()) };
        match self.options.on_arguments {
            OnArguments::Error => Err(Error::message(path, problem)),
            OnArguments::String => {
                let mut quoted = String::with_capacity(text.len() + 2);
                quoted.push('"');
                json::escape_into(text, &mut quoted);
                quoted.push('"');
                Ok(quoted)
            }
        }
    }

    fn code<N: Node>(&mut self, node: &N, path: Path<'_>) -> Result<CallBody> {
        let (mut language, mut source) = (None, None);
        for_each(&members_of(node, path)?, path, |key, _, value| {
            let path = path.key(key);
            match key {
                "language" => language = non_empty(value.text(path)?),
                "source" => source = Some(value.text(path)?.to_owned()),
                _ => return self.unknown(path, "a code call", "`language`, `source`"),
            }
            Ok(())
        })?;
        let source = source.ok_or_else(|| Error::message(path.key("source"), "is missing"))?;
        Ok(CallBody::Code { language, source })
    }

    /// Handles an unknown key.
    pub(super) fn unknown(&mut self, path: Path<'_>, of: &str, known: &str) -> Result<()> {
        match self.options.on_unknown {
            OnUnknown::Error => Err(unknown_key(path, of, known).or_ignore()),
            OnUnknown::Ignore => {
                self.read.dropped.push(Dropped::new(path, "unknown"));
                Ok(())
            }
        }
    }

    /// Whether parts that no format writes are left out.
    pub(super) fn drops(&self) -> bool {
        self.options.on_unsupported == OnUnsupported::Drop
    }

    /// Whether the format has a place for results.
    pub(super) fn has_results(&self) -> bool {
        self.format.role("tool").is_some()
    }

    /// Handles a part that no format writes.
    pub(super) fn unsupported(&mut self, path: Path<'_>, what: &str, problem: &str) -> Result<()> {
        match self.options.on_unsupported {
            OnUnsupported::Error => Err(Error::unsupported(path, problem)),
            OnUnsupported::Drop => {
                self.note(path, what);
                Ok(())
            }
        }
    }

    /// Lists a part that is always left out: it describes a text, and no template writes it.
    pub(super) fn note(&mut self, path: Path<'_>, what: &str) {
        self.read.dropped.push(Dropped::new(path, what));
    }
}

impl Draft {
    /// The rare parts of a message.
    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    fn take_kind(&mut self) -> Option<String> {
        self.more.as_mut()?.kind.take()
    }

    /// Whether the message contains results.
    pub(super) fn has_results(&self) -> bool {
        self.more.as_ref().is_some_and(|more| !more.results.is_empty())
    }
}

impl More {
    /// Whether the message has no text, here or in its other parts.
    fn is_empty(&self, message: &Message) -> bool {
        let Self { results, refusal, function_call, .. } = self;
        !message.has_content()
            && message.reasoning.is_none()
            && message.calls.is_empty()
            && results.is_empty()
            && refusal.is_none()
            && function_call.is_none()
    }
}

/// Whether a message continues the last one: both are the assistant's, and of one name.
fn joins(last: &Message, next: &Message) -> bool {
    let is_same = last.name.is_none() || next.name.is_none() || last.name == next.name;
    last.role == Role::Assistant && next.role == Role::Assistant && is_same
}

/// A value and its key.
type Members<N> = Vec<(N, N)>;

/// The members of a dict.
pub(super) fn members_of<N: Node>(node: &N, path: Path<'_>) -> Result<Members<N>> {
    match node.view() {
        View::Map(members) => Ok(members),
        other => Err(Error::message(path, other.expected("a dict"))),
    }
}

/// Calls `each` for every member that is not absent.
pub(super) fn for_each<N: Node>(
    members: &[(N, N)],
    path: Path<'_>,
    mut each: impl FnMut(&str, &N, View<'_, N>) -> Result<()>,
) -> Result<()> {
    for (key, value) in members {
        let Some(key) = key.as_text() else {
            return Err(Error::message(path, "has a key that is not a string"));
        };
        let view = value.view();
        if !view.is_absent() {
            each(key, value, view)?;
        }
    }
    Ok(())
}

pub(super) fn unknown_key(path: Path<'_>, of: &str, known: &str) -> Error {
    // The key is the caller's: it may hold anything.
    Error::message(
        path.to_string().escape_debug().to_string(),
        format!("is not a key of {of}, expected one of {known}"),
    )
}

pub(super) fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
