//! From the file to the spec: every rule that a format file must keep is checked here.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashSet;

use super::between::Beside;
use super::calls::Answerer;
use super::file::{
    CALL_KEYS, CallFile, File, GenerationWhen, Loss, OneOrMany, ResultsPlace, SystemPlace,
    ToolsPlace,
};
use super::patterns::Patterns;
use super::table::{self, Reads, Table};
use super::tools::Declaration;
use super::work::Work;
use super::{
    CallBodySpec, CallSpec, FixedTurn, Guarantee, IdForm, ListForm, ListSpec, Proof, RowSpec,
    RowUse, Spec, ToolsSpec, after_tool, also, between, calls, jobs, last, media, preamble, prompt,
    reasoning, results, rules, split_turns, tags, text_markers, text_rows, tools_end,
    unmarked_calls, without_system,
};
use crate::call::{ShapeKeys, json_object, shape};
use crate::error::{Checked, wrong};
use crate::message::Role;
use crate::pattern::{self, Field, Piece, walk};

/// Maximum number of rows, forms of calls, appended tokens, and markers.
const MAX_ROWS: usize = 64;
pub(super) const MAX_ITEMS: usize = 16;
const MAX_APPENDED: usize = 1024;
const MAX_MARKERS: usize = 256;
const MAX_NAMES: usize = 64;
pub(super) const MAX_SPELLING_BYTES: usize = 1024;

impl Spec {
    /// Reads a file whose keys are known. With a proof, what the file writes can be read in one way only.
    pub(super) fn new(text: &Arc<str>, file: File, work: &Work, proof: Proof) -> Checked<Self> {
        let patterns = Patterns::new(&file.control, &file.text, tags::tags(&file.tag)?, work)?;
        check_lists(&file)?;
        let folds_system = file.losses.contains(&Loss::System);
        let mut rows = rows(&file, &patterns)?;
        let results = results::results(&file, &patterns, &mut rows)?;
        let (list, calls) = calls(&file, &patterns)?;
        split_turns::frames(&file, &patterns, &mut rows)?;
        let tools = tools(&file, &patterns, &rows)?;
        let begin_turn = preamble::begin(&file, &patterns, &rows, tools.as_ref())?;
        let without_system = without_system::without_system(&file, &patterns, &rows)?;
        let prompt = patterns.pieces("generation.prompt", &file.generation.prompt, &[])?;
        let thinking = thinking(&file, &patterns, &rows)?;
        let stop = stop(&patterns, &file, &rows)?;
        let [begin, end] = begin_and_end(&patterns, &file)?;
        let needed = patterns.used();
        let also = also::also(&file, &patterns, list.as_ref())?;
        let media = media::media(&file.media, &patterns, &patterns.used(), file.guarantee)?;
        check_whole(&file, &patterns, &rows, &calls, list.as_ref())?;
        let default_system = file.default_system.clone();
        let of_use = |is_needed| patterns.of_use(&needed, is_needed);
        let spec = Self {
            text: text.clone(),
            variant: None,
            name: file.name,
            guarantee: file.guarantee,
            source: file.source,
            vocabulary: file.vocabulary,
            lacking: Vec::new(),
            models: file.models,
            refused: file.refuses,
            tokenizer_classes: file.tokenizer_classes,
            append: file.append,
            append_at: file.append_at,
            silent: file.silent,
            markers: file.markers,
            order: file.order,
            default_system: file.default_system.map(|text| as_written(&text, &rows)),
            without_system,
            folds_system,
            system_place: file.place.system,
            always_prompts: file.generation.when == GenerationWhen::Always,
            roles: roles(&file.roles)?,
            begin,
            end,
            after_tool: after_tool::prompts(&rows, &prompt, &thinking)?,
            generation_prompt: prompt,
            thinking,
            reasoning: file.reasoning,
            last_when: file.last.when,
            after_content: file.calls.after_content,
            in_reasoning: file.calls.in_reasoning,
            bare_calls: file.calls.bare,
            results,
            results_place: file.place.results,
            stop,
            tools,
            begin_turn,
            rows,
            calls,
            list,
            also,
            media,
            space_mark: patterns.space_mark.take(),
            control: of_use(true),
            optional: of_use(false),
            text_markers: patterns.text().to_vec(),
            tags: patterns.tags.clone(),
        };
        if proof == Proof::Whole {
            spec.prove(&patterns, default_system.as_deref(), work)?;
        }
        Ok(spec)
    }

