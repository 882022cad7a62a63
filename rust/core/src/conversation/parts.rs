//! Content of a message: text, or the parts that clients send.
//!
//! Texts are joined first, so that no spelling can hide between two of them. Anthropic's blocks
//! become the fields that OpenAI's messages have: `thinking`, `tool_use`, `tool_result`.

use super::media::Within;
use super::read::{Draft, Reader, for_each, members_of, non_empty};
use crate::error::{Error, MessagePart, Result};
use crate::message::{Call, CallBody, MediaKind, Message, Role};
use crate::message::{Node, View};
use crate::path::Path;

const EXPECTED: &str = "a string or a list of text parts";

impl Reader<'_> {
    /// Reads content into the message.
    pub(super) fn content<N: Node>(
        &mut self,
        value: View<'_, N>,
        path: Path<'_>,
        draft: &mut Draft,
    ) -> Result<()> {
        let View::List(parts) = value else {
            value.text_or(path, EXPECTED)?.clone_into(&mut draft.message.content);
            return Ok(());
        };
        for (i, part) in parts.iter().enumerate() {
            self.part(part, path.item(i), i, draft)?;
        }
        Ok(())
    }

    fn part<N: Node>(
        &mut self,
        part: &N,
        path: Path<'_>,
        nth: usize,
        draft: &mut Draft,
    ) -> Result<()> {
        let members = members_of(part, path)?;
        let kind = kind_of(&members, path)?;
        match kind.as_deref().unwrap_or("text") {
            "text" | "input_text" | "output_text" => {
                let text = self.text_part(&members, "text", path)?;
                draft.message.content.push_str(&text);
                if self.drops() {
                    draft.more().places.push((MessagePart::Content, path.into()));
                }
            }
            "refusal" => {
                let text = self.text_part(&members, "refusal", path)?;
                draft.message.content.push_str(&text);
            }
            kind @ ("thinking" | "reasoning" | "reasoning_text" | "summary_text") => {
                let key = if kind == "thinking" { kind } else { "text" };
                let text = self.text_part(&members, key, path)?;
                draft.message.reasoning.get_or_insert_default().push_str(&text);
                if self.drops() {
                    draft.more().places.push((MessagePart::Reasoning, path.into()));
                }
            }
            "tool_use" => {
                if self.drops() {
                    let call = MessagePart::Call(draft.message.calls.len() as u32);
                    draft.more().places.push((call, path.into()));
                }
                draft.message.calls.push(self.tool_use(&members, path)?);
            }
            "tool_result" if self.has_results() => {
                draft.more().results.push(self.tool_result(&members, path, nth)?);
            }
            "tool_result" => {
                let problem = "is a result, which the format has no place for";
                self.unsupported(path, "tool_result", problem)?;
            }
            kind => {
                let media = MediaKind::of_part(kind);
                if let Some(media) = media
                    && self.format.media_spec(media).is_some()
                {
                    let media =
                        self.media(media, &members, path, nth, draft.message.content.len())?;
                    draft.message.media.push(media);
                    return Ok(());
                }
                let lacking = media.map(|media| self.format.lacking_media(media));
                let lacking = lacking.unwrap_or_default();
                let problem = format!("is {kind:?}, expected \"text\"{lacking}");
                if self.drops() {
                    self.note(path, kind);
                } else {
                    return Err(Error::unsupported(path.key("type"), problem));
                }
            }
        }
        Ok(())
    }

    /// Reads the text of a part, or of the parts inside it.
    fn text_part<N: Node>(
        &mut self,
        members: &[(N, N)],
        wanted: &str,
        path: Path<'_>,
    ) -> Result<String> {
        let mut text = None;
        for_each(members, path, |key, _, value| {
            let path = path.key(key);
            match key {
                "type" | "cache_control" | "signature" | "closed" | "logprobs" | "id" => {}
                "annotations" | "citations" => self.note(path, key),
                "thinking" if key == wanted => text = Some(self.texts(value, path)?),
                _ if key == wanted => text = Some(value.text(path)?.to_owned()),
                _ => return self.unknown(path, "a text part", &format!("`type`, `{wanted}`")),
            }
            Ok(())
        })?;
        // An empty list counts as absent.
        text.ok_or_else(|| Error::message(path.key(wanted), "is missing"))
    }

    /// Reads text, or a list of text parts.
    fn texts<N: Node>(&mut self, value: View<'_, N>, path: Path<'_>) -> Result<String> {
        let message = self.text_and_media(value, path)?;
        if !message.media.is_empty() {
            return Err(Error::message(path, "holds more than text, expected text parts"));
        }
        Ok(message.content)
    }

    /// Reads the content of a result: text, or a list of text and other parts.
    pub(super) fn result_content<N: Node>(
        &mut self,
        value: View<'_, N>,
        path: Path<'_>,
        within: Within,
        result: &mut Message,
    ) -> Result<()> {
        let read = self.text_and_media(value, path)?;
        (result.content, result.media) = (read.content, read.media);
        result.media.iter_mut().for_each(|media| within.place(media));
        Ok(())
    }

    /// Reads text, or a list of text and of parts that have placeholders.
    fn text_and_media<N: Node>(&mut self, value: View<'_, N>, path: Path<'_>) -> Result<Message> {
        let mut draft = Draft::default();
        self.content(value, path, &mut draft)?;
        let mut plain = Message::new(Role::User, draft.message.content.as_str());
        plain.media.clone_from(&draft.message.media);
        if plain != draft.message || draft.has_results() {
            return Err(Error::message(path, "holds more than text, expected text parts"));
        }
        Ok(draft.message)
    }

    /// Reads reasoning: text, or a list of parts.
    pub(super) fn reasoning_texts<N: Node>(
        &mut self,
        value: View<'_, N>,
        path: Path<'_>,
    ) -> Result<Option<String>> {
        let mut draft = Draft::default();
        self.content(value, path, &mut draft)?;
        Ok(draft.message.reasoning.or_else(|| non_empty(&draft.message.content)))
    }

    fn tool_use<N: Node>(&mut self, members: &[(N, N)], path: Path<'_>) -> Result<Call> {
        let (mut id, mut name, mut arguments) = (None, None, None);
        for_each(members, path, |key, node, value| {
            let path = path.key(key);
            match key {
                "type" | "cache_control" | "caller" => {}
                "id" => id = non_empty(value.text(path)?),
                "name" => name = Some(value.text(path)?.to_owned()),
                "input" => arguments = Some(self.arguments(node, value, path)?),
                _ => return self.unknown(path, "a call", "`type`, `id`, `name`, `input`"),
            }
            Ok(())
        })?;
        let name = name.ok_or_else(|| Error::message(path.key("name"), "is missing"))?;
        let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
        Ok(Call { id, body: CallBody::Function { name, arguments } })
    }

    fn tool_result<N: Node>(
        &mut self,
        members: &[(N, N)],
        path: Path<'_>,
        nth: usize,
    ) -> Result<Message> {
        let mut result = Message::new(Role::Tool, "");
        for_each(members, path, |key, _, value| {
            let path = path.key(key);
            match key {
                "type" | "cache_control" => {}
                "tool_use_id" => result.call_id = non_empty(value.text(path)?),
                "content" => {
                    let within = Within::Part(nth as u32);
                    self.result_content(value, path, within, &mut result)?;
                }
                "is_error" if matches!(value, View::Bool(false)) => {}
                "is_error" => self.note(path, key),
                _ => {
                    let known = "`type`, `tool_use_id`, `content`, `is_error`";
                    return self.unknown(path, "a result", known);
                }
            }
            Ok(())
        })?;
        Ok(result)
    }
}

/// The `type` of a part.
fn kind_of<N: Node>(members: &[(N, N)], path: Path<'_>) -> Result<Option<String>> {
    for (key, value) in members {
        if matches!(key.view(), View::Text("type")) && !value.view().is_absent() {
            return value.view().text(path.key("type")).map(|kind| Some(kind.to_owned()));
        }
    }
    Ok(None)
}
