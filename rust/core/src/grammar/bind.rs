//! Binding: puts the ids of a vocabulary into a format's table.

use std::cmp::Reverse;
use std::sync::Arc;

use super::places::Places;
use super::starts::Starts;
use super::{
    AfterCalls, BareOpening, BoundPiece, Closer, ContentBlock, FixedText, Grammar, Item, List,
    Literal, MediaRule, Op, Reasoning, Results, Row, Rule, Stop, Suffix, Text, control_ids,
    openers, token_ids,
};
use crate::call::{BoundShape, Prefix};
use crate::error::{Error, Result};
use crate::format::{
    CallBodySpec, Format, Guarantee, InReasoning, ListForm, ListSpec, MediaSpec, RowSpec, RowUse,
    SystemPlace, WithoutSystem, after_tool, also, calls, content_block, last, reasoning, rules,
    unmarked_calls, white_space,
};
use crate::marker::{self, Markers};
use crate::message::Role;
use crate::pattern::{Field, FieldContent, Piece, is_white, walk};
use chatcodec_vocab::{ControlId, DummyPrefix, TokenId, Vocab};

/// One way to read a call.
#[allow(clippy::struct_excessive_bools, reason = "each says another thing about the way")]
struct Pattern {
    /// Its index among the format's calls.
    call: usize,
    pieces: Vec<Piece>,
    in_block: bool,
    opened: bool,
    /// Whether it is the written form.
    is_written: bool,
    /// Whether it is only read, and reported as mended.
    is_other: bool,
    /// Whether it is only read, and tried last.
    is_also: bool,
    /// Whether it is a form of the format with other white space, tried after all others.
    is_loose: bool,
}

impl Pattern {
    /// The same form with other white space than the format writes, if that reads more.
    fn loose(&self) -> Option<Self> {
        let pieces = white_space::loose(&self.pieces).filter(|_| !self.in_block)?;
        Some(Self { pieces, is_written: false, is_loose: true, ..*self })
    }
}

/// Rows by index, in the orders in which they are tried.
struct Orders {
    /// For writing a message.
    write_order: Vec<usize>,
    /// For reading ids.
    read_order: Vec<usize>,
    /// For ids that fit no row of `read_order`.
    read_last: Vec<usize>,
}

impl Orders {
    fn of(rows: &[Row], specs: &[RowSpec]) -> Self {
        let controls =
            |row: &Row| row.rule.head().iter().filter(|op| matches!(op, Op::Control(_))).count();
        let is_last = |&row: &usize| {
            specs[row].place == RowUse::Last || last::is_word_first(&specs[row].pieces)
        };
        let read = (0..rows.len()).filter(|&row| rows[row].place.is_read());
        let (mut read_last, mut read_order): (Vec<usize>, Vec<usize>) = read.partition(is_last);
        read_order.sort_by_key(|&row| Reverse(controls(&rows[row])));
        read_last.sort_by_key(|&row| {
            (rows[row].place == RowUse::Last, last::is_word_first(&specs[row].pieces))
        });
        let is_written = |row: &usize| !matches!(rows[*row].place, RowUse::Read | RowUse::Last);
        let mut write_order: Vec<usize> = (0..rows.len()).filter(is_written).collect();
        // Rows for the last message, or for the default one, come before those for any.
        let is_special = |place| matches!(place, RowUse::WrittenLast | RowUse::WrittenDefault);
        write_order.sort_by_key(|&row| !is_special(rows[row].place));
        Self { write_order, read_order, read_last }
    }
}

pub(super) struct Binder<'a> {
    pub(super) format: &'a Format,
    pub(super) control: &'a [(String, Vec<String>)],
    pub(super) ids: &'a [ControlId],
    /// The ids of each tag, the written one first.
    pub(super) tags: &'a [(String, Vec<ControlId>)],
    pub(super) vocab: &'a Vocab,
}

