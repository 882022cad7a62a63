//! The language of an assistant's answer, from the patterns that write it.

use std::sync::Arc;

use serde_json::Value;

use super::ConstrainOptions;
use super::answer::Answer;
use super::choice::ToolChoice;
use super::prompt::{self, Opened};
use super::tools::{Tool, Tools};
use crate::bound::Bound;
use crate::call::python::names;
use crate::call::{Member, ObjectSpec, Prefix};
use crate::error::{Error, Result};
use crate::expression::{Expression, Part, Rules, escape_regex, shortest};
use crate::format::{BareCalls, CallBodySpec, CallSpec, IdForm, ListForm, RowUse};
use crate::grammar::{BoundPiece, FixedText, Grammar, Item, Row};
use crate::message::Role;
use crate::path::Path;
use crate::pattern::{Field, Piece, walk};
use chatcodec_vocab::{DummyPrefix, TokenId};

fn is_content(piece: &BoundPiece) -> bool {
    matches!(piece, Piece::Field(Field::Content, _))
}

/// Text that holds one of these, if there are some.
fn spelling(texts: &[&str]) -> Option<String> {
    let texts = shortest(texts.iter().map(|text| escape_regex(text)).collect());
    (!texts.is_empty()).then(|| format!(".*({}).*", texts.join("|")))
}

/// What a field of a pattern holds.
enum Hole {
    /// Nothing.
    Absent,
    /// Always this language.
    Filled(Expression),
    /// This language, or nothing.
    Maybe(Expression),
}

/// The language of the completions of a prompt, and what its parts share.
pub(super) fn build(
    bound: &Bound,
    tools: &Tools,
    choice: &ToolChoice,
    answer: Option<&Answer>,
    options: ConstrainOptions,
    opened: &Opened,
) -> Result<(Expression, Vec<Expression>)> {
    let ends = bound.grammar().text_ends_of_calls().into_iter().map(str::to_owned);
    let mut rules = Rules::ending_at(ends.collect());
    let builder = Builder { bound, grammar: bound.grammar(), tools, choice, answer, options };
    builder.check_answer()?;
    let calls = if tools.is_empty() { None } else { Some(builder.calls(&mut rules)?) };
    rules.put_tags(bound.vocab());
    let mut start = None;
    for way in &opened.ways {
        if let Some(turn) = builder.turn(calls.as_ref(), way.is_after_tool)? {
            start = prompt::rest_of(turn, way, &rules)?;
        }
        if start.is_some() {
            break;
        }
    }
    let start = start.ok_or_else(|| builder.nothing())?;
    Ok((start, rules.into_vec()))
}

struct Builder<'a> {
    bound: &'a Bound,
    grammar: &'a Grammar,
    tools: &'a Tools,
    choice: &'a ToolChoice,
    answer: Option<&'a Answer>,
    options: ConstrainOptions,
}