    /// Checks that what the rows and the patterns beside them write can be read in one way only.
    fn prove(&self, patterns: &Patterns, default_system: Option<&str>, work: &Work) -> Checked<()> {
        let table = Table {
            guarantee: self.guarantee,
            order: self.order,
            system: self.system_place,
            folds_system: self.folds_system,
            rows: &self.rows,
            calls: &self.calls,
            list: self.list.as_ref(),
            also: &self.also,
            prompt: &self.generation_prompt,
            stop: &self.stop,
            work,
        };
        let reads = Reads::new(&table)?;
        let beside = Beside {
            tools: self.tools.as_ref(),
            results: self.results.as_ref(),
            begin_turn: self.begin_turn.as_ref(),
            without_system: self.without_system.as_ref(),
            begin: &self.begin,
            end: &self.end,
        };
        table::check(&table, &reads)?;
        jobs::check(&table, &reads, &beside)?;
        table::check_default(&table, default_system)?;
        after_tool::check(&table, self.results.as_ref())?;
        prompt::check(&table, &self.thinking)?;
        text_rows::check_tools(&table, self.tools.as_ref())?;
        table::check_beside(&table, &reads, &beside)?;
        between::check(&table, &beside)?;
        patterns.check_after_turns()
    }
}

/// Checks the lists of words at the top of a file.
fn check_lists(file: &File) -> Checked<()> {
    check_words("append", &file.append, MAX_APPENDED)?;
    if file.append_at.is_some() && file.append.is_empty() {
        return wrong("append_at", "found without `append`; expected both or none");
    }
    check_words("silent", &file.silent, MAX_APPENDED)?;
    check_words("models", &file.models, MAX_NAMES)?;
    let mut kinds = file.refuses.iter().enumerate();
    if let Some((_, kind)) = kinds.find(|(at, kind)| file.refuses[..*at].contains(kind)) {
        return wrong(
            "refuses",
            format!("has the kind {} twice, expected each once", kind.quoted()),
        );
    }
    check_words("tokenizer_classes", &file.tokenizer_classes, MAX_NAMES)?;
    check_words("markers", &file.markers, MAX_MARKERS)
}

/// The patterns before the first message and after the last.
fn begin_and_end(patterns: &Patterns, file: &File) -> Checked<[Vec<Piece>; 2]> {
    let begin = patterns.pieces("begin", &file.begin, &[])?;
    Ok([begin, patterns.pieces("end", &file.end, &[])?])
}

fn check_words(key: &str, words: &[String], most: usize) -> Checked<()> {
    if words.len() > most {
        return wrong(key, format!("has {} words, expected at most {most}", words.len()));
    }
    if words.iter().any(|word| word.is_empty() || word.len() > MAX_SPELLING_BYTES) {
        return wrong(
            key,
            format!("has an empty or long word, expected 1 to {MAX_SPELLING_BYTES} bytes"),
        );
    }
    let mut seen = HashSet::new();
    if let Some(word) = words.iter().find(|word| !seen.insert(*word)) {
        return wrong(key, format!("has `{word}` twice, expected each word once"));
    }
    Ok(())
}

/// What is checked once all patterns are known.
fn check_whole(
    file: &File,
    patterns: &Patterns,
    rows: &[RowSpec],
    calls: &[CallSpec],
    list: Option<&ListSpec>,
) -> Checked<()> {
    patterns.refuse_unused()?;
    text_markers::check(patterns, file.guarantee, rows, calls, list)?;
    check_system(file, rows)
}

/// Checks that the rows have the place of a system message.
fn check_system(file: &File, rows: &[RowSpec]) -> Checked<()> {
    let in_user = matches!(file.place.system, SystemPlace::FirstUser | SystemPlace::LastUser);
    let has = |role, field| {
        rows.iter().any(|row| row.role == role && rules::has_field(&row.pieces, field))
    };
    if in_user && !has(Role::User, Field::System) {
        return wrong(
            "place.system",
            "is in the user's turn, where no row has `{system}`, expected it in `turn.user`",
        );
    }
    if !in_user && has(Role::User, Field::System) {
        let problem =
            "has `{system}`, expected `place.system` of `first_user` or `last_user` beside it";
        return wrong("turn.user", problem);
    }
    if in_user && rows.iter().any(|row| row.role == Role::System && row.name.is_none()) {
        return wrong(
            "turn.system",
            "is given beside `place.system` in the user's turn, expected one of them",
        );
    }
    let Some(default) = &file.default_system else { return Ok(()) };
    let mut own = rows.iter().filter(|row| row.role == Role::System && row.name.is_none());
    let Some(first) = own.next() else {
        return wrong(
            "default_system",
            "is given without a row to write it by, expected `turn.system`",
        );
    };
    let is_text = |piece: &Piece| matches!(piece, Piece::Field(..));
    if default.is_empty() && first.pieces.iter().all(is_text) {
        let problem = "is empty, and `turn.system` writes nothing around it, expected a text";
        return wrong("default_system", problem);
    }
    Ok(())
}

