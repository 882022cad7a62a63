//! The form of a conversation after a round trip: the losses of a format and a vocabulary, as a
//! function.

use std::borrow::Cow;

use crate::call::json_arguments;
use crate::conversation;
use crate::encode::EncodeOptions;
use crate::format::{DeclaredTools, Format, SystemPlace, ToolsPlace, ToolsRun, word_as_written};
use crate::grammar::{FixedText, Grammar};
use crate::message::{CallBody, Media, Message, Role, leading_systems};
use crate::pattern::{self, Field, Filter, Piece};
use crate::render::{self, Before};
use chatcodec_vocab::Vocab;

/// The canonical form of messages and tools under encoding options.
pub(crate) fn canonical(
    mut messages: Vec<Message>,
    before: Before,
    tools: Option<&DeclaredTools>,
    options: &EncodeOptions,
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
) -> Vec<Message> {
    conversation::link(&mut messages, format);
    let told = Before { tools: before.tools || tools.is_some(), ..before };
    // The turn of the tools may write the texts of the message that it holds otherwise than the message's own row.
    let held = holder(&messages, format).filter(|_| tools.is_some());
    let held = held.and_then(|at| Some((at, messages[at].clone(), held_filter(format)?)));
    let mut filters = write_only(&mut messages, told, options.thinking, format, grammar, vocab);
    if let Some((at, mut message, filter)) = held {
        message.change_texts(|text| trimmed(text, filter));
        filters[at] = filter;
        messages[at].content = message.content;
        messages[at].media = message.media;
    }
    // Each text is normalised separately, before it becomes part of another text.
    for (message, filter) in messages.iter_mut().zip(filters) {
        message.change_texts(|text| {
            let bare = (filter == Filter::Value).then(|| render::bare_value(text, vocab));
            bare.flatten().unwrap_or_else(|| vocab.normalise(text))
        });
        if let Some(reasoning) = &mut message.reasoning {
            change(reasoning, |text| vocab.normalise(text));
        }
        for call in &mut message.calls {
            match &mut call.body {
                CallBody::Function { name, arguments } => {
                    change(name, |name| vocab.normalise(name));
                    *arguments = arguments_read(arguments, grammar, vocab);
                }
                CallBody::Code { source, .. } => change(source, |source| vocab.normalise(source)),
            }
        }
    }
    let tools = tools.map(|tools| declared_text(tools, format, vocab));
    if format.folds_system() {
        fold_system(&mut messages, format, grammar);
    }
    let is_empty = messages.is_empty() && tools.is_none();
    let has_system = messages.first().is_none_or(|message| message.role == Role::System);
    let mut begun = 0;
    if let Some(begin) =
        format.begin_turn().filter(|_| !is_empty && format.begins(&messages, options.thinking))
    {
        let text = spelled(&begin.inside, format, |field| match field {
            Field::Date => options.date.clone().unwrap_or_default(),
            Field::Effort => {
                let effort = options.effort.as_deref().or_else(|| format.default_effort());
                effort.unwrap_or_default().to_owned()
            }
            Field::Tools => tools.as_ref().map(|_| "tools".to_owned()).unwrap_or_default(),
            _ => String::new(),
        });
        let name = begin.name.clone();
        let at = format.declaring(&messages);
        messages.insert(at, Message { name, ..Message::new(Role::System, text) });
        begun = at + 1;
    }
    // If the turn that declares tools has a pattern without a system message, that pattern is used.
    let is_in_place = tools.is_some() && format.tools_turns().1.is_some();
    let absent = format.absent_system(options.thinking == Some(true) && !before.answer);
    if let Some(text) = absent.filter(|_| !has_system && !is_in_place) {
        messages.insert(begun, Message::new(Role::System, vocab.normalise(text)));
    }
    let absent = format.without_system().filter(|_| !has_system);
    if let Some(absent) =
        absent.filter(|_| tools.is_none() || format.tools_in() != Some(Role::System))
    {
        let turn = absent.turn(tools.is_some());
        let date = options.date.as_deref().unwrap_or_default();
        let text = spelled(&turn.inside, format, |_| date.to_owned());
        let name = turn.name.clone();
        messages.insert(begun, Message { name, ..Message::new(Role::System, text) });
    }
    if let Some(tools) = tools {
        insert_tools(&mut messages, &tools, format);
    }
    fold_results(&mut messages, format);
    for message in &mut messages {
        message.change_texts(|text| vocab.spaced(Cow::Borrowed(text)));
        let texts = message.reasoning.as_mut();
        let of_calls = message.calls.iter_mut().flat_map(|call| match &mut call.body {
            CallBody::Function { name, arguments } => [Some(name), Some(arguments)],
            CallBody::Code { source, .. } => [Some(source), None],
        });
        for text in texts.into_iter().chain(of_calls.flatten()) {
            change(text, |text| vocab.spaced(Cow::Borrowed(text)));
        }
    }
    messages
}