impl Builder<'_> {
    /// The error for options that leave nothing to generate.
    fn nothing(&self) -> Error {
        let format = self.bound.format().described();
        let problem = match self.options.reasoning {
            Some(true) => {
                format!("is True, but no answer after this prompt has reasoning in {format}")
            }
            Some(false) => {
                format!("is False, but every answer after this prompt has reasoning in {format}")
            }
            None => {
                let problem = format!(
                    "is not the beginning of an allowed answer in {format}, expected a generation prompt, or text or \
                     reasoning after one"
                );
                return Error::message("prompt", problem);
            }
        };
        Error::message("reasoning", problem)
    }

    /// Checks that no answer in JSON is read as a call.
    fn check_answer(&self) -> Result<()> {
        let Some(answer) = self.answer else { return Ok(()) };
        let mut rows = self.grammar.rows.iter().filter(|row| row.role == Role::Assistant);
        if rows.any(|row| row.rule.texts.iter().any(|text| !text.closer.stops.is_empty())) {
            let format = self.bound.format().described();
            let problem =
                format!("has no place in {format}: strings may spell the text that ends an answer");
            return Err(Error::message("response_format", problem));
        }
        let bare_calls = self.bound.format().bare_calls();
        let is_object = |opening: &Prefix| opening.first() == Some(b'{');
        let mut openings = self.grammar.bare.iter().map(|bare| &bare.opening);
        let items = self.grammar.bare_items().map(|item| &self.grammar.items[item]);
        let may_be_call = items.filter_map(|item| item.opening.as_ref()).any(is_object)
            || bare_calls != BareCalls::Text && openings.any(is_object);
        if !may_be_call || (bare_calls != BareCalls::Anywhere && answer.is_no_call()) {
            return Ok(());
        }
        let format = self.bound.format().described();
        let problem = format!(
            "allows JSON that {format} reads as a call, expected a schema of an object without \
             `additionalProperties` whose properties are not `name`, `type` or `function`"
        );
        Err(Error::message("response_format", problem))
    }

    /// The language of an assistant's message with its header, or of the one after a result.
    fn turn(&self, calls: Option<&Expression>, is_after_tool: bool) -> Result<Option<Expression>> {
        let mut frames = Vec::new();
        let mut thoughts = Vec::new();
        let mut answers = Vec::new();
        for row in &self.grammar.rows {
            let is_own = row.place.is_after_tool() == is_after_tool;
            if row.role != Role::Assistant || row.name.is_some() || !is_own {
                continue;
            }
            match row.place {
                // Text of a frame would be a part of the answer, which is JSON.
                RowUse::Frame(Field::Content) if self.answer.is_some() => {}
                RowUse::Frame(field) => {
                    // The first pattern of a frame is the one that is written.
                    let all = if field == Field::Reasoning { &mut thoughts } else { &mut frames };
                    if all.is_empty() {
                        all.extend(self.row(row, calls, true)?);
                    }
                }
                RowUse::Both
                | RowUse::Written
                | RowUse::WrittenLast
                | RowUse::AfterTool
                | RowUse::WrittenAfterTool => {
                    if self.answer.is_some() && calls.is_some() {
                        // Either JSON or calls.
                        if !self.choice.is_required() {
                            answers.extend(self.row(row, None, true)?);
                        }
                        if has_field(row, Field::Calls) {
                            answers.extend(self.row(row, calls, false)?);
                        }
                    } else {
                        answers.extend(self.row(row, calls, true)?);
                    }
                }
                RowUse::Read | RowUse::Last | RowUse::WrittenDefault => {}
            }
        }
        if let Some(calls) = calls
            && !self.has_calls_field()
        {
            if self.choice.is_required() {
                answers.clear();
            }
            answers.push(calls.clone());
        }
        if answers.is_empty() {
            return Ok(None);
        }
        let answer = Expression::choice(answers);
        if thoughts.is_empty() && frames.is_empty() {
            return Ok(Some(answer));
        }
        let first = match self.options.reasoning {
            Some(true) => Expression::choice(thoughts.clone()),
            _ => Expression::EMPTY,
        };
        if self.options.reasoning != Some(false) {
            frames.extend(thoughts);
        }
        let frames = Expression::Repeat(Box::new(Expression::choice(frames)), 0, None);
        Ok(Some(Expression::sequence([first, frames, answer])))
    }

    /// Whether calls are a part of the assistant's rows; otherwise they are turns.
    fn has_calls_field(&self) -> bool {
        let mut rows = self.grammar.rows.iter().filter(|row| row.role == Role::Assistant);
        rows.any(|row| has_field(row, Field::Calls))
    }

    /// The language of a row; none for one that cannot be what the caller asks for.
    fn row(
        &self,
        row: &Row,
        calls: Option<&Expression>,
        has_content: bool,
    ) -> Result<Option<Expression>> {
        let is_required = self.choice.is_required() || !has_content;
        let has_marker = !self.grammar.text_of_calls().is_empty();
        let begins_with_text = calls.is_some_and(Expression::begins_with_text);
        let is_joined = has_text_after_calls(row) || has_marker || begins_with_text;
        if calls.is_none() || is_required || !is_joined {
            return self.row_with(row, calls, has_content, is_required);
        }
        // One terminal up to the end where there are no calls: a lexer takes the longest.
        let ways = [self.row_with(row, calls, true, true)?, self.row_with(row, None, true, false)?];
        let mut ways: Vec<Expression> = ways.into_iter().flatten().collect();
        Ok(if ways.len() > 1 { Some(Expression::choice(ways)) } else { ways.pop() })
    }

    fn row_with(
        &self,
        row: &Row,
        calls: Option<&Expression>,
        has_content: bool,
        is_required: bool,
    ) -> Result<Option<Expression>> {
        let has = |wanted: Field| has_field(row, wanted);
        let is_frame = row.place.is_frame();
        let reasoning = has(Field::Reasoning);
        let has_frames = self.grammar.has_frames();
        if !is_frame
            && !has_frames
            && self.options.reasoning.is_some_and(|wanted| wanted && !reasoning)
        {
            return Ok(None);
        }
        if !is_frame && self.choice.is_required() && !has(Field::Calls) {
            return Ok(None);
        }
        let mut fields = |field: Field, guards: bool| {
            Ok(match field {
                // Frames describe the other turns.
                Field::Content | Field::Reasoning if guards && has_frames => Hole::Absent,
                Field::Content if !has_content => Hole::Maybe(Expression::EMPTY),
                Field::Content => Hole::Maybe(self.content(row)),
                Field::Reasoning => match self.options.reasoning {
                    Some(true) => Hole::Filled(self.reasoning()),
                    None => Hole::Maybe(self.reasoning()),
                    Some(false) => Hole::Absent,
                },
                Field::Calls => match calls {
                    None => Hole::Absent,
                    Some(calls) if is_required => Hole::Filled(calls.clone()),
                    Some(calls) => Hole::Maybe(calls.clone()),
                },
                _ => Hole::Absent,
            })
        };
        let Some((parts, is_ended)) = self.pattern(&row.rule.pieces, is_frame, &mut fields)? else {
            return Ok(None);
        };
        let end = (!is_frame && !is_ended).then(|| Expression::End(self.grammar.stop_ids()));
        Ok(Some(Expression::sequence(parts.into_iter().chain(end))))
    }

    /// The content of a row: text that the reader takes for no call.
    fn content(&self, row: &Row) -> Expression {
        if row.place.is_frame() {
            return Expression::any();
        }
        if let Some(answer) = self.answer {
            return Expression::Json(answer.schema.clone());
        }
        let bare_calls = self.bound.format().bare_calls();
        let bare = self.grammar.bare.iter().map(|bare| (&*bare.before, &bare.opening));
        let bare: Vec<(&str, &Prefix)> =
            if bare_calls == BareCalls::Text { Vec::new() } else { bare.collect() };
        let items = self.grammar.bare_items().map(|item| &self.grammar.items[item]);
        let first =
            items.filter_map(|item| Some((item.before.as_deref()?, item.opening.as_ref()?)));
        // A call that is found anywhere is found after a fence too.
        let is_found = |opening: &Prefix| {
            bare.iter().any(|(before, known)| before.is_empty() && *known == opening)
        };
        let lead = if bare_calls == BareCalls::Anywhere { ".*" } else { r"(.*\n)?\s*" };
        let is_anywhere = bare_calls == BareCalls::Anywhere;
        // Grouped, as each language that is left out multiplies the states of a lexer.
        let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
        for (lead, (before, opening)) in
            first.map(|one| (r"\s*", one)).chain(bare.iter().map(|&one| (lead, one)))
        {
            if is_anywhere && is_found(opening) && (!before.is_empty() || lead != ".*") {
                continue;
            }
            let before =
                if before.is_empty() { String::new() } else { escape_regex(before) + r"\s*" };
            let regex = before + &opening.regex();
            match groups.iter_mut().find(|(known, _)| *known == lead) {
                Some((_, all)) => all.push(regex),
                None => groups.push((lead, vec![regex])),
            }
        }
        let except = groups.into_iter().map(|(lead, all)| {
            let all = shortest(all);
            format!("{lead}({}).*", all.join("|"))
        });
        // Where texts are markers, one of them ends the answer for its reader.
        let stops = row.rule.texts.iter().flat_map(|text| &text.closer.stops);
        let stops = shortest(stops.map(|stop| escape_regex(&stop.literal.text)).collect());
        let stops = (!stops.is_empty()).then(|| format!(".*({}).*", stops.join("|")));
        let except = except.chain(stops).chain(self.markers_in_content(row)).collect();
        Expression::part(Part::Any { except })
    }

    /// The reasoning of a row: text without the markers that end it.
    fn reasoning(&self) -> Expression {
        let ends = spelling(&self.grammar.text_within_reasoning());
        let again = self.grammar.text_opens_reasoning().into_iter().map(escape_regex).collect();
        let again = shortest(again);
        let again = (!again.is_empty()).then(|| format!(r"\s*({}).*", again.join("|")));
        Expression::part(Part::Any { except: ends.into_iter().chain(again).collect() })
    }

    /// Content that the reader takes for a call, or for reasoning, by markers that are text.
    fn markers_in_content(&self, row: &Row) -> impl Iterator<Item = String> + use<> {
        let calls = spelling(&self.grammar.text_of_calls());
        // After a block that is always written, such a marker is text.
        let before = row.rule.pieces.iter().take_while(|piece| !is_content(piece));
        let mut before = before.filter_map(|piece| match piece {
            Piece::Control(ids) => ids.first(),
            _ => None,
        });
        let around = self.grammar.text_around_any_reasoning();
        let first = shortest(around.into_iter().map(escape_regex).collect());
        let first = (!first.is_empty() && !before.any(|id| id.is_text()))
            .then(|| format!("({}).*", first.join("|")));
        calls.into_iter().chain(first)
    }

    /// The parts of a pattern, and whether it ends the completion; `None`, if a field that it needs is absent.
    /// `fields` says what a field holds, or a guard with that field.
    ///
    /// This function alone reads the steps of patterns.
    fn pattern(
        &self,
        pieces: &[BoundPiece],
        is_frame: bool,
        fields: &mut dyn FnMut(Field, bool) -> Result<Hole>,
    ) -> Result<Option<(Vec<Expression>, bool)>> {
        let stops = self.grammar.stop_ids();
        let mut parts = Vec::new();
        let mut rest = pieces;
        while let [piece, after @ ..] = rest {
            rest = after;
            match piece {
                Piece::Control(ids) if ids.iter().any(|id| id.is_text()) => {
                    let text = ids.first().and_then(|&id| self.grammar.text_of(id));
                    parts.extend(text.map(Expression::literal));
                }
                Piece::Control(ids) => {
                    let ids: Vec<TokenId> = ids.iter().map(|id| id.get()).collect();
                    let ends: Vec<TokenId> =
                        ids.iter().copied().filter(|id| stops.contains(id)).collect();
                    if !is_frame && !ends.is_empty() {
                        parts.push(Expression::End(ends));
                        return Ok(Some((parts, true)));
                    }
                    let token = Expression::token(self.bound.vocab(), ids.first().copied());
                    // A tag whose last token stops the model.
                    let last = ids.first().and_then(|&id| self.bound.vocab().tag(id)?.next.last());
                    if let Some(last) = last.filter(|last| !is_frame && stops.contains(&last.get()))
                        && let Expression::Sequence(mut all) = token
                    {
                        all.pop();
                        parts.extend(all);
                        parts.push(Expression::End(vec![last.get()]));
                        return Ok(Some((parts, true)));
                    }
                    parts.push(token);
                    parts.extend(self.dummy_prefix(rest));
                }
                Piece::Cut => parts.extend(self.dummy_prefix(rest)),
                Piece::Literal(FixedText::Encoded(text)) => {
                    parts.push(Expression::literal(&*text.text));
                }
                Piece::Literal(FixedText::Taken(_)) | Piece::Space => {}
                Piece::Rest => return Ok(None),
                Piece::Optional { field, pieces: inner } => {
                    let hole = fields(*field, true)?;
                    if matches!(hole, Hole::Absent) {
                        continue;
                    }
                    let Some((inner, is_ended)) =
                        self.pattern(inner, is_frame, &mut |field, guards| {
                            Ok(match fields(field, guards)? {
                                Hole::Maybe(inner) => Hole::Filled(inner),
                                hole => hole,
                            })
                        })?
                    else {
                        continue;
                    };
                    let inner = Expression::sequence(inner);
                    match hole {
                        Hole::Maybe(_) => parts.push(inner.optional()),
                        _ => parts.push(inner),
                    }
                    if is_ended && !matches!(hole, Hole::Maybe(_)) {
                        return Ok(Some((parts, true)));
                    }
                }
                Piece::Field(field, _) => match fields(*field, false)? {
                    Hole::Absent => return Ok(None),
                    // A field outside a guard is always present.
                    Hole::Filled(inner) | Hole::Maybe(inner) => parts.push(inner),
                },
            }
        }
        Ok(Some((parts, false)))
    }

    /// The space that the vocabulary puts before a run of text, which begins with these pieces.
    fn dummy_prefix(&self, pieces: &[BoundPiece]) -> Option<Expression> {
        if self.bound.vocab().dummy_prefix() != DummyPrefix::EveryRun {
            return None;
        }
        let is_empty = |piece: &&BoundPiece| {
            matches!(piece, Piece::Space | Piece::Literal(FixedText::Taken(_)))
        };
        let next = pieces.iter().find(|piece| !is_empty(piece));
        let begins = match next {
            Some(Piece::Literal(_)) => true,
            Some(Piece::Field(Field::Content, _)) => self.answer.is_some(),
            Some(Piece::Field(field, _)) => {
                !matches!(field, Field::Calls | Field::Reasoning | Field::Source)
            }
            _ => false,
        };
        begins.then(|| Expression::part(Part::regex(prompt::SPACE)))
    }

    /// The language of a message's calls.
    fn calls(&self, rules: &mut Rules) -> Result<Expression> {
        let list = self.grammar.list.as_ref();
        let mut none = |_, _| Ok(Hole::Absent);
        let mut fixed = |pieces: &[BoundPiece]| -> Result<Expression> {
            let parts = self.pattern(pieces, true, &mut none)?;
            Ok(Expression::sequence(parts.map(|(parts, _)| parts).unwrap_or_default()))
        };
        let (mut open, mut between, mut close) =
            (Expression::EMPTY, Expression::EMPTY, Expression::EMPTY);
        let mut skipped = 0;
        let mut lead = Expression::EMPTY;
        if let Some(list) = list {
            open = fixed(&list.open)?;
            close = fixed(&list.close)?;
            if list.form == ListForm::Brackets {
                skipped = list.open.len();
            }
        }
        let mut all = Vec::new();
        let (mut is_ended, mut is_bare, mut is_unmarked) = (false, false, false);
        for (at, spec) in self.bound.format().calls().iter().enumerate() {
            let mut items = self.grammar.items.iter();
            let Some(item) = items.find(|item| item.call == at && item.is_written) else {
                continue;
            };
            is_bare |= item.before.is_some();
            is_unmarked |= matches!(item.rule.pieces.get(skipped), Some(Piece::Field(..)));
            let mut skipped = skipped;
            if let Some(Piece::Control(ids)) = item.rule.pieces.get(skipped)
                && let Some(text) = ids.first().and_then(|&id| self.grammar.text_of(id))
            {
                // A marker that is text is one terminal with the content before it.
                lead = Expression::literal(text);
                skipped += 1;
            }
            if spec.body.is_code() {
                if self.tools.has_code {
                    let (code, ends) = self.code(item, skipped)?;
                    is_ended |= ends;
                    all.push(code);
                }
                continue;
            }
            for tool in &self.tools.functions {
                let (call, ends) = self.call(spec, item, skipped, tool, rules)?;
                is_ended |= ends;
                all.push(call);
            }
        }
        if all.is_empty() {
            let format = self.bound.format().described();
            let problem = format!("have no place in calls of {format}");
            return Err(Error::message("tools", problem));
        }
        if let Some(list) = list
            && (list.form != ListForm::Joined || is_bare)
        {
            between = fixed(&list.between)?;
        }
        let is_tokens = list.is_some_and(|list| list.form == ListForm::Tokens);
        let has_marker = !self.grammar.text_of_calls().is_empty();
        let first = if open.begins_with_text() && !is_tokens && !has_marker {
            // One terminal up to the point where no other text can follow: a lexer takes the longest.
            let first = all.iter().map(|call| Expression::sequence([open.clone(), call.clone()]));
            Some(rules.share(Expression::choice(first)))
        } else {
            None
        };
        let call = rules.share(Expression::choice(all));
        let mut parts = match first {
            Some(first) => vec![first],
            None => vec![open, lead.clone(), call.clone()],
        };
        // A reader cannot distinguish a second unmarked call from text after the first.
        let is_alone = is_unmarked && between == Expression::EMPTY;
        if self.options.parallel && !is_ended && !is_alone {
            let next = Expression::sequence([between, lead, call]);
            parts.push(Expression::Repeat(Box::new(next), 0, None));
        }
        if !is_ended {
            parts.push(close);
        }
        Ok(Expression::sequence(parts))
    }

    /// The language of the calls of a function, and whether they end the completion.
    fn call(
        &self,
        spec: &CallSpec,
        item: &Item,
        skipped: usize,
        tool: &Tool,
        rules: &mut Rules,
    ) -> Result<(Expression, bool)> {
        let name = &tool.name;
        let problem = |problem: String| {
            Error::message("tools", format!("have a function `{name}` that {problem}"))
        };
        if item.reserved.iter().any(|reserved| reserved.has(name)) {
            return Err(problem("has a name that this format reserves for another kind of call, expected another name".into()));
        }
        if item.opening.is_some() && !names::is_name(name) {
            return Err(problem(
                "has a name that calls cannot have here, expected one such as `f`".into(),
            ));
        }
        let schema = &tool.schema;
        let path = Path::Argument(&tool.path);
        let mut fields = |field: Field, _: bool| {
            Ok(match field {
                Field::Name => Hole::Filled(Expression::literal(name.clone())),
                Field::Id => Hole::Filled(id(&spec.id, name)),
                Field::Index => Hole::Filled(Expression::part(Part::regex(NUMBER))),
                Field::Call => match &spec.body {
                    CallBodySpec::Object(object) => {
                        Hole::Filled(object_of(object, spec, name, schema))
                    }
                    _ => Hole::Absent,
                },
                Field::Arguments => match &item.shape {
                    Some(shape) => {
                        let arguments = shape.expression(schema, rules, path)?;
                        Hole::Filled(arguments.with_tags(self.bound.vocab()))
                    }
                    None => Hole::Absent,
                },
                _ => Hole::Absent,
            })
        };
        match self.pattern(&item.rule.pieces[skipped..], false, &mut fields)? {
            Some((parts, is_ended)) => Ok((Expression::sequence(parts), is_ended)),
            None => Err(problem("has no place in a call".into())),
        }
    }

    /// The language of calls that are code, and whether they end the completion.
    fn code(&self, item: &Item, skipped: usize) -> Result<(Expression, bool)> {
        let mut fields = |field: Field, _: bool| {
            Ok(match field {
                Field::Language => Hole::Filled(Expression::literal("python")),
                Field::Source => {
                    let ends = spelling(&self.grammar.text_ends_of_calls());
                    Hole::Filled(Expression::part(Part::Any { except: ends.into_iter().collect() }))
                }
                _ => Hole::Absent,
            })
        };
        match self.pattern(&item.rule.pieces[skipped..], false, &mut fields)? {
            Some((parts, is_ended)) => Ok((Expression::sequence(parts), is_ended)),
            None => Err(Error::message("tools", "have code, which has no place in a call")),
        }
    }
}