/// Results in the assistant's turn begin with the token that stops the model, and the message after them has no header.
fn check_results_place(file: &File, rows: &[RowSpec], stop: &[String]) -> Checked<()> {
    if file.place.results == ResultsPlace::Own {
        return Ok(());
    }
    let begins = |row: &RowSpec| match row.pieces.first() {
        Some(Piece::Control(names)) => names.first() == stop.first() && !stop.is_empty(),
        _ => false,
    };
    let mut results = rows.iter().filter(|row| row.role == Role::Tool).peekable();
    if results.peek().is_none() || !results.all(begins) {
        let problem = "is `assistant`, expected `turn.tool` to begin with the first token of `generation.stop`";
        return wrong("place.results", problem);
    }
    if file.after_tool.assistant.is_none() {
        let problem = "is `assistant` without a row for what follows a result, expected `after_tool.assistant`";
        return wrong("place.results", problem);
    }
    Ok(())
}

/// The row of the default system message is that of others without the literal after the text, in which the default
/// does not end: another row would read less than that. Or it is a row that is only read: see
/// [`table::check_default`].
fn check_default(
    key: &str,
    pieces: &[Piece],
    default: Option<&str>,
    rows: &[RowSpec],
    patterns: &Patterns,
) -> Checked<()> {
    let Some(default) = default else {
        return wrong(key, "is given without `default_system`, expected both or none");
    };
    let after = |row: &RowSpec| {
        let spelling = |names: &[String]| patterns.spelling(names);
        let (without, after) = without_end(&rules::with_spelled_tokens(&row.pieces, spelling))?;
        (without == pieces).then_some(after)
    };
    let own = || rows.iter().filter(|row| row.role == Role::System && row.name.is_none());
    if own().any(|row| row.place == RowUse::Last && row.pieces == pieces) {
        return Ok(());
    }
    let Some(after) = own().filter(|row| row.place == RowUse::Both).find_map(after) else {
        let shorter = |row: &RowSpec| without_end(&row.pieces).map(|(row, _)| pattern::shown(&row));
        let shorter = own().find_map(shorter).map_or(String::new(), |row| format!(": {row}"));
        let problem = format!(
            "is no row of `turn.system`; expected one without its text after `{{content}}`{shorter}, or a second \
             pattern of `turn.system` as it is there"
        );
        return wrong(key, problem);
    };
    if default.to_lowercase().ends_with(&after.to_lowercase()) {
        let problem =
            format!("ends in {after:?}, which `turn.system` writes, expected another text");
        return wrong("default_system", problem);
    }
    Ok(())
}

/// A row without the literal after its text, and that literal.
fn without_end(row: &[Piece]) -> Option<(Vec<Piece>, String)> {
    let at = row.iter().position(|piece| rules::is_field(piece, Field::Content))?;
    match (row.get(at + 1), row.get(at + 2..)) {
        (Some(Piece::Literal(after)), Some(rest)) => {
            Some(([&row[..=at], rest].concat(), after.clone()))
        }
        _ => None,
    }
}

/// A default system message, filtered by its row.
fn as_written(text: &str, rows: &[RowSpec]) -> String {
    let rows = rows.iter().filter(|row| row.role == Role::System && row.name.is_none());
    let filter = rows.flat_map(|row| walk(&row.pieces)).find_map(|piece| match piece {
        Piece::Field(Field::Content, filter) => Some(*filter),
        _ => None,
    });
    filter.unwrap_or_default().trim(text).to_owned()
}

/// The fields that a row of a role may have.
fn allowed(role: Role) -> &'static [Field] {
    match role {
        Role::User => &[Field::Content, Field::Name, Field::System],
        Role::Assistant => {
            &[Field::Content, Field::Calls, Field::Reasoning, Field::Channel, Field::Type]
        }
        Role::System => &[Field::Content, Field::Tools, Field::Thinking],
        Role::Tool => &[Field::Content, Field::Id, Field::Name, Field::Index],
    }
}

/// A row as a reader reads it: without a system text that it takes for the user's, and with control tokens in the
/// system's text spelled out.
fn as_read(file: &File, patterns: &Patterns, role: Role, pieces: &[Piece]) -> Vec<Piece> {
    let read = rules::as_read(pieces, file.losses.contains(&Loss::System));
    if role != Role::System || file.guarantee != Guarantee::Ids {
        return read;
    }
    rules::with_spelled_tokens(&read, |names| patterns.spelling(names))
}

