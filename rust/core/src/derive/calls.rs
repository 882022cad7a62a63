//! How a template writes calls and their results.

use std::ops::Range;

use serde_json::{Map, Value};

use super::draft::{Calls, Draft, Reasoning, Results, Wrap};
use super::probe::{
    ANSWER, Given, ID, KEYS, NAME, OR, Probes, QUESTION, RESULTS, SECOND, VALUES, assistant,
    calling, calling_with, common_end, common_start, id, is_mark, result, user, with_fields,
};
use super::proof;
use crate::codec::Codec;

/// Drafts with calls, the likeliest first.
pub(super) struct Found {
    pub(super) given: Given,
    pub(super) candidates: Vec<Draft>,
}

/// The body of one call: where it is, and how it is written.
#[derive(Debug, Clone)]
struct Body {
    range: Range<usize>,
    pattern: String,
    object: Members,
    pairs: Vec<String>,
    quote: Option<char>,
}

/// The text after the question of what a template writes, with one word for all ids of calls.
fn answer(probes: &Probes, messages: &[Value], given: Given) -> Option<String> {
    let text = probes.text(messages, given, false)?;
    let (_, answer) = text.split_once(QUESTION)?;
    if given.named_ids {
        return Some(answer.to_owned());
    }
    Some(answer.replace(&id(given, 0), ID).replace(&id(given, 1), ID))
}