/// Whether a row that may have calls writes text after them.
fn has_text_after_calls(row: &Row) -> bool {
    let is_calls =
        |piece: &BoundPiece| matches!(piece, Piece::Optional { field: Field::Calls, .. });
    let at = row.rule.pieces.iter().position(is_calls);
    let after = at.and_then(|at| row.rule.pieces.get(at + 1));
    matches!(after, Some(Piece::Literal(FixedText::Encoded(_))))
}

/// Whether a row writes a field.
fn has_field(row: &Row, wanted: Field) -> bool {
    let is_wanted =
        |piece: &BoundPiece| matches!(piece, Piece::Field(field, _) if *field == wanted);
    walk(&row.rule.pieces).any(is_wanted)
}

/// The number of a call in its message.
const NUMBER: &str = "[1-9][0-9]{0,5}";

/// A call as a JSON object.
fn object_of(object: &ObjectSpec, spec: &CallSpec, name: &str, schema: &Arc<Value>) -> Expression {
    let mut parts = Vec::new();
    let mut open = "{";
    for (member, keys) in &object.members {
        let key = if object.by_name { Some(name) } else { keys.first().map(String::as_str) };
        let key = key.unwrap_or_default();
        let before = object.before(*member);
        parts.push(Expression::literal(format!("{open}{before}\"{key}\": ")));
        open = ", ";
        match member {
            Member::Name => parts.push(Expression::literal(format!("\"{name}\""))),
            Member::Arguments => parts.push(Expression::Json(schema.clone())),
            Member::Id => {
                let quote = || Expression::literal("\"");
                parts.extend([quote(), id(&spec.id, name), quote()]);
            }
        }
    }
    parts.push(Expression::literal(object.close()));
    Expression::sequence(parts)
}