/// Whether a row goes on after the token that closes it. A token that a system row has as text does not follow a value.
fn goes_on(pieces: &[Piece], read: &[Piece]) -> bool {
    let is_value = |piece: &Piece| rules::is_text(piece) && rules::ends_itself(piece);
    let row = if pieces.iter().any(is_value) { pieces } else { read };
    rules::goes_on(&reasoning::without(row))
}

fn rows(file: &File, patterns: &Patterns) -> Checked<Vec<RowSpec>> {
    let mut rows = Vec::new();
    let wraps_results = !file.results.open.is_empty() || !file.results.close.is_empty();
    let mut row = |key: &str, role, name: Option<&String>, texts: Option<&OneOrMany>| {
        let texts = texts.map(|texts| texts.clone().into_vec());
        let place = match (key, role) {
            ("last.assistant", _) => RowUse::WrittenLast,
            ("after_tool.assistant", _) => RowUse::AfterTool,
            ("turn.default_system", _) => RowUse::WrittenDefault,
            (_, Role::Tool) if wraps_results => RowUse::Written,
            _ => RowUse::Both,
        };
        let many = texts.as_ref().is_some_and(|texts| texts.len() > 1);
        for (nth, text) in texts.iter().flatten().enumerate() {
            let key = if many { format!("{key}[{nth}]") } else { key.to_owned() };
            let pieces = patterns.row(&key, text, allowed(role))?;
            if rules::has_field(&pieces, Field::Tools) {
                return wrong(key, "has `{tools}`, expected `{?tools:…?}` around a literal only");
            }
            check_thinking(&key, &pieces)?;
            let mut place = after_tool::place(place, &key, &pieces, &rows, file)?;
            if role == Role::Assistant {
                let is_other = |row: &&RowSpec| row.role == role && row.place == RowUse::Both;
                let mut others = rows.iter().filter(is_other);
                let is_read = |row: &RowSpec| {
                    row.pieces == pieces
                        || reasoning::is_read_by(&pieces, &row.pieces, &file.calls.after_content)
                        || unmarked_calls::is_read_by(&pieces, &row.pieces)
                };
                let is_read_back = others.clone().any(is_read);
                if place == RowUse::Both && is_read_back {
                    place = RowUse::Written;
                } else if place == RowUse::WrittenLast
                    && !is_read_back
                    && !others.any(|row| rules::reads(&row.pieces, &pieces))
                {
                    return wrong(
                        key,
                        "is read back by no row of `turn.assistant`; expected a row of `turn.assistant` with other \
                         reasoning, and nothing else changed",
                    );
                }
            }
            rules::check_pieces(&key, &pieces)?;
            let read = as_read(file, patterns, role, &pieces);
            if role != Role::Tool && goes_on(&pieces, &read) {
                return wrong(key, rules::GOES_ON);
            }
            if place == RowUse::WrittenDefault {
                check_default(&key, &pieces, file.default_system.as_deref(), &rows, patterns)?;
            }
            if place == RowUse::Written
                && let Some(rest) = rules::after_last(&pieces, rules::is_calls)
            {
                rules::check_after_text(&key, &rest, false)?;
            }
            if role != Role::Assistant && place == RowUse::Both {
                let is_same = |row: &&RowSpec| row.role == role && row.name.as_ref() == name;
                let mut others = rows.iter().filter(is_same);
                let is_only_read = |row: &RowSpec| {
                    row.place == RowUse::Both && last::is_only_read(&pieces, &row.pieces)
                };
                if file.guarantee == Guarantee::Ids && others.any(is_only_read) {
                    place = RowUse::Last;
                }
            }
            if place != RowUse::Last && walk(&pieces).any(|piece| *piece == Piece::Rest) {
                let problem = "has `{*}`, expected it in a row that is only read, after another of \
                               its role and name";
                return wrong(key, problem);
            }
            if matches!(place, RowUse::Both | RowUse::Last | RowUse::AfterTool) {
                rules::check_row(&key, &read)?;
            }
            rows.push(RowSpec { key, role, name: name.cloned(), pieces, place });
            if rows.len() > MAX_ROWS {
                return wrong(
                    "turn",
                    format!(
                        "has over {MAX_ROWS} rows, expected at most {MAX_ROWS} with those of `named` and `last`"
                    ),
                );
            }
        }
        Ok(())
    };
    row("turn.system", Role::System, None, file.turn.system.as_ref())?;
    let default = file.turn.default_system.clone().map(OneOrMany::One);
    row("turn.default_system", Role::System, None, default.as_ref())?;
    row("turn.user", Role::User, None, Some(&file.turn.user))?;
    row("turn.assistant", Role::Assistant, None, Some(&file.turn.assistant))?;
    row("turn.tool", Role::Tool, None, file.turn.tool.as_ref())?;
    for (name, named) in &file.named {
        row(&format!("named.{name}.system"), Role::System, Some(name), named.system.as_ref())?;
        row(&format!("named.{name}.tool"), Role::Tool, Some(name), named.tool.as_ref())?;
    }
    row("last.assistant", Role::Assistant, None, file.last.assistant.as_ref())?;
    row("after_tool.assistant", Role::Assistant, None, file.after_tool.assistant.as_ref())?;
    jobs::check_after_texts(&rows)?;
    Ok(rows)
}