/// The text of the tools as it is read: with their control tokens spelled out.
fn declared_text(tools: &DeclaredTools, format: &Format, vocab: &Vocab) -> String {
    let tokens: Vec<&Piece> = format.declaring_tokens().collect();
    let no_field = |_: Field| String::new();
    tools.runs().iter().fold(String::new(), |mut text, run| {
        match run {
            ToolsRun::Text { text: bytes, .. } => {
                text.push_str(&vocab.normalise(&tools.text()[bytes.clone()]));
            }
            ToolsRun::Token(nth) => {
                text.push_str(&spelled(std::slice::from_ref(tokens[*nth]), format, no_field));
            }
        }
        text
    })
}

/// Replaces a text by its new form.
fn change(text: &mut String, change: impl Fn(&str) -> Cow<'_, str>) {
    if let Cow::Owned(changed) = change(text) {
        *text = changed;
    }
}

/// Reduces the texts of linked messages to the written part; returns the filter of each content.
pub(crate) fn write_only(
    messages: &mut [Message],
    before: Before,
    thinking: Option<bool>,
    format: &Format,
    grammar: &Grammar,
    vocab: &Vocab,
) -> Vec<Filter> {
    let written = render::written(messages, before, thinking, format, grammar, vocab);
    for (message, written) in messages.iter_mut().zip(&written) {
        if let Some(filter) = written.content {
            message.change_texts(|text| trimmed(text, filter));
        } else {
            message.content.clear();
            message.media.clear();
        }
        message.reasoning = message.reasoning.take().and_then(|mut reasoning| {
            let filter = written.reasoning?;
            change(&mut reasoning, |text| trimmed(text, filter));
            Some(reasoning).filter(|reasoning| !reasoning.is_empty())
        });
    }
    written.into_iter().map(|written| written.content.unwrap_or_default()).collect()
}

/// A text as a filter writes it: owned if the filter removed something.
fn trimmed(text: &str, filter: Filter) -> Cow<'_, str> {
    let trimmed = filter.trim(text);
    if trimmed.len() < text.len() { Cow::Owned(trimmed.to_owned()) } else { Cow::Borrowed(text) }
}

/// Arguments after a round trip.
fn arguments_read(arguments: &str, grammar: &Grammar, vocab: &Vocab) -> String {
    match grammar.written_shape() {
        Some(shape) => shape.canonical(arguments, vocab),
        None => json_arguments::canonical(arguments, vocab),
    }
}

/// Joins a system text to the user's turn that holds it: it is read as the user's text.
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
        let mut pieces = pattern::walk(&row.rule.pieces);
        pieces.find(|piece| matches!(piece, Piece::Field(Field::System, _)))?;
        match pieces.next() {
            Some(Piece::Literal(FixedText::Encoded(literal))) => Some(literal.text.clone()),
            _ => Some(String::new()),
        }
    });
    let (own, mut folded) = (messages[user].clone(), messages.remove(0));
    folded.content.push_str(&between.unwrap_or_default());
    folded.push_content(&own.content, &own.media);
    messages[user - 1] = Message { content: folded.content, media: folded.media, ..own };
}

/// The message that the turn of the tools holds.
fn holder(messages: &[Message], format: &Format) -> Option<usize> {
    let is_user = |message: &Message| message.role == Role::User;
    match (format.tools_in(), format.tools_place()) {
        (Some(Role::System), _) => format.first_system(messages),
        (Some(_), Some(ToolsPlace::LastUser)) => messages.iter().rposition(is_user),
        (Some(_), _) => messages.iter().position(is_user),
        (None, _) => None,
    }
}

/// The filter of the message that the turn of the tools holds.
fn held_filter(format: &Format) -> Option<Filter> {
    pattern::walk(&format.tools_turns().0?.inside).find_map(|piece| match piece {
        Piece::Field(Field::Content | Field::System, filter) => Some(*filter),
        _ => None,
    })
}