/// The ids of calls of a function.
fn id(form: &IdForm, name: &str) -> Expression {
    match form {
        IdForm::Any => Expression::part(Part::regex("[A-Za-z0-9_.:-]{1,64}")),
        IdForm::Numbered => Expression::part(Part::regex("0|[1-9][0-9]{0,5}")),
        IdForm::Nine => Expression::part(Part::regex("[A-Za-z0-9]{9}")),
        IdForm::Named { before, between } => Expression::sequence([
            Expression::literal(format!("{before}{name}{between}")),
            Expression::part(Part::regex("0|[1-9][0-9]{0,5}")),
        ]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use crate::codec::Codec;
    use crate::constrain::automaton::matched;
    use crate::constrain::{ConstrainOptions, ConstrainRequest, Constraint};
    use crate::event::{Event, EventKind, TurnReason};
    use crate::expression::{Expression, Part};
    use crate::format::Format;
    use crate::message::{Call, CallBody};
    use crate::schema::ToolTypes;
    use chatcodec_vocab::Vocab;

    /// A format whose calls have markers of text around them.
    fn marked(calls: &str) -> Codec {
        let file = format!(
            "name = \"mine\"\nguarantee = \"ids\"\nsource = \"s\"\nvocabulary = \"v\"\n\
             generation = {{ prompt = \"{{A}}bot \" }}\n\
             calls = {{ open = \"{{CALLS}}\\n\", close = \"{{CALLS_END}}\" }}\n\
             [control]\nA = \"<|im_start|>\"\nB = \"<|im_end|>\"\n\
             [text]\nCALLS = \"<calls>\"\nCALLS_END = \"</calls>\"\nCALL = \"<call\"\n\
             CALL_END = [\"</call>\", \"</ call>\"]\n\
             THINK = \"<think>\"\nTHINK_END = \"</think>\"\n\
             [turn]\nuser = \"{{A}}you {{content}}{{B}}\"\n\
             assistant = \"{{A}}bot {{?reasoning:{{THINK}}{{reasoning}}{{THINK_END}}?}}{{content}}{{?calls:{{calls}}?}}{{B}}\"\n\
             [call.function]\nitem = \"{{CALL}} {{name}}>\\n{{arguments}}{{CALL_END}}\"\n{calls}\n"
        );
        Codec::new(&Format::parse("mine", &file).unwrap(), &Vocab::embedded()).unwrap()
    }

    /// Where the texts of an expression may end that begin at a byte of a text.
    fn ends(all: &Constraint, expression: &Expression, text: &str, from: usize) -> Vec<usize> {
        let mut found = match expression {
            Expression::Literal(literal) => {
                let is_next = text[from..].starts_with(literal.as_str());
                is_next.then_some(from + literal.len()).into_iter().collect()
            }
            Expression::End(_) => (from == text.len()).then_some(from).into_iter().collect(),
            Expression::Rule(rule) => ends(all, &all.rules[*rule], text, from),
            Expression::Sequence(parts) => parts.iter().fold(vec![from], |at, part| {
                at.into_iter().flat_map(|at| ends(all, part, text, at)).collect()
            }),
            Expression::Choice(ways) => {
                ways.iter().flat_map(|way| ends(all, way, text, from)).collect()
            }
            Expression::Repeat(inner, least, most) => {
                let (mut found, mut at) = (Vec::new(), vec![from]);
                for count in 0..=most.unwrap_or(8).min(8) {
                    if count >= *least {
                        found.extend(at.iter().copied());
                    }
                    at = at.into_iter().flat_map(|at| ends(all, inner, text, at)).collect();
                }
                found
            }
            Expression::Text(parts) => parts.iter().fold(vec![from], |at, part| {
                at.into_iter().flat_map(|at| ends_of_part(part, text, at)).collect()
            }),
            Expression::Ids(_) | Expression::Json(_) => panic!("no part of these languages"),
        };
        found.sort_unstable();
        found.dedup();
        found
    }

    fn ends_of_part(part: &Part, text: &str, from: usize) -> Vec<usize> {
        let (regex, also, except) = match part {
            Part::Literal(literal) => {
                let is_next = text[from..].starts_with(literal.as_str());
                return is_next.then_some(from + literal.len()).into_iter().collect();
            }
            Part::Any { except } => (".*", &[][..], except),
            Part::Regex { regex, also, except } => (regex.as_str(), &also[..], except),
        };
        let places = (from..=text.len()).filter(|&at| text.is_char_boundary(at));
        let is_part = |&to: &usize| {
            let part = &text[from..to];
            matched(regex, part)
                && also.iter().all(|regex| matched(regex, part))
                && !except.iter().any(|regex| matched(regex, part))
        };
        places.filter(is_part).collect()
    }

    /// Call shapes that end in markers of text, and what stands before and after a value of `a`.
    const SHAPES: [(&str, &str, &str); 5] = [
        ("pair = \"<p {key}>{value}</p>\\n\"", "<p a>", "</p>\n"),
        // The closing tag may end a marker that a value begins, and the tag before a value may begin one.
        ("pair = \"[{key}<{value}>]\\n\"", "[a<", ">]\n"),
        (
            "pair = \"<p {key}>{value}</p>\"\n\
             wrap = { open = \"<![\", close = \"]>\", when = [\"<![\", \"&\"] }",
            "<p a>",
            "</p>",
        ),
        (
            "pair = \"<p {key}\\\" string=\\\"{string}\\\">{value}</p>\\n\"",
            "<p a\" string=\"true\">",
            "</p>\n",
        ),
        (
            "pair = \"<p {key}\\\" string=\\\"{string}\\\">{value}</p>\\n\"",
            "<p b\" string=\"false\">{\"c\": \"",
            "\"}</p>\n",
        ),
    ];

    /// Ends of calls and of values, and parts of them.
    const PIECES: [&str; 24] = [
        "</call>", "</ call>", "</calls>", "<call", "<calls>", " g>\n", "</p>", ">]", "<p ", "<![",
        "]>", "&", "<think>", "</think>", "<", "/", "/call", "</call", "call", "s>", ">", "\n",
        " ", "x",
    ];

    fn tools() -> serde_json::Value {
        let inner = json!({"type": "object", "properties": {"c": {"type": "string"}}});
        let properties = json!({"a": {"type": "string"}, "b": inner});
        let schema = json!({"type": "object", "properties": properties});
        json!([{"type": "function", "function": {"name": "f", "parameters": schema}}])
    }

    /// Whether a completion is admitted, and whether it is read as a call with these arguments and nothing else.
    fn is_admitted_and_read(codec: &Codec, text: &str, arguments: &serde_json::Value) -> [bool; 2] {
        let tools = tools();
        let request = ConstrainRequest {
            tools: Some(&tools),
            tool_choice: Some(&json!("required")),
            response_format: None,
            prompt: None,
        };
        let constraint = codec.constrain(&request, ConstrainOptions::default()).unwrap();
        let is_admitted = ends(&constraint, &constraint.start, text, 0).contains(&text.len());
        let mut ids = codec.vocab().encode(text);
        ids.extend(codec.stop_ids().first());
        let types = ToolTypes::read(&tools).unwrap();
        let mut stream = codec.stream(None).typed(&types);
        let mut events = Vec::new();
        stream.push_all(&ids, &mut events);
        stream.finish(TurnReason::Stop, &mut events);
        let is_odd = |event: &Event| matches!(event.kind, EventKind::Notice { .. });
        let message = codec.parse_ids(codec.stream(None).typed(&types), &ids).message;
        let is_read = match &message.calls[..] {
            [Call { body: CallBody::Function { arguments: read, .. }, .. }] => {
                let read: Option<serde_json::Value> = serde_json::from_str(read).ok();
                read.as_ref() == Some(arguments)
            }
            _ => false,
        };
        [is_admitted, is_read && message.content.is_empty() && !events.iter().any(is_odd)]
    }

    proptest! {
        #[test]
        fn values_hold_no_text_that_ends_their_call(
            shape in 0..SHAPES.len(),
            pieces in proptest::collection::vec(0..PIECES.len(), 0..5),
        ) {
            let (keys, before, after) = SHAPES[shape];
            let codec = marked(keys);
            let value: String = pieces.iter().map(|&at| PIECES[at]).collect();
            let is_inner = before.ends_with("{\"c\": \"");
            let mut written = vec![value.clone()];
            if is_inner {
                let quoted = json!(value).to_string();
                written = vec![quoted[1..quoted.len() - 1].to_owned()];
            } else if keys.contains("wrap") {
                written.push(format!("<![{value}]>"));
            }
            let arguments = if is_inner { json!({"b": {"c": value}}) } else { json!({"a": value}) };
            for written in written {
                let text = format!("<calls>\n<call f>\n{before}{written}{after}</call></calls>");
                let [is_admitted, is_read] = is_admitted_and_read(&codec, &text, &arguments);
                prop_assert!(is_read || !is_admitted, "{text:?} is admitted, and is not read");
                // A call that has begun may be read as text: no value begins one. What a wrap holds is not bare.
                let has_begun = format!("{before}{written}{after}").contains("<call");
                if is_read && !has_begun && !keys.contains("wrap") {
                    prop_assert!(is_admitted, "{text:?} is read, and is not admitted");
                }
            }
        }
    }

    #[test]
    fn a_schema_lists_no_text_that_ends_its_call() {
        let listed = [
            (0, "x", true),
            (0, "</call", true),
            (0, "a</call>", false),
            (0, "</p>", false),
            (0, "<p ", false),
            (0, "a<p ", true),
            (1, "</call", false),
            (1, "/calls>", false),
            (1, "/call", false),
            (1, "/calls", false),
            (1, "x", true),
        ];
        for (shape, listed, is_allowed) in listed {
            let codec = marked(SHAPES[shape].0);
            let schema = json!({"type": "object", "properties": {"a": {"enum": ["y", listed]}}});
            let function = json!({"name": "f", "parameters": schema});
            let tools = json!([{"type": "function", "function": function}]);
            let request = ConstrainRequest {
                tools: Some(&tools),
                tool_choice: None,
                response_format: None,
                prompt: None,
            };
            let made = codec.constrain(&request, ConstrainOptions::default());
            assert_eq!(made.is_ok(), is_allowed, "{shape} {listed:?} {made:?}");
        }
    }
}