/// Whether reasoning is asked for is a condition without a text.
fn check_thinking(key: &str, pieces: &[Piece]) -> Checked<()> {
    if rules::has_field(pieces, Field::Thinking) {
        return wrong(
            key,
            "has `{thinking}`, expected `{?thinking:…?}` around tokens and literals",
        );
    }
    Ok(())
}

/// The generation prompts with and without reasoning: an assistant row begins with each.
fn thinking(
    file: &File,
    patterns: &Patterns,
    rows: &[RowSpec],
) -> Checked<[Option<Vec<Piece>>; 2]> {
    let prompt = |key: &str, text: Option<&String>| -> Checked<Option<Vec<Piece>>> {
        let Some(text) = text else { return Ok(None) };
        let pieces = patterns.pieces(key, text, &[])?;
        if !rows.iter().any(|row| rules::has_field(&row.pieces, Field::Reasoning)) {
            return wrong(key, "asks for reasoning or for none, expected a row with `{reasoning}`");
        }
        Ok(Some(pieces))
    };
    Ok([
        prompt("generation.thinking", file.generation.thinking.as_ref())?,
        prompt("generation.no_thinking", file.generation.no_thinking.as_ref())?,
    ])
}

/// The control tokens that stop the model although no row writes them.
fn stop(patterns: &Patterns, file: &File, rows: &[RowSpec]) -> Checked<Vec<String>> {
    let pieces = patterns.pieces("generation.stop", &file.generation.stop, &[])?;
    let names: &[String] = match &pieces[..] {
        [] => &[],
        [Piece::Control(names)] => names,
        _ => {
            return wrong(
                "generation.stop",
                "is more or less than one control token, expected `{A}` or `{A|B}`",
            );
        }
    };
    let is_own = |row: &&RowSpec| row.role == Role::Assistant && row.place.is_read();
    for row in rows.iter().filter(is_own) {
        let close = row.pieces.iter().rev().find_map(rules::control_names);
        let last = close.and_then(|close| patterns.end_of_tag(close.first()?));
        if let Some(last) = last.filter(|last| !names.contains(last)) {
            let problem =
                format!("ends in a tag, expected its last token `{{{last}}}` in `generation.stop`");
            return wrong(&row.key, problem);
        }
    }
    check_results_place(file, rows, names)?;
    Ok(names.to_vec())
}

fn roles(file: &BTreeMap<String, String>) -> Checked<BTreeMap<String, Role>> {
    file.iter()
        .map(|(word, role)| match Role::parse(role) {
            Some(role) => Ok((word.clone(), role)),
            None => wrong(
                format!("roles.{word}"),
                format!("is `{role}`, expected `system`, `user`, `assistant` or `tool`"),
            ),
        })
        .collect()
}