impl Binder<'_> {
    fn row(&self, row: &RowSpec) -> Row {
        let format = self.format;
        let rule = self.row_rule(row);
        Row {
            role: row.role,
            name: row.name.clone(),
            calls_only: rules::is_calls_only(&row.pieces),
            text_first: rules::begins_with_text(&row.pieces),
            first_only: row.role == Role::System && format.system_place() == SystemPlace::First,
            answer_only: rules::is_text_result(row, format.guarantee()),
            place: row.place,
            places: self.places(row, &rule),
            rule,
            reserved: last::reserved(row, format.rows(), format.calls(), format.list()),
        }
    }

    pub(super) fn grammar(&self) -> Result<Grammar> {
        let format = self.format;
        let rows: Vec<Row> = format.rows().iter().map(|row| self.row(row)).collect();
        let items = self.items()?;
        let bare = Self::bare_openings(&items, format);
        let (begin, end) = (self.pieces(format.begin()), self.pieces(format.end()));
        let list = format.list().map(|list| List {
            open: self.pieces(list.first_open()),
            between: self.pieces(&list.between),
            close: self.pieces(list.first_close()),
            form: list.form,
        });
        let results = format.results().map(|results| Results {
            open: self.pieces(&results.open),
            between: self.pieces(&results.between),
            close: self.pieces(&results.close),
        });
        let ids = |pieces: Option<&Vec<BoundPiece>>| {
            pieces.into_iter().flatten().flat_map(control_ids).collect()
        };
        let (tools, tools_alone) = format.tools_turns();
        let begin_turn = format.begin_turn().map(|begin| self.pieces(&begin.pieces));
        let Orders { write_order, read_order, read_last } = Orders::of(&rows, format.rows());
        let prompt = |thinking| format.thinking_prompt(thinking).map(|pieces| self.pieces(pieces));
        self.check_taken(
            rows.iter().map(|row| &row.rule).chain(items.iter().map(|item| &item.rule)),
        )?;
        let mut grammar = Grammar {
            tag_ids: self.tags.iter().flat_map(|(_, ids)| token_ids(ids)).collect(),
            turn_openers: openers(read_order.iter().chain(&read_last).map(|&row| &rows[row].rule)),
            item_openers: openers(items.iter().map(|item| &item.rule)),
            begin_ids: begin.iter().flat_map(control_ids).collect(),
            end_ids: end.iter().flat_map(control_ids).collect(),
            results_close_ids: ids(results.as_ref().map(|results| &results.close)),
            results_between_ids: ids(results.as_ref().map(|results| &results.between)),
            calls_close_ids: format
                .list()
                .into_iter()
                .flat_map(|list| list.close.iter().flatten())
                .flat_map(|piece| token_ids(&self.ids_of(piece)))
                .collect(),
            call_ids: Vec::new(),
            starts: Starts::default(),
            text_markers: Vec::new(),
            calls_in_reasoning: format.calls_in_reasoning() == InReasoning::Call,
            spelled_ids: self.spelled_ids(),
            after_calls: self.after_calls(),
            header_ids: self.header_ids().into_iter().map(ControlId::get).collect(),
            thinking: [prompt(true), prompt(false)],
            after_tool: rows.iter().position(|row| row.place == RowUse::AfterTool),
            after_tool_prompts: self.after_tool_prompts(),
            answer_ids: self.answer_ids(),
            write_order,
            read_order,
            read_last,
            rows,
            items,
            bare_firsts: BareOpening::firsts(&bare),
            bare,
            list,
            results,
            after_content: format.after_content().to_owned(),
            tools: tools.map(|turn| self.rule(&turn.pieces, None)),
            tools_alone: tools_alone.map(|turn| self.rule(&turn.pieces, None)),
            declaring: self.declaring(),
            begin,
            begin_turn: begin_turn.unwrap_or_default(),
            without_system: [false, true].map(|tools| self.without_system(tools)),
            end,
            generation_prompt: self.pieces(format.generation_prompt()),
            markers: None,
            silent: format.silent().to_vec(),
            media: format.media_specs().iter().filter_map(|spec| self.media(spec)).collect(),
            order: format.order(),
            tools_first: format.begins_with_tools(),
            stop: format.stop().iter().filter_map(|name| self.control_id(name)).collect(),
        };
        grammar.call_ids = grammar.own_call_ids();
        grammar.keep_header_ids();
        grammar.starts = Starts::of(&grammar);
        grammar.markers = self.markers(&grammar)?;
        Ok(grammar)
    }

    /// The ids that are read as their spellings in the text of the format's own turns.
    fn spelled_ids(&self) -> Vec<TokenId> {
        let (tools, alone) = self.format.tools_turns();
        let absent = self.format.without_system().into_iter().flat_map(WithoutSystem::turns);
        let turns = tools.into_iter().chain(alone).chain(absent);
        let pieces = turns.flat_map(|turn| walk(&turn.inside));
        let begin = self.format.begin_turn().into_iter().flat_map(|begin| walk(&begin.inside));
        let mut ids: Vec<TokenId> =
            pieces.chain(begin).flat_map(|piece| token_ids(&self.ids_of(piece))).collect();
        let systems = self.format.rows().iter().filter(|row| row.role == Role::System);
        let after = systems.filter_map(|row| rules::tokens_after_text(&row.pieces)).flatten();
        ids.extend(after.flat_map(|piece| token_ids(&self.ids_of(piece))));
        let declaring = self.format.declaring_tokens();
        ids.extend(declaring.flat_map(|piece| token_ids(&self.ids_of(piece))));
        // Beside the text of a tag, a token is read as that tag.
        let of_tags = self.tags.iter().flat_map(|(_, ids)| ids).filter(|id| {
            self.vocab.tag(id.get()).is_some_and(|tag| ids.contains(&tag.token.get()))
        });
        let of_tags: Vec<TokenId> = of_tags.map(|id| id.get()).collect();
        ids.extend(of_tags);
        ids
    }

    /// The prompts after a result: the plain one, and those with and without reasoning.
    fn after_tool_prompts(&self) -> (Vec<BoundPiece>, [Option<Vec<BoundPiece>>; 2]) {
        let prompts = self.format.after_tool();
        let asked = prompts.thinking.each_ref();
        let asked = asked.map(|prompt| prompt.as_ref().map(|pieces| self.pieces(pieces)));
        (self.pieces(&prompts.plain), asked)
    }

    /// The tokens that begin the message after a result.
    fn answer_ids(&self) -> Vec<TokenId> {
        let rows = self.format.rows().iter().filter(|row| row.place.is_after_tool());
        let tokens = rows.filter_map(|row| after_tool::lead(&row.pieces));
        tokens.flat_map(|(_, token)| token_ids(&self.ids_of(token))).collect()
    }

    /// The control tokens in the text of the tools.
    fn declaring(&self) -> Vec<BoundPiece> {
        let tokens: Vec<Piece> = self.format.declaring_tokens().cloned().collect();
        self.pieces(&tokens)
    }

    /// The turn of a conversation without a system message.
    fn without_system(&self, tools: bool) -> Vec<BoundPiece> {
        let absent = self.format.without_system();
        absent.map(|absent| self.pieces(&absent.turn(tools).pieces)).unwrap_or_default()
    }

    /// Two patterns may differ only in white space that a token of the vocabulary strips.
    fn check_taken<'a>(&self, rules: impl Iterator<Item = &'a Rule>) -> Result<()> {
        let rules: Vec<&Rule> = rules.collect();
        for (at, taken) in rules.iter().enumerate() {
            let head = taken.head();
            let is_taken = walk(&taken.pieces)
                .any(|piece| matches!(piece, Piece::Literal(FixedText::Taken(_))));
            if !is_taken || head.is_empty() {
                continue;
            }
            let mut others = rules.iter().enumerate().filter(|(other, _)| *other != at);
            if others.any(|(_, other)| other.head().starts_with(head)) {
                let name = self.format.name();
                let problem = format!("takes white space that tells turns of `{name}` apart");
                return Err(Error::vocab("control", problem));
            }
        }
        Ok(())
    }

    fn items(&self) -> Result<Vec<Item>> {
        let mut items: Vec<Item> = Vec::new();
        let mut patterns: Vec<Pattern> = Vec::new();
        let list = self.format.list();
        for (call, spec) in self.format.calls().iter().enumerate() {
            for (nth, item) in spec.items.iter().enumerate() {
                let in_block = calls::is_in_block(item, list);
                let read = calls::items_as_read(item, list).into_iter();
                patterns.extend(read.enumerate().map(|(way, (pieces, opened))| {
                    let opened = opened && list.is_some_and(|list| list.form == ListForm::Tokens);
                    Pattern {
                        call,
                        pieces,
                        in_block,
                        opened,
                        is_written: nth == 0 && way == 0,
                        is_other: nth >= spec.own,
                        is_also: false,
                        is_loose: false,
                    }
                }));
            }
        }
        let loose: Vec<Pattern> = patterns.iter().filter_map(Pattern::loose).collect();
        patterns.extend(self.also());
        patterns.extend(loose);
        // A literal is tried before a name that it could also be, and an object before code.
        patterns.sort_by_key(|Pattern { pieces, is_also, is_loose, .. }| {
            let mut head = rules::head(pieces).into_iter();
            let has_name = head.any(|piece| rules::is_field(piece, Field::Name));
            let is_code = rules::has_field(pieces, Field::Source);
            let is_last = (*is_loose, *is_also);
            (is_last, Reverse(calls::literal_before_name(pieces)), has_name, is_code)
        });
        for (at, pattern) in patterns.iter().enumerate() {
            let &Pattern { call, ref pieces, is_also, is_loose, .. } = pattern;
            let is_json = self.is_json(call);
            let mut rule = self.rule_of(pieces, None, is_also || is_loose && is_json);
            let closer = rule.texts.last_mut().map(|text| &mut text.closer);
            let close = closer.filter(|_| pattern.in_block).map(|closer| {
                let close = list.map_or(&[][..], ListSpec::first_close);
                closer.ids = self.pieces(close).iter().flat_map(control_ids).collect();
                closer.suffix.literal.clone()
            });
            let others = patterns[..at].iter().map(|other| &other.pieces);
            let others = others.chain(last::rows_before_calls(self.format.rows(), pieces));
            let reserved = others.filter_map(|other| calls::reserved(pieces, other)).collect();
            let code = |other: &Pattern| {
                !is_also && unmarked_calls::is_object_or_code(pieces, &other.pieces)
            };
            let or_code = patterns.iter().position(code);
            let stands_alone = is_also && unmarked_calls::begins_with_field(pieces);
            let before =
                unmarked_calls::before(pieces, list).filter(|_| !stands_alone).map(Arc::from);
            let is_opened = or_code.is_some() || before.is_some() || list.is_some_and(is_bare);
            let opening = (is_opened && !is_also).then(|| self.opening(call)).flatten();
            let is_python = stands_alone && calls::is_python(pieces);
            let opening = opening.or(is_python.then(Prefix::python));
            items.push(Item {
                call,
                rule,
                reserved,
                opened: pattern.opened,
                is_written: pattern.is_written,
                is_other: pattern.is_other,
                is_also,
                is_loose,
                ends_itself: is_json,
                shape: self.shape(call)?,
                close,
                opening,
                before,
                or_code,
                is_bare: stands_alone,
            });
        }
        Ok(items)
    }

    /// The forms of a call that are only read. In them, a control token that the vocabulary lacks is its
    /// spelling as text; a form whose first token is missing is left out.
    fn also(&self) -> impl Iterator<Item = Pattern> + '_ {
        let (list, own) = (self.format.list(), self.format.calls().len());
        let known = |name: &String| self.control_id(name).is_some();
        let is_known = move |piece: &Piece| match piece {
            Piece::Control(names) => names.iter().any(known),
            _ => true,
        };
        let also = self.format.also();
        let bare = also.bare.iter().filter(move |_| own > 0);
        let calls = also.calls.iter().chain(bare).enumerate();
        let items = calls.flat_map(|(call, spec)| spec.items.iter().map(move |item| (call, item)));
        items.flat_map(move |(call, item)| {
            let is_bare = unmarked_calls::begins_with_field(item);
            let read = also::as_read(item, list.filter(|_| !is_bare)).into_iter();
            let read = read.filter(move |(pieces, _)| pieces.first().is_some_and(is_known));
            read.map(move |(pieces, opened)| Pattern {
                call: own + call,
                pieces: pieces.into_iter().map(|piece| self.spelled(piece)).collect(),
                in_block: false,
                opened,
                is_written: false,
                is_other: true,
                is_also: true,
                is_loose: false,
            })
        })
    }

    /// A control token that the vocabulary lacks, as its spelling.
    fn spelled(&self, piece: Piece) -> Piece {
        let Piece::Control(names) = &piece else { return piece };
        if names.iter().any(|name| self.control_id(name).is_some()) {
            return piece;
        }
        let optional = self.format.optional_control().iter();
        let spelling =
            optional.filter(|(name, _)| names.contains(name)).find_map(|(_, s)| s.first());
        spelling.map_or(piece, |spelling| Piece::Literal(spelling.clone()))
    }

    fn is_json(&self, call: usize) -> bool {
        let body = self.format.call_as_read(call).map(|call| &call.body);
        match body {
            Some(CallBodySpec::Object(_)) => true,
            Some(CallBodySpec::Arguments(shape)) => shape.is_json,
            Some(CallBodySpec::Code) | None => false,
        }
    }

    /// The beginning of a call's body, if it is known.
    fn opening(&self, call: usize) -> Option<Prefix> {
        match &self.format.calls().get(call)?.body {
            CallBodySpec::Object(object) => Some(Prefix::object(object)),
            CallBodySpec::Arguments(shape) => shape.prefix.clone(),
            CallBodySpec::Code => None,
        }
    }

    /// The beginnings of unmarked calls.
    fn bare_openings(items: &[Item], format: &Format) -> Vec<BareOpening> {
        let object = format.bare_object();
        let mut bare: Vec<BareOpening> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            // A call in Python, and an object that the file declares, are recognised by the names of tools.
            let is_own = !item.is_bare || item.opening.is_some() || format.also().has_object;
            let mut push = |before: Arc<str>, opening: Prefix| {
                if !bare.iter().any(|known| known.before == before && known.opening == opening) {
                    bare.push(BareOpening { item: at, is_own, before, opening });
                }
            };
            if let (Some(before), Some(opening)) = (&item.before, &item.opening) {
                push(before.clone(), opening.clone());
                if before.is_empty() {
                    for fence in unmarked_calls::FENCES {
                        push(fence.into(), opening.clone());
                    }
                }
            } else if let (true, Some(python)) = (item.is_bare, &item.opening) {
                push("[".into(), python.clone());
            } else if let (true, Some(object)) = (item.is_bare, object) {
                for before in [""].into_iter().chain(unmarked_calls::FENCES) {
                    push(before.into(), Prefix::object(object));
                }
            } else if let Some(shape) = &item.shape
                && item.opener().is_some()
            {
                for open in shape.opens() {
                    push("".into(), Prefix::tag(open));
                }
            }
        }
        bare
    }

    /// Meaningless text that may follow a call.
    fn after_calls(&self) -> AfterCalls {
        let mut after = AfterCalls::default();
        for piece in &self.format.also().after {
            match self.spelled(piece.clone()) {
                Piece::Literal(text) => after.texts.push(text),
                piece => after.ids.extend(token_ids(&self.ids_of(&piece))),
            }
        }
        after
    }

    /// The shape of a call's arguments, if they follow a header.
    fn shape(&self, call: usize) -> Result<Option<Arc<dyn BoundShape>>> {
        let spec = self.format.call_as_read(call);
        let Some(shape) = spec.and_then(|spec| spec.body.shape()) else { return Ok(None) };
        let tokens = |piece: &Piece| self.ids_of(piece);
        let around = spec.map(|spec| calls::tags(&spec.items)).unwrap_or_default();
        let shape = shape.bind(around, &tokens, self.vocab).map_err(|problem| {
            Error::vocab("control", format!("leaves a pair of `call` that {problem}"))
        })?;
        Ok(Some(shape))
    }

    /// How a media part is written; none where the vocabulary lacks one of its tokens.
    fn media(&self, spec: &MediaSpec) -> Option<MediaRule> {
        if spec.names().any(|name| self.control_id(name).is_none()) {
            return None;
        }
        let token = |name: &Option<String>| self.control_id(name.as_deref()?);
        let (open, close) = (self.pieces(&spec.open), self.pieces(&spec.close));
        let ids = |pieces: &[BoundPiece]| pieces.iter().flat_map(control_ids).collect();
        let text = |piece: Option<&BoundPiece>| match piece {
            Some(Piece::Literal(FixedText::Encoded(literal))) => literal.text.clone(),
            _ => String::new(),
        };
        let (each, between) = (token(&spec.each), token(&spec.between));
        let ends = if each.is_some() { &close } else { &open };
        let (before, after) = (text(open.first()), text(ends.last()));
        let (opens, closes) = (ids(&open), ids(&close));
        let mut texts: Vec<String> = Vec::new();
        for (at, piece) in open.iter().enumerate() {
            if piece.is_control() {
                let before = at.checked_sub(1).filter(|_| !texts.is_empty());
                texts.push(text(before.and_then(|at| open.get(at))));
            }
        }
        let kind = spec.kind;
        Some(MediaRule { kind, open, each, between, close, opens, texts, closes, before, after })
    }

    /// White space before a media part, in the turns that may have one.
    fn before_media(&self) -> String {
        let mut rules = self.format.media_specs().iter().filter_map(|spec| self.media(spec));
        rules.next().map(|rule| rule.before).unwrap_or_default()
    }

    /// The id of a control token, or of a tag as it is written.
    fn control_id(&self, name: &str) -> Option<ControlId> {
        let mut known = self.control.iter().zip(self.ids);
        let own = known.find(|((known, _), _)| known == name).map(|(_, id)| *id);
        own.or_else(|| self.tag_ids(name).first().copied())
    }

    /// The ids of a tag; none for another name.
    fn tag_ids(&self, name: &str) -> &[ControlId] {
        let known = self.tags.iter().find(|(known, _)| known == name);
        known.map_or(&[], |(_, ids)| ids)
    }

    /// A pattern with the ids of the vocabulary.
    fn pieces(&self, pieces: &[Piece]) -> Vec<BoundPiece> {
        let all: Vec<&Piece> = walk(pieces).collect();
        self.part(pieces, &all, &mut 0)
    }

    /// A part of a pattern. `all` has the pieces of the pattern in order of writing; the part
    /// begins at `at`.
    fn part(&self, pieces: &[Piece], all: &[&Piece], at: &mut usize) -> Vec<BoundPiece> {
        let mut bound = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let here = *at;
            *at += 1;
            bound.push(match piece {
                Piece::Literal(text) => {
                    let before = here.checked_sub(1).and_then(|before| all.get(before));
                    bound.extend(self.fixed_texts(text, before.copied(), all.get(*at).copied()));
                    continue;
                }
                Piece::Optional { field, pieces } => {
                    Piece::Optional { field: *field, pieces: self.part(pieces, all, at) }
                }
                Piece::Control(names) => Piece::Control(self.control_ids(names)),
                &Piece::Field(field, filter) => Piece::Field(field, filter),
                Piece::Space => Piece::Space,
                Piece::Cut => Piece::Cut,
                Piece::Rest => Piece::Rest,
            });
        }
        bound
    }

    /// A literal, and the white space that the control tokens before and after it strip.
    fn fixed_texts(
        &self,
        text: &str,
        before: Option<&Piece>,
        after: Option<&Piece>,
    ) -> impl Iterator<Item = BoundPiece> {
        let strips = |piece: Option<&Piece>| match piece {
            Some(Piece::Control(names)) => {
                let ids = self.control_ids(names);
                ids.first().map(|id| self.vocab.strips(id.get())).unwrap_or_default()
            }
            _ => chatcodec_vocab::Strips::default(),
        };
        let kept = if strips(before).right { text.trim_start() } else { text };
        let first = &text[..text.len() - kept.len()];
        let middle = if strips(after).left { kept.trim_end() } else { kept };
        let last = &kept[middle.len()..];
        let taken = |text: &str| {
            (!text.is_empty()).then(|| Piece::Literal(FixedText::Taken(text.to_owned())))
        };
        let encoded =
            (!middle.is_empty()).then(|| Piece::Literal(FixedText::Encoded(self.literal(middle))));
        [taken(first), encoded, taken(last)].into_iter().flatten()
    }

    fn literal(&self, text: &str) -> Literal {
        let breaks = match self.format.guarantee() {
            Guarantee::Ids => Vec::new(),
            Guarantee::Text => marker::breaks(text, self.vocab),
        };
        Literal { text: text.to_owned(), breaks }
    }

    /// The ids of the names of a control token.
    fn control_ids(&self, names: &[String]) -> Vec<ControlId> {
        let ids = |name: &String| match self.tag_ids(name) {
            [] => self.control_id(name).into_iter().collect(),
            tags => tags.to_vec(),
        };
        names.iter().flat_map(ids).collect()
    }

    /// The ids of a piece that is a control token; none for other pieces.
    fn ids_of(&self, piece: &Piece) -> Vec<ControlId> {
        rules::control_names(piece).map(|names| self.control_ids(names)).unwrap_or_default()
    }

    /// The control tokens inside headers, after the opening token.
    fn header_ids(&self) -> Vec<ControlId> {
        let rows = self.format.rows().iter().filter(|row| row.place.is_read());
        let rows = rows.map(|row| &row.pieces);
        let items = self.format.calls().iter().flat_map(|call| &call.items);
        let heads = rows.chain(items).map(|pieces| rules::head(pieces));
        let mut ids = Vec::new();
        for piece in heads.flat_map(|head| head.into_iter().skip(1)) {
            let more = self.ids_of(piece);
            ids.extend(more.into_iter().filter(|id| !ids.contains(id)).collect::<Vec<_>>());
        }
        ids
    }

    /// The rule of a row; the content of a frame is its text.
    fn row_rule(&self, row: &RowSpec) -> Rule {
        let mut rule = self.rule(&row.pieces, Some(row.role));
        if let RowUse::Frame(field) = row.place {
            rule.texts.iter_mut().for_each(|text| text.field = field);
        }
        rule
    }

    /// The fields of a row. A row for calls alone, whose header is that of another row, has the other row's filter: white
    /// space that the other row removes is no content of its own.
    fn places(&self, row: &RowSpec, rule: &Rule) -> Places {
        let mut places = Places::of(&rule.pieces);
        let own_block = |other: &&RowSpec| {
            reasoning::has_own_block(&row.pieces, &other.pieces, self.format.after_content())
        };
        if row.place == RowUse::Written
            && places.content.is_none()
            && let Some(other) = self.format.rows().iter().find(own_block)
        {
            let filter = walk(&other.pieces).find_map(|piece| match piece {
                &Piece::Field(Field::Content, filter) => Some(filter),
                _ => None,
            });
            places.content = filter.filter(|filter| filter.trim(" ").is_empty());
        }
        places
    }

    /// Loading the format has checked the shape of the pattern.
    fn rule(&self, pieces: &[Piece], role: Option<Role>) -> Rule {
        self.rule_of(pieces, role, false)
    }

    /// The rule of a pattern, which may be a form of a call that is only read.
    fn rule_of(&self, pieces: &[Piece], role: Option<Role>, is_also: bool) -> Rule {
        let mut written = self.pieces(pieces);
        let open_at = split_at_text(&mut written);
        let around = content_block::block(pieces);
        // The token beside the text closes nothing else.
        let is_content = |piece: &BoundPiece| matches!(piece, Piece::Field(Field::Content, _));
        let content_at = around.as_ref().and_then(|_| written.iter().position(is_content));
        let close_at = match content_at {
            Some(at) => (at..written.len()).filter(|&at| written[at].is_control()).nth(1),
            None => (open_at..written.len()).find(|&at| written[at].is_control()),
        };
        let close_at = close_at.unwrap_or(written.len());
        let text_at = content_at.map_or(open_at, |at| at + 1);
        let mut read_pieces =
            reasoning::without(&rules::as_read(pieces, self.format.folds_system()));
        if role == Some(Role::System) {
            read_pieces = rules::with_spelled_tokens(&read_pieces, |names| {
                let id = self.control_ids(names).first().map(|id| id.get());
                id.map(|id| self.vocab.spelling(id).to_owned()).unwrap_or_default()
            });
        }
        let (mut read, prefixed) = self.read(&self.pieces(&read_pieces));
        if is_also
            && also::needs_brace(pieces)
            && let Some(at) = read.iter().position(is_text)
        {
            read.insert(at, Op::Brace);
        }
        let texts: Vec<Text> = (0..read.len())
            .filter(|&at| is_text(&read[at]))
            .map(|at| self.text(&read, at, prefixed.contains(&at), role))
            .collect();
        let mut reasoning = reasoning::pieces_of(pieces).map(|pieces| self.reasoning(&pieces));
        if let Some(reasoning) = &mut reasoning {
            let mut rows = self.format.rows().iter();
            reasoning.closes_alone = rows.any(|row| reasoning::closes_alone(&row.pieces, pieces));
        }
        let ids = |names| token_ids(&self.control_ids(names));
        let mut block = around.and_then(|around| {
            let [open, close] = around.tokens()?.map(ids);
            let [before, after] = around.white.map(str::to_owned);
            let text = texts.iter().find(|text| text.field == Field::Content);
            let text = text.filter(|_| !after.is_empty()).cloned().map(|text| {
                let suffix = Suffix { literal: after, space: false };
                let before_call = suffix.clone();
                Text { closer: Closer { suffix, before_call, ..text.closer }.ready(), ..text }
            });
            Some(ContentBlock { is_own: true, open, before, text, close })
        });
        let has_answer = role == Some(Role::Assistant) && rules::has_field(pieces, Field::Content);
        if let Some([open, close]) = self.format.answer().filter(|_| has_answer) {
            let block = block.get_or_insert_default();
            block.open.extend(token_ids(&self.ids_of(open)));
            block.close.extend(token_ids(&self.ids_of(close)));
        }
        Rule { pieces: written, read, texts, open_at, text_at, close_at, reasoning, block }
    }

    fn reasoning(&self, pieces: &reasoning::Around<'_>) -> Reasoning {
        let suffix = Suffix { literal: pieces.after.to_owned(), space: false };
        let ids = token_ids(&self.ids_of(pieces.close));
        let closer = Closer { suffix, ids, ..Closer::default() }.ready();
        let field = Field::Reasoning;
        Reasoning {
            open: token_ids(&self.ids_of(pieces.open)),
            before: pieces.before.to_owned(),
            text: Text {
                at: 0,
                field,
                is_value: false,
                prefixed: false,
                closer,
                next: 0,
                goes_on: false,
            },
            after: pieces.then.to_owned(),
            closes_alone: false,
        }
    }

    /// The program that reads a pattern, and its steps for texts that are encoded separately.
    fn read(&self, pieces: &[BoundPiece]) -> (Vec<Op>, Vec<usize>) {
        let has_prefix = self.vocab.dummy_prefix() == DummyPrefix::EveryRun;
        let all: Vec<&BoundPiece> = walk(pieces).collect();
        let mut read: Vec<Op> = Vec::with_capacity(all.len());
        // For each piece, the step at which it begins.
        let mut begins = Vec::with_capacity(all.len() + 1);
        let mut prefixed = Vec::new();
        for (at, piece) in all.iter().enumerate() {
            begins.push(read.len());
            match piece {
                Piece::Literal(FixedText::Taken(_)) => {}
                Piece::Cut => match all.get(at + 1) {
                    Some(Piece::Field(field, _)) if is_body(*field) && has_prefix => {
                        prefixed.push(read.len());
                    }
                    // The dummy prefix of text that is encoded separately.
                    Some(Piece::Literal(FixedText::Encoded(_))) if has_prefix => {
                        read.push(Op::Prefix);
                    }
                    _ => {}
                },
                Piece::Control(ids) => read.push(Op::Control(ids.clone())),
                Piece::Literal(FixedText::Encoded(text)) => read.push(Op::Literal(text.clone())),
                &&Piece::Field(field, filter) => read.push(Op::Field(field, filter)),
                Piece::Optional { field, .. } => read.push(Op::Guard { field: *field, len: 0 }),
                Piece::Space => read.push(Op::Space),
                Piece::Rest => {
                    let mut ids = self.header_ids();
                    if let Some(Piece::Control(end)) = all.get(at + 1) {
                        ids.retain(|id| !end.contains(id));
                    }
                    read.push(Op::Rest(ids));
                }
            }
        }
        begins.push(read.len());
        for (at, piece) in all.iter().enumerate() {
            if let Piece::Optional { pieces, .. } = piece
                && let Some(Op::Guard { len, .. }) = read.get_mut(begins[at])
            {
                *len = begins[at + 1 + walk(pieces).count()] - begins[at + 1];
            }
        }
        for at in 1..read.len() {
            if matches!(read[at], Op::Field(Field::Call, _))
                && let Op::Literal(text) = &read[at - 1]
                && is_white(text)
            {
                read[at - 1] = Op::Space;
            }
        }
        for at in 1..read.len() {
            if let ([.., Op::Control(_)], [Op::Literal(text), ..]) = read.split_at_mut(at) {
                // Text is never excluded from a place that a control token begins, up to where a caller's text may
                // stand in its place.
                let start = self.text_start(&text.text);
                text.breaks.retain(|at| start.is_some_and(|start| *at >= start));
            }
        }
        (read, prefixed)
    }

    /// The byte of a literal after a control token at which another row has a caller's text instead.
    fn text_start(&self, literal: &str) -> Option<usize> {
        let starts = self.format.rows().iter().filter_map(|row| {
            let mut pieces = walk(&row.pieces).skip_while(|piece| !piece.is_control());
            let mut next = pieces.nth(1)?;
            let mut before = "";
            if let Piece::Literal(text) = next {
                (before, next) = (text, pieces.next()?);
            }
            let is_text = matches!(next, Piece::Field(field, _) if is_body(*field));
            let is_same =
                || literal.starts_with(before) || literal.starts_with(before.trim_start());
            (is_text && is_same() && literal.len() > before.len()).then_some(before.len())
        });
        starts.min()
    }

    fn text(&self, read: &[Op], at: usize, prefixed: bool, role: Option<Role>) -> Text {
        let Op::Field(field, filter) = read[at] else {
            let closer = Closer::default();
            let (field, is_value, goes_on) = (Field::Content, false, false);
            return Text { at, field, is_value, prefixed, closer, next: at, goes_on };
        };
        let is_value = filter.is_json();
        if is_value {
            // The token that ends the row also ends it too early.
            let ids = read[at..].iter().find_map(|op| match op {
                Op::Control(ids) => Some(token_ids(ids)),
                _ => None,
            });
            let ids = ids.unwrap_or_default();
            let closer = Closer { ids, ..Closer::default() };
            return Text { at, field, is_value, prefixed, closer, next: at + 1, goes_on: false };
        }
        let mut suffix = Suffix::default();
        let mut next = at + 1;
        while let Some(op) = read.get(next) {
            match op {
                Op::Guard { field: Field::Calls, .. } | Op::Field(Field::Calls, _) => {}
                Op::Literal(text) => suffix.literal.push_str(text),
                Op::Space => suffix.space = true,
                _ => break,
            }
            next += 1;
        }
        if field == Field::Arguments {
            // The reader of the arguments reads their end itself.
            let shapes = self.format.calls().iter().filter_map(|call| call.body.shape());
            let mut ends = shapes.map(|shape| shape.own_end()).filter(|end| !end.is_empty());
            let own = ends.find(|end| suffix.literal.starts_with(end)).map_or(0, str::len);
            suffix.literal.drain(..own);
        }
        let mut closer = Closer { suffix, ..Closer::default() };
        if role == Some(Role::Assistant) && field == Field::Content {
            closer.before_call.literal.push_str(self.format.after_content());
        } else if role.is_some_and(|role| role != Role::Assistant) && is_text(&read[at]) {
            closer.before_call.literal.push_str(&self.before_media());
        }
        match read.get(next) {
            Some(Op::Control(ids)) => closer.ids = token_ids(ids),
            Some(_) => {
                let literal = self.literal(&closer.suffix.literal);
                closer.stops.push(Stop { taken: literal.len(), literal });
            }
            None => self.close_openly(&mut closer, role),
        }
        let closer = closer.ready();
        let after = read.get(next + 1..).unwrap_or_default();
        let goes_on = !closer.ids.is_empty() && after.iter().any(|op| matches!(op, Op::Control(_)));
        Text { at, field, is_value, prefixed, closer, next, goes_on }
    }

    /// A row without a closing control token ends where something else begins.
    fn close_openly(&self, closer: &mut Closer, role: Option<Role>) {
        let rows = self.format.rows().iter().filter(|row| {
            let is_first =
                row.role == Role::System && self.format.system_place() == SystemPlace::First;
            let is_apart = rules::is_text_result(row, self.format.guarantee());
            row.place.is_read()
                && (!is_apart || role == Some(Role::Assistant))
                && rules::begins_with_text(&row.pieces)
                && !rules::is_calls_only(&row.pieces)
                && !is_first
                && role.is_some_and(|role| self.format.order().follows(Some(role), row.role))
        });
        let suffix = &closer.suffix.literal;
        let mut heads: Vec<String> = rows
            .map(|row| {
                let mut pieces = walk(&row.pieces).filter(|piece| **piece != Piece::Cut);
                match pieces.next() {
                    Some(Piece::Literal(text)) => text.clone(),
                    _ => String::new(),
                }
            })
            .collect();
        closer.opener = true;
        if heads.is_empty() {
            return;
        }
        if !is_white(suffix) {
            let literal = self.literal(suffix);
            closer.stops.push(Stop { taken: literal.len(), literal });
            closer.opener = false;
            return;
        }
        if let [Piece::Literal(prompt)] = self.format.generation_prompt() {
            heads.push(prompt.clone());
        }
        heads.retain(|head| !head.is_empty());
        heads.sort_by_key(String::len);
        let mut kept: Vec<String> = Vec::new();
        for head in heads {
            if !kept.iter().any(|shorter| head.starts_with(&**shorter)) {
                kept.push(head);
            }
        }
        let stop = |head: &String| Stop {
            literal: self.literal(&format!("{suffix}{head}")),
            taken: suffix.len(),
        };
        closer.stops.extend(kept.iter().map(stop));
    }

    /// The markers in a caller's text, in formats that delimit turns or texts by text.
    fn markers(&self, grammar: &Grammar) -> Result<Option<Markers>> {
        if self.format.guarantee() == Guarantee::Ids {
            return Ok(None);
        }
        let mut texts: Vec<String> = self.format.markers().to_vec();
        let mut heads = Vec::new();
        let is_read = |op: &&Op| **op != Op::Prefix;
        let first_literal = |row: &Row| match row.rule.read.iter().find(is_read) {
            Some(Op::Literal(literal)) => Some(literal.text.clone()),
            _ => None,
        };
        for row in &grammar.rows {
            let stops = row.rule.texts.iter().flat_map(|text| &text.closer.stops);
            texts.extend(stops.map(|stop| stop.literal.text.clone()));
            heads.extend(first_literal(row).filter(|_| row.text_first));
        }
        // A row whose head is longer than another row's head.
        let rows = self.format.rows();
        for (at, row) in rows.iter().enumerate() {
            for other in &rows[..at] {
                let (long, short) = (rules::head(&other.pieces), rules::head(&row.pieces));
                if let (Some(Piece::Literal(long)), Some(Piece::Literal(short))) =
                    (long.last(), short.last())
                    && long.starts_with(&**short)
                {
                    texts.push(long.trim_end().to_owned());
                }
            }
        }
        Markers::new(&texts, &heads, self.vocab).map(Some)
    }
}

