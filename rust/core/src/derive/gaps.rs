//! What a template writes between the texts of messages, by rendering short conversations.
//!
//! In: a codec that writes by the template. Out: the gaps between messages, by which whole conversations are read. Each
//! conversation of `gaps.json` says what it tells. Texts, names and ids of the conversations are known, so what stands
//! between them is the template's. Cost: some fifty short renderings.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::Value;

use super::probe::{
    ANSWER, Given, KEYS, LATER, NAME, Probes, QUESTION, SECOND, SYSTEM, THOUGHT, VALUES, assistant,
    calling, id, result_of, system, thinking, user,
};
use crate::codec::Codec;
use crate::gaps::{Gap, Gaps, Piece, Place, Unit, common_end, is_token, token, units_of};

/// A result in letters alone; and with a character that JSON strings escape.
const RESULTS: [&str; 3] = ["Rwzk", "Owzk", "Pwzk"];
const QUOTED: &str = "Rw\"zk";

/// Keys under which templates know reasoning.
const THOUGHTS: [&str; 2] = ["reasoning_content", "reasoning"];

/// The gaps of a codec's template.
pub(crate) fn gaps(codec: &Codec) -> Option<Arc<Gaps>> {
    let probes = Probes::new(codec);
    let stops: Vec<Unit> = codec.stop_ids().into_iter().map(token).collect();
    let given = ways_of_calls(&probes);
    let mut seen = Vec::new();
    for messages in conversations(given) {
        let has_calls = messages.iter().any(|message| message.get("tool_calls").is_some());
        let given = given.filter(|_| has_calls).unwrap_or_default();
        for prompted in [false, true] {
            let known = seen.len();
            if let Some(units) = probes.units(&messages, given, prompted) {
                add_seen(&mut seen, &units, &messages, given, &stops);
                seen.iter_mut().skip(known).for_each(|one| one.is_prompted = prompted);
            }
        }
    }
    let quoted = given.and_then(|given| {
        let messages = [user(QUESTION), calling("", 1, given), result_of(QUOTED, 0, given)];
        probes.encoded(&messages, given, false)
    });
    let escaped = quoted.is_some_and(|written| !written.text().contains(QUOTED));
    Gaps::new(between(&seen, given.unwrap_or_default()), escaped)
}

/// The first way to give calls in which the template writes a call and its result; none if there is no such way.
fn ways_of_calls(probes: &Probes) -> Option<Given> {
    let ways = [(false, false), (false, true), (true, false), (true, true)];
    let ways = ways.map(|(tools, as_text)| Given { tools, as_text, named_ids: false });
    ways.into_iter().find(|given| {
        let messages = [user(QUESTION), calling("", 1, *given), result_of(RESULTS[0], 0, *given)];
        let written = probes.encoded(&messages, *given, false);
        written.is_some_and(|written| {
            let parts = [RESULTS[0], VALUES[0][0], VALUES[0][1]];
            parts.into_iter().all(|part| written.text().contains(part))
        })
    })
}

/// A conversation that tells what stands between some of its messages.
#[derive(Deserialize)]
struct Declared {
    turns: Vec<Turn>,
}

/// A message of a declared conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Turn {
    System,
    Question,
    Later,
    Answer,
    Second,
    Thought,
    Call,
    Calls,
    ThoughtfulCall,
    Result,
    OtherResult,
    Again,
}

static DECLARED: LazyLock<Vec<Declared>> =
    LazyLock::new(|| serde_json::from_str(include_str!("gaps.json")).unwrap_or_default());

impl Turn {
    /// Whether only a template that writes calls is given the message.
    fn is_of_calls(self) -> bool {
        use Turn::{Again, Call, Calls, OtherResult, Result, ThoughtfulCall};
        matches!(self, Call | Calls | ThoughtfulCall | Result | OtherResult | Again)
    }

    /// The message, with reasoning under this key.
    fn message(self, given: Given, key: &str) -> Value {
        match self {
            Turn::System => system(SYSTEM),
            Turn::Question => user(QUESTION),
            Turn::Later => user(LATER),
            Turn::Answer => assistant(ANSWER),
            Turn::Second => assistant(SECOND),
            Turn::Thought => thinking(ANSWER, key, THOUGHT),
            Turn::Call => calling("", 1, given),
            Turn::Calls => calling("", 2, given),
            Turn::ThoughtfulCall => {
                let mut call = calling("", 1, given);
                call[key] = THOUGHT.into();
                call
            }
            Turn::Result => result_of(RESULTS[0], 0, given),
            Turn::OtherResult => result_of(RESULTS[1], 1, given),
            Turn::Again => result_of(RESULTS[2], 0, given),
        }
    }
}

/// The declared conversations that a template may write; those with reasoning under each key that templates know.
fn conversations(given: Option<Given>) -> impl Iterator<Item = Vec<Value>> {
    let is_tried = move |declared: &&Declared| {
        given.is_some() || !declared.turns.iter().any(|turn| turn.is_of_calls())
    };
    DECLARED.iter().filter(is_tried).flat_map(move |Declared { turns }| {
        let thinks = turns.iter().any(|it| matches!(it, Turn::Thought | Turn::ThoughtfulCall));
        let keys = THOUGHTS.iter().take(if thinks { THOUGHTS.len() } else { 1 });
        keys.map(move |key| {
            turns.iter().map(|turn| turn.message(given.unwrap_or_default(), key)).collect()
        })
    })
}