fn tools(file: &File, patterns: &Patterns, rows: &[RowSpec]) -> Checked<Option<ToolsSpec>> {
    let Some(texts) = &file.turn.tools else {
        return match file.place.tools {
            Some(_) => wrong(
                "place.tools",
                "places a turn that the file does not have, expected `turn.tools`",
            ),
            None if file.tools.reasoning.is_some() => {
                wrong("tools.reasoning", "is given without `turn.tools`, expected both or neither")
            }
            None => Ok(None),
        };
    };
    let Some(place) = file.place.tools else {
        let problem = "has no place; expected `place.tools`: `first`, `before_begin`, `after_system`, \
                       `first_user`, `last_user` or `system`";
        return wrong("turn.tools", problem);
    };
    let fields = [Field::Tools, Field::System, Field::Content, Field::Thinking];
    let texts = texts.clone().into_vec();
    let turns = texts.iter().map(|text| patterns.pieces("turn.tools", text, &fields));
    let mut turns = turns.collect::<Checked<Vec<_>>>()?;
    turns.iter().try_for_each(|turn| check_thinking("turn.tools", turn))?;
    if turns.iter().flat_map(|turn| walk(turn)).any(Piece::is_json) {
        return wrong(
            "turn.tools",
            "has the filter `value`, expected another or none beside tools",
        );
    }
    let has = |pieces: &[Piece], field| rules::has_field(pieces, field);
    let alone = (turns.len() == 2).then(|| turns.pop()).flatten();
    let [pieces] = &turns[..] else {
        return wrong("turn.tools", "has no pattern or over two, expected one or two");
    };
    let pieces = pieces.clone();
    let holds = match (has(&pieces, Field::System), has(&pieces, Field::Content)) {
        (false, false) => None,
        (true, false) => Some(Role::System),
        (false, true) => Some(Role::User),
        (true, true) => {
            return wrong(
                "turn.tools",
                "has both `{system}` and `{content}`, expected one of them at most",
            );
        }
    };
    if let Some(alone) = &alone
        && (holds != Some(Role::System)
            || has(alone, Field::System)
            || has(alone, Field::Content)
            || pieces.iter().any(|piece| matches!(piece, Piece::Optional { .. })))
    {
        let problem = "has a second pattern, expected one with `{system}`, unguarded, \
                       and one for tools alone";
        return wrong("turn.tools", problem);
    }
    let fits = match place {
        ToolsPlace::System => holds == Some(Role::System),
        ToolsPlace::FirstUser | ToolsPlace::LastUser => holds != Some(Role::System),
        ToolsPlace::First | ToolsPlace::BeforeBegin | ToolsPlace::AfterSystem => holds.is_none(),
    };
    if !fits {
        let problem = "does not fit `place.tools`; expected `{system}` in it for `system`, `{content}` for \
                       `first_user` and `last_user`, and neither for the other places";
        return wrong("turn.tools", problem);
    }
    let declaration = Declaration::new(file, patterns)?;
    let is_after = matches!(place, ToolsPlace::AfterSystem | ToolsPlace::System);
    if !is_after && file.guarantee == Guarantee::Text && rules::begins_with_text(&pieces) {
        return wrong("turn.tools", "begins with text, expected a control token");
    }
    let is_first = matches!(place, ToolsPlace::First | ToolsPlace::BeforeBegin);
    let may_follow_turns = holds.is_none() && !is_first;
    let has_token = pieces.iter().any(Piece::is_control);
    if file.place.system != SystemPlace::Own
        && may_follow_turns
        && has_token
        && rules::begins_with_text(&pieces)
    {
        let problem = "begins with text, expected a control token: a system's turn that begins with text is read at \
                       the beginning alone, as `place.system` says";
        return wrong("turn.tools", problem);
    }
    let role = holds.unwrap_or(Role::System);
    let turn = tools_turn(pieces, role, rows, file.guarantee)?;
    let alone = alone.map(|pieces| tools_turn(pieces, role, rows, file.guarantee)).transpose()?;
    let turns = [Some(&turn), alone.as_ref()];
    let reasoning = tools_end::tools_reasoning(file, turns, role, patterns)?;
    Ok(Some(ToolsSpec { turn, alone, declaration, reasoning, holds, place }))
}

/// A turn that declares tools, and the row that reads it back.
fn tools_turn(
    pieces: Vec<Piece>,
    role: Role,
    rows: &[RowSpec],
    guarantee: Guarantee,
) -> Checked<FixedTurn> {
    let readers = rows.iter().filter(|row| row.role == role && row.place == RowUse::Both);
    // A row may also have a literal after its text, in which the turn does not end: a reader takes it off where it is.
    let read_without_end = |row: &RowSpec| {
        let (without, after) = without_end(&row.pieces)?;
        let at = without.iter().position(|piece| rules::is_field(piece, Field::Content))?;
        let is_closed = without.get(at + 1).is_some_and(Piece::is_control);
        let inside = results::read_as(&without, &pieces, Field::Tools)?;
        let ends_otherwise = matches!(inside.last(), Some(Piece::Literal(text))
            if !text.ends_with(&after) && !after.ends_with(text.as_str()));
        (guarantee == Guarantee::Ids && is_closed && ends_otherwise).then_some(inside)
    };
    let read_back = |row: &RowSpec| {
        let inside = results::read_as(&row.pieces, &pieces, Field::Tools);
        inside.or_else(|| read_without_end(row))
    };
    rules::check_pieces("turn.tools", &pieces)?;
    // A row of a name reads less than the row without a name.
    let found = readers.filter_map(|row| Some((row, read_back(row)?)));
    let found = found.max_by_key(|(row, _)| row.name.is_some());
    let Some((row, inside)) = found else {
        return wrong("turn.tools", results::unread(&pieces, rows, role));
    };
    rules::check_reads_text("turn.tools", row)?;
    let name = row.name.clone();
    Ok(FixedTurn { pieces, name, inside })
}