/// Whether calls of a list begin with text, at least after the first.
fn is_bare(list: &ListSpec) -> bool {
    list.form != ListForm::Tokens
}

/// Whether a field is a text, an object or arguments.
fn is_body(field: Field) -> bool {
    matches!(field.holds(), FieldContent::Text | FieldContent::Object | FieldContent::Pairs)
}

fn is_text(op: &Op) -> bool {
    matches!(op, Op::Field(field, _) if is_body(*field))
}

/// Splits an optional part that extends beyond the last text or calls. Returns the number of pieces up to the
/// text.
fn split_at_text(pieces: &mut Vec<BoundPiece>) -> usize {
    let is_last = |piece: &BoundPiece| matches!(piece, Piece::Field(field, _) if is_body(*field) || *field == Field::Calls);
    let has_text = |piece: &BoundPiece| walk(std::slice::from_ref(piece)).any(is_last);
    let Some(at) = pieces.iter().rposition(has_text) else { return 0 };
    if let Piece::Optional { field, pieces: inside } = &mut pieces[at] {
        let (field, end) = (*field, split_at_text(inside));
        let rest = inside.split_off(end);
        if !rest.is_empty() {
            pieces.insert(at + 1, Piece::Optional { field, pieces: rest });
        }
    }
    at + 1
}
