//! Writer of the calls of a message.

use super::{Key, Renderer, Turn, check_word};
use crate::call::python::names;
use crate::call::{Member, ObjectSpec, Written};
use crate::error::{Error, MessagePart, Result};
use crate::format::{CallBodySpec, CallSpec, ListForm};
use crate::grammar::{Item, List};
use crate::json;
use crate::limits::MAX_WORD_BYTES;
use crate::message::{Call, CallBody};
use crate::pattern::{self, Field, Piece};
use crate::span::{Source, SourceField, SpanKind};

impl<'a> Renderer<'a> {
    pub(super) fn calls(&mut self, calls: &[Call], turn: &Turn<'_>) -> Result<()> {
        let grammar = self.grammar;
        let list = grammar.list.as_ref();
        if let Some(list) = list {
            self.keyed(Key::CallsOpen, |this| this.frame(&list.open, turn));
        }
        for (i, call) in calls.iter().enumerate() {
            if let (Some(list), Some(before)) =
                (list, i.checked_sub(1).and_then(|at| calls.get(at)))
                && self.stands_between(list, before, call, i, turn)?
            {
                self.keyed(Key::CallsBetween, |this| this.frame(&list.between, turn));
            }
            let kind = self.item(call).map_or(0, |(_, item)| item.call);
            self.keyed(Key::Call(kind), |this| this.call(call, i, turn))?;
        }
        if let Some(list) = list {
            self.keyed(Key::CallsClose, |this| this.frame(&list.close, turn));
        }
        Ok(())
    }

    /// The form of a call.
    pub(super) fn item(&self, call: &Call) -> Option<(&'a CallSpec, &'a Item)> {
        let spec = self.format.call_spec(&call.body)?;
        let at = self.format.calls().iter().position(|other| other.kind == spec.kind)?;
        let written = |item: &&Item| item.call == at && item.is_written;
        Some((spec, self.grammar.items.iter().find(written)?))
    }

    /// Whether the text between calls is written before this call; a control token separates calls
    /// itself.
    fn stands_between(
        &self,
        list: &List,
        before: &Call,
        call: &Call,
        i: usize,
        turn: &Turn<'_>,
    ) -> Result<bool> {
        if list.form != ListForm::Joined {
            return Ok(true);
        }
        let is_bare = |call| self.item(call).is_some_and(|(_, item)| item.before.is_some());
        if is_bare(call) && (!is_bare(before) || list.between.is_empty()) {
            let problem = "stands after another call, where nothing would tell that it begins";
            let path = format!("messages[{}].tool_calls[{i}]", turn.index);
            return Err(Error::message(path, problem));
        }
        Ok(is_bare(call))
    }

    fn call(&mut self, call: &Call, i: usize, turn: &Turn<'_>) -> Result<()> {
        let grammar = self.grammar;
        let Some((spec, item)) = self.item(call) else {
            let problem = format!("is of a kind that {} has no place for", self.format.described());
            let path = format!("messages[{}].tool_calls[{i}]", turn.index);
            return Err(turn.unplaced(path, problem, MessagePart::Call(i as u32)));
        };
        if let CallBody::Code { language: Some(_), .. } = &call.body
            && !pattern::walk(&item.rule.pieces)
                .any(|piece| matches!(piece, Piece::Field(Field::Language, _)))
        {
            let problem = format!("has no place in code of {}", self.format.described());
            let path = turn.source(SourceField::Language(i as u32)).to_string();
            return Err(turn.unplaced(path, problem, MessagePart::Language(i as u32)));
        }
        let open = grammar.list.as_ref().filter(|list| list.form == ListForm::Brackets);
        let open = open.map_or(0, |list| list.open.len());
        let number = i as u32;
        for piece in pattern::written(&item.rule.pieces[open..], |field| has(&call.body, field)) {
            match (piece, &call.body) {
                (Piece::Field(Field::Language, _), CallBody::Code { language, .. }) => {
                    let language = language.as_deref().unwrap_or_default();
                    let source = turn.source(SourceField::Language(number));
                    check_word(language, source)?;
                    check_reserved(language, item, source)?;
                    self.slot(language, source);
                }
                (Piece::Field(Field::Source, _), CallBody::Code { source, .. }) => {
                    self.slot(source, turn.source(SourceField::Code(number)));
                }
                (Piece::Field(Field::Name, _), CallBody::Function { name, .. }) => {
                    let source = turn.source(SourceField::FunctionName(number));
                    check_word(name, source)?;
                    check_reserved(name, item, source)?;
                    if item.opening.is_some() && !names::is_name(name) {
                        let problem =
                            format!("is {name:?}, expected one such as `f` or `math.sqrt`");
                        return Err(Error::message(source.to_string(), problem));
                    }
                    self.slot(name, source);
                }
                (Piece::Field(Field::Id, _), _) => {
                    let id = call.id.as_deref().unwrap_or_default();
                    let source = turn.source(SourceField::Id(number));
                    check_word(id, source)?;
                    if let CallBody::Function { name, .. } = &call.body
                        && spec.id.has_name()
                        && spec.id.name(id) != name
                    {
                        let problem =
                            format!("is {name:?}, which the call's id `{id}` cannot hold");
                        let source = turn.source(SourceField::FunctionName(number));
                        return Err(Error::message(source.to_string(), problem));
                    }
                    self.slot(id, source);
                }
                (Piece::Field(Field::Index, _), _) => {
                    let source = turn.source(SourceField::Scaffold);
                    self.push_text(SpanKind::Literal, &(number + 1).to_string(), source);
                }
                (Piece::Field(Field::Arguments, _), CallBody::Function { arguments, .. }) => {
                    let source = turn.source(SourceField::Arguments(number));
                    let problem = |problem| Error::message(source.to_string(), problem);
                    json::check_value(json::trim(arguments)).map_err(problem)?;
                    self.arguments(arguments, item, source)?;
                }
                (Piece::Field(Field::Call, _), CallBody::Function { name, arguments }) => {
                    if let CallBodySpec::Object(object) = &spec.body {
                        check_name(name, turn.source(SourceField::FunctionName(number)))?;
                        let source = turn.source(SourceField::Arguments(number));
                        let problem = |problem| Error::message(source.to_string(), problem);
                        // A single value cannot close the call's object or add to it.
                        json::check_value(json::trim(arguments)).map_err(problem)?;
                        if item.before.is_some() {
                            check_word(name, turn.source(SourceField::FunctionName(number)))?;
                            if !json::trim(arguments).starts_with('{') {
                                let text = "are no JSON object, by which a call is known here";
                                return Err(problem(text.to_owned()));
                            }
                        }
                        let call = Function { name, arguments, id: call.id.as_deref(), number };
                        self.object(object, &call, turn)?;
                    }
                }
                (piece, _) => self.fixed(piece, turn.source(SourceField::Scaffold)),
            }
        }
        Ok(())
    }