/// The patterns around a list of calls, and the forms of calls.
fn calls(file: &File, patterns: &Patterns) -> Checked<(Option<ListSpec>, Vec<CallSpec>)> {
    let items = file.call.values().flat_map(|call| call.item.clone().into_vec());
    let items: Vec<Vec<Piece>> = items.filter_map(|item| pattern::parse(&item).ok()).collect();
    let list = list(file, patterns, &items)?;
    let mut calls = Vec::new();
    for (kind, call) in &file.call {
        calls.push(one_call(kind, call, patterns, list.as_ref())?);
    }
    for (what, is_code) in [("a function", false), ("code", true)] {
        let mut same = calls.iter().filter(|call: &&CallSpec| call.body.is_code() == is_code);
        if let (Some(first), Some(second)) = (same.next(), same.next()) {
            let problem = format!(
                "is a second way to call {what} beside `call.{}`, expected one",
                first.kind
            );
            return wrong(format!("call.{}", second.kind), problem);
        }
    }
    Ok((list, calls))
}

/// The patterns around calls of these forms.
fn list(file: &File, patterns: &Patterns, items: &[Vec<Piece>]) -> Checked<Option<ListSpec>> {
    let calls = &file.calls;
    patterns.pieces("calls.after_content", &calls.after_content, &[])?;
    if !pattern::is_white(&calls.after_content) {
        let problem = format!("is {:?}, expected white space only", calls.after_content);
        return wrong("calls.after_content", problem);
    }
    let ways = |key: &str, texts: Option<&OneOrMany>| -> Checked<Vec<Vec<Piece>>> {
        let texts = texts.map(|texts| texts.clone().into_vec()).unwrap_or_default();
        if texts.len() > MAX_ITEMS {
            return wrong(
                key,
                format!("has {} patterns, expected at most {MAX_ITEMS}", texts.len()),
            );
        }
        let texts = texts.iter().filter(|text| !text.is_empty());
        texts.map(|text| patterns.pieces(key, text, &[])).collect()
    };
    let open = ways("calls.open", calls.open.as_ref())?;
    let between = patterns.pieces("calls.between", &calls.between, &[])?;
    let close = ways("calls.close", calls.close.as_ref())?;
    let is_scaffold = |piece: &Piece| match piece {
        Piece::Control(_) => true,
        Piece::Literal(text) => pattern::is_white(text),
        _ => false,
    };
    let mut bare = items.iter().filter(|item| unmarked_calls::begins_with_field(item)).peekable();
    let is_tokens = |pieces: &Vec<Piece>| pieces.iter().all(is_scaffold);
    let is_block = !open.is_empty() && open.iter().chain(&close).all(is_tokens);
    if bare.peek().is_some() && !(is_block && bare.all(|item| calls::is_python(item))) {
        return unmarked_calls::list(open, between, close).map(Some);
    }
    if open.is_empty() && between.is_empty() && close.is_empty() {
        return Ok(None);
    }
    for (key, pieces) in [("calls.open", &open), ("calls.close", &close)] {
        if pieces.len() > 1 {
            return wrong(
                key,
                "has more than one pattern, expected one around calls that begin with a control token",
            );
        }
    }
    let between_and_close = close.iter().map(|close| ("calls.close", close));
    for (key, pieces) in [("calls.between", &between)].into_iter().chain(between_and_close) {
        if !pieces.iter().all(is_scaffold) {
            return wrong(key, "has text, expected control tokens and white space only");
        }
    }
    if between.iter().any(Piece::is_control) {
        return wrong("calls.between", "has a control token, expected white space only");
    }
    if let Some(open) = open.first()
        && (!open.first().is_some_and(Piece::is_control) || !open.iter().all(is_scaffold))
    {
        return wrong(
            "calls.open",
            "begins with something else, expected a control token, and white space after it at most",
        );
    }
    Ok(Some(ListSpec { open, between, close, form: ListForm::Tokens }))
}