/// Inserts the system message that the turn of the tools is read as.
fn insert_tools(messages: &mut Vec<Message>, tools: &str, format: &Format) {
    let is_user = |message: &Message| message.role == Role::User;
    let holder = holder(messages, format);
    let held = holder.map(|at| messages[at].clone()).unwrap_or_default();
    let (turn, alone) = format.tools_turns();
    let Some(written) = alone.filter(|_| holder.is_none()).or(turn) else { return };
    let (content, start) = spelled_around(&written.inside, format, &held, |field| match field {
        Field::Tools => tools.to_owned(),
        _ => held.content.clone(),
    });
    if let Some(at) = holder {
        let place = |part: &Media| Media { at: part.at + start, ..*part };
        messages[at].media = held.media.iter().map(place).collect();
        messages[at].content = content;
        if written.name.is_some() {
            messages[at].name.clone_from(&written.name);
        }
        return;
    }
    let mut turn = Message::new(format.tools_in().unwrap_or(Role::System), content);
    turn.name.clone_from(&written.name);
    let at = match format.tools_place() {
        Some(ToolsPlace::AfterSystem) => leading_systems(messages),
        Some(ToolsPlace::FirstUser) => messages.iter().position(is_user).unwrap_or(0),
        Some(ToolsPlace::LastUser) => messages.iter().rposition(is_user).unwrap_or(0),
        Some(ToolsPlace::BeforeBegin) => 0,
        Some(ToolsPlace::First | ToolsPlace::System) | None => {
            usize::from(format.has_begun(messages))
        }
    };
    messages.insert(at, turn);
}

/// The text of a pattern, with its control tokens spelled out. A field is present if the written
/// part of its value is not empty.
fn spelled(pieces: &[Piece], format: &Format, value: impl Fn(Field) -> String) -> String {
    spelled_around(pieces, format, &Message::default(), value).0
}

/// The same of a pattern that holds the content of a message, and the byte at which the content begins.
fn spelled_around(
    pieces: &[Piece],
    format: &Format,
    held: &Message,
    value: impl Fn(Field) -> String,
) -> (String, usize) {
    let filters: Vec<(Field, Filter)> = pattern::walk(pieces)
        .filter_map(|piece| match piece {
            Piece::Field(field, filter) => Some((*field, *filter)),
            _ => None,
        })
        .collect();
    let is_present = |field: Field| {
        if !held.media.is_empty() && matches!(field, Field::Content | Field::System) {
            return true;
        }
        let filter = filters.iter().find(|(known, _)| *known == field);
        !filter.map_or(Filter::None, |(_, filter)| *filter).trim(&value(field)).is_empty()
    };
    let (mut text, mut start) = (String::new(), 0);
    for piece in pattern::written(pieces, is_present) {
        match piece {
            Piece::Literal(literal) => text.push_str(literal),
            Piece::Control(names) => {
                let name = names.first();
                let spelling = name.and_then(|name| format.written_spelling(name));
                text.push_str(spelling.as_deref().unwrap_or_default());
            }
            &Piece::Field(field, filter) => {
                if matches!(field, Field::Content | Field::System) {
                    start = text.len();
                }
                let value = value(field);
                let value = word_as_written(&value, filter);
                text.push_str(if held.media.is_empty() { filter.trim(&value) } else { &value });
            }
            Piece::Optional { .. } | Piece::Space | Piece::Cut | Piece::Rest => {}
        }
    }
    (text, start)
}

/// Results that are read as the text of a turn.
fn fold_results(messages: &mut Vec<Message>, format: &Format) {
    let Some(results) = format.results() else { return };
    let Some(folded) = &results.folded else { return };
    let item = format.rows().iter().find(|row| row.role == Role::Tool);
    let item = item.map_or(&[][..], |row| &row.pieces);
    let no_field = |_: Field| String::new();
    let after = spelled(&folded.after, format, no_field);
    let mut kept: Vec<Message> = Vec::with_capacity(messages.len());
    let mut goes_on = false;
    let end = |kept: &mut Vec<Message>, goes_on| {
        if let Some(last) = kept.last_mut().filter(|_| goes_on) {
            last.content.push_str(&after);
        }
    };
    for message in std::mem::take(messages) {
        if message.role != Role::Tool {
            end(&mut kept, std::mem::take(&mut goes_on));
            kept.push(message);
            continue;
        }
        // Loading has checked that it contains nothing else.
        let (text, start) = spelled_around(item, format, &message, |_| message.content.clone());
        let media: Vec<Media> =
            message.media.iter().map(|part| Media { at: part.at + start, ..*part }).collect();
        if let Some(last) = kept.last_mut().filter(|_| goes_on) {
            last.content.push_str(&spelled(&results.between, format, no_field));
            last.push_content(&text, &media);
        } else {
            let before = spelled(&folded.before, format, no_field);
            let mut turn = Message::new(folded.role, before);
            turn.push_content(&text, &media);
            kept.push(turn);
        }
        goes_on = true;
    }
    end(&mut kept, goes_on);
    *messages = kept;
    if folded.role == Role::Tool {
        conversation::link(messages, format);
    }
}