/// What was seen between two messages.
struct Seen {
    from: Place,
    to: Place,
    /// Whether the text ends where a message's own text begins. Else calls or reasoning begin before.
    is_whole: bool,
    /// Whether the conversation ends with a generation prompt.
    is_prompted: bool,
    units: Vec<Unit>,
}

fn place_of(message: &Value) -> Place {
    match message["role"].as_str() {
        Some("system") => Place::System,
        Some("assistant") => Place::Answer,
        Some("tool") => Place::Result,
        _ => Place::Question,
    }
}

/// Adds what stands between the messages of a rendered conversation.
fn add_seen(
    seen: &mut Vec<Seen>,
    units: &[Unit],
    messages: &[Value],
    given: Given,
    stops: &[Unit],
) {
    let mut from = Place::Start;
    let mut cut = Some(0);
    let mut after = 0;
    for (index, message) in messages.iter().enumerate() {
        let Some((start, end, is_whole)) = anchor(units, after, message, given) else { return };
        let to = place_of(message);
        if let Some(cut) = cut {
            seen.push(Seen {
                from,
                to,
                is_whole,
                is_prompted: false,
                units: units[cut..start].to_vec(),
            });
        }
        let has_calls = message.get("tool_calls").is_some();
        let next = messages.get(index + 1);
        let until = next.map_or(Some(units.len()), |next| {
            anchor(units, end, next, given).map(|(start, _, _)| start)
        });
        let Some(until) = until else { return };
        // After a call, its own closing tokens stand before those of the message.
        cut = if has_calls {
            end_of_calls(&units[end..until], stops).map(|at| end + at)
        } else {
            Some(end)
        };
        (from, after) = (to, end);
    }
    if let Some(cut) = cut {
        seen.push(Seen {
            from,
            to: Place::End,
            is_whole: true,
            is_prompted: false,
            units: units[cut..].to_vec(),
        });
    }
}

/// Where the end of a message with calls begins: at the id that stops the model, or else at the first control token.
fn end_of_calls(after: &[Unit], stops: &[Unit]) -> Option<usize> {
    let stop = after.iter().position(|unit| stops.contains(unit));
    stop.or_else(|| after.iter().copied().position(is_token)).or((after.is_empty()).then_some(0))
}

/// The first and last unit of what a message gives, and whether its text is the first that the template writes of it.
fn anchor(
    units: &[Unit],
    after: usize,
    message: &Value,
    given: Given,
) -> Option<(usize, usize, bool)> {
    let find = |from: usize, text: &str| {
        let sought: Vec<Unit> = units_of(text).collect();
        let at = units.get(from..)?.windows(sought.len()).position(|window| window == sought)?;
        Some((from + at, from + at + sought.len()))
    };
    let content = message["content"].as_str().filter(|text| !text.is_empty());
    let thought = THOUGHTS.iter().find_map(|key| message.get(*key)?.as_str());
    let thought = thought.and_then(|text| find(after, text));
    if let Some(calls) = message.get("tool_calls").and_then(Value::as_array) {
        let firsts = [NAME, KEYS[0], &id(given, 0)].map(|text| find(after, text));
        let first = firsts.into_iter().flatten().chain(thought).map(|(start, _)| start).min()?;
        let mut end = first;
        for value in VALUES.iter().take(calls.len()).flatten() {
            end = find(end, value)?.1;
        }
        return Some((first, end, false));
    }
    let (start, end) = find(after, content?)?;
    let first = thought.map_or(start, |(first, _)| first.min(start));
    Some((first, end, first == start))
}

/// The gaps of what was seen.
fn between(seen: &[Seen], given: Given) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    let mut push = |gap: Gap| {
        if !gaps.contains(&gap) {
            gaps.push(gap);
        }
    };
    for one in seen.iter().filter(|one| one.is_whole) {
        push(Gap { from: one.from, to: one.to, pieces: pieces(&one.units, given) });
    }
    for one in seen.iter().filter(|one| !one.is_whole) {
        let head = head(one, seen);
        push(Gap { from: one.from, to: one.to, pieces: pieces(head, given) });
    }
    with_numbers(&gaps)
}