fn one_call(
    kind: &str,
    call: &CallFile,
    patterns: &Patterns,
    list: Option<&ListSpec>,
) -> Checked<CallSpec> {
    let key = format!("call.{kind}");
    let mut texts = call.item.clone().into_vec();
    let own = texts.len();
    texts.extend(call.also.iter().flat_map(|also| also.clone().into_vec()));
    let (body, allowed) = call_body(&key, CALL_KEYS, &texts, &call.shape, patterns)?;
    calls::check_several(&key, &body, &call.shape, list)?;
    let item = format!("{key}.item");
    if own == 0 || texts.len() > MAX_ITEMS {
        let count = texts.len();
        return wrong(item, format!("has {count} patterns, expected 1 to {MAX_ITEMS}"));
    }
    let mut items = Vec::new();
    for text in &texts {
        check_body_fields(&item, text, &body)?;
        let pieces = patterns.pieces(&item, text, allowed)?;
        calls::check_item(&item, &pieces, &body, list, false)?;
        items.push(pieces);
    }
    if items.first().is_some_and(|written| !split_turns::is_writable(written)) {
        return wrong(item, split_turns::NOT_WRITABLE);
    }
    let id = call.id.as_deref().map_or(Some(IdForm::Any), IdForm::parse);
    let Some(id) = id else {
        let problem =
            "is unknown, expected `alphanumeric9`, or words around `{name}` and `{index}`";
        return wrong(format!("{key}.id"), problem);
    };
    let is_named = |item: &Vec<Piece>| {
        let has_id = rules::has_field(item, Field::Id) && id.has_name();
        rules::has_field(item, Field::Name) || has_id
    };
    if body.shape().is_some() && !items.iter().all(is_named) {
        return wrong(
            item,
            "says no name of what is called, expected `{name}`, or `{id}` with `id = \"…{name}…{index}\"`",
        );
    }
    let Some(result) = Answerer::parse(call.result.as_deref().unwrap_or("{name}")) else {
        return wrong(format!("{key}.result"), "is unknown, expected words around `{name}`");
    };
    if call.result.is_some() && body.is_code() {
        return wrong(
            format!("{key}.result"),
            "is given for code, which has no name, expected it of functions only",
        );
    }
    Ok(CallSpec { kind: kind.to_owned(), items, own, body, id, result })
}

/// Checks that an item has the fields of its body: `{call}` belongs to `object`, `{name}` and `{arguments}` do not.
fn check_body_fields(item: &str, text: &str, body: &CallBodySpec) -> Checked<()> {
    let is_object = matches!(body, CallBodySpec::Object(_));
    if is_object && (text.contains("{name}") || text.contains("{arguments}")) {
        let problem = "has `{name}` or `{arguments}` beside `object`, which writes both; expected `{call}` in their \
                       place, or no `object`";
        return wrong(item, problem);
    }
    if !is_object && text.contains("{call}") {
        let problem = "has `{call}` without `object`; expected `object` beside it, such as \
                       `object = { name = \"name\", arguments = \"arguments\" }`";
        return wrong(item, problem);
    }
    Ok(())
}

/// The body of a call, and the fields that its patterns may have. `table` has the keys of the table other than its
/// `own`.
pub(super) fn call_body(
    key: &str,
    own: &[&str],
    texts: &[String],
    table: &toml::Table,
    patterns: &Patterns,
) -> Checked<(CallBodySpec, &'static [Field])> {
    let shapes = shape::keys();
    let is_of_shape = |name: &String| shapes.contains(&name.as_str());
    let is_known = |name: &String| is_of_shape(name) || json_object::KEYS.contains(&name.as_str());
    if let Some(unknown) = table.keys().find(|name| !is_known(name)) {
        let known = [own, json_object::KEYS, &shapes].concat();
        let problem = format!("is unknown, expected one of `{}`", known.join("`, `"));
        return wrong(format!("{key}.{unknown}"), problem);
    }
    if let Some(object) = json_object::parse(key, table)? {
        if let Some(other) = table.keys().find(|name| is_of_shape(name)) {
            let problem = "stands beside `object`, expected one of them";
            return wrong(format!("{key}.{other}"), problem);
        }
        return Ok((CallBodySpec::Object(object), &[Field::Call]));
    }
    let has_arguments = texts.iter().any(|text| text.contains("{arguments}"));
    let pattern = |key: &str, text: &str| {
        let pieces = patterns.pieces(key, text, &[])?;
        rules::check_pieces(key, &pieces)?;
        Ok(pieces)
    };
    let keys = ShapeKeys { key, table, has_arguments, pattern: &pattern };
    Ok(match shape::parse(&keys)? {
        Some(shape) => (
            CallBodySpec::Arguments(shape),
            &[Field::Name, Field::Id, Field::Arguments, Field::Channel, Field::Type, Field::Index],
        ),
        None => {
            (CallBodySpec::Code, &[Field::Language, Field::Source, Field::Channel, Field::Type])
        }
    })
}