    /// The arguments of a call after its header, in the item's shape.
    fn arguments(&mut self, arguments: &str, item: &Item, source: Source) -> Result<()> {
        let Some(shape) = &item.shape else { return Ok(()) };
        let written = shape
            .write(json::trim(arguments), self.vocab)
            .map_err(|problem| Error::message(source.to_string(), problem))?;
        for part in written {
            match part {
                Written::Text(text) => {
                    self.push_text(SpanKind::Literal, &text, source.scaffold());
                }
                Written::Control(id) => {
                    let known = shape.control().iter().copied().find(|known| known.get() == id);
                    if let Some(known) = known {
                        self.control(known, source.scaffold());
                    }
                }
                Written::Value(text) => self.made_slot(&text, source),
                Written::Given => self.json_slot(arguments, source),
            }
        }
        Ok(())
    }

    fn object(&mut self, object: &ObjectSpec, call: &Function<'_>, turn: &Turn<'_>) -> Result<()> {
        let scaffold = turn.source(SourceField::Scaffold);
        let mut open = "{";
        for (member, keys) in &object.members {
            let quote = if *member == Member::Arguments { "" } else { "\"" };
            if object.by_name {
                self.push_text(SpanKind::Literal, "{\"", scaffold);
                let source = turn.source(SourceField::FunctionName(call.number));
                self.slot_as(call.name, source, true);
                self.push_text(SpanKind::Literal, "\": ", scaffold);
            } else {
                let key = keys.first().map_or("", |key| key);
                let before = object.before(*member);
                let text = format!("{open}{before}\"{key}\": {quote}");
                self.push_text(SpanKind::Literal, &text, scaffold);
            }
            open = ", ";
            match member {
                Member::Name => {
                    self.slot_as(
                        call.name,
                        turn.source(SourceField::FunctionName(call.number)),
                        true,
                    );
                }
                Member::Arguments => {
                    let source = turn.source(SourceField::Arguments(call.number));
                    self.json_slot(call.arguments, source);
                }
                Member::Id => {
                    let id = call.id.unwrap_or_default();
                    let source = turn.source(SourceField::Id(call.number));
                    check_word(id, source)?;
                    self.slot(id, source);
                }
            }
            self.push_text(SpanKind::Literal, quote, scaffold);
        }
        self.push_text(SpanKind::Literal, object.close(), scaffold);
        Ok(())
    }
}

/// A function call being written.
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
    id: Option<&'a str>,
    number: u32,
}

fn check_reserved(name: &str, item: &Item, source: Source) -> Result<()> {
    if item.reserved.iter().any(|reserved| reserved.has(name)) {
        let problem = format!("is `{name}`, which means another kind of call here");
        return Err(Error::message(source.to_string(), problem));
    }
    Ok(())
}

/// Whether a call has a value for an optional field.
fn has(body: &CallBody, field: Field) -> bool {
    match field {
        Field::Language => matches!(body, CallBody::Code { language: Some(_), .. }),
        field if field.is_silent() => false,
        _ => true,
    }
}

fn check_name(name: &str, source: Source) -> Result<()> {
    let length: usize = name.chars().map(json::escaped_len).sum();
    if length > MAX_WORD_BYTES {
        let problem = format!("is {length} bytes long, expected at most {MAX_WORD_BYTES}");
        return Err(Error::message(source.to_string(), problem));
    }
    Ok(())
}
