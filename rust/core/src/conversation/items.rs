//! Items of OpenAI's Responses: objects with a `type` and without a role.
//!
//! A response has several items: reasoning, a message, calls. A run of the assistant's items is one
//! turn with the index of the first item, up to a result or a message of another role. A message
//! without a `type` is an item where one of its neighbours is.

use super::media::Within;
use super::read::{Reader, for_each, non_empty};
use crate::error::{Error, MessagePart, Result};
use crate::message::Node;
use crate::message::{Call, CallBody, Message, Role};
use crate::path::Path;

impl Reader<'_> {
    /// Reads an item of one kind; `message` holds the keys that items share with messages.
    pub(super) fn item<N: Node>(
        &mut self,
        kind: &str,
        members: &[(N, N)],
        path: Path<'_>,
        at: usize,
        message: Message,
    ) -> Result<()> {
        match kind {
            "function_call" => {
                let call = self.function_item(members, path)?;
                let message = Message { calls: vec![call], ..Message::new(Role::Assistant, "") };
                self.add_item(message, at, MessagePart::Call(0), path);
                Ok(())
            }
            "function_call_output" => {
                let result = self.output_item(members, path)?;
                if !self.has_results() {
                    let problem = "is a result, which the format has no place for";
                    return self.unsupported(path, "message", problem);
                }
                self.add(result, at, false);
                Ok(())
            }
            "reasoning" => self.reasoning_item(members, path, at, message),
            "message" => Err(Error::message(path.key("role"), "is missing")),
            kind => {
                let known = "a message, \"function_call\", \"function_call_output\", \"reasoning\"";
                let problem = format!("is {kind:?}, expected {known}");
                if self.drops() {
                    self.note(path, "message");
                    return Ok(());
                }
                Err(Error::unsupported(path.key("type"), problem))
            }
        }
    }

    fn function_item<N: Node>(&mut self, members: &[(N, N)], path: Path<'_>) -> Result<Call> {
        let (mut id, mut name, mut arguments) = (None, None, None);
        for_each(members, path, |key, node, value| {
            let path = path.key(key);
            match key {
                "type" | "id" | "status" | "parsed_arguments" => {}
                "call_id" => id = non_empty(value.text(path)?),
                "name" => name = Some(value.text(path)?.to_owned()),
                "arguments" => arguments = Some(self.arguments(node, value, path)?),
                _ => {
                    let known = "`type`, `call_id`, `name`, `arguments`";
                    return self.unknown(path, "a call", known);
                }
            }
            Ok(())
        })?;
        let missing = |key| Error::message(path.key(key), "is missing");
        let name = name.ok_or_else(|| missing("name"))?;
        let arguments = arguments.ok_or_else(|| missing("arguments"))?;
        Ok(Call { id, body: CallBody::Function { name, arguments } })
    }

    fn output_item<N: Node>(&mut self, members: &[(N, N)], path: Path<'_>) -> Result<Message> {
        let mut result = Message::new(Role::Tool, "");
        for_each(members, path, |key, _, value| {
            let path = path.key(key);
            match key {
                "type" | "id" | "status" => {}
                "call_id" => result.call_id = non_empty(value.text(path)?),
                "output" => self.result_content(value, path, Within::Output, &mut result)?,
                _ => return self.unknown(path, "a result", "`type`, `call_id`, `output`"),
            }
            Ok(())
        })?;
        Ok(result)
    }

    /// Reads reasoning, or its summary if the reasoning itself is absent.
    fn reasoning_item<N: Node>(
        &mut self,
        members: &[(N, N)],
        path: Path<'_>,
        at: usize,
        message: Message,
    ) -> Result<()> {
        let mut summary = None;
        for_each(members, path, |key, _, value| {
            let path = path.key(key);
            match key {
                "type" | "id" | "status" | "content" => Ok(()),
                "summary" => {
                    summary = self.reasoning_texts(value, path)?;
                    Ok(())
                }
                "encrypted_content" => {
                    self.unsupported(path, key, "is encrypted, which no format can write")
                }
                _ => self.unknown(path, "reasoning", "`type`, `summary`, `content`"),
            }
        })?;
        if message.has_content() || !message.calls.is_empty() {
            return Err(Error::message(path.key("content"), "holds more than reasoning"));
        }
        let reasoning = message.reasoning.or(summary).filter(|text| !text.is_empty());
        if reasoning.is_some() {
            let message = Message { reasoning, ..Message::new(Role::Assistant, "") };
            self.add_item(message, at, MessagePart::Reasoning, path);
        }
        Ok(())
    }
}