/// Finds how calls are written, for each way to give them that the template takes; empty if it does not write them.
pub(super) fn find(probes: &Probes, base: &Draft) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for tools in [false, true] {
        for as_text in [false, true] {
            found.extend(find_given(probes, base, Given { tools, as_text, named_ids: false }));
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}

fn find_given(probes: &Probes, base: &Draft, given: Given) -> Option<Found> {
    let messages = |text: &str, count, given| [user(QUESTION), calling(text, count, given)];
    let text = answer(probes, &messages("", 1, given), given)?;
    if !VALUES[0].iter().all(|value| text.contains(value)) {
        return None;
    }
    let given = Given { named_ids: !text.contains(NAME), ..given };
    let written =
        |text: &str, count| base.answer_in(&answer(probes, &messages(text, count, given), given)?);
    let mut candidates = Vec::new();
    if let Some(one) = written("", 1) {
        let two = written("", 2);
        let called = Called {
            given,
            beside: written(ANSWER, 1),
            is_ended: is_ended(probes, base, given),
            wrap: wrap(probes, given, &one),
        };
        for body in bodies(&one, 0, given) {
            let pairs: Vec<Option<&str>> = match &body.pairs[..] {
                [] => vec![None],
                pairs => pairs.iter().map(|pair| Some(pair.as_str())).collect(),
            };
            for pair in pairs {
                for around in arounds(&one, two.as_deref(), &body, base, given) {
                    around.drafts(base, &body, pair, &called, &mut candidates);
                }
            }
        }
    }
    Some(Found { given, candidates })
}

/// What is known of a calling message as a whole.
struct Called {
    given: Given,
    /// The message with content, if the template writes it.
    beside: Option<String>,
    /// Whether the end of an answer stands before a result.
    is_ended: bool,
    /// What stands around strings that hold some texts.
    wrap: Option<Wrap>,
}

/// Texts that templates write in a wrap.
const WRAPPED: [&str; 4] = ["<", "&", "\n", "]"];

/// What stands around strings that hold some texts, beside a call without such texts.
fn wrap(probes: &Probes, given: Given, plain: &str) -> Option<Wrap> {
    let (before, after) = plain.split_once(VALUES[0][0])?;
    let tail = &after[..after.find(KEYS[1])?];
    let mut found: Option<Wrap> = None;
    for special in WRAPPED {
        let value = format!("Va{special}qz");
        let messages = [user(QUESTION), calling_with(&value, given)];
        let Some(text) = answer(probes, &messages, given) else { continue };
        let Some((head, rest)) = text.split_once(&value) else { continue };
        let Some(at) = head.find(before).map(|at| at + before.len()) else { continue };
        let (open, Some(close)) = (&head[at..], rest.find(tail).map(|at| &rest[..at])) else {
            continue;
        };
        if open.is_empty() || close.is_empty() || open.contains(is_mark) || close.contains(is_mark)
        {
            continue;
        }
        let wrap = found.get_or_insert_with(|| Wrap {
            open: open.to_owned(),
            close: close.to_owned(),
            when: Vec::new(),
        });
        if wrap.open == open && wrap.close == close {
            wrap.when.push(special);
        }
    }
    found
}

/// Whether the first token of an answer's end stands between a call and its result.
fn is_ended(probes: &Probes, base: &Draft, given: Given) -> bool {
    let end = base.end.chars().find(|character| is_mark(*character));
    let written = answer(probes, &[user(QUESTION), calling("", 1, given), result(0, given)], given);
    let between = written.as_deref().and_then(|text| {
        let (before, _) = text.split_once(RESULTS[0])?;
        before.rsplit_once(VALUES[0][1]).map(|(_, between)| between)
    });
    end.zip(between).is_some_and(|(end, between)| between.contains(end))
}

/// The ways in which the text of a call may be read.
fn bodies(text: &str, index: usize, given: Given) -> Vec<Body> {
    let values = VALUES[index];
    let Some(value) = text.find(values[0]) else { return Vec::new() };
    let name = text[..value].rfind(NAME);
    let mut bodies = Vec::new();
    // A JSON object that holds the name and the arguments, and one around it.
    let mut objects = text[..value].char_indices().rev().filter(|(_, c)| *c == '{');
    let found = objects.find_map(|(at, _)| {
        let (Value::Object(object), length) = json_at(&text[at..])? else { return None };
        let members = members(&object, values, given)?;
        Some((at..at + length, object, members))
    });
    if let Some((range, object, members)) = found {
        let outer = objects.find_map(|(at, _)| {
            let (Value::Object(outer), length) = json_at(&text[at..])? else { return None };
            Some((at..at + length, around(&outer, &object, &members, given)?))
        });
        for (range, object) in outer.into_iter().chain([(range, members)]) {
            let pattern = "{call}".into();
            bodies.push(Body { range, pattern, object, pairs: Vec::new(), quote: None });
        }
    }
    let start = name.or_else(|| text[..value].rfind(&with_named(given, index)));
    let Some(start) = start else { return bodies };
    let begin = if given.named_ids {
        text[..value].rfind(&with_named(given, index)).unwrap_or(start)
    } else {
        start
    };
    // JSON after the name.
    for (at, _) in text[start..value].char_indices().filter(|(_, c)| *c == '{') {
        let at = start + at;
        if let Some((object, length)) = json_at(&text[at..])
            && object.get(KEYS[0]).and_then(Value::as_str) == Some(values[0])
        {
            let head = with_fields(&text[begin..at], given);
            bodies.push(Body {
                range: begin..at + length,
                pattern: format!("{head}{{arguments}}"),
                object: Vec::new(),
                pairs: Vec::new(),
                quote: None,
            });
        }
    }
    bodies.extend(pairs(text, begin, values, given));
    bodies.extend(tagged(text, begin, values, given));
    bodies
}

/// Members of `{call}` and their keys, in order.
type Members = Vec<(&'static str, String)>;

/// What the members of an object are; none if it does not hold a call.
fn members(object: &Map<String, Value>, values: [&str; 2], given: Given) -> Option<Members> {
    let is_name = |value: &Value| value.as_str() == Some(NAME);
    let is_arguments =
        |value: &Value| value.get(KEYS[0]).and_then(Value::as_str) == Some(values[0]);
    if object.len() == 1 && object.get(NAME).is_some_and(is_arguments) {
        return Some(vec![("arguments", "{name}".into())]);
    }
    if !object.values().any(is_name) || !object.values().any(is_arguments) {
        return None;
    }
    let member = |(key, value): (&String, &Value)| match value {
        value if is_name(value) => Some(("name", key.clone())),
        value if is_arguments(value) => Some(("arguments", key.clone())),
        value if is_id(key, value, given) => Some(("id", key.clone())),
        _ => None,
    };
    object.iter().map(member).collect()
}

fn is_id(key: &str, value: &Value, given: Given) -> bool {
    value.as_str().is_some_and(|text| with_fields(text, given) == "{id}" || key.ends_with("id"))
}

/// The members of an object around the one that holds a call: its id at most, and the type `function`.
fn around(
    outer: &Map<String, Value>,
    inner: &Map<String, Value>,
    members: &Members,
    given: Given,
) -> Option<Members> {
    let mut all = members.clone();
    for (key, value) in outer {
        match value {
            Value::Object(object) if object == inner => all.push(("within", key.clone())),
            value if is_id(key, value, given) => all.push(("id", key.clone())),
            value if key == "type" && value == "function" => {}
            _ => return None,
        }
    }
    all.iter().any(|(member, _)| *member == "within").then_some(all)
}

fn with_named(given: Given, index: usize) -> String {
    if given.named_ids { format!("functions.{NAME}:{index}") } else { NAME.to_owned() }
}

/// Arguments that are pairs.
fn pairs(text: &str, start: usize, values: [&str; 2], given: Given) -> Option<Body> {
    let place = |word: &str, from: usize| text[from..].find(word).map(|at| from + at);
    let first = place(KEYS[0], start)?;
    let value = place(values[0], first)?;
    let second = place(KEYS[1], value)?;
    let last = place(values[1], second)?;
    let head = &text[start..first];
    let middle = &text[first + KEYS[0].len()..value];
    let between = &text[value + values[0].len()..second];
    let end = &text[last + values[1].len()..];
    if middle != &text[second + KEYS[1].len()..last] {
        return None;
    }
    let made = |range, pattern: String, pairs, quote| {
        Some(Body {
            range,
            pattern: with_fields(&pattern, given),
            object: Vec::new(),
            pairs,
            quote,
        })
    };
    let ends = last + values[1].len();
    // Keyword arguments.
    if let Some(quote) = middle
        .strip_prefix('=')
        .and_then(|rest| rest.chars().next())
        .filter(|c| ['"', '\''].contains(c))
        && between.starts_with(quote)
        && head.ends_with('(')
        && end.strip_prefix(quote).is_some_and(|end| end.starts_with(')'))
    {
        return made(start..ends + 2, format!("{head}{{arguments}})"), vec!["python".into()], None);
    }
    // Bare keys, and strings between two control tokens.
    let quote =
        middle.strip_prefix(':').and_then(|rest| rest.chars().next()).filter(|c| is_mark(*c))?;
    let is_closed = end.strip_prefix(quote).is_some_and(|end| end.starts_with('}'));
    if middle.chars().count() != 2 || !is_closed || !head.ends_with('{') {
        return None;
    }
    let range = start..ends + quote.len_utf8() + 1;
    made(range, format!("{head}{{arguments}}}}"), Vec::new(), Some(quote))
}

/// Arguments that are tagged pairs.
fn tagged(text: &str, start: usize, values: [&str; 2], given: Given) -> Option<Body> {
    let place = |word: &str, from: usize| text[from..].find(word).map(|at| from + at);
    let first = place(KEYS[0], start)?;
    let value = place(values[0], first)?;
    let second = place(KEYS[1], value)?;
    let last = place(values[1], second)?;
    let middle = &text[first + KEYS[0].len()..value];
    if middle != &text[second + KEYS[1].len()..last] {
        return None;
    }
    let (head, between) = (&text[start..first], &text[value + values[0].len()..second]);
    let end = &text[last + values[1].len()..];
    let mut cuts: Vec<usize> = between.char_indices().map(|(at, _)| at).collect();
    cuts.retain(|cut| {
        head.ends_with(&between[*cut..]) && end.trim_start().starts_with(between[..*cut].trim())
    });
    let is_tag = |cut: &usize| between[*cut..].starts_with(|c| is_mark(c) || c == '<' || c == '[');
    cuts.sort_by_key(|cut| !is_tag(cut));
    let cut = *cuts.first()?;
    let (tail, own_head) = between.split_at(cut);
    let shared = common_start(end, tail);
    let ends = last + values[1].len() + shared;
    let pairs = cuts.iter().filter(|cut| is_tag(cut)).map(|cut| {
        let (tail, head) = between.split_at(*cut);
        format!("{head}{{key}}{middle}{{value}}{tail}")
    });
    let pairs: Vec<String> = pairs.collect();
    let item_head = head.strip_suffix(own_head)?;
    Some(Body {
        range: start..ends,
        pattern: with_fields(&format!("{item_head}{{arguments}}"), given)
            .replace("}{arguments}", "}{~}{arguments}"),
        object: Vec::new(),
        pairs: if pairs.is_empty() {
            vec![format!("{own_head}{{key}}{middle}{{value}}{tail}")]
        } else {
            pairs
        },
        quote: None,
    })
}

/// The JSON value at the start of a text, and its bytes.
fn json_at(text: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// What stands around the bodies of calls.
#[derive(Debug, Clone)]
struct Around {
    /// Before the calls, of an answer without content.
    head: String,
    open: String,
    item_head: String,
    item_tail: String,
    between: String,
    close: String,
    end: String,
}

/// The ways to cut what stands around calls.
fn arounds(one: &str, two: Option<&str>, body: &Body, base: &Draft, given: Given) -> Vec<Around> {
    let (before, rest) = (&one[..body.range.start], &one[body.range.end..]);
    // The header is the answer's, or the answer's without its last white space.
    let shared = common_start(before, &base.head);
    let mut heads = Vec::new();
    if shared == base.head.len() || base.head[shared..].trim().is_empty() {
        heads.push(shared);
    }
    if let Some(reasoning) = base.reasoning_in_rows() {
        let shared = common_start(before, &reasoning.head);
        heads.push(before[..shared].rfind(is_mark).map_or(0, |at| at));
        let thoughtless = reasoning.without_thought();
        heads.extend(before.starts_with(&thoughtless).then_some(thoughtless.len()));
    }
    heads.push(shared);
    // A token in place of the one that begins a text.
    let own = before[shared..].chars().next().filter(|c| is_mark(*c));
    heads.extend(own.filter(|_| shared > 0).map(|mark| shared + mark.len_utf8()));
    heads.dedup();
    // The end is the answer's; or the last control token, and what follows it; or nothing.
    let mut ends: Vec<usize> = Vec::new();
    if rest.ends_with(base.end.as_str()) {
        ends.push(rest.len() - base.end.len());
    }
    if let Some(at) = rest.rfind(base.end.as_str()) {
        ends.push(at);
    }
    if let Some(at) = rest.rfind(is_mark) {
        ends.push(at);
    }
    ends.push(rest.len());
    ends.dedup();
    let second = two.and_then(|two| {
        let first =
            bodies(two, 0, given).into_iter().find(|found| found.pattern == body.pattern)?;
        let rest_at = first.range.end;
        let second = bodies(&two[rest_at..], 1, given)
            .into_iter()
            .find(|found| found.pattern == body.pattern)?;
        Some(two[rest_at..rest_at + second.range.start].to_owned())
    });
    let mut arounds = Vec::new();
    for head in heads {
        for end in &ends {
            let (before_item, after_item) = (&before[head..], &rest[..*end]);
            let (mut item_head, mut item_tail, mut between) = match &second {
                Some(between) => {
                    let mut tail = common_start(after_item, between);
                    let start = common_end(before_item, between).min(between.len() - tail);
                    if !between.is_char_boundary(between.len() - start) {
                        continue;
                    }
                    tail = tail.min(between.len() - start);
                    let start = between.len() - start;
                    (
                        between[start..].to_owned(),
                        between[..tail].to_owned(),
                        between[tail..start].to_owned(),
                    )
                }
                None => (before_item.to_owned(), after_item.to_owned(), String::new()),
            };
            let mut open = before_item[..before_item.len() - item_head.len()].to_owned();
            let mut close = after_item[item_tail.len()..].to_owned();
            // White space at the edges of an item is around it.
            let space = item_head.len() - item_head.trim_start().len();
            open.push_str(&item_head[..space]);
            between.push_str(&item_head[..space]);
            item_head.drain(..space);
            let space = item_tail.trim_end().len();
            close.insert_str(0, &item_tail[space..]);
            between.insert_str(0, &item_tail[space..]);
            item_tail.truncate(space);
            let around = Around {
                head: before[..head].to_owned(),
                open,
                item_head,
                item_tail,
                between,
                close,
                end: rest[*end..].to_owned(),
            };
            // Of two tokens that close a call, the second one stands around calls.
            let mut marks =
                around.item_tail.char_indices().filter(|(_, character)| is_mark(*character));
            let cut = marks.next().map(|(at, mark)| at + mark.len_utf8());
            let cut = cut.filter(|cut| *cut < around.item_tail.len());
            let split = cut.map(|cut| {
                let (tail, rest) = around.item_tail.split_at(cut);
                Around {
                    item_tail: tail.to_owned(),
                    between: format!("{rest}{}", around.between),
                    close: format!("{rest}{}", around.close),
                    ..around.clone()
                }
            });
            arounds.push(around);
            arounds.extend(split);
        }
    }
    arounds
}

impl Around {
    /// Drafts with these calls.
    fn drafts(
        &self,
        base: &Draft,
        body: &Body,
        pair: Option<&str>,
        called: &Called,
        drafts: &mut Vec<Draft>,
    ) {
        let (given, beside) = (called.given, called.beside.as_deref());
        let head = with_fields(&self.item_head, given);
        let tail = with_fields(&self.item_tail, given);
        let free = if self.end.starts_with(is_mark) || self.end.is_empty() { "{~}" } else { "" };
        let mut after_content = vec![String::new()];
        if let Some((_, rest)) = beside.and_then(|text| text.split_once(ANSWER)) {
            let space = &rest[..rest.len() - rest.trim_start().len()];
            if !space.is_empty() {
                after_content.insert(0, space.to_owned());
            }
        }
        for after_content in after_content {
            for loose in [free, ""] {
                let (open, close) = (self.open.as_str(), self.close.as_str());
                let own = self.end.as_str();
                let usual = base.end.as_str();
                let either = either_end(usual, own).filter(|_| !called.is_ended);
                let either = either.as_deref().unwrap_or(own);
                for (open, close, end) in [
                    (open, close, either),
                    (open.trim_start(), close, either),
                    (open, close, own),
                    (open.trim_start(), close, own),
                    (open.trim(), close.trim(), own),
                    // A template may write no end after the last answer.
                    (open.trim_start(), close, usual),
                    (open.trim_start(), "", usual),
                ] {
                    let (open, close) = (open.to_owned(), close.to_owned());
                    {
                        let is_own_row = item_is_text(&head, &open);
                        let calls = Calls {
                            open: open.clone(),
                            between: self.between.clone(),
                            close: close.clone(),
                            after_content: after_content.clone(),
                            item: format!(
                                "{head}{}{tail}{}",
                                body.pattern,
                                if tail.ends_with(is_mark) { loose } else { "" }
                            ),
                            object: body.object.clone(),
                            pair: pair.map(str::to_owned),
                            quote: body.quote,
                            wrap: called
                                .wrap
                                .clone()
                                .filter(|_| pair.is_some_and(|it| it != "python")),
                            id: if given.named_ids {
                                Some("functions.{name}:{index}")
                            } else {
                                None
                            },
                            end: end.to_owned(),
                            is_own_row,
                            row: None,
                            texts: Vec::new(),
                        };
                        let mut own = self.own_row(&calls, base, beside);
                        if own.is_empty() || self.is_of_answers(base) {
                            own.insert(0, calls);
                        }
                        own.extend(
                            own.iter().filter_map(Calls::marked_by_text).collect::<Vec<_>>(),
                        );
                        for calls in own {
                            let is_either = calls.end.contains(OR);
                            let end = if is_either { calls.end.clone() } else { base.end.clone() };
                            let draft = Draft { end, calls: Some(calls), ..base.clone() };
                            if !drafts.contains(&draft) {
                                drafts.push(draft);
                            }
                        }
                    }
                }
            }
        }
    }
}

impl Around {
    /// Whether the head is that of answers, or of answers with an empty block of reasoning.
    fn is_of_answers(&self, base: &Draft) -> bool {
        let thoughtless = base.reasoning_in_rows().map(Reasoning::without_thought);
        self.head == base.head || thoughtless.as_ref() == Some(&self.head)
    }

    /// The same calls in a row of their own, if their head is not the head of answers: with content before the calls, if
    /// the template writes it in between, or without.
    fn own_row(&self, calls: &Calls, base: &Draft, beside: Option<&str>) -> Vec<Calls> {
        let mut own = Vec::new();
        let before = format!("{}{}", self.head, self.open);
        if let Some((head, rest)) = beside.and_then(|text| text.split_once(ANSWER))
            && head.len() > self.head.len()
            && let Some(open) = before.strip_prefix(head)
            && rest.starts_with(open)
        {
            let open = open.to_owned();
            own.push(Calls { open, row: Some((head.to_owned(), true)), ..calls.clone() });
        }
        if self.head != base.head {
            own.push(Calls { row: Some((self.head.clone(), false)), ..calls.clone() });
        }
        own
    }
}

/// The end of an answer, with the token that ends calls as another way: `<|eot_id|>` or `<|eom_id|>`, for example.
fn either_end(usual: &str, own: &str) -> Option<String> {
    let mark = own.chars().next().filter(|mark| is_mark(*mark))?;
    let is_alone = own[mark.len_utf8()..].trim().is_empty();
    let known = usual.chars().find(|mark| is_mark(*mark)).filter(|known| *known != mark)?;
    is_alone.then(|| usual.replacen(known, &format!("{known}{OR}{mark}"), 1))
}

/// Whether calls begin with text, so that they have a row of their own.
fn item_is_text(head: &str, open: &str) -> bool {
    !head.starts_with(is_mark) && !open.starts_with(is_mark)
}

/// Whether calls are read: one and two, in a conversation and in a completion, beside content where it is written.
pub(super) fn reads(codec: &Codec, probes: &Probes, given: Given) -> bool {
    let reads = |text: &str, count: usize| {
        let messages = [user(QUESTION), calling(text, count, given)];
        let Some(written) = answer(probes, &messages, given) else { return true };
        let is_whole = VALUES[..count].iter().flatten().all(|value| written.contains(value))
            && written.contains(text);
        !is_whole
            || proof::reads_answer(codec, probes, &messages, given).unwrap_or(true)
                && proof::reads_whole(codec, probes, &messages, given)
    };
    reads("", 1) && reads("", 2) && reads(ANSWER, 1)
}

/// Drafts with results; none if the template does not write them.
#[allow(clippy::too_many_lines, reason = "a list of candidates")]
pub(super) fn results(probes: &Probes, base: &Draft, given: Given) -> Option<Vec<Draft>> {
    let called = [user(QUESTION), calling("", 1, given), result(0, given)];
    let one = answer(probes, &called, given).filter(|text| text.contains(RESULTS[0]))?;
    let calls = base.calls.as_ref()?;
    let two = [user(QUESTION), calling("", 2, given), result(0, given), result(1, given)];
    let two = answer(probes, &two, given);
    let followed = [called.to_vec(), vec![assistant(SECOND)]].concat();
    let followed = answer(probes, &followed, given);
    let mut drafts = Vec::new();
    let Some((before, end)) = one.split_once(RESULTS[0]) else { return Some(drafts) };
    // What follows the arguments up to the result, without the end of the calling message.
    let values = before.rfind(VALUES[0][1]).map_or(0, |at| at + VALUES[0][1].len());
    let gap = &before[values..];
    let mut starts: Vec<usize> = Vec::new();
    for end in [calls.end.as_str(), base.end.as_str(), calls.end.trim_end(), calls.close.as_str()] {
        if !end.is_empty()
            && let Some(at) = gap.find(end)
        {
            starts.push(at + end.len());
        }
    }
    starts.extend(gap.char_indices().filter(|(_, c)| is_mark(*c)).map(|(at, _)| at));
    let mut seen = Vec::new();
    starts.retain(|at| {
        !seen.contains(at) && {
            seen.push(*at);
            true
        }
    });
    let between = two.as_deref().and_then(|two| {
        let (_, rest) = two.split_once(RESULTS[0])?;
        Some(with_fields(rest.split_once(RESULTS[1])?.0, given))
    });
    let answer_head = followed.as_deref().and_then(|text| {
        let (_, rest) = text.split_once(RESULTS[0])?;
        Some(rest.split_once(SECOND)?.0.to_owned())
    });
    for start in starts {
        let open = with_fields(&gap[start..], given);
        let space = open.len() - open.trim_start().len();
        let open = &open[space..];
        // A prompt at the end of what is written is not of the result.
        let mut ends = vec![end.to_owned()];
        ends.extend(
            end.strip_suffix(base.whole_prompt.as_str())
                .filter(|_| !base.whole_prompt.is_empty())
                .map(str::to_owned),
        );
        if let Some(answer) = &answer_head {
            for head in [
                base.head.as_str(),
                base.last_head.as_deref().unwrap_or_default(),
                base.whole_prompt.as_str(),
            ] {
                ends.extend(
                    answer.strip_suffix(head).filter(|_| !head.is_empty()).map(str::to_owned),
                );
            }
        }
        let mut seen = Vec::new();
        ends.retain(|end| {
            !seen.contains(end) && {
                seen.push(end.clone());
                true
            }
        });
        for end in ends {
            let end = with_fields(&end, given);
            let row = |head: &str, tail: &str| {
                let quoted = head.strip_suffix('"').zip(tail.strip_prefix('"'));
                let (head, tail) = quoted.unwrap_or((head, tail));
                let is_value = quoted.is_some() || tail.contains("{id}") || tail.contains("{name}");
                format!("{head}{{content{}}}{tail}", if is_value { ":value" } else { "" })
            };
            let mut ways = Vec::new();
            match &between {
                Some(between) if *between != format!("{end}{open}") => {
                    let tail = common_start(&end, between);
                    let head = common_end(open, between).min(between.len() - tail);
                    let head_at = between.len() - head;
                    if between.is_char_boundary(head_at) {
                        let (mut tail, mut head) =
                            (between[..tail].to_owned(), between[head_at..].to_owned());
                        let mut middle = between[tail.len()..head_at].to_owned();
                        let close = end[tail.len()..].to_owned();
                        let mut open = open[..open.len() - head.len()].to_owned();
                        let space = head.len() - head.trim_start().len();
                        open.push_str(&head[..space]);
                        middle.push_str(&head[..space]);
                        head.drain(..space);
                        let space = tail.trim_end().len();
                        let loose = tail.split_off(space);
                        ways.push(Results {
                            open,
                            between: format!("{loose}{middle}"),
                            close: format!("{loose}{close}"),
                            row: row(&head, &tail),
                            is_answered_bare: false,
                        });
                    }
                }
                _ => ways.push(Results { row: row(open, &end), ..Results::default() }),
            }
            for way in ways {
                for is_answered_bare in [false, true] {
                    drafts.push(Draft {
                        results: Some(Results { is_answered_bare, ..way.clone() }),
                        ..base.clone()
                    });
                }
            }
        }
    }
    Some(drafts)
}

/// Whether results are read, and the answer after them.
pub(super) fn reads_results(codec: &Codec, probes: &Probes, given: Given) -> bool {
    let one = [user(QUESTION), calling("", 1, given), result(0, given)];
    let two = [user(QUESTION), calling("", 2, given), result(0, given), result(1, given)];
    let followed = [one.to_vec(), vec![assistant(SECOND)]].concat();
    let reads = |messages: &[Value]| {
        answer(probes, messages, given).is_none()
            || proof::reads_whole(codec, probes, messages, given)
    };
    reads(&one)
        && (reads(&two)
            || !answer(probes, &two, given)
                .is_some_and(|text| RESULTS.iter().all(|it| text.contains(it))))
        && reads(&followed)
        && proof::reads_answer(codec, probes, &followed, given).unwrap_or(true)
}