/// The head of an answer that begins with calls or reasoning: the generation prompt, what stands before answers of text,
/// or what all answers after such a message have in common.
fn head<'s>(answer: &'s Seen, seen: &[Seen]) -> &'s [Unit] {
    let units = answer.units.as_slice();
    let ends = seen.iter().filter(|one| one.from == answer.from && one.to == Place::End);
    let (prompts, others): (Vec<_>, Vec<_>) = ends.partition(|end| end.is_prompted);
    // With a prompt, a question may have the same end as without.
    let is_prompt = |end: &&&Seen| others.iter().all(|other| other.units != end.units);
    let prompts = prompts.iter().filter(is_prompt).map(|end| end.units.as_slice());
    let prompted =
        prompts.filter(|end| units.starts_with(end) && end.iter().copied().any(is_token));
    let prompted = prompted.map(<[Unit]>::len).max();
    let is_head = |one: &&Seen| one.to == Place::Answer && one.is_whole;
    let head = common_end(seen.iter().filter(is_head).map(|one| one.units.as_slice()));
    let found = || {
        let head = head.filter(|head| head.iter().copied().any(is_token))?;
        let at = units.windows(head.len()).position(|window| window == head)?;
        Some(at + head.len())
    };
    let common = || {
        let heads = seen.iter().filter(|one| one.from == answer.from && is_head(one));
        let same = |head: &Seen| {
            units.iter().zip(&head.units).take_while(|(one, other)| one == other).count()
        };
        heads.map(same).max().unwrap_or_default()
    };
    &units[..prompted.or_else(found).unwrap_or_else(common)]
}

/// Units with parts for ids and names.
fn pieces(units: &[Unit], given: Given) -> Vec<Piece> {
    let held =
        [(Piece::Id, id(given, 0)), (Piece::Id, id(given, 1)), (Piece::Name, NAME.to_owned())];
    let held = held.map(|(piece, text)| (piece, units_of(&text).collect::<Vec<_>>()));
    let (mut pieces, mut fixed, mut at) = (Vec::new(), Vec::new(), 0);
    while at < units.len() {
        let found = held.iter().find(|(_, text)| units[at..].starts_with(text));
        if let Some((piece, text)) = found {
            if !fixed.is_empty() {
                pieces.push(Piece::Units(std::mem::take(&mut fixed)));
            }
            pieces.push(piece.clone());
            at += text.len();
        } else {
            fixed.push(units[at]);
            at += 1;
        }
    }
    if !fixed.is_empty() {
        pieces.push(Piece::Units(fixed));
    }
    pieces
}

/// Gaps that differ in a number alone, as one gap.
fn with_numbers(gaps: &[Gap]) -> Vec<Gap> {
    let mut merged: Vec<Gap> = Vec::new();
    for gap in gaps {
        let counted = numbered(gap);
        let others = gaps.iter().filter(|other| *other != gap && numbered(other) == counted);
        let gap = if others.count() > 0 { counted } else { gap.clone() };
        if !merged.contains(&gap) {
            merged.push(gap);
        }
    }
    merged
}

/// A gap with a part for each number.
fn numbered(gap: &Gap) -> Gap {
    let is_digit = |unit: &Unit| (0x30..0x3A).contains(unit);
    let pieces = gap.pieces.iter().flat_map(|piece| match piece {
        Piece::Units(units) => {
            let runs = units.chunk_by(|one, other| is_digit(one) == is_digit(other));
            let runs = runs.map(|run| {
                if is_digit(&run[0]) { Piece::Number } else { Piece::Units(run.to_vec()) }
            });
            runs.collect::<Vec<_>>()
        }
        held => vec![held.clone()],
    });
    Gap { pieces: pieces.collect(), ..gap.clone() }
}

#[cfg(test)]
mod tests {
    use chatcodec_vocab::Vocab;

    use super::*;
    use crate::conversation::ReadOptions;
    use crate::encode::EncodeOptions;
    use crate::template::Template;

    #[test]
    fn each_declared_conversation_is_read() {
        assert_eq!(DECLARED.len(), include_str!("gaps.json").matches("\"tells\"").count());
        assert!(DECLARED.iter().all(|declared| declared.turns.first() != Some(&Turn::Answer)));
    }

    #[test]
    fn results_in_a_turn_of_the_user_are_read_after_calls() {
        let source = "{% for m in messages %}<|im_start|>{{ 'user' if m.role == 'tool' else m.role }}\n\
                      {% if m.role == 'tool' %}<tool_response>\n{{ m.content }}\n</tool_response>\
                      {% else %}{{ m.content }}{% for c in m.tool_calls or [] %}<|action_start|>\
                      {{ c.function | tojson }}<|action_end|>{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
                      {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
        let template = Template::parse(source).unwrap();
        let (codec, _) = Codec::of_template(&template, &[], &Vocab::embedded()).unwrap();
        assert!(codec.reads_by_gaps() && codec.reads_results_by_gaps());
        let given = Given::default();
        let messages = Value::Array(vec![
            user("<tool_response>\nno\n</tool_response>"),
            calling("", 1, given),
            result_of("7 \u{e9}\n", 0, given),
            assistant("Yes."),
        ]);
        let read = codec.read_conversation(&messages, None, ReadOptions::default()).unwrap();
        let encoding = codec.encode_conversation(read, &EncodeOptions::default()).unwrap();
        let decoded = codec.decode(encoding.ids());
        let roles: Vec<&str> = decoded.iter().map(|message| message.role.name()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
        assert_eq!(decoded[0].content, "<tool_response>\nno\n</tool_response>");
        assert_eq!(decoded[2].content, "7 \u{e9}\n");
        assert_eq!(decoded[1].calls.len(), 1);
    }
}
